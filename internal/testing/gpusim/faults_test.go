//go:build linux && cgo

package gpusim_test

import (
	"testing"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// failNext has the next call of a function fail.
func failNext(d *gpusimtest.Driver, call string, code gpusimtest.Result) {
	name := append([]byte(call), 0)
	d.Call("dlx_gpusim_fail", &name[0], 1, int(code))
}

// A call that gives something up does so also where it reports a failure: "this function
// may also return error codes from previous, asynchronous launches".
func TestWhatFailsToReleaseReleases(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	for _, c := range []struct {
		call  string
		setUp func() []any
	}{
		{"cuMemRelease", func() []any {
			var h uint64
			d.OK("cuMemCreate", &h, granularity, pinned(), 0)
			return []any{h}
		}},
		{"cuMemAddressFree", func() []any {
			var p uint64
			d.OK("cuMemAddressReserve", &p, granularity, 0, 0, 0)
			return []any{p, granularity}
		}},
		{"cuMemUnmap", func() []any {
			var p uint64
			d.OK("cuMemAddressReserve", &p, granularity, 0, 0, 0)
			t.Cleanup(func() { d.OK("cuMemAddressFree", p, granularity) })
			d.OK("cuMemMap", p, granularity, 0, handle, 0)
			return []any{p, granularity}
		}},
		{"cuDestroyExternalMemory", func() []any {
			var m uint64
			d.OK("cuImportExternalMemory", &m, &externalHandle{kind: opaqueFD, fd: int32(lavapipeFile(t, page)), size: page})
			return []any{m}
		}},
		{"cuDestroyExternalSemaphore", func() []any {
			var s uint64
			d.OK("cuImportExternalSemaphore", &s, &externalSemaphore{kind: timelineFD, fd: int32(d.Call("dlx_gpusim_timeline_new"))})
			return []any{s}
		}},
	} {
		args := c.setUp()
		failNext(d, c.call, gpusimtest.OperatingSystem)
		d.Want(gpusimtest.OperatingSystem, c.call, args...)
		if r := d.Result(c.call, args...); r == gpusimtest.Success {
			t.Errorf("%s releases twice", c.call)
		}
		d.Call("dlx_gpusim_clear_misuse")
	}
}
