//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/gpusim/gpusimtest"
)

// poolProperties is CUmemPoolProps.
type poolProperties struct {
	kind, _ int32
	at      location
	_       uint64
	most    uint64
	_       [56]byte
}

// newPool makes a pool of device 0 that gives out at most so many bytes.
func newPool(d *gpusimtest.Driver, most uint64) (pool uint64) {
	d.OK("cuMemPoolCreate", &pool, &poolProperties{kind: 1, at: location{kind: 1}, most: most})
	return pool
}

const usedNow = 7 // CU_MEMPOOL_ATTR_USED_MEM_CURRENT

// used is how many bytes of a pool are in use.
func used(d *gpusimtest.Driver, pool uint64) (n uint64) {
	d.OK("cuMemPoolGetAttribute", pool, usedNow, &n)
	return n
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

// cuMemPoolDestroy: with allocations that are out, "resources will be released automatically once there are no more".
func TestAPoolOutlivesItsHandle(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	pool := newPool(d, 0)
	var ptr uint64
	d.OK("cuMemAllocFromPoolAsync", &ptr, page, pool, stream)
	d.OK("cuMemPoolDestroy", pool)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemAllocFromPoolAsync", &ptr, page, pool, stream)
	d.OK("cuMemsetD8Async", ptr, 1, page, stream)
	d.OK("cuMemFreeAsync", ptr, stream)
	d.OK("cuStreamSynchronize", stream)
}

// CUmemPoolProps.maxSize, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, and cuMemFree, which takes memory of pools too.
func TestAPoolKeepsToItsSize(t *testing.T) {
	d := gpusimtest.Start(t)
	stream := d.NewStream()
	pool := newPool(d, 2*page)
	defer d.OK("cuMemPoolDestroy", pool)
	var first, second, third uint64
	d.OK("cuMemAllocFromPoolAsync", &first, page, pool, stream)
	d.OK("cuMemAllocFromPoolAsync", &second, page, pool, stream)
	d.Want(gpusimtest.OutOfMemory, "cuMemAllocFromPoolAsync", &third, 1, pool, stream)
	if n := used(d, pool); n != 2*page {
		t.Errorf("%d bytes are in use", n)
	}
	d.OK("cuMemFree_v2", first)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemFree_v2", first)
	d.OK("cuMemAllocFromPoolAsync", &third, page, pool, stream)
	d.OK("cuMemFreeAsync", second, stream)
	d.OK("cuMemFreeAsync", third, stream)
	d.OK("cuStreamSynchronize", stream)
	if n := used(d, pool); n != 0 {
		t.Errorf("%d bytes are in use at the end", n)
	}
}

// cuMemPoolSetAccess: other devices reach a pool's memory by this, and not by cuCtxEnablePeerAccess.
func TestAPoolGivesAccessToOtherDevices(t *testing.T) {
	d := gpusimtest.Start(t)
	pool := newPool(d, 0)
	defer d.OK("cuMemPoolDestroy", pool)
	other := access{location{1, 1}, readWrite}
	d.OK("cuMemPoolSetAccess", pool, &other, 1)
	own := access{location{1, 0}, 0}
	d.Want(gpusimtest.InvalidValue, "cuMemPoolSetAccess", pool, &own, 1)
	var ptr, ctx, before uint64
	stream := d.NewStream()
	d.OK("cuMemAllocFromPoolAsync", &ptr, page, pool, stream)
	d.OK("cuStreamSynchronize", stream)
	d.OK("cuDevicePrimaryCtxRetain", &ctx, 1)
	d.OK("cuCtxPushCurrent_v2", ctx)
	d.OK("cuMemsetD8_v2", ptr, 6, 1)
	d.OK("cuCtxSynchronize")
	d.OK("cuCtxPopCurrent_v2", &before)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
	wantByte(t, d, ptr, 6, "after the other device wrote")
	d.OK("cuMemFree_v2", ptr)
}

// cuDeviceSetMemPool; "Destroying the current mempool of a device sets the default mempool of that device".
func TestADeviceHasACurrentPool(t *testing.T) {
	d := gpusimtest.Start(t)
	var standard, now uint64
	d.OK("cuDeviceGetDefaultMemPool", &standard, 0)
	pool := newPool(d, 0)
	d.OK("cuDeviceSetMemPool", 0, pool)
	d.OK("cuDeviceGetMemPool", &now, 0)
	if now != pool {
		t.Error("the pool was not set")
	}
	d.OK("cuMemPoolDestroy", pool)
	d.OK("cuDeviceGetMemPool", &now, 0)
	if now != standard {
		t.Error("the default pool is not back")
	}
	d.Want(gpusimtest.InvalidValue, "cuMemPoolDestroy", standard)
}
