package cpu

import (
	"math"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// imported is memory that came from elsewhere.
type imported struct {
	device *device
	owner  core.Owner // may be nil
	freed  atomic.Bool
}

var _ core.OrderedOwner = (*imported)(nil)

// adopt makes size bytes at addr memory of the device that owns owner; on failure
// owner stays the caller's.
func (d *device) adopt(call string, addr uintptr, size int64, owner core.Owner) (core.Memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return core.Memory{}, closedDevice(call)
	}
	d.addMemory()
	return core.Memory{ID: core.CPU, Device: d, Handle: addr, Size: size, Owner: &imported{device: d, owner: owner}}, nil
}

// Free gives the memory back to whom it came from. Another call does nothing.
func (i *imported) Free() {
	if i.freed.Swap(true) {
		return
	}
	if i.owner != nil {
		i.owner.Free()
	}
	i.device.mu.Lock()
	defer i.device.mu.Unlock()
	i.device.dropMemory()
}

// FreeAfter gives the memory back when pending is done.
func (i *imported) FreeAfter(pending []core.Event) { i.device.reaper.After(pending, i.Free) }

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
