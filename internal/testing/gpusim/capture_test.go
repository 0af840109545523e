//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// Of CUresult.
const (
	captureUnsupported gpusimtest.Result = 900
	captureInvalidated gpusimtest.Result = 901
	captureIsolation   gpusimtest.Result = 905
	captureImplicit    gpusimtest.Result = 906
	captureWrongThread gpusimtest.Result = 908
	illegalState       gpusimtest.Result = 401
)

// Of CUstreamCaptureMode and CUstreamCaptureStatus.
const (
	modeGlobal      = 0
	modeThreadLocal = 1
	modeRelaxed     = 2

	statusNone        = 0
	statusActive      = 1
	statusInvalidated = 2
)

// status is the state of a stream's capture.
func status(t *testing.T, d *gpusimtest.Driver, stream uint64) (s int32) {
	t.Helper()
	d.OK("cuStreamIsCapturing", stream, &s)
	return s
}

// "Creating a Graph Using Stream Capture": work "is not enqueued for execution".
func TestWhatIsCapturedDoesNotRun(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), d.NewStream()
	var graph uint64
	d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
	d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
	d.OK("cuStreamEndCapture", stream, &graph)
	d.OK("cuStreamSynchronize", stream)
	d.Holds(ptr, []byte{0})
	d.OK("cuGraphDestroy", graph)
	d.WantMisuse(gpusimtest.InvalidValue, "cuGraphDestroy", graph)
}

// "Prohibited and Unhandled Operations": it is invalid to synchronise or query a stream that is captured, and to
// wait in it for work that is not.
func TestWhatInvalidatesACapture(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, other := d.NewStream(), d.NewStream()
	outside, ptr := newEvent(t, d, 2), memory(t, d, 1)
	d.OK("cuEventRecord", outside, other)
	for _, c := range []struct {
		name string
		want gpusimtest.Result
		call string
		args []any
	}{
		{"a wait for the stream", captureUnsupported, "cuStreamSynchronize", []any{stream}},
		{"a query of the stream", captureUnsupported, "cuStreamQuery", []any{stream}},
		{"a wait for work outside", captureIsolation, "cuStreamWaitEvent", []any{stream, outside, 0}},
	} {
		d.Run(t, c.name, func(t *testing.T, d *gpusimtest.Driver) {
			var graph uint64
			d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
			if s := status(t, d, stream); s != statusActive {
				t.Errorf("the status is %d", s)
			}
			d.Want(c.want, c.call, c.args...)
			if s := status(t, d, stream); s != statusInvalidated {
				t.Errorf("the status is %d after it", s)
			}
			d.Want(captureInvalidated, "cuMemsetD8Async", ptr, 1, 1, stream)
			d.Want(captureInvalidated, "cuStreamEndCapture", stream, &graph)
			if s := status(t, d, stream); s != statusNone {
				t.Errorf("the status is %d at the end", s)
			}
		})
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
			try := func(t *testing.T, d *gpusimtest.Driver, allowed bool) {
				t.Helper()
				mode := c.call
				d.OK("cuThreadExchangeStreamCaptureMode", &mode)
				var ptr uint64
				want := gpusimtest.Success
				if !allowed {
					want = captureUnsupported
				}
				d.Want(want, "cuMemAlloc_v2", &ptr, 1)
				if allowed {
					d.OK("cuMemFree_v2", ptr)
				}
				d.OK("cuThreadExchangeStreamCaptureMode", &mode)
				if mode != c.call {
					t.Errorf("the thread's mode was %d", mode)
				}
			}
			end := func(t *testing.T, d *gpusimtest.Driver, valid bool) {
				t.Helper()
				var graph uint64
				if !valid {
					d.Want(captureInvalidated, "cuStreamEndCapture", stream, &graph)
					return
				}
				d.OK("cuStreamEndCapture", stream, &graph)
				d.OK("cuGraphDestroy", graph)
			}
			d.OK("cuStreamBeginCapture_v2", stream, c.capture)
			try(t, d, c.own)
			end(t, d, c.own)
			d.OK("cuStreamBeginCapture_v2", stream, c.capture)
			d.Run(t, "another thread", func(t *testing.T, d *gpusimtest.Driver) { try(t, d, c.other) })
			end(t, d, c.other)
		})
	}
}

// cuStreamEndCapture: "if the mode argument was not CU_STREAM_CAPTURE_MODE_RELAXED, must be called from the same thread".
func TestACaptureEndsOnItsThread(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	var graph uint64
	d.OK("cuStreamBeginCapture_v2", stream, modeThreadLocal)
	d.Run(t, "another thread", func(_ *testing.T, d *gpusimtest.Driver) {
		d.Want(captureWrongThread, "cuStreamEndCapture", stream, &graph)
	})
	d.OK("cuStreamEndCapture", stream, &graph)
	d.OK("cuGraphDestroy", graph)
}

// cuStreamIsCapturing: for the legacy stream, while a blocking stream is captured, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
// "the blocking stream capture is not invalidated". Work there invalidates it.
func TestTheLegacyStreamDuringACapture(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), blocking(t, d)
	d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
	var s int32
	var id uint64
	d.Want(captureImplicit, "cuStreamIsCapturing", legacy, &s)
	d.OK("cuStreamGetId", legacy, &id)
	if s := status(t, d, stream); s != statusActive {
		t.Errorf("the status is %d after a question", s)
	}
	d.Want(captureImplicit, "cuMemsetD8Async", ptr, 1, 1, legacy)
	var graph uint64
	d.Want(captureInvalidated, "cuStreamEndCapture", stream, &graph)
}

// cuEventRecord in a capture: the event stands for nothing that could be waited for or asked.
func TestACapturedEventCannotBeAsked(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, event := d.NewStream(), newEvent(t, d, 2)
	var graph uint64
	d.OK("cuStreamBeginCapture_v2", stream, modeRelaxed)
	d.OK("cuEventRecord", event, stream)
	d.Want(capturedEvent, "cuEventQuery", event)
	d.OK("cuStreamEndCapture", stream, &graph)
	d.OK("cuGraphDestroy", graph)
	d.OK("cuEventRecord", event, stream)
	d.Await(event)
}

// A capture ends with its stream.
func TestADestroyedStreamEndsItsCapture(t *testing.T) {
	d := gpusimtest.Start(t)
	var stream uint64
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuStreamBeginCapture_v2", stream, modeGlobal)
	d.OK("cuStreamDestroy_v2", stream)
	memory(t, d, 1) // which a global capture would forbid
}
