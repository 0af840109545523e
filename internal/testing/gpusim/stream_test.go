//go:build linux && cgo

package gpusim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// "Asynchronous Concurrent Execution": a call returns before its work is done; a missing wait must show. Work that nobody
// waits for runs in the end.
func TestWorkRunsNoEarlierThanItMust(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), d.NewStream()
	release := d.Hold()
	fill(d, ptr, 1, 1, stream)
	time.Sleep(10 * time.Millisecond)
	wantByte(t, d, ptr, 0, "before anybody waits")
	d.Want(gpusimtest.NotReady, "cuStreamQuery", stream)
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, ptr, 1, "after the wait")
	d.OK("cuStreamQuery", stream)
	release()
	fill(d, ptr, 2, 1, stream)
	for end := time.Now().Add(10 * time.Second); peek(d, ptr) != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the work does not run")
		}
	}
}

// "Streams": "a sequence of commands that execute in order".
func TestAStreamKeepsItsOrder(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 101), d.NewStream()
	for i := range uint64(100) {
		fill(d, ptr+i, byte(i)+1, 1, stream)
		d.OK("cuMemcpyDtoDAsync_v2", ptr+i+1, ptr+i, 1, stream)
	}
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, ptr+100, 100, "at the end")
}

// "Streams": "different streams may execute their commands out of order with respect to one another".
func TestTheOrderOfStreamsIsDrawnByTheSeed(t *testing.T) {
	d := gpusimtest.Start(t)
	if role() != "" {
		ptr := memory(t, d, 1)
		d.Hold()
		for i := range byte(8) {
			fill(d, ptr, i, 1, d.NewStream())
		}
		d.OK("cuCtxSynchronize")
		t.Logf("last was stream %d.", peek(d, ptr))
		return
	}
	last := func(seed string) string {
		out, err := child(t, "order", "DLX_GPUSIM_SEED="+seed).CombinedOutput()
		_, last, ok := strings.Cut(string(out), "last was stream ")
		if err != nil || !ok {
			t.Fatalf("%v\n%s", err, out)
		}
		return last[:1]
	}
	outcomes := make(map[string]bool)
	for _, seed := range strings.Split("12345678", "") {
		outcome := last(seed)
		equal(t, "the last stream, with seed "+seed+" again", last(seed), outcome)
		outcomes[outcome] = true
	}
	if len(outcomes) < 3 {
		t.Errorf("eight seeds have only the outcomes %v", outcomes)
	}
}

// "Stream Management", cuStreamDestroy: "the function will return immediately and the resources associated with
// hStream will be released automatically once the device has completed all work in hStream".
func TestADestroyedStreamDoesItsWork(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), d.New("cuStreamCreate", 1)
	d.Hold()
	fill(d, ptr, 1, 1, stream)
	d.OK("cuStreamDestroy_v2", stream)
	wantByte(t, d, ptr, 0, "after the stream was destroyed")
	d.WantMisuse(gpusimtest.InvalidHandle, "cuStreamSynchronize", stream)
	d.OK("cuCtxSynchronize")
	wantByte(t, d, ptr, 1, "after the context was waited for")
}

// "Stream synchronization behavior", Legacy default stream: an action there "first waits on all blocking streams",
// "then all blocking streams wait on the legacy stream"; non-blocking streams do neither.
func TestTheLegacyStreamWaitsAndIsWaitedFor(t *testing.T) {
	d := gpusimtest.Start(t)
	blocking := d.New("cuStreamCreate", 0)
	defer d.OK("cuStreamDestroy_v2", blocking)
	d.Hold()
	for _, c := range []struct {
		name   string
		stream uint64
		want   byte
	}{{"a blocking stream", blocking, 1}, {"the thread's stream", perThread, 1}, {"a non-blocking stream", d.NewStream(), 0}} {
		ptr := memory(t, d, 2)
		fill(d, ptr, 1, 1, c.stream)
		fill(d, ptr+1, 1, 1, legacy)
		d.OK("cuStreamSynchronize", legacy)
		wantByte(t, d, ptr, c.want, "after the legacy stream, of "+c.name)
		d.OK("cuStreamSynchronize", c.stream)

		fill(d, ptr, 0, 2, c.stream)
		d.OK("cuStreamSynchronize", c.stream)
		fill(d, ptr, 1, 1, legacy)
		fill(d, ptr+1, 1, 1, c.stream)
		d.OK("cuStreamSynchronize", c.stream)
		wantByte(t, d, ptr, c.want, "after "+c.name)
		d.OK("cuStreamSynchronize", legacy)
	}
}

