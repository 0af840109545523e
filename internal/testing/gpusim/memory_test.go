//go:build linux && cgo

package gpusim_test

import (
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// "Unified Addressing": an address of device memory is none of the host's; the host faults there.
func TestTheHostCannotTouchMemoryOfADevice(t *testing.T) {
	d := gpusimtest.Start(t)
	if role() == "" {
		faults(t, "touch")
		return
	}
	ptr := d.New("cuMemAlloc_v2", 1)
	t.Logf("%d", **(**byte)(unsafe.Pointer(&ptr)))
}

// "Coherency and Concurrency": where CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0, the host
// must not touch managed memory while any work is under way, in whichever stream and on whichever memory.
func TestTheHostKeepsOffManagedMemoryWhileADeviceWorks(t *testing.T) {
	const concurrent = 89
	d := gpusimtest.Start(t)
	if role() == "" {
		succeeds(t, "waits", "DLX_GPUSIM_CONCURRENT=0")
		faults(t, "touches", "DLX_GPUSIM_CONCURRENT=0")
		return
	}
	equal(t, "the attribute", attribute(d, concurrent), 0)
	other, stream := memory(t, d, 1), d.NewStream()
	d.OK("cuCtxSynchronize")
	var managed unsafe.Pointer
	d.OK("cuMemAllocManaged", &managed, page, 1)
	first := (*byte)(managed)
	*first = 1
	fill(d, other, 1, 1, stream)
	if role() == "waits" {
		d.OK("cuStreamSynchronize", stream)
	}
	*first++
	d.OK("cuMemFree_v2", uint64(uintptr(managed)))
}

// "Memory Management", cuMemAlloc: "the memory is not cleared". "Device Memory Accesses": an address is "always aligned to at
// least 256 bytes": here to no more. A place that was freed is not given out at once, so that a stale address is found.
func TestMemoryIsFresh(t *testing.T) {
	d := gpusimtest.Start(t)
	seen := make(map[uint64]bool)
	for i := range 100 {
		ptr := d.New("cuMemAlloc_v2", page+i%2)
		if seen[ptr] {
			t.Fatalf("%#x is given out again", ptr)
		}
		seen[ptr] = true
		equal(t, "the rest of the address", ptr%512, 256)
		for _, b := range d.Read(ptr, page) {
			if b == 0 {
				t.Fatal("a byte is zero")
			}
		}
		d.OK("cuMemFree_v2", ptr)
	}
}

// cuMemFree: memory still in use by work is freed after it.
func TestFreeingWaitsForWork(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, ptr := d.NewStream(), d.New("cuMemAlloc_v2", page)
	d.Hold()
	fill(d, ptr, 1, page, stream)
	d.OK("cuMemFree_v2", ptr)
	d.OK("cuStreamQuery", stream)
}

// cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, and what cuMemGetInfo says.
func TestADeviceHasOnlyItsMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	before := free(d)
	try(t, d, []attempt{
		{"more than is free", gpusimtest.OutOfMemory, "cuMemAlloc_v2", []any{new(uint64), before + 1}},
		{"all of the host", gpusimtest.OutOfMemory, "cuMemHostAlloc", []any{new(uint64), ^uint64(0), 0}},
		{"no bytes", gpusimtest.InvalidValue, "cuMemAlloc_v2", []any{new(uint64), 0}},
	})
	memory(t, d, 3*page)
	equal(t, "the free memory", free(d), before-3*page)
}

