//go:build linux && cgo

package gpusim_test

import (
	"runtime"
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

// Values of CUmemPool_attribute: how many bytes.
const (
	threshold    = 4 // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
	reservedNow  = 5 // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
	reservedHigh = 6
	usedNow      = 7 // CU_MEMPOOL_ATTR_USED_MEM_CURRENT
	usedHigh     = 8
)

// wantPool fails unless attributes of a pool are as wanted.
func wantPool(t *testing.T, d *gpusimtest.Driver, pool uint64, when string, want map[int]uint64) {
	t.Helper()
	for name, bytes := range want {
		var n uint64
		d.OK("cuMemPoolGetAttribute", pool, name, &n)
		if n != bytes {
			t.Errorf("%s: attribute %d is %d, want %d", when, name, n, bytes)
		}
	}
}

// cuMemPoolSetAttribute: what the pool holds beyond CU_MEMPOOL_ATTR_RELEASE_THRESHOLD goes back "on the next call to
// stream, event or context synchronize"; cuMemPoolTrimTo; the high watermarks, which are reset by zero only.
func TestAPoolKeepsMemoryUpToItsThreshold(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, event := d.NewStream(), newEvent(t, d, 2)
	pool := newPool(d, 0)
	defer d.OK("cuMemPoolDestroy", pool)
	free := func() (n uint64) {
		var total uint64
		d.OK("cuMemGetInfo_v2", &n, &total)
		return n
	}
	before := free()
	for _, c := range []struct {
		name        string
		synchronise func()
	}{
		{"a stream", func() { d.OK("cuStreamSynchronize", stream) }},
		{"an event", func() { d.OK("cuEventSynchronize", event) }},
		{"the context", func() { d.OK("cuCtxSynchronize") }},
	} {
		var first, second uint64
		d.OK("cuMemAllocFromPoolAsync", &first, 2*page, pool, stream)
		d.OK("cuMemAllocFromPoolAsync", &second, page, pool, stream)
		d.OK("cuMemFreeAsync", first, stream)
		for d.Result("cuStreamQuery", stream) != gpusimtest.Success { // which does not synchronise
			runtime.Gosched()
		}
		wantPool(t, d, pool, "before "+c.name+" is synchronised", map[int]uint64{usedNow: page, reservedNow: 3 * page})
		if n := before - free(); n != 3*page {
			t.Errorf("the device has %d bytes less", n)
		}
		c.synchronise()
		wantPool(t, d, pool, "after "+c.name, map[int]uint64{
			usedNow: page, reservedNow: page, usedHigh: 3 * page, reservedHigh: 3 * page,
		})
		d.OK("cuMemFreeAsync", second, stream)
		d.OK("cuStreamSynchronize", stream)
	}

	keep, zero, one := uint64(2*page), uint64(0), uint64(1)
	d.OK("cuMemPoolSetAttribute", pool, threshold, &keep)
	var ptr uint64
	d.OK("cuMemAllocFromPoolAsync", &ptr, 3*page, pool, stream)
	d.OK("cuMemFreeAsync", ptr, stream)
	d.OK("cuStreamSynchronize", stream)
	wantPool(t, d, pool, "with a threshold", map[int]uint64{usedNow: 0, reservedNow: keep, threshold: keep})
	d.OK("cuMemAllocFromPoolAsync", &ptr, page, pool, stream)
	wantPool(t, d, pool, "when kept memory is used again", map[int]uint64{usedNow: page, reservedNow: keep})
	d.OK("cuMemPoolTrimTo", pool, page/2)
	wantPool(t, d, pool, "trimmed to less than is in use", map[int]uint64{reservedNow: page})
	d.Want(gpusimtest.InvalidValue, "cuMemPoolSetAttribute", pool, usedHigh, &one)
	d.Want(gpusimtest.InvalidValue, "cuMemPoolSetAttribute", pool, reservedNow, &zero)
	d.OK("cuMemPoolSetAttribute", pool, usedHigh, &zero)
	d.OK("cuMemPoolSetAttribute", pool, reservedHigh, &zero)
	wantPool(t, d, pool, "after a reset", map[int]uint64{usedHigh: page, reservedHigh: page})
	d.OK("cuMemFreeAsync", ptr, stream)
	d.OK("cuStreamSynchronize", stream)
	d.OK("cuMemPoolTrimTo", pool, 0)
	if n := free(); n != before {
		t.Errorf("the device has %d bytes less at the end", before-n)
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
	wantPool(t, d, pool, "full", map[int]uint64{usedNow: 2 * page})
	d.OK("cuMemFree_v2", first)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemFree_v2", first)
	d.OK("cuMemAllocFromPoolAsync", &third, page, pool, stream)
	d.OK("cuMemFreeAsync", second, stream)
	d.OK("cuMemFreeAsync", third, stream)
	d.OK("cuStreamSynchronize", stream)
	wantPool(t, d, pool, "at the end", map[int]uint64{usedNow: 0})
}

// cuMemPoolSetAccess: other devices reach a pool's memory by this, and not by cuCtxEnablePeerAccess.
func TestAPoolGivesAccessToOtherDevices(t *testing.T) {
	d := gpusimtest.Start(t)
	pool := newPool(d, 0)
	defer d.OK("cuMemPoolDestroy", pool)
	other := access{location{1, 1}, readWrite}
	d.OK("cuMemPoolSetAccess", pool, &other, 1)
	var flags int32
	for device, want := range []int32{readWrite, readWrite} {
		d.OK("cuMemPoolGetAccess", &flags, pool, &location{1, int32(device)})
		if flags != want {
			t.Errorf("device %d has access %d", device, flags)
		}
	}
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
