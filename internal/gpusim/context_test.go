//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/gpusim/gpusimtest"
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
	var own, ctx, now, ptr uint64
	d.OK("cuCtxGetCurrent", &own)
	d.OK("cuCtxCreate_v2", &ctx, 0, 0)
	d.Run(t, "another thread", func(_ *testing.T, d *gpusimtest.Driver) {
		d.OK("cuCtxSetCurrent", ctx)
		d.OK("cuCtxDestroy_v2", ctx)
		d.OK("cuCtxGetCurrent", &now)
		if now == ctx {
			t.Error("the context was not popped where it was destroyed")
		}
	})
	d.OK("cuCtxGetCurrent", &now)
	if now != ctx {
		t.Errorf("%#x is current, want %#x", now, ctx)
	}
	d.Want(gpusimtest.ContextIsDestroyed, "cuMemAlloc_v2", &ptr, 1)
	d.OK("cuCtxPopCurrent_v2", nil)
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxSetCurrent", ctx)
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxPushCurrent_v2", ctx)
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxDestroy_v2", ctx)
	d.Want(gpusimtest.InvalidContext, "cuCtxDestroy_v2", own)
}

// "Context Management", "Primary Context Management": what a context tells of itself.
func TestAContextKnowsItsProperties(t *testing.T) {
	const blockingSync = 4 // CU_CTX_SCHED_BLOCKING_SYNC
	d := gpusimtest.Start(t)
	var version, flags uint32
	var device, least, greatest, active int32
	var ctx, other uint64
	d.OK("cuCtxGetApiVersion", nil, &version)
	d.OK("cuCtxGetStreamPriorityRange", &least, &greatest)
	d.OK("cuCtxGetDevice", &device)
	if version != 3020 || least != 0 || greatest != -5 || device != 0 {
		t.Errorf("version %d, priorities %d to %d, device %d", version, least, greatest, device)
	}

	d.OK("cuDevicePrimaryCtxGetState", 1, &flags, &active)
	if flags != 0 || active != 0 {
		t.Errorf("flags %d, active %d before anybody retains it", flags, active)
	}
	d.OK("cuDevicePrimaryCtxSetFlags_v2", 1, blockingSync)
	d.Want(gpusimtest.InvalidValue, "cuDevicePrimaryCtxSetFlags_v2", 1, 1<<20)
	d.Want(gpusimtest.InvalidDevice, "cuDevicePrimaryCtxSetFlags_v2", 9, 0)
	ctx = push(t, d, 1)
	d.OK("cuDevicePrimaryCtxGetState", 1, nil, &active)
	d.OK("cuCtxGetFlags", &flags)
	if active != 1 || flags != blockingSync {
		t.Errorf("flags %d, active %d", flags, active)
	}
	d.OK("cuDevicePrimaryCtxSetFlags_v2", 1, 0)
	d.OK("cuDevicePrimaryCtxRetain", &other, 1)
	if other != ctx {
		t.Error("the device has two primary contexts")
	}
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
}

// cuDevicePrimaryCtxReset "destroys and cleans up all resources associated with the current device in the current
// process", whoever retains the context.
func TestAResetEndsAContextForAll(t *testing.T) {
	d := gpusimtest.Start(t)
	before := d.Live()
	var ctx, ptr uint64
	d.OK("cuDevicePrimaryCtxRetain", &ctx, 1)
	d.OK("cuCtxPushCurrent_v2", ctx)
	d.OK("cuMemAlloc_v2", &ptr, page)
	d.OK("cuDevicePrimaryCtxReset_v2", 1)
	d.Want(gpusimtest.ContextIsDestroyed, "cuMemFree_v2", ptr)
	d.OK("cuCtxPopCurrent_v2", nil)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
	if now := d.Live(); now != before {
		t.Errorf("open after it:\n%s\nbefore:\n%s", now, before)
	}
	d.OK("cuDevicePrimaryCtxReset_v2", 1)
	d.Want(gpusimtest.InvalidDevice, "cuDevicePrimaryCtxReset_v2", 9)
}
