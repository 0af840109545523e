package cpu

import (
	"math"

	"github.com/dlx-go/dlx/core"
)

// newMemory returns size bytes at addr as memory of the device that owns owner. If it fails, owner stays the
// caller's.
func (d *device) newMemory(call string, addr uintptr, size int64, owner core.Owner) (core.Memory, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	return d.HandOut(core.Memory{ID: core.CPU, Handle: addr, Size: size}, nil, core.Memory{Owner: owner}.Free), nil
}

var _ core.PointerImporter = (*device)(nil)

// ImportPointer takes any host memory. It cannot check that the memory is mapped. It fails with ErrInvalid if
// p is NULL, if size is negative, or if the range ends beyond the address space. If size is 0, p is ignored.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	switch {
	case size < 0:
		return core.Memory{}, core.Errorf(core.ErrInvalid, "cpu", "ImportPointer", "size is %d bytes", size)
	case p == 0 && size > 0:
		return core.Memory{}, core.Errorf(core.ErrInvalid, "cpu", "ImportPointer", "p is NULL, but size is %d bytes", size)
	case uint64(size) > math.MaxUint-uint64(p):
		return core.Memory{}, core.Errorf(core.ErrInvalid, "cpu", "ImportPointer", "%d bytes from %#x on exceed the address space", size, p)
	}
	return d.newMemory("ImportPointer", p, size, owner)
}
