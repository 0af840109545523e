//go:build gl && linux && cgo

package gl

import (
	"testing"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
)

func TestConformance(t *testing.T) { backendtest.Run(t, open, backendtest.Options{}) }

func TestConformanceOfAGPU(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device { return openAs(tb, asGPU) }, backendtest.Options{Variant: 0, Variants: 3})
}

// Shaders reach so little of a buffer that larger copies take several dispatches.
func TestConformanceWithSmallBlocks(t *testing.T) {
	backendtest.Run(t, func(tb testing.TB) core.Device {
		return openAs(tb, func(f *contextInfo) { f.software, f.blockSize = false, 128<<10 })
	}, backendtest.Options{Variant: 1, Variants: 3})
}

// Buffers come from the renderer, in whose context everything runs.
func TestConformanceInAWrappedContext(t *testing.T) {
	runs := make(map[core.Device]func(func()))
	backendtest.Run(t, func(tb testing.TB) core.Device {
		d, run := wrapped(tb)
		runs[d] = run
		return d
	}, backendtest.Options{Pointer: func(tb testing.TB, d core.Device, size int64) uintptr {
		var name uint32
		run := runs[d]
		run(func() {
			gl.CreateBuffers(1, &name)
			gl.NamedBufferData(name, int(size), nil, gl.STATIC_DRAW)
		})
		tb.Cleanup(func() { run(func() { gl.DeleteBuffers(1, &name) }) })
		return uintptr(name)
	}, Variant: 2, Variants: 3})
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	backendtest.Programs(t, open, 1000, backendtest.Options{})
}

func TestCloseEndsWhileOthersOpen(t *testing.T) { backendtest.ClosesUnderLoad(t, open) }
