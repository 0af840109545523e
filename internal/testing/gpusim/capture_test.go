//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// Of CUresult.
const (
	illegalState       result = 401
	captureUnsupported result = 900
	captureInvalidated result = 901
	captureIsolation   result = 905
	captureImplicit    result = 906
	capturedEvent      result = 907
	captureWrongThread result = 908
)

// Of CUstreamCaptureMode and CUstreamCaptureStatus.
const (
	modeGlobal, modeThreadLocal, modeRelaxed    = 0, 1, 2
	statusNone, statusActive, statusInvalidated = 0, 1, 2
)

// wantStatus fails unless a stream's capture has a state.
func wantStatus(t *testing.T, d *driver, stream uint64, want int32) {
	t.Helper()
	var s int32
	d.OK("cuStreamIsCapturing", stream, &s)
	equal(t, "the status", s, want)
}

// end ends a capture, which must be valid or not.
func end(t *testing.T, d *driver, stream uint64, valid bool) {
	t.Helper()
	var graph uint64
	if !valid {
		d.Want(captureInvalidated, "cuStreamEndCapture", stream, &graph)
		return
	}
	d.OK("cuStreamEndCapture", stream, &graph)
	d.OK("cuGraphDestroy", graph)
	d.WantMisuse(gpusimtest.InvalidValue, "cuGraphDestroy", graph)
}

// "Creating a Graph Using Stream Capture": work "is not enqueued for execution". A host function is a node of a graph. An
// event stands for nothing that could be waited for or asked.
func TestWhatIsCapturedDoesNotRun(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream, event, locked := memory(t, d, 1), d.NewStream(), newEvent(t, d, 2), make([]byte, 1)
	work := d.NewHostWork(&locked[0], 0, "")
	d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
	fill(d, ptr, 1, 1, stream)
	d.OK("cuLaunchHostFunc", stream, work.Function(), work.Data())
	d.OK("cuEventRecord", event, stream)
	d.Want(capturedEvent, "cuEventQuery", event)
	end(t, d, stream, true)
	d.OK("cuStreamSynchronize", stream)
	d.Holds(ptr, []byte{0})
	equal(t, "the runs of the host function", work.Runs(), 0)
	d.OK("cuEventRecord", event, stream)
	d.Await(event)
}

// "Prohibited and Unhandled Operations": it is invalid to synchronise or query a stream that is captured, and to
// wait in it for work that is not. A callback is not captured.
func TestWhatInvalidatesACapture(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, outside, ptr, locked := d.NewStream(), newEvent(t, d, 2), memory(t, d, 1), make([]byte, 1)
	work := d.NewHostWork(&locked[0], 0, "")
	d.OK("cuEventRecord", outside, d.NewStream())
	for _, a := range []attempt{
		{"a wait for the stream", captureUnsupported, "cuStreamSynchronize", []any{stream}},
		{"a query of the stream", captureUnsupported, "cuStreamQuery", []any{stream}},
		{"a wait for work outside", captureIsolation, "cuStreamWaitEvent", []any{stream, outside, 0}},
		{"a callback", captureUnsupported, "cuStreamAddCallback", []any{stream, work.Callback(), work.Data(), 0}},
	} {
		d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
		wantStatus(t, d, stream, statusActive)
		try(t, d, []attempt{a})
		wantStatus(t, d, stream, statusInvalidated)
		d.Want(captureInvalidated, "cuMemsetD8Async", ptr, 1, 1, stream)
		end(t, d, stream, false)
		wantStatus(t, d, stream, statusNone)
	}
	var graph uint64
	d.Want(illegalState, "cuStreamEndCapture", stream, &graph)
	d.Want(captureUnsupported, "cuStreamBeginCapture_v2", legacy, modeGlobal)
}

// cuThreadExchangeStreamCaptureMode: which calls that are potentially unsafe a capture forbids to which thread.
func TestACaptureForbidsUnsafeCallsByItsMode(t *testing.T) {
	for _, c := range []struct {
		name          string
		capture, call int32
		own, other    bool // is the call allowed to the capturing thread, and to another?
	}{
		{"global, from global", modeGlobal, modeGlobal, false, false},
		{"global, from thread-local", modeGlobal, modeThreadLocal, false, true},
		{"global, from relaxed", modeGlobal, modeRelaxed, true, true},
		{"thread-local, from global", modeThreadLocal, modeGlobal, false, true},
		{"thread-local, from relaxed", modeThreadLocal, modeRelaxed, true, true},
		{"relaxed, from global", modeRelaxed, modeGlobal, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := gpusimtest.Start(t)
			stream := d.NewStream()
			unsafe := func(t *testing.T, d *driver, allowed bool) {
				t.Helper()
				mode, ptr := c.call, uint64(0)
				d.OK("cuThreadExchangeStreamCaptureMode", &mode)
				if allowed {
					d.OK("cuMemAlloc_v2", &ptr, 1)
					d.OK("cuMemFree_v2", ptr)
				} else {
					d.Want(captureUnsupported, "cuMemAlloc_v2", &ptr, 1)
				}
				d.OK("cuThreadExchangeStreamCaptureMode", &mode)
				equal(t, "the thread's mode", mode, c.call)
			}
			d.OK("cuStreamBeginCapture_v2", stream, c.capture)
			unsafe(t, d, c.own)
			end(t, d, stream, c.own)
			d.OK("cuStreamBeginCapture_v2", stream, c.capture)
			d.Run(t, "another thread", func(t *testing.T, d *driver) { unsafe(t, d, c.other) })
			end(t, d, stream, c.other)
		})
	}
}

// cuStreamEndCapture: "if the mode argument was not CU_STREAM_CAPTURE_MODE_RELAXED, must be called from the same thread".
func TestACaptureEndsOnItsThreadOrWithItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.New("cuStreamCreate", 1)
	d.OK("cuStreamBeginCapture_v2", stream, modeThreadLocal)
	d.Run(t, "another thread", func(_ *testing.T, d *driver) {
		d.Want(captureWrongThread, "cuStreamEndCapture", stream, new(uint64))
	})
	end(t, d, stream, true)
	d.OK("cuStreamBeginCapture_v2", stream, modeGlobal)
	d.OK("cuStreamDestroy_v2", stream)
	memory(t, d, 1) // which a global capture would forbid
}

// cuStreamIsCapturing: for the legacy stream, while a blocking stream is captured, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
// "the blocking stream capture is not invalidated". Work there invalidates it.
func TestTheLegacyStreamDuringACapture(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), d.New("cuStreamCreate", 0)
	defer d.OK("cuStreamDestroy_v2", stream)
	d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
	d.Want(captureImplicit, "cuStreamIsCapturing", legacy, new(int32))
	streamID(d, legacy)
	wantStatus(t, d, stream, statusActive)
	d.Want(captureImplicit, "cuMemsetD8Async", ptr, 1, 1, legacy)
	end(t, d, stream, false)
}
