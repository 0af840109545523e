//go:build vulkan && linux && cgo

package vulkan

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device { return open(tb) }, backendtest.Options{})
}

// TestConformanceOfSeparateMemory treats the device's memory as that of a card,
// which the host does not reach.
func TestConformanceOfSeparateMemory(t *testing.T) {
	partOfBoth(t)
	separate := func(o *options) { o.separate = true }
	backendtest.Run(t, func(tb testing.TB) core.Device { return open(tb, separate) }, backendtest.Options{Variant: 0, Variants: 4})
}

// partOfBoth skips a test of separate memory or of several queues under a sanitizer, which has enough to do with both
// at once.
func partOfBoth(t *testing.T) {
	t.Helper()
	if coretest.Sanitized {
		t.Skip("with a sanitizer TestConformanceWithSeveralQueuesOfSeparateMemory runs this code")
	}
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	for name, opts := range map[string][]option{"reached": nil, "separate": {func(o *options) { o.separate = true }}} {
		t.Run(name, func(t *testing.T) {
			backendtest.Programs(t, func(tb testing.TB) core.Device { return open(tb, opts...) }, 1000, backendtest.Options{})
		})
	}
}

func TestCloseEndsWhileOthersOpen(t *testing.T) {
	backendtest.ClosesUnderLoad(t, func(tb testing.TB) core.Device { return open(tb) })
}
