//go:build linux && cgo

package gpusim_test

import (
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// The threshold of a device's pool is 0: what it holds goes back "on the next call to stream, event or context
// synchronize". cuMemPoolTrimTo gives back what is not in use, beyond as many bytes as it is told.
func TestAPoolGivesBackWhatIsNotInUse(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	var pool, total, before, first, second uint64
	d.OK("cuDeviceGetDefaultMemPool", &pool, 0)
	d.Want(gpusimtest.InvalidDevice, "cuDeviceGetDefaultMemPool", &pool, 9)
	d.OK("cuMemGetInfo_v2", &before, &total)
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
		d.Run(t, c.name, func(t *testing.T, d *gpusimtest.Driver) {
			var free uint64
			d.OK("cuMemAllocAsync", &first, 2*page, stream)
			d.OK("cuMemAllocAsync", &second, page, stream)
			d.OK("cuMemFreeAsync", first, stream)
			for d.Result("cuStreamQuery", stream) != gpusimtest.Success { // which does not synchronise
				runtime.Gosched()
			}
			d.OK(c.call, c.args...)
			d.OK("cuMemGetInfo_v2", &free, &total)
			if before-free != c.taken {
				t.Errorf("the device has %d bytes less, want %d", before-free, c.taken)
			}
			d.OK("cuMemFree_v2", second) // which takes memory of pools, too
			d.WantMisuse(gpusimtest.InvalidValue, "cuMemFree_v2", second)
			d.OK("cuStreamSynchronize", stream)
		})
	}
	d.OK("cuMemGetInfo_v2", &first, &total)
	if first != before {
		t.Errorf("the device has %d bytes less at the end", before-first)
	}
}

// "Stream Ordered Memory Allocator": "the allocation is accessible as soon as the stream comes to it", and in streams
// that wait for that, until the stream comes to its release.
func TestMemoryOfAPoolIsThereInStreamOrder(t *testing.T) {
	d := gpusimtest.Start(t)
	first, second, event := d.NewStream(), d.NewStream(), newEvent(t, d, 2)
	var ptr uint64
	hold(t, d)
	d.OK("cuMemAllocAsync", &ptr, page, first)
	d.OK("cuMemsetD8Async", ptr, 1, page, first)
	d.OK("cuEventRecord", event, first)
	d.OK("cuStreamWaitEvent", second, event, 0)
	d.OK("cuMemsetD8Async", ptr, 2, page, second)
	d.OK("cuMemFreeAsync", ptr, second)
	d.OK("cuStreamSynchronize", second)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemFreeAsync", ptr, second)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemsetD8Async", ptr, 1, 1, second)
}

// "accessing the allocation before" or "after the release" in stream order "results in undefined behavior": here it
// is an illegal access.
func TestMemoryOfAPoolIsNotThereBeforeAndAfter(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(d *gpusimtest.Driver, first, second uint64) (ptr uint64)
	}{
		{"before", func(d *gpusimtest.Driver, first, second uint64) (ptr uint64) {
			d.OK("cuMemAllocAsync", &ptr, page, first)
			d.OK("cuMemsetD8Async", ptr, 1, 1, second)
			return ptr
		}},
		{"after", func(d *gpusimtest.Driver, first, second uint64) (ptr uint64) {
			d.OK("cuMemAllocAsync", &ptr, page, first)
			d.OK("cuStreamSynchronize", first)
			d.OK("cuMemFreeAsync", ptr, second)
			d.OK("cuMemsetD8Async", ptr, 1, 1, second)
			return 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := gpusimtest.Start(t)
			var first, second uint64
			d.OK("cuStreamCreate", &first, 1)
			d.OK("cuStreamCreate", &second, 1)
			d.Call("dlx_gpusim_hold", 1)
			ptr := c.use(d, first, second)
			d.Illegal("cuStreamSynchronize", second)
			d.Call("dlx_gpusim_hold", 0)
			if ptr != 0 {
				d.OK("cuMemFree_v2", ptr)
			}
		})
	}
}
