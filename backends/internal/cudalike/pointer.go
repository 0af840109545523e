package cudalike

import (
	"math"

	"github.com/dlx-go/dlx/core"
)

// ImportPointer takes memory that any library allocated by the API in this process: of the
// device, also from a pool or mapped, in the device's primary context; pinned, or registered
// host memory; managed memory. The driver tells what it is: the result's ID is that of the
// device, or of pinned or managed memory. Host memory that was registered may be given by
// either of its addresses; the result has that of the host.
//
// Beside what [core.PointerImporter] says, it fails with ErrInvalid for memory that was
// freed, as far as the driver knows, for reserved addresses that nothing is mapped
// to, and for memory of another context, memory of the host that was registered in
// one among it, and with ErrDevice for memory of another device.
// A size of 0 may have any address.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	if err := d.hold(call); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	id := d.ID()
	switch {
	case size < 0:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "size is %d bytes", size)
	case uint64(size) > math.MaxUint-uint64(p):
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "%d bytes from %#x on leave the address space", size, p)
	case size > 0:
		var err error
		if id, p, err = d.identify(call, p, size); err != nil {
			return core.Memory{}, err
		}
	}
	return d.handOut(id, p, size, d.after(core.Memory{Owner: owner}.Free)), nil
}

// identify says where size bytes from p on lie, and at which address they are used.
func (d *device) identify(call string, p uintptr, size int64) (core.DeviceID, uintptr, error) {
	fail := func(sentinel error, format string, args ...any) (core.DeviceID, uintptr, error) {
		return core.DeviceID{}, 0, d.Errorf(sentinel, call, format, args...)
	}
	a, s := d.context.Pointer(p)
	if err := d.check(s, "of %#x", p); err != nil {
		return core.DeviceID{}, 0, err
	}
	id, at := d.ID(), p
	switch {
	case a.Managed && d.backend.Managed != 0:
		id = core.DeviceID{Type: d.backend.Managed}
	case a.Type == HostMemory:
		if id, at = (core.DeviceID{Type: d.backend.Host}), a.Host; !d.reaches(a) {
			return fail(core.ErrInvalid, "%#x is memory of the host that another context has registered, perhaps for itself alone: import it by that one's device", p)
		}
	case a.Type != DeviceMemory:
		return fail(core.ErrInvalid, "%#x is not memory of %s, or was freed: memory of the host must be pinned or registered with the driver", p, d.backend.API)
	case a.Device != d.ordinal:
		return fail(core.ErrDevice, "%#x is memory of %v:%d: import it through that device", p, d.backend.Device, a.Device)
	case a.Context != 0 && a.Context != d.context.ID():
		return fail(core.ErrInvalid, "%#x belongs to another context of %v than the primary one, which dlx uses", p, id)
	}
	if before := int64(p - a.Start); a.Size != 0 && size > a.Size-before { // Size is 0 where the driver does not tell
		return fail(core.ErrInvalid, "%d bytes from %#x on leave the allocation, which has %d bytes from %#x on", size, p, a.Size, a.Start)
	}
	if a.Context == 0 && id == d.ID() {
		return id, at, d.checkMapped(call, p, size)
	}
	return id, at, nil
}

// checkMapped proves that addresses which were reserved apart from their memory are all
// mapped: by one piece of memory or by several, as growing allocations are.
func (d *device) checkMapped(call string, p uintptr, size int64) error {
	for at := p; at < p+uintptr(size); {
		start, mapped, s := d.context.Mapping(at)
		if s.Kind == NotFound || s.Kind == BadValue || s.OK() && start+uintptr(mapped) <= at {
			return d.Errorf(core.ErrInvalid, call, "%d bytes from %#x on are reserved addresses, to which nothing is mapped at %#x", size, p, at)
		}
		if err := d.check(s, "of %#x", at); err != nil {
			return err
		}
		at = start + uintptr(mapped)
	}
	return nil
}