// "Stream synchronization behavior", Per-thread default stream: "local to both the thread and the context".
func TestEveryThreadHasItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 1)
	d.Hold()
	fill(d, ptr, 1, 1, perThread)
	mine := streamID(d, perThread)
	d.Run(t, "another thread", func(t *testing.T, d *driver) {
		if streamID(d, perThread) == mine {
			t.Error("the stream is that of the first thread")
		}
		d.OK("cuStreamSynchronize", perThread)
		wantByte(t, d, ptr, 0, "after the other thread's stream")
	})
	d.OK("cuStreamSynchronize", perThread)
	wantByte(t, d, ptr, 1, "after the thread's own")
}

// streamID is the number of a stream.
func streamID(d *driver, stream uint64) (id uint64) {
	d.OK("cuStreamGetId", stream, &id)
	return id
}

// "Stream Management": what a stream tells of itself, in whichever context.
func TestAStreamKnowsItsProperties(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, ctx := d.NewStream(), d.Context()
	if streamID(d, stream) == streamID(d, legacy) {
		t.Error("two streams have the same number")
	}
	var of, before uint64
	d.OK("cuStreamGetCtx", stream, &before)
	push(t, d, 1)
	d.OK("cuStreamGetCtx", stream, &of)
	equal(t, "the contexts", [2]uint64{before, of}, [2]uint64{ctx, ctx})
	d.Want(gpusimtest.InvalidValue, "cuStreamCreate", &of, 2)
	d.Want(gpusimtest.InvalidValue, "cuStreamGetId", legacy, nil)
}

