//go:build linux && cgo

package gpusim_test

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// "Unified Addressing": an address of device memory is none of the host's; the host faults there.
func TestTheHostCannotTouchMemoryOfADevice(t *testing.T) {
	d := gpusimtest.Start(t)
	if os.Getenv("DLX_GPUSIM_CHILD") != "touch" {
		out, err := child(t, "touch").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "SIGSEGV") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var ptr uint64
	d.OK("cuMemAlloc_v2", &ptr, 1)
	t.Logf("%d", **(**byte)(unsafe.Pointer(&ptr)))
}

// "Coherency and Concurrency": where CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0, the host
// must not touch managed memory while any work is under way, in whichever stream and on whichever memory.
func TestTheHostKeepsOffManagedMemoryWhileADeviceWorks(t *testing.T) {
	const concurrent = 89
	d := gpusimtest.Start(t)
	role := os.Getenv("DLX_GPUSIM_CHILD")
	if role == "" {
		if out, err := child(t, "waits", "DLX_GPUSIM_CONCURRENT=0").CombinedOutput(); err != nil {
			t.Errorf("a host that waits: %v\n%s", err, out)
		}
		out, err := child(t, "touches", "DLX_GPUSIM_CONCURRENT=0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "SIGSEGV") {
			t.Errorf("a host that does not wait: %v\n%s", err, out)
		}
		return
	}
	var can int32
	d.OK("cuDeviceGetAttribute", &can, concurrent, 0)
	if can != 0 {
		t.Errorf("the attribute is %d", can)
	}
	other, stream := memory(t, d, 1), d.NewStream()
	d.OK("cuCtxSynchronize")
	var managed unsafe.Pointer
	d.OK("cuMemAllocManaged", &managed, page, 1)
	first := (*byte)(managed)
	*first = 1
	d.OK("cuMemsetD8Async", other, 1, 1, stream)
	if role == "waits" {
		d.OK("cuStreamSynchronize", stream)
	}
	*first++
	d.OK("cuMemFree_v2", uint64(uintptr(managed)))
}

// "Memory Management", cuMemAlloc: "the memory is not cleared".
func TestFreshMemoryIsNotZero(t *testing.T) {
	d := gpusimtest.Start(t)
	var ptr uint64
	d.OK("cuMemAlloc_v2", &ptr, page)
	for _, b := range d.Read(ptr, page) {
		if b == 0 {
			t.Fatal("a byte is zero")
		}
	}
	d.OK("cuMemFree_v2", ptr)
}

// A place that was freed is not given out at once, so that a stale address is found.
func TestAFreedPlaceIsNotUsedAgainSoon(t *testing.T) {
	d := gpusimtest.Start(t)
	seen := make(map[uint64]bool)
	for range 100 {
		var ptr uint64
		d.OK("cuMemAlloc_v2", &ptr, page)
		if seen[ptr] {
			t.Fatalf("%#x is given out again", ptr)
		}
		seen[ptr] = true
		d.OK("cuMemFree_v2", ptr)
	}
}

// Nothing promises that handles and addresses differ from those that were given back: with DLX_GPUSIM_REUSE they are
// the same at once.
func TestHandlesAndPlacesMayBeUsedAgainAtOnce(t *testing.T) {
	d := gpusimtest.Start(t)
	if runAlone(t, "DLX_GPUSIM_REUSE=1") {
		return
	}
	for _, c := range []struct {
		make, end string
		args      []any
	}{
		{"cuStreamCreate", "cuStreamDestroy_v2", []any{1}},
		{"cuEventCreate", "cuEventDestroy_v2", []any{2}},
		{"cuMemAlloc_v2", "cuMemFree_v2", []any{page}},
	} {
		var first, again, other uint64
		d.OK(c.make, append([]any{&first}, c.args...)...)
		d.OK(c.end, first)
		d.OK(c.make, append([]any{&again}, c.args...)...)
		d.OK(c.make, append([]any{&other}, c.args...)...)
		if again != first || other == first {
			t.Errorf("%s gives %#x, then %#x and %#x", c.make, first, again, other)
		}
		d.OK(c.end, again)
		d.OK(c.end, other)
	}
}

