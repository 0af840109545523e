//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

const capturedEvent gpusimtest.Result = 907

// newEvent makes an event until the test ends.
func newEvent(t *testing.T, d *gpusimtest.Driver, flags int) (event uint64) {
	t.Helper()
	d.OK("cuEventCreate", &event, flags)
	t.Cleanup(func() { d.OK("cuEventDestroy_v2", event) })
	return event
}

// "Event Management", cuEventQuery: an event that was never recorded is done, and a wait for it is no wait.
func TestAnEventThatWasNeverRecordedIsDone(t *testing.T) {
	d := gpusimtest.Start(t)
	event, stream := newEvent(t, d, 2), d.NewStream()
	d.OK("cuEventQuery", event)
	hold(t, d)
	d.OK("cuStreamWaitEvent", stream, event, 0)
	d.OK("cuStreamQuery", stream)
}

// cuEventRecord: an event "captures" the work of the stream at the call, and no later work.
func TestAnEventStandsForTheWorkBeforeIt(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, event, stream := memory(t, d, 2), newEvent(t, d, 2), d.NewStream()
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
	d.OK("cuEventRecord", event, stream)
	d.OK("cuMemsetD8Async", ptr+1, 1, 1, stream)
	d.Want(gpusimtest.NotReady, "cuEventQuery", event)
	d.Await(event)
	wantByte(t, d, ptr, 1, "after the event")
	wantByte(t, d, ptr+1, 0, "after the event, what came later in")
	d.Want(gpusimtest.NotReady, "cuStreamQuery", stream)
}

// cuStreamWaitEvent waits for what the event stands for at the call: "event may be reused" afterwards.
func TestAWaitKeepsToTheRecordItWasMadeAt(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, event := memory(t, d, 3), newEvent(t, d, 2)
	first, second, waiting := d.NewStream(), d.NewStream(), d.NewStream()
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, 1, first)
	d.OK("cuEventRecord", event, first)
	d.OK("cuStreamWaitEvent", waiting, event, 0)
	d.OK("cuMemsetD8Async", ptr+1, 1, 1, second)
	d.OK("cuEventRecord", event, second)
	d.OK("cuStreamSynchronize", waiting)
	wantByte(t, d, ptr, 1, "after the wait for the first record")
	wantByte(t, d, ptr+1, 0, "after the wait for the first record, the second's")
	d.Want(gpusimtest.NotReady, "cuEventQuery", event)
	d.Await(event)
	wantByte(t, d, ptr+1, 1, "after the second record")
}

// cuEventDestroy: "an event may be destroyed before it is complete"; who waits for it waits on.
func TestAWaitOutlivesItsEvent(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, working, waiting := memory(t, d, 1), d.NewStream(), d.NewStream()
	var event uint64
	d.OK("cuEventCreate", &event, 2)
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, 1, working)
	d.OK("cuEventRecord", event, working)
	d.OK("cuStreamWaitEvent", waiting, event, 0)
	d.OK("cuEventDestroy_v2", event)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuEventQuery", event)
	d.OK("cuStreamSynchronize", waiting)
	wantByte(t, d, ptr, 1, "after the wait")
}

// cuEventRecord: "hEvent and hStream must be from the same context"; cuStreamWaitEvent: "may be from a different context".
func TestAnEventIsRecordedInItsContextAndWaitedForInAny(t *testing.T) {
	d := gpusimtest.Start(t)
	event, stream := newEvent(t, d, 2), d.NewStream()
	ptr := memory(t, d, 1)
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
	d.OK("cuEventRecord", event, stream)
	var ctx, before, other uint64
	d.OK("cuDevicePrimaryCtxRetain", &ctx, 1)
	d.OK("cuCtxPushCurrent_v2", ctx)
	d.OK("cuStreamCreate", &other, 1)
	d.Want(gpusimtest.InvalidHandle, "cuEventRecord", event, other)
	d.OK("cuStreamWaitEvent", other, event, 0)
	d.OK("cuStreamSynchronize", other)
	d.OK("cuStreamDestroy_v2", other)
	d.OK("cuCtxPopCurrent_v2", &before)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
	wantByte(t, d, ptr, 1, "after another device waited")
}

// cuEventElapsedTime.
func TestOnlyEventsWithTimingHaveATime(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	timed, later, untimed := newEvent(t, d, 0), newEvent(t, d, 0), newEvent(t, d, 2)
	var ms float32
	d.Want(gpusimtest.InvalidHandle, "cuEventElapsedTime", &ms, timed, later) // never recorded
	hold(t, d)
	for _, e := range []uint64{timed, untimed, later} {
		d.OK("cuEventRecord", e, stream)
	}
	d.Want(gpusimtest.InvalidHandle, "cuEventElapsedTime", &ms, timed, untimed)
	d.Want(gpusimtest.NotReady, "cuEventElapsedTime", &ms, timed, later)
	d.Await(later)
	d.OK("cuEventElapsedTime", &ms, timed, later)
	if ms < 0 {
		t.Errorf("%v ms have gone by", ms)
	}
	d.Want(gpusimtest.InvalidValue, "cuEventCreate", &timed, 8)
	d.Want(gpusimtest.InvalidValue, "cuEventCreate", &timed, 4) // of several processes, but with timing
}

// CU_EVENT_WAIT_EXTERNAL: "This flag is invalid outside of stream capture."
func TestExternalEventsAreForCaptures(t *testing.T) {
	const external = 1
	d := gpusimtest.Start(t)
	stream, event := d.NewStream(), newEvent(t, d, 2)
	d.Want(gpusimtest.InvalidValue, "cuStreamWaitEvent", stream, event, external)
	d.OK("cuStreamSynchronize", stream)
}
