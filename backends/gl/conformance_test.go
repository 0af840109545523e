//go:build gl && linux && cgo

package gl

import (
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
)

func TestConformance(t *testing.T) { backendtest.Run(t, open) }

func TestConformanceOfAGPU(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device { return openAs(tb, asGPU) }, backendtest.WithVariant(0, 3))
}

// Shaders reach so little of a buffer that larger copies take several dispatches.
func TestConformanceWithSmallBlocks(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device {
		return openAs(tb, func(f *facts) { f.software, f.blockSize = false, 64<<10 })
	}, backendtest.WithVariant(1, 3))
}

// Buffers come from the renderer, in whose context everything runs.
func TestConformanceInAWrappedContext(t *testing.T) {
	runs := make(map[core.Device]func(func()))
	backendtest.Run(t, func(tb testing.TB) core.Device {
		d, run := wrapped(tb)
		runs[d] = run
		return d
	}, backendtest.WithPointer(func(tb testing.TB, d core.Device, size int64) uintptr {
		var name uint32
		run := runs[d]
		run(func() {
			gl.CreateBuffers(1, &name)
			gl.NamedBufferData(name, int(size), nil, gl.STATIC_DRAW)
		})
		tb.Cleanup(func() { run(func() { gl.DeleteBuffers(1, &name) }) })
		return uintptr(name)
	}), backendtest.WithVariant(2, 3))
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) { backendtest.Programs(t, open, 1000) }

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, open) }
