//go:build rocm && linux && cgo

package rocm

import (
	"os"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Without machine code for the card the kernels are compiled. If that fails, everything but strided copies and conversions works, and the
// next Open compiles again. The processes are of their own because the card and the compiler are those of the process.
func TestTheCompilerMayFail(t *testing.T) {
	sim := kit.Simulator(t)
	mode := os.Getenv(modeVariable)
	if mode == "" {
		const other = "DLX_GPUSIM_HIP_ARCH=gfx942:sramecc+:xnack-"
		defer t.Run("a call", coretest.Child(t, t.Name(), modeVariable+"=call", other))
		defer t.Run("no library", coretest.Child(t, t.Name(), modeVariable+"=missing", other, "DLX_HIPRTC_LIBRARY=/nonexistent"))
		defer t.Run("the text", coretest.Child(t, t.Name(), modeVariable+"=missing", other, "DLX_GPUSIM_CXX=false"))
		return
	}
	live := sim.Live()
	if mode == "missing" {
		transposes(t, core.ErrNotSupported)
	} else {
		const internalError = 11 // HIPRTC_ERROR_INTERNAL_ERROR
		for _, call := range []string{"hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcGetCode"} {
			sim.Fail(call, 1, internalError)
			transposes(t, core.ErrNotSupported)
		}
		transposes(t, nil)
		// Code of the cache that is refused is compiled once more.
		for _, compiles := range []int{0, 1, 0} {
			before := sim.Count("hiprtcCompileProgram")
			if compiles == 1 {
				sim.Fail("hipModuleLoadData", 1, int(driver.NoBinaryForGPU))
			}
			transposes(t, nil)
			if n := sim.Count("hiprtcCompileProgram") - before; n != compiles {
				t.Errorf("the text was compiled %d times, want %d", n, compiles)
			}
		}
	}
	for kind, n := range sim.Live() {
		if slices.Contains([]string{"programs", "modules"}, kind) && n != live[kind] {
			t.Errorf("%d %s are open, %d were before", n, kind, live[kind])
		}
	}
}

// transposes opens a device and copies there, first in order, then a transposed matrix, which fails with an error or not.
func transposes(t *testing.T, want error) {
	t.Helper()
	d := kit.Open(t)
	l := coretest.Life{Context: t.Context()}
	matrix := func() *core.Tensor {
		return l.Tensor(core.Empty(t.Context(), d, core.TypeFloat32, []int64{64, 64}, core.AllocOptions{}))
	}
	a, b := matrix(), matrix()
	if a == nil || b == nil {
		t.Fatal(l.End())
	}
	if err := d.Copy(t.Context(), nil, b, a); err != nil {
		t.Errorf("a copy in order: %v", err)
	}
	err := d.Copy(t.Context(), nil, b, l.Tensor(a.Transpose()))
	pixels := l.Tensor(core.Empty(t.Context(), d, core.TypeUint8, []int64{64, 64}, core.AllocOptions{}))
	failed := d.(core.Converter).ConvertOn(t.Context(), nil, b, pixels, core.Scaling{})
	if want != nil {
		coretest.WantError(t, err, want, "a strided copy")
		coretest.WantError(t, failed, want, "a conversion")
	} else if err != nil || failed != nil {
		t.Errorf("a strided copy: %v; a conversion: %v", err, failed)
	}
	if err := l.End(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
