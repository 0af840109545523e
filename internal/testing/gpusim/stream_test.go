//go:build linux && cgo

package gpusim_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

const (
	legacy    = 1 // CU_STREAM_LEGACY
	perThread = 2 // CU_STREAM_PER_THREAD
)

// hold keeps work back until the test ends, but for what somebody waits for.
func hold(t *testing.T, d *gpusimtest.Driver) {
	t.Helper()
	d.Call("dlx_gpusim_hold", 1)
	t.Cleanup(func() { d.Call("dlx_gpusim_hold", 0) })
}

// memory is n bytes of the device that hold zeros, until the test ends.
func memory(t *testing.T, d *gpusimtest.Driver, n int) (ptr uint64) {
	t.Helper()
	d.OK("cuMemAlloc_v2", &ptr, n)
	t.Cleanup(func() { d.OK("cuMemFree_v2", ptr) })
	d.Write(ptr, make([]byte, n))
	return ptr
}

// blocking is a stream that the legacy stream waits for, until the test ends.
func blocking(t *testing.T, d *gpusimtest.Driver) (stream uint64) {
	t.Helper()
	d.OK("cuStreamCreate", &stream, 0)
	t.Cleanup(func() { d.OK("cuStreamDestroy_v2", stream) })
	return stream
}

// peek reads a byte now, with no order to the work of other streams.
func peek(t *testing.T, d *gpusimtest.Driver, at uint64) byte {
	t.Helper()
	var stream uint64
	d.OK("cuStreamCreate", &stream, 1)
	host := make([]byte, 1)
	d.OK("cuMemcpyAsync", &host[0], at, 1, stream)
	d.OK("cuStreamSynchronize", stream)
	d.OK("cuStreamDestroy_v2", stream)
	return host[0]
}

// wantByte fails unless memory holds a byte now.
func wantByte(t *testing.T, d *gpusimtest.Driver, at uint64, want byte, when string) {
	t.Helper()
	if got := peek(t, d, at); got != want {
		t.Errorf("%s the memory holds %d, want %d", when, got, want)
	}
}

// "Asynchronous Concurrent Execution": a call returns before its work is done; a missing wait must show.
func TestWorkRunsNoEarlierThanItMust(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), d.NewStream()
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
	time.Sleep(10 * time.Millisecond)
	wantByte(t, d, ptr, 0, "before anybody waits")
	d.Want(gpusimtest.NotReady, "cuStreamQuery", stream)
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, ptr, 1, "after the wait")
	d.OK("cuStreamQuery", stream)
}

// Work needs nobody who waits for it.
func TestWorkRunsInTheEnd(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), d.NewStream()
	d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
	for end := time.Now().Add(10 * time.Second); peek(t, d, ptr) != 1; time.Sleep(time.Millisecond) {
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
		d.OK("cuMemsetD8Async", ptr+i, int(i)+1, 1, stream)
		d.OK("cuMemcpyDtoDAsync_v2", ptr+i+1, ptr+i, 1, stream)
	}
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, ptr+100, 100, "at the end")
}

// "Streams": "different streams may execute their commands out of order with respect to one another".
func TestTheOrderOfStreamsIsDrawnByTheSeed(t *testing.T) {
	if os.Getenv("DLX_GPUSIM_CHILD") == "order" {
		d := gpusimtest.Start(t)
		ptr := memory(t, d, 1)
		hold(t, d)
		for i := range 8 {
			d.OK("cuMemsetD8Async", ptr, i, 1, d.NewStream())
		}
		d.OK("cuCtxSynchronize")
		t.Logf("last was stream %d.", peek(t, d, ptr))
		return
	}
	gpusimtest.Start(t) // skips where there is no driver
	outcomes := make(map[string]bool)
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		outcome := ""
		for range 2 {
			out, err := child(t, "order", "DLX_GPUSIM_SEED="+seed).CombinedOutput()
			_, last, ok := strings.Cut(string(out), "last was stream ")
			if err != nil || !ok {
				t.Fatalf("%v\n%s", err, out)
			}
			last, _, _ = strings.Cut(last, ".")
			if outcome != "" && outcome != last {
				t.Errorf("seed %s ends with stream %s, and then with %s", seed, outcome, last)
			}
			outcome = last
		}
		outcomes[outcome] = true
	}
	if len(outcomes) < 3 {
		t.Errorf("eight seeds have only the outcomes %v", outcomes)
	}
}

// atOnce is what keeps the race detector, in the environment of another process, from waiting a second at its end.
func atOnce() string { return "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0" }

// child is this test in a process of its own.
func child(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	//nolint:gosec // this program itself
	c := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	c.Env = append(append(os.Environ(), "DLX_GPUSIM_CHILD="+role, atOnce()), env...)
	return c
}

// runAlone runs the test in a process of its own, which has the variables. It reports whether it did: in that process it
// does not.
func runAlone(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv("DLX_GPUSIM_CHILD") != "" {
		return false
	}
	if out, err := child(t, "alone", env...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", env, err, out)
	}
	return true
}

// "Stream Management", cuStreamDestroy: "the function will return immediately and the resources associated with
// hStream will be released automatically once the device has completed all work in hStream".
func TestADestroyedStreamDoesItsWork(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 1)
	var stream uint64
	d.OK("cuStreamCreate", &stream, 1)
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
	d.OK("cuStreamDestroy_v2", stream)
	wantByte(t, d, ptr, 0, "after the stream was destroyed")
	d.WantMisuse(gpusimtest.InvalidHandle, "cuStreamSynchronize", stream)
	d.OK("cuCtxSynchronize")
	wantByte(t, d, ptr, 1, "after the context was waited for")
}

