package cpu

import (
	"math"

	"github.com/dlx-go/dlx/core"
)

// adopt makes size bytes at addr memory of the device that owns owner; on failure
// owner stays the caller's.
func (d *device) adopt(call string, addr uintptr, size int64, owner core.Owner) (core.Memory, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	return d.HandOut(core.Memory{ID: core.CPU, Handle: addr, Size: size}, nil, core.Memory{Owner: owner}.Free), nil
}

var _ core.PointerImporter = (*device)(nil)

// ImportPointer takes any host memory. That it is mapped cannot be told, only
// that the range is one: it fails with ErrInvalid if p is NULL, size is negative
// or the end lies beyond the address space; a size of 0 may have any address.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	switch {
	case size < 0:
		return core.Memory{}, core.Errorf(core.ErrInvalid, "cpu", "ImportPointer", "size is %d bytes", size)
	case p == 0 && size > 0:
		return core.Memory{}, core.Errorf(core.ErrInvalid, "cpu", "ImportPointer", "p is NULL, but size is %d bytes", size)
	case uint64(size) > math.MaxUint-uint64(p):
		return core.Memory{}, core.Errorf(core.ErrInvalid, "cpu", "ImportPointer", "%d bytes from %#x on leave the address space", size, p)
	}
	return d.adopt("ImportPointer", p, size, owner)
}