// "Device Memory Accesses": an address of cuMemAlloc is "always aligned to at least 256 bytes": here to no more.
func TestMemoryIsAlignedAsPromised(t *testing.T) {
	d := gpusimtest.Start(t)
	for _, n := range []int{1, page, 3*page + 1} {
		if ptr := memory(t, d, n); ptr%512 != 256 {
			t.Errorf("%d bytes lie at %#x", n, ptr)
		}
	}
}

// cuMemFree: memory still in use by work is freed after it.
func TestFreeingWaitsForWork(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	var ptr uint64
	d.OK("cuMemAlloc_v2", &ptr, page)
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 1, page, stream)
	d.OK("cuMemFree_v2", ptr)
	d.OK("cuStreamQuery", stream)
}

// cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, and what cuMemGetInfo says.
func TestADeviceHasOnlyItsMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	var free, total, ptr, left uint64
	d.OK("cuMemGetInfo_v2", &free, &total)
	d.Want(gpusimtest.OutOfMemory, "cuMemAlloc_v2", &ptr, free+1)
	d.Want(gpusimtest.OutOfMemory, "cuMemHostAlloc", &ptr, ^uint64(0), 0)
	d.Want(gpusimtest.InvalidValue, "cuMemAlloc_v2", &ptr, 0)
	d.OK("cuMemAlloc_v2", &ptr, 3*page)
	d.OK("cuMemGetInfo_v2", &left, &total)
	if left != free-3*page {
		t.Errorf("%d bytes are free, want %d", left, free-3*page)
	}
	d.OK("cuMemFree_v2", ptr)
}

// What is destroyed or freed twice is found.
func TestTwiceIsMisuse(t *testing.T) {
	d := gpusimtest.Start(t)
	for _, c := range []struct {
		make, end string
		args      []any
		want      gpusimtest.Result
	}{
		{"cuStreamCreate", "cuStreamDestroy_v2", []any{1}, gpusimtest.InvalidHandle},
		{"cuEventCreate", "cuEventDestroy_v2", []any{2}, gpusimtest.InvalidHandle},
		{"cuMemAlloc_v2", "cuMemFree_v2", []any{page}, gpusimtest.InvalidValue},
		{"cuMemHostAlloc", "cuMemFreeHost", []any{page, 0}, gpusimtest.InvalidValue},
	} {
		d.Run(t, c.end, func(_ *testing.T, d *gpusimtest.Driver) {
			var x uint64
			d.OK(c.make, append([]any{&x}, c.args...)...)
			d.OK(c.end, x)
			d.WantMisuse(c.want, c.end, x)
		})
	}
}

// "Error Checking": after an illegal access every call of the context reports it, until the context is destroyed.
func TestAFailedContextStaysFailed(t *testing.T) {
	d := gpusimtest.Start(t)
	var stream, event, ptr uint64
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuEventCreate", &event, 2)
	d.Call("dlx_gpusim_lose", 0)
	for range 2 {
		d.Want(gpusimtest.IllegalAddress, "cuMemAlloc_v2", &ptr, 1)
		d.Want(gpusimtest.IllegalAddress, "cuStreamSynchronize", stream)
		d.Want(gpusimtest.IllegalAddress, "cuEventRecord", event, stream)
		d.Want(gpusimtest.IllegalAddress, "cuCtxSynchronize")
	}
	d.OK("cuStreamDestroy_v2", stream)
	d.OK("cuEventDestroy_v2", event)
	d.Renew()
	memory(t, d, 1)
}

// The nth call fails, once, with the code that was asked for.
func TestTheNthCallFails(t *testing.T) {
	d := gpusimtest.Start(t)
	name := append([]byte("cuStreamQuery"), 0)
	d.Call("dlx_gpusim_fail", &name[0], 3, int(gpusimtest.OperatingSystem))
	for i := 1; i <= 4; i++ {
		want := gpusimtest.Success
		if i == 3 {
			want = gpusimtest.OperatingSystem
		}
		d.Want(want, "cuStreamQuery", legacy)
	}
}