// "Stream synchronization behavior", Legacy default stream: an action there "first waits on all blocking streams",
// "then all blocking streams wait on the legacy stream"; non-blocking streams do neither.
func TestTheLegacyStreamWaitsAndIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream func(*testing.T, *gpusimtest.Driver) uint64
		waits  bool
	}{
		{"a blocking stream", blocking, true},
		{"the thread's stream", func(*testing.T, *gpusimtest.Driver) uint64 { return perThread }, true},
		{"a non-blocking stream", func(_ *testing.T, d *gpusimtest.Driver) uint64 { return d.NewStream() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := gpusimtest.Start(t)
			ptr, stream := memory(t, d, 2), c.stream(t, d)
			want := byte(0)
			if c.waits {
				want = 1
			}
			hold(t, d)
			d.OK("cuMemsetD8Async", ptr, 1, 1, stream)
			d.OK("cuMemsetD8Async", ptr+1, 1, 1, legacy)
			d.OK("cuStreamSynchronize", legacy)
			wantByte(t, d, ptr, want, "after the legacy stream")
			d.OK("cuStreamSynchronize", stream)

			d.OK("cuMemsetD8Async", ptr, 0, 2, stream)
			d.OK("cuStreamSynchronize", stream)
			d.OK("cuMemsetD8Async", ptr, 1, 1, legacy)
			d.OK("cuMemsetD8Async", ptr+1, 1, 1, stream)
			d.OK("cuStreamSynchronize", stream)
			wantByte(t, d, ptr, want, "after the stream")
			d.OK("cuStreamSynchronize", legacy)
		})
	}
}

// "Stream synchronization behavior", Per-thread default stream: "local to both the thread and the context".
func TestEveryThreadHasItsStream(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 1)
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, 1, perThread)
	var mine uint64
	d.OK("cuStreamGetId", perThread, &mine)
	d.Run(t, "another thread", func(t *testing.T, d *gpusimtest.Driver) {
		var other uint64
		d.OK("cuStreamGetId", perThread, &other)
		if other == mine {
			t.Error("the stream is that of the first thread")
		}
		d.OK("cuStreamSynchronize", perThread)
		wantByte(t, d, ptr, 0, "after the other thread's stream")
	})
	d.OK("cuStreamSynchronize", perThread)
	wantByte(t, d, ptr, 1, "after the thread's own")
}

// "Stream Management": what a stream tells of itself.
func TestAStreamKnowsItsProperties(t *testing.T) {
	d := gpusimtest.Start(t)
	var stream, of, id, other uint64
	ctx := d.Context()
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuStreamGetCtx", stream, &of)
	d.OK("cuStreamGetId", stream, &id)
	d.OK("cuStreamGetId", legacy, &other)
	if of != ctx || id == other {
		t.Errorf("the stream is of context %#x with number %d", of, id)
	}
	push(t, d, 1)
	d.OK("cuStreamGetCtx", stream, &of)
	if of != ctx {
		t.Errorf("seen from another context, the stream is of %#x", of)
	}
	d.OK("cuStreamDestroy_v2", stream)
	d.Want(gpusimtest.InvalidValue, "cuStreamCreate", &stream, 2)
	d.Want(gpusimtest.InvalidValue, "cuStreamGetId", legacy, nil)
}

// "Stream memory operations", cuStreamWaitValue32: all later work of the stream waits.
func TestAStreamWaitsForAValueInMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, flag := memory(t, d, 1), memory(t, d, 8)
	waiting, setting := d.NewStream(), d.NewStream()
	d.OK("cuStreamWaitValue32_v2", waiting, flag, 5, 0)
	d.OK("cuMemsetD8Async", ptr, 1, 1, waiting)
	d.OK("cuMemsetD32Async", flag, 4, 1, setting)
	d.OK("cuStreamSynchronize", setting)
	time.Sleep(10 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", waiting)
	d.OK("cuMemsetD32Async", flag, 6, 1, setting)
	d.OK("cuStreamSynchronize", waiting)
	wantByte(t, d, ptr, 1, "after the value was there")
	d.OK("cuStreamWaitValue32_v2", waiting, flag, 6, 1) // equal
	d.OK("cuStreamSynchronize", waiting)
	d.Want(gpusimtest.InvalidValue, "cuStreamWaitValue32_v2", waiting, flag+1, 0, 0)
	d.Want(gpusimtest.NotSupported, "cuStreamWaitValue32_v2", waiting, flag, 0, 1<<30)
}

// "Streams": nothing promises that two of them run side by side. With DLX_GPUSIM_ONE_QUEUE work waits for all that was
// enqueued before it, in whichever stream, as where the hardware has one queue (CUDA_DEVICE_MAX_CONNECTIONS).
func TestStreamsMayShareOneQueue(t *testing.T) {
	d := gpusimtest.Start(t)
	if runAlone(t, "DLX_GPUSIM_ONE_QUEUE=1") {
		return
	}
	first, second, flag := d.NewStream(), d.NewStream(), d.Pinned(4)
	locked := d.Pinned(1)
	d.OK("cuStreamWaitValue32_v2", first, &flag[0], 1, 1) // equal
	d.OK("cuMemsetD8Async", &locked[0], 1, 1, second)
	time.Sleep(20 * time.Millisecond)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", second)
	flag[0] = 1
	d.OK("cuStreamSynchronize", second)
	if locked[0] != 1 {
		t.Error("the work behind was not done")
	}
}
