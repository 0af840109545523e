//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// push makes a device's primary context current until the test ends, above the one that is.
func push(t *testing.T, d *gpusimtest.Driver, device int) (ctx uint64) {
	t.Helper()
	d.OK("cuDevicePrimaryCtxRetain", &ctx, device)
	d.OK("cuCtxPushCurrent_v2", ctx)
	t.Cleanup(func() {
		d.OK("cuCtxPopCurrent_v2", nil)
		d.OK("cuDevicePrimaryCtxRelease_v2", device)
	})
	return ctx
}

// "Primary Context Management", cuDevicePrimaryCtxRelease: the last release destroys the
// context, and "all resources and memory" go with it.
func TestMemoryEndsWithItsContext(t *testing.T) {
	d := gpusimtest.Start(t)
	var ctx, first, ptr, free, after, total uint64
	d.OK("cuDevicePrimaryCtxRetain", &ctx, 1)
	d.OK("cuCtxPushCurrent_v2", ctx)
	d.OK("cuMemGetInfo_v2", &free, &total)
	d.OK("cuCtxPopCurrent_v2", &first)
	before := d.Live()

	d.OK("cuCtxPushCurrent_v2", ctx)
	d.OK("cuMemAlloc_v2", &ptr, 3*page)
	d.OK("cuMemAllocManaged", &ptr, page, 1)
	d.OK("cuMemHostAlloc", &ptr, page, 0)
	d.OK("cuCtxPopCurrent_v2", &first)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxPushCurrent_v2", ctx)

	d.OK("cuDevicePrimaryCtxRetain", &ctx, 1)
	if now := d.Live(); now != before {
		t.Errorf("open after the context ended:\n%s\nbefore:\n%s", now, before)
	}
	d.OK("cuCtxPushCurrent_v2", ctx)
	d.OK("cuMemGetInfo_v2", &after, &total)
	if after != free {
		t.Errorf("%d bytes are free, before %d", after, free)
	}
	d.OK("cuCtxPopCurrent_v2", &first)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
}

// "Context Management", cuCtxDestroy: "If ctx is current to other threads, then ctx will remain current to those
// threads, and attempting to access ctx from those threads will result in the error CUDA_ERROR_CONTEXT_IS_DESTROYED."
func TestADestroyedContextStaysCurrentAndIsOfNoUse(t *testing.T) {
	d := gpusimtest.Start(t)
	var ctx, now, ptr uint64
	d.OK("cuCtxCreate_v2", &ctx, 0, 0)
	d.Run(t, "another thread", func(_ *testing.T, d *gpusimtest.Driver) {
		d.OK("cuCtxSetCurrent", ctx)
		d.OK("cuCtxDestroy_v2", ctx)
		d.Want(gpusimtest.InvalidContext, "cuCtxPopCurrent_v2", nil) // where it was destroyed it was popped
	})
	d.Want(gpusimtest.ContextIsDestroyed, "cuMemAlloc_v2", &ptr, 1)
	d.OK("cuCtxPopCurrent_v2", &now)
	if now != ctx {
		t.Errorf("%#x was current, want %#x", now, ctx)
	}
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxSetCurrent", ctx)
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxPushCurrent_v2", ctx)
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxDestroy_v2", ctx)
	d.Want(gpusimtest.InvalidContext, "cuCtxDestroy_v2", d.Context())
}

// "Primary Context Management", cuDevicePrimaryCtxRetain: "the primary context on the device", which all have.
func TestADeviceHasOnePrimaryContext(t *testing.T) {
	d := gpusimtest.Start(t)
	var other uint64
	ctx := push(t, d, 1)
	d.OK("cuDevicePrimaryCtxRetain", &other, 1)
	if other != ctx {
		t.Error("the device has two primary contexts")
	}
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
}