// CUDA_ERROR_LAUNCH_FAILED and the like: "any further CUDA work will return the same error", also where a test asked for
// the first one, so that nothing which was enqueued runs any more.
func TestACallThatTellsOfTheEndIsTheEnd(t *testing.T) {
	const launchFailed gpusimtest.Result = 719
	d := gpusimtest.Start(t)
	var stream, locked uint64
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuMemHostAlloc", &locked, page, 0)
	d.Call("dlx_gpusim_hold", 1)
	d.OK("cuMemsetD8Async", locked, 1, page, stream)
	failNext(d, "cuStreamGetId", launchFailed)
	d.Want(launchFailed, "cuStreamGetId", stream, &stream)
	d.Want(launchFailed, "cuMemFreeHost", locked)
	d.Want(launchFailed, "cuStreamSynchronize", stream)
	d.Call("dlx_gpusim_hold", 0)
	d.Renew()
	memory(t, d, 1)
}

// "any thread may call": many at once, on streams of their own and one of all.
func TestManyThreadsAtOnce(t *testing.T) {
	d := gpusimtest.Start(t)
	shared := d.NewStream()
	var wg sync.WaitGroup
	for i := range byte(8) {
		wg.Go(func() {
			t.Run("", func(t *testing.T) {
				d.Run(t, "thread", func(t *testing.T, d *gpusimtest.Driver) {
					for range 50 {
						var stream, ptr, event uint64
						d.OK("cuMemAlloc_v2", &ptr, 64)
						d.OK("cuStreamCreate", &stream, 1)
						d.OK("cuEventCreate", &event, 2)
						d.OK("cuMemsetD8Async", ptr, int(i)+1, 64, stream)
						d.OK("cuEventRecord", event, stream)
						d.OK("cuStreamWaitEvent", shared, event, 0)
						d.OK("cuStreamDestroy_v2", stream)
						d.OK("cuMemcpyDtoDAsync_v2", ptr, ptr+32, 32, shared)
						d.OK("cuEventRecord", event, shared)
						d.Await(event)
						d.OK("cuEventDestroy_v2", event)
						wantByte(t, d, ptr, i+1, "at the end")
						d.OK("cuMemFree_v2", ptr)
					}
				})
			})
		})
	}
	wg.Wait()
}

// "Memory Management", cuMemFree: "may perform implicit synchronization". With DLX_GPUSIM_DRAIN_LOCK it does, and no
// call of another thread returns before.
func TestAFreeMayHoldUpAllOtherCalls(t *testing.T) {
	d := gpusimtest.Start(t)
	if runAlone(t, "DLX_GPUSIM_DRAIN_LOCK=1") {
		return
	}
	var ptr uint64
	d.OK("cuMemAlloc_v2", &ptr, 100)
	fd, semaphore := newTimeline(t, d)
	stream := d.NewStream()
	d.OK("cuWaitExternalSemaphoresAsync", &semaphore, &semaphorePoint{value: 1}, 1, stream)
	freed, called := make(chan gpusimtest.Result, 1), make(chan gpusimtest.Result, 1)
	context := d.Context()
	go func() {
		runtime.LockOSThread()
		d.Call("cuCtxSetCurrent", context)
		freed <- d.Result("cuMemFree_v2", ptr)
	}()
	for name := []byte("cuMemFree\x00"); d.Call("dlx_gpusim_count", &name[0]) == 0; {
		time.Sleep(time.Millisecond)
	}
	go func() {
		var count int32
		called <- d.Result("cuDeviceGetCount", &count)
	}()
	select {
	case <-freed:
		t.Error("the memory was freed while a stream waited")
	case <-called:
		t.Error("another call returned meanwhile")
	case <-time.After(50 * time.Millisecond):
	}
	d.OK("dlx_gpusim_timeline_signal", fd, 1)
	if a, b := <-freed, <-called; a != 0 || b != 0 {
		t.Errorf("after the signal the calls returned %v and %v", a, b)
	}
}
