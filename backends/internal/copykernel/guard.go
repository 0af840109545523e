package copykernel

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
)

// guarded has f do all or some of a copy, whose offsets count in units of so many bits
// from dst and src. It fails with core.ErrInvalid if memory of the copy is not there.
// A fault at another address is a mistake of this package, and goes on.
func guarded(dst, src unsafe.Pointer, unit int64, c strided.Copy, f func()) error {
	gone := memfault.Guard(func(address uintptr) bool {
		r := c.Range()
		return reaches(dst, r.DstLow, r.DstHigh, unit, address) || reaches(src, r.SrcLow, r.SrcHigh, unit, address)
	}, f)
	if gone != nil {
		return core.Errorf(core.ErrInvalid, "host", "Copy", "%v", gone)
	}
	return nil
}

// reaches reports whether the units from low to high behind base have a part in the
// byte at an address.
func reaches(base unsafe.Pointer, low, high, unit int64, address uintptr) bool {
	first, end := low*unit>>3, (high*unit+7)>>3
	return memfault.Between(uintptr(base)+uintptr(first), uintptr(end-first))(address)
}
