package hostcopy

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
)

// guarded calls f, which does all or part of a copy whose offsets count from dst and src, in units of so many
// bits. It fails with core.ErrInvalid if memory of the copy has vanished. A fault at another address is a
// defect of this package and stays a panic.
func guarded(dst, src unsafe.Pointer, unit int64, c copyplan.Copy, f func()) error {
	gone := memfault.Guard(func(address uintptr) bool {
		r := c.Range()
		return reaches(dst, r.DstLow, r.DstHigh, unit, address) || reaches(src, r.SrcLow, r.SrcHigh, unit, address)
	}, f)
	if gone != nil {
		return core.Errorf(memfault.Wrap(core.ErrInvalid, gone), "host", "Copy", "%v", gone)
	}
	return nil
}

// reaches reports whether the units from low to high after base include a part of the byte at an address.
func reaches(base unsafe.Pointer, low, high, unit int64, address uintptr) bool {
	first, end := low*unit>>3, (high*unit+7)>>3
	return memfault.Between(uintptr(base)+uintptr(first), uintptr(end-first))(address)
}
