//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// free is how much memory the device of the current context has left.
func free(d *driver) (n uint64) {
	var total uint64
	d.OK("cuMemGetInfo_v2", &n, &total)
	return n
}

// "Primary Context Management", cuDevicePrimaryCtxRetain: "the primary context on the device", which all have.
// cuDevicePrimaryCtxRelease: the last release destroys it, and "all resources and memory" go with it.
func TestMemoryEndsWithItsContext(t *testing.T) {
	d := gpusimtest.Start(t)
	ctx := d.New("cuDevicePrimaryCtxRetain", 1)
	equal(t, "the second primary context of the device", d.New("cuDevicePrimaryCtxRetain", 1), ctx)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
	d.OK("cuCtxPushCurrent_v2", ctx)
	left, before := free(d), d.Live()
	d.New("cuMemAlloc_v2", 3*page)
	d.New("cuMemAllocManaged", page, 1)
	d.New("cuMemHostAlloc", page, 0)
	d.OK("cuCtxPopCurrent_v2", nil)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
	d.WantMisuse(gpusimtest.InvalidContext, "cuCtxPushCurrent_v2", ctx)

	push(t, d, 1)
	equal(t, "the open objects", d.Live(), before)
	equal(t, "the free memory", free(d), left)
}

// "Context Management", cuCtxDestroy: "If ctx is current to other threads, then ctx will remain current to those
// threads, and attempting to access ctx from those threads will result in the error CUDA_ERROR_CONTEXT_IS_DESTROYED."
func TestADestroyedContextStaysCurrentAndIsOfNoUse(t *testing.T) {
	d := gpusimtest.Start(t)
	ctx, now := d.New("cuCtxCreate_v2", 0, 0), uint64(0)
	d.Run(t, "another thread", func(_ *testing.T, d *driver) {
		d.OK("cuCtxSetCurrent", ctx)
		d.OK("cuCtxDestroy_v2", ctx)
		d.Want(gpusimtest.InvalidContext, "cuCtxPopCurrent_v2", nil) // where it was destroyed it was popped
	})
	d.Want(gpusimtest.ContextIsDestroyed, "cuMemAlloc_v2", &now, 1)
	d.OK("cuCtxPopCurrent_v2", &now)
	equal(t, "the current context", now, ctx)
	for _, call := range []string{"cuCtxSetCurrent", "cuCtxPushCurrent_v2", "cuCtxDestroy_v2"} {
		d.WantMisuse(gpusimtest.InvalidContext, call, ctx)
	}
	d.Want(gpusimtest.InvalidContext, "cuCtxDestroy_v2", d.Context())
}

// "Error Checking": after an illegal access every call of the context reports it, until the context is destroyed.
func TestAFailedContextStaysFailed(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, event := d.New("cuStreamCreate", 1), d.New("cuEventCreate", 2)
	d.Call("dlx_gpusim_lose", 0)
	for range 2 {
		try(t, d, []attempt{
			{"memory", gpusimtest.IllegalAddress, "cuMemAlloc_v2", []any{new(uint64), 1}},
			{"the stream", gpusimtest.IllegalAddress, "cuStreamSynchronize", []any{stream}},
			{"an event", gpusimtest.IllegalAddress, "cuEventRecord", []any{event, stream}},
			{"the context", gpusimtest.IllegalAddress, "cuCtxSynchronize", nil},
		})
	}
	d.OK("cuStreamDestroy_v2", stream)
	d.OK("cuEventDestroy_v2", event)
	d.Renew()
	memory(t, d, 1)
}

// The nth call fails, once, with the code that was asked for.
func TestTheNthCallFails(t *testing.T) {
	d := gpusimtest.Start(t)
	d.Call("dlx_gpusim_fail", cText("cuStreamQuery"), 3, int(gpusimtest.OperatingSystem))
	for _, want := range []result{0, 0, gpusimtest.OperatingSystem, 0} {
		d.Want(want, "cuStreamQuery", legacy)
	}
}

// CUDA_ERROR_LAUNCH_FAILED and the like: "any further CUDA work will return the same error", also where a test asked for
// the first one, so that nothing which was enqueued runs any more.
func TestACallThatTellsOfTheEndIsTheEnd(t *testing.T) {
	const launchFailed result = 719
	d := gpusimtest.Start(t)
	stream, locked := d.New("cuStreamCreate", 1), d.New("cuMemHostAlloc", page, 0)
	release := d.Hold()
	fill(d, locked, 1, page, stream)
	d.Fail("cuStreamGetId", launchFailed)
	d.Want(launchFailed, "cuStreamGetId", stream, &stream)
	d.Want(launchFailed, "cuMemFreeHost", locked)
	d.Want(launchFailed, "cuStreamSynchronize", stream)
	release()
	d.Renew()
	memory(t, d, 1)
}

// A call that gives something up does so also where it reports a failure: "this function
// may also return error codes from previous, asynchronous launches".
func TestWhatFailsToReleaseReleases(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, mapped := d.New("cuMemAddressReserve", granularity, 0, 0, 0), d.New("cuMemAddressReserve", granularity, 0, 0, 0)
	defer d.OK("cuMemAddressFree", mapped, granularity)
	d.OK("cuMemMap", mapped, granularity, 0, create(t, d, granularity), 0)
	timeline := externalSemaphore{kind: timelineFD, fd: int32(d.Call("dlx_gpusim_timeline_new"))}
	for _, c := range []struct {
		call string
		args []any
	}{
		{"cuMemRelease", []any{d.New("cuMemCreate", granularity, pinned(), 0)}},
		{"cuMemAddressFree", []any{ptr, granularity}},
		{"cuMemUnmap", []any{mapped, granularity}},
		{"cuDestroyExternalMemory", []any{importMemory(d, lavapipeFile(t, page), page)}},
		{"cuDestroyExternalSemaphore", []any{d.New("cuImportExternalSemaphore", &timeline)}},
	} {
		d.Fail(c.call, gpusimtest.OperatingSystem)
		d.Want(gpusimtest.OperatingSystem, c.call, c.args...)
		if r := d.Result(c.call, c.args...); r == gpusimtest.Success {
			t.Errorf("%s releases twice", c.call)
		}
		d.Call("dlx_gpusim_clear_misuse")
	}
}

// What is destroyed or freed twice is found. With DLX_GPUSIM_REUSE handles and addresses may be used again at once, and
// nothing promises that they are not.
func TestTwiceIsMisuse(t *testing.T) {
	d := gpusimtest.Start(t)
	alone := runAlone(t, "DLX_GPUSIM_REUSE=1")
	for _, c := range []struct {
		make, end string
		args      []any
		want      result
	}{
		{"cuStreamCreate", "cuStreamDestroy_v2", []any{1}, gpusimtest.InvalidHandle},
		{"cuEventCreate", "cuEventDestroy_v2", []any{2}, gpusimtest.InvalidHandle},
		{"cuMemAlloc_v2", "cuMemFree_v2", []any{page}, gpusimtest.InvalidValue},
		{"cuMemHostAlloc", "cuMemFreeHost", []any{page, 0}, gpusimtest.InvalidValue},
	} {
		first := d.New(c.make, c.args...)
		d.OK(c.end, first)
		d.WantMisuse(c.want, c.end, first)
		if alone || c.make == "cuMemHostAlloc" {
			continue
		}
		again, other := d.New(c.make, c.args...), d.New(c.make, c.args...)
		if again != first || other == first {
			t.Errorf("%s gives %#x, then %#x and %#x", c.make, first, again, other)
		}
		d.OK(c.end, again)
		d.OK(c.end, other)
	}
}
