//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// lazyVariable makes the simulator wait for all work of a context when it loads a module or a function.
const lazyVariable = "DLX_GPUSIM_LAZY"

// ends fails the test unless f returns soon. It calls release then, so that f can.
func ends(t *testing.T, what string, release func(), f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(20 * time.Second):
		release()
		t.Fatalf("%s waits for a stream that has nothing to do with it (%v)", what, <-done)
	}
}

// A stream waits for a value that nobody has signalled yet. Meanwhile another stream does strided copies, each with
// another kernel, and a conversion, and the device is opened once more.
func TestNothingIsLoadedBehindAStreamThatWaits(t *testing.T) {
	simulator(t)
	if os.Getenv(lazyVariable) == "" {
		coretest.Child(t, t.Name(), lazyVariable+"=1")(t)
		return
	}
	d := opened(t)
	blocked, s := newStream(t, d), newStream(t, d)
	type pair struct{ to, from *core.Tensor }
	var copies []pair
	converted := keep(t)(core.Empty(t.Context(), d, core.TypeFloat32, []int64{50}, core.AllocOptions{}))
	bytes := keep(t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{50}, core.AllocOptions{}))
	for _, e := range []core.DType{core.TypeUint8, core.TypeUint16, core.TypeFloat32, core.TypeFloat64, core.TypeComplex128} {
		empty := func(shape ...int64) *core.Tensor {
			return keep(t)(core.Empty(t.Context(), d, e, shape, core.AllocOptions{}))
		}
		copies = append(copies, pair{empty(70, 50), keep(t)(empty(50, 70).Transpose())})
	}
	release := hold(t, blocked)
	defer release()
	for _, c := range copies {
		ends(t, "a strided copy of "+c.to.DType().String(), release, func() error {
			return errors.Join(d.Copy(t.Context(), s, c.to, c.from), s.Synchronize(t.Context()))
		})
	}
	ends(t, "a conversion", release, func() error {
		return errors.Join(d.(core.Converter).ConvertOn(t.Context(), s, converted, bytes, core.Scaling{}), s.Synchronize(t.Context()))
	})
	ends(t, "opening the device again", release, func() error {
		again, err := New().Open(t.Context(), d.ID())
		if err != nil {
			return err
		}
		return again.Close()
	})
	release()
	if err := blocked.Synchronize(t.Context()); err != nil {
		t.Error(err)
	}
}

// The simulator runs no machine code, so the text is loaded after it.
func TestTheTextIsLoadedIfTheMachineCodeIsRefused(t *testing.T) {
	sim := simulator(t)
	before := sim.Calls()
	if err := open(t).Close(); err != nil {
		t.Fatal(err)
	}
	kernels := 1 // that for conversions
	for _, s := range gpucopy.Shaders() {
		if !s.Packed {
			kernels++
		}
	}
	for call, want := range map[string]int{"cuModuleLoadData": 2, "cuModuleUnload": 1, "cuModuleGetFunction": kernels, "cuFuncLoad": kernels} {
		if n := sim.Count(call) - before[call]; n != want {
			t.Errorf("%s is called %d times, want %d", call, n, want)
		}
	}
}

// Open fails if a failure of the driver may pass. It succeeds if the driver has no compiler, as in a container without
// libnvidia-ptxjitcompiler, since only strided copies and conversions need the kernels.
func TestOpenWithoutKernels(t *testing.T) {
	sim := simulator(t)
	live := sim.Live()
	for _, call := range []string{"cuModuleLoadData", "cuModuleGetFunction", "cuFuncLoad"} {
		sim.Fail(call, 1, int(driver.OutOfMemory))
		_, err := New().Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
		wantError(t, err, core.ErrOutOfMemory, call)
		wantLive(t, sim, live)
	}
	sim.Fail("cuModuleLoadData", 2, int(driver.JITCompilerNotFound))
	d := opened(t)
	x, y := matrix(t, d, core.DeviceCUDA, 64, 64), matrix(t, d, core.DeviceCUDA, 64, 64)
	if err := d.Copy(t.Context(), nil, x, y); err != nil {
		t.Errorf("a copy that needs no kernel: %v", err)
	}
	err := d.Copy(context.Background(), nil, x, keep(t)(y.Transpose()))
	wantError(t, err, core.ErrNotSupported, "a strided copy")
	wantError(t, d.(core.Converter).CanConvert(core.TypeFloat32, core.TypeUint8, core.Scaling{}), core.ErrNotSupported, "CanConvert")
	var e *core.Error
	if !errors.As(err, &e) || e.Code != int64(driver.JITCompilerNotFound) {
		t.Errorf("the error does not say why: %v", err)
	}
}
