//go:build linux && cgo

package gpusim_test

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// "Execution Control", cuLaunchHostFunc: "The function will be called after currently enqueued work and will block
// work added after it".
func TestAHostFunctionRunsInTheOrderOfItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, locked := d.NewStream(), d.Pinned(1)
	work := d.NewHostWork(&locked[0], 5*time.Millisecond, "")
	d.OK("cuMemsetD8Async", &locked[0], 1, 1, stream)
	d.OK("cuLaunchHostFunc", stream, work.Function(), work.Data())
	d.OK("cuMemsetD8Async", &locked[0], 2, 1, stream)
	d.OK("cuStreamSynchronize", stream)
	if work.Runs() != 1 || work.Saw() != 1 || locked[0] != 2 {
		t.Errorf("it ran %d times and saw %d; the work behind it left %d", work.Runs(), work.Saw(), locked[0])
	}
	d.Want(gpusimtest.InvalidValue, "cuLaunchHostFunc", stream, nil, nil)
}

// "The host function must not make any CUDA API calls. Attempting to use a CUDA API may result in
// CUDA_ERROR_NOT_PERMITTED": it does, for calls that need no context as well.
func TestAHostFunctionMustNotCallTheDriver(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, locked := d.NewStream(), d.Pinned(1)
	for _, call := range []string{"cuCtxSynchronize", "cuDeviceGetCount", "cuDriverGetVersion"} {
		d.Run(t, call, func(t *testing.T, d *gpusimtest.Driver) {
			work := d.NewHostWork(&locked[0], 0, call)
			d.OK("cuLaunchHostFunc", stream, work.Function(), work.Data())
			d.OK("cuStreamSynchronize", stream)
			if work.Result() != gpusimtest.NotPermitted {
				t.Errorf("the call returned %s", d.Name(work.Result()))
			}
			d.Noted()
		})
	}
}

// "Host functions without a mandated order (such as in independent streams) execute in undefined order and may be
// serialized": one that waits for another would wait for ever.
func TestHostFunctionsRunOneByOne(t *testing.T) {
	d := gpusimtest.Start(t)
	locked := d.Pinned(1)
	works := make([]*gpusimtest.HostWork, 4)
	const nap = 10 * time.Millisecond
	begun := time.Now()
	for i := range works {
		works[i] = d.NewHostWork(&locked[0], nap, "")
		d.OK("cuLaunchHostFunc", d.NewStream(), works[i].Function(), works[i].Data())
	}
	d.OK("cuCtxSynchronize")
	for i, w := range works {
		if w.Runs() != 1 {
			t.Errorf("function %d ran %d times", i, w.Runs())
		}
	}
	if took := time.Since(begun); took < time.Duration(len(works))*nap {
		t.Errorf("they took %v, and each alone %v", took, nap)
	}
}

// "In contrast to cuStreamAddCallback, the function will not be called in the event of an error in the CUDA context";
// there "all subsequently executed callbacks will receive an appropriate CUresult".
func TestAFailedContextCallsCallbacksOnly(t *testing.T) {
	d := gpusimtest.Start(t)
	locked := make([]byte, 1)
	work, callback := d.NewHostWork(&locked[0], 0, ""), d.NewHostWork(&locked[0], 0, "")
	var stream uint64
	d.OK("cuStreamCreate", &stream, 1)
	hold(t, d)
	d.OK("cuLaunchHostFunc", stream, work.Function(), work.Data())
	d.OK("cuStreamAddCallback", stream, callback.Callback(), callback.Data(), 0)
	d.Want(gpusimtest.InvalidValue, "cuStreamAddCallback", stream, callback.Callback(), callback.Data(), 1)
	d.Call("dlx_gpusim_lose", 0)
	d.Want(gpusimtest.IllegalAddress, "cuStreamSynchronize", stream)
	d.Call("dlx_gpusim_hold", 0)
	d.OK("cuStreamDestroy_v2", stream)
	d.Renew()
	if work.Runs() != 0 {
		t.Error("the host function was called")
	}
	if callback.Runs() != 1 || callback.Status() != gpusimtest.IllegalAddress {
		t.Errorf("the callback ran %d times and was told %s", callback.Runs(), d.Name(callback.Status()))
	}
}

// "Prohibited and Unhandled Operations": a host function is a node of a graph, a callback invalidates the capture.
func TestAHostFunctionIsCapturedAndACallbackIsNot(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	locked := make([]byte, 1)
	work := d.NewHostWork(&locked[0], 0, "")
	var graph uint64
	d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
	d.OK("cuLaunchHostFunc", stream, work.Function(), work.Data())
	d.OK("cuStreamEndCapture", stream, &graph)
	d.OK("cuStreamSynchronize", stream)
	if work.Runs() != 0 {
		t.Errorf("it ran %d times, and was captured", work.Runs())
	}
	d.OK("cuGraphDestroy", graph)

	d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
	d.Want(captureUnsupported, "cuStreamAddCallback", stream, work.Callback(), work.Data(), 0)
	d.Want(captureInvalidated, "cuStreamEndCapture", stream, &graph)
}
