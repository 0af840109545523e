//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// first is the device that tests use.
var first = core.DeviceID{Type: core.DeviceWebGPU}

var probe = sync.OnceValue(func() core.Probe { return New().Probe(context.Background()) })

// open opens the first device, which its caller closes.
func open(tb testing.TB) core.Device {
	tb.Helper()
	coretest.NeedDriver(tb, probe().Reason, "libwgpu_native of PyPI's package wgpu, and mesa-vulkan-drivers")
	d, err := New().Open(tb.Context(), first)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) { backendtest.Run(t, open, backendtest.Options{}) }

// Shaders reach so little of a buffer that larger copies take several dispatches.
func TestConformanceWithSmallRanges(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device {
		d := open(tb)
		d.(*device).limits.StorageRange, d.(*device).picks = 128<<10, false
		return d
	}, backendtest.Options{Variant: 0, Variants: 3})
}

// Transposed planes and channels go through workgroup memory, as on a GPU.
func TestConformanceOfAGPU(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device {
		d := open(tb)
		d.(*device).limits.Tiles, d.(*device).picks = true, false
		return d
	}, backendtest.Options{})
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	backendtest.Programs(t, open, 1000, backendtest.Options{})
}

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, open) }