// "any thread may call": many at once, on streams of their own and one of all.
func TestManyThreadsAtOnce(t *testing.T) {
	d := gpusimtest.Start(t)
	shared := d.NewStream()
	var wg sync.WaitGroup
	for i := range byte(8) {
		wg.Go(func() {
			t.Run("", func(t *testing.T) {
				d.Run(t, "thread", func(t *testing.T, d *driver) {
					for range 50 {
						ptr, stream, event := d.New("cuMemAlloc_v2", 64), d.New("cuStreamCreate", 1), d.New("cuEventCreate", 2)
						fill(d, ptr, i+1, 64, stream)
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
	ptr, stream, context := d.New("cuMemAlloc_v2", 100), d.NewStream(), d.Context()
	fd, semaphore := newTimeline(t, d)
	at(d, wait, semaphore, 1, stream)
	freed, called := make(chan result, 1), make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		d.Call("cuCtxSetCurrent", context)
		freed <- d.Result("cuMemFree_v2", ptr)
	}()
	for d.Call("dlx_gpusim_count", cText("cuMemFree")) == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { called <- d.Result("cuDeviceGetCount", new(int32)) }()
	select {
	case <-freed:
		t.Error("the memory was freed while a stream waited")
	case <-called:
		t.Error("another call returned meanwhile")
	case <-time.After(50 * time.Millisecond):
	}
	d.OK("dlx_gpusim_timeline_signal", fd, 1)
	equal(t, "the calls after the signal", [2]result{<-freed, <-called}, [2]result{})
}

// The threshold of a device's pool is 0: what it holds goes back "on the next call to stream, event or context
// synchronize". cuMemPoolTrimTo gives back what is not in use, beyond as many bytes as it is told.
func TestAPoolGivesBackWhatIsNotInUse(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, pool := d.NewStream(), d.New("cuDeviceGetDefaultMemPool", 0)
	d.Want(gpusimtest.InvalidDevice, "cuDeviceGetDefaultMemPool", &pool, 9)
	before := free(d)
	for _, c := range []struct {
		name  string
		call  string
		args  []any
		taken uint64 // bytes that the device has less then
	}{
		{"a question", "cuStreamQuery", []any{stream}, 3 * page},
		{"a wait for the stream", "cuStreamSynchronize", []any{stream}, page},
		{"a wait for the context", "cuCtxSynchronize", nil, page},
		{"a trim to more than there is", "cuMemPoolTrimTo", []any{pool, 4 * page}, 3 * page},
		{"a trim", "cuMemPoolTrimTo", []any{pool, 2 * page}, 2 * page},
		{"a trim to less than is in use", "cuMemPoolTrimTo", []any{pool, page / 2}, page},
	} {
		first, second := d.New("cuMemAllocAsync", 2*page, stream), d.New("cuMemAllocAsync", page, stream)
		d.OK("cuMemFreeAsync", first, stream)
		for d.Result("cuStreamQuery", stream) != gpusimtest.Success { // which does not synchronise
			runtime.Gosched()
		}
		d.OK(c.call, c.args...)
		equal(t, "the memory in use after "+c.name, before-free(d), c.taken)
		d.OK("cuMemFree_v2", second) // which takes memory of pools, too
		d.WantMisuse(gpusimtest.InvalidValue, "cuMemFree_v2", second)
		d.OK("cuStreamSynchronize", stream)
	}
	equal(t, "the free memory at the end", free(d), before)
}

// "Stream Ordered Memory Allocator": "the allocation is accessible as soon as the stream comes to it", and in streams
// that wait for that, until the stream comes to its release.
func TestMemoryOfAPoolIsThereInStreamOrder(t *testing.T) {
	d := gpusimtest.Start(t)
	first, second, event := d.NewStream(), d.NewStream(), newEvent(t, d, 2)
	d.Hold()
	ptr := d.New("cuMemAllocAsync", page, first)
	fill(d, ptr, 1, page, first)
	d.OK("cuEventRecord", event, first)
	d.OK("cuStreamWaitEvent", second, event, 0)
	fill(d, ptr, 2, page, second)
	d.OK("cuMemFreeAsync", ptr, second)
	d.OK("cuStreamSynchronize", second)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemFreeAsync", ptr, second)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemsetD8Async", ptr, 1, 1, second)
}

// "accessing the allocation before" or "after the release" in stream order "results in undefined behavior": here it
// is an illegal access.
func TestMemoryOfAPoolIsNotThereBeforeAndAfter(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			d := gpusimtest.Start(t)
			first, second := d.New("cuStreamCreate", 1), d.New("cuStreamCreate", 1)
			d.Hold()
			ptr := d.New("cuMemAllocAsync", page, first)
			if after {
				d.OK("cuStreamSynchronize", first)
				d.OK("cuMemFreeAsync", ptr, second)
			}
			fill(d, ptr, 1, 1, second)
			d.Illegal("cuStreamSynchronize", second)
			if !after {
				d.OK("cuMemFree_v2", ptr)
			}
		})
	}
}