// "Stream memory operations", cuStreamWaitValue32: all later work of the stream waits.
func TestAStreamWaitsForAValueInMemory(t *testing.T) {
	const greaterOrEqual, equals, flush = 0, 1, 1 << 30
	d := gpusimtest.Start(t)
	ptr, flag := memory(t, d, 1), memory(t, d, 8)
	waiting, setting := d.NewStream(), d.NewStream()
	d.OK("cuStreamWaitValue32_v2", waiting, flag, 5, greaterOrEqual)
	fill(d, ptr, 1, 1, waiting)
	d.OK("cuMemsetD32Async", flag, 4, 1, setting)
	d.OK("cuStreamSynchronize", setting)
	time.Sleep(10 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", waiting)
	d.OK("cuMemsetD32Async", flag, 6, 1, setting)
	d.OK("cuStreamSynchronize", waiting)
	wantByte(t, d, ptr, 1, "after the value was there")
	d.OK("cuStreamWaitValue32_v2", waiting, flag, 6, equals)
	d.OK("cuStreamSynchronize", waiting)
	d.Want(gpusimtest.InvalidValue, "cuStreamWaitValue32_v2", waiting, flag+1, 0, greaterOrEqual)
	d.Want(gpusimtest.NotSupported, "cuStreamWaitValue32_v2", waiting, flag, 0, flush)
}

// "Streams": nothing promises that two of them run side by side. With DLX_GPUSIM_ONE_QUEUE work waits for all that was
// enqueued before it, in whichever stream, as where the hardware has one queue (CUDA_DEVICE_MAX_CONNECTIONS).
func TestStreamsMayShareOneQueue(t *testing.T) {
	d := gpusimtest.Start(t)
	if runAlone(t, "DLX_GPUSIM_ONE_QUEUE=1") {
		return
	}
	first, second, flag, locked := d.NewStream(), d.NewStream(), d.Pinned(4), d.Pinned(1)
	d.OK("cuStreamWaitValue32_v2", first, &flag[0], 1, 1) // equal
	d.OK("cuMemsetD8Async", &locked[0], 1, 1, second)
	time.Sleep(20 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", second)
	flag[0] = 1
	d.OK("cuStreamSynchronize", second)
	equal(t, "the work behind", locked[0], 1)
}

// "Event Management", cuEventQuery: an event that was never recorded is done, and a wait for it is no wait.
// cuEventRecord: an event "captures" the work of the stream at the call, and no later work.
func TestAnEventStandsForTheWorkBeforeIt(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, event, stream := memory(t, d, 2), newEvent(t, d, 2), d.NewStream()
	d.Hold()
	d.OK("cuEventQuery", event)
	d.OK("cuStreamWaitEvent", stream, event, 0)
	d.OK("cuStreamQuery", stream)
	fill(d, ptr, 1, 1, stream)
	d.OK("cuEventRecord", event, stream)
	fill(d, ptr+1, 1, 1, stream)
	d.Want(gpusimtest.NotReady, "cuEventQuery", event)
	d.Await(event)
	wantByte(t, d, ptr, 1, "after the event")
	wantByte(t, d, ptr+1, 0, "after the event, what came later")
	d.Want(gpusimtest.NotReady, "cuStreamQuery", stream)
	// CU_EVENT_WAIT_EXTERNAL: "This flag is invalid outside of stream capture."
	d.Want(gpusimtest.InvalidValue, "cuStreamWaitEvent", stream, event, 1)
}

// cuStreamWaitEvent waits for what the event stands for at the call: "event may be reused" afterwards. cuEventDestroy: "an
// event may be destroyed before it is complete"; who waits for it waits on.
func TestAWaitKeepsToTheRecordItWasMadeAt(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, event := memory(t, d, 2), d.New("cuEventCreate", 2)
	first, second, waiting, later := d.NewStream(), d.NewStream(), d.NewStream(), d.NewStream()
	d.Hold()
	fill(d, ptr, 1, 1, first)
	d.OK("cuEventRecord", event, first)
	d.OK("cuStreamWaitEvent", waiting, event, 0)
	fill(d, ptr+1, 1, 1, second)
	d.OK("cuEventRecord", event, second)
	d.OK("cuStreamSynchronize", waiting)
	wantByte(t, d, ptr, 1, "after the wait for the first record")
	wantByte(t, d, ptr+1, 0, "after the wait for the first record, the second's")
	d.Want(gpusimtest.NotReady, "cuEventQuery", event)
	d.OK("cuStreamWaitEvent", later, event, 0)
	d.OK("cuEventDestroy_v2", event)
	d.WantMisuse(gpusimtest.InvalidHandle, "cuEventQuery", event)
	d.OK("cuStreamSynchronize", later)
	wantByte(t, d, ptr+1, 1, "after the second record")
}

// cuEventRecord: "hEvent and hStream must be from the same context"; cuStreamWaitEvent: "may be from a different context".
func TestAnEventIsRecordedInItsContextAndWaitedForInAny(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, event, stream := memory(t, d, 1), newEvent(t, d, 2), d.NewStream()
	d.Hold()
	fill(d, ptr, 1, 1, stream)
	d.OK("cuEventRecord", event, stream)
	d.Run(t, "another context", func(t *testing.T, d *driver) {
		push(t, d, 1)
		other := d.NewStream()
		d.Want(gpusimtest.InvalidHandle, "cuEventRecord", event, other)
		d.OK("cuStreamWaitEvent", other, event, 0)
		d.OK("cuStreamSynchronize", other)
	})
	wantByte(t, d, ptr, 1, "after another device waited")
}

// cuEventElapsedTime.
func TestOnlyEventsWithTimingHaveATime(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	timed, later, untimed := newEvent(t, d, 0), newEvent(t, d, 0), newEvent(t, d, 2)
	var ms float32
	d.Want(gpusimtest.InvalidHandle, "cuEventElapsedTime", &ms, timed, later) // never recorded
	d.Hold()
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
		work := d.NewHostWork(&locked[0], 0, call)
		d.OK("cuLaunchHostFunc", stream, work.Function(), work.Data())
		d.OK("cuStreamSynchronize", stream)
		equal(t, call, work.Result(), gpusimtest.NotPermitted)
		d.Noted()
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
	for _, w := range works {
		equal(t, "the runs of a function", w.Runs(), 1)
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
	stream := d.New("cuStreamCreate", 1)
	release := d.Hold()
	d.OK("cuLaunchHostFunc", stream, work.Function(), work.Data())
	d.OK("cuStreamAddCallback", stream, callback.Callback(), callback.Data(), 0)
	d.Want(gpusimtest.InvalidValue, "cuStreamAddCallback", stream, callback.Callback(), callback.Data(), 1)
	d.Call("dlx_gpusim_lose", 0)
	d.Want(gpusimtest.IllegalAddress, "cuStreamSynchronize", stream)
	release()
	d.OK("cuStreamDestroy_v2", stream)
	d.Renew()
	equal(t, "the runs of the host function", work.Runs(), 0)
	equal(t, "the runs of the callback", callback.Runs(), 1)
	equal(t, "what the callback was told", callback.Status(), gpusimtest.IllegalAddress)
}
