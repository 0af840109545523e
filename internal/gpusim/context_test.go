//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/gpusim/gpusimtest"
)

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
