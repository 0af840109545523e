//go:build opencl && linux && cgo

package opencl_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/core"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, open, backendtest.Options{Pointer: func(tb testing.TB, d core.Device, size int64) uintptr {
		tb.Helper()
		h, err := opencl.HandlesOf(d)
		if err != nil {
			tb.Fatal(err)
		}
		o := &other{TB: tb, context: driver.Context(h.Context)}
		return uintptr(o.buffer(size))
	}})
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	backendtest.Programs(t, open, 1000, backendtest.Options{})
}

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, open) }
