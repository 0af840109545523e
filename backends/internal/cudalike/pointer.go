package cudalike

import (
	"cmp"
	"math"

	"github.com/dlx-go/dlx/core"
)

// ImportPointer imports memory that any library allocated in this process by the API:
//
//   - memory of the device in its primary context, also from a pool or mapped by virtual memory management;
//   - pinned host memory, allocated or registered;
//   - managed memory.
//
// Memory of the host that is mapped by virtual memory management becomes memory of the device. The host has it, but
// cannot use it unless the library gave it access.
//
// The ID of the result is that of the memory's type, which the driver knows. Registered host memory has an
// address for the host and one for the device; ImportPointer takes both and returns that of the host. If size
// is 0, p can be any address.
//
// Besides the errors of [core.PointerImporter], ImportPointer fails with ErrInvalid for memory that the driver
// knows to be freed, for reserved addresses without mapped memory, for mapped memory that the device has no access to,
// and for memory of another context, including host memory that was registered there. It fails with ErrDevice for
// memory of another device.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	if err := d.Hold(call); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	m := core.Memory{ID: d.ID(), Handle: p, Size: size}
	switch {
	case size < 0:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "size is %d bytes", size)
	case uint64(size) > math.MaxUint-uint64(p):
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "%d bytes at %#x exceed the address space", size, p)
	case size > 0:
		var err error
		if m, err = d.identify(call, p, size, 0); err != nil {
			return core.Memory{}, err
		}
	}
	return d.handOut(m, core.Memory{Owner: owner}.Free), nil
}

// identify describes the size bytes at p: whose memory they are, the address by which dlx uses them, and the address for
// the host as far as the device has views for it. said is the type that another library says that the memory has, or 0.
func (d *device) identify(call string, p uintptr, size int64, said core.DeviceType) (core.Memory, error) {
	fail := func(sentinel error, format string, args ...any) (core.Memory, error) {
		return core.Memory{}, d.Errorf(sentinel, call, format, args...)
	}
	a, s := d.context.Pointer(p)
	if err := d.check(s, "the memory at %#x", p); err != nil {
		return core.Memory{}, err
	}
	id, at, mapped := d.ID(), p, a.Context == 0 && !a.Pool
	switch {
	case a.Managed && d.backend.Managed != 0:
		id, mapped = core.DeviceID{Type: d.backend.Managed}, false
	case a.Type == HostMemory && mapped:
		if said == d.backend.Host {
			id = core.DeviceID{Type: said} // the library knows that the host has access
		}
	case a.Type == HostMemory:
		if id, at = (core.DeviceID{Type: d.backend.Host}), cmp.Or(a.Host, p); !d.pinsForThis(a) {
			return fail(core.ErrInvalid, "%#x is host memory that another context has registered, perhaps only for itself: import it through that context's device", p)
		}
	case a.Type != DeviceMemory:
		return fail(core.ErrInvalid, "%#x is not memory of %s, or was freed: host memory must be pinned or registered with the driver", p, d.backend.API)
	case a.Device != d.ordinal:
		return fail(core.ErrDevice, "%#x is memory of %v:%d: import it through that device", p, d.backend.Device, a.Device)
	case a.Context != 0 && a.Context != d.context.ID():
		return fail(core.ErrInvalid, "%#x belongs to another context of %v than the primary context, which dlx uses", p, id)
	}
	m := core.Memory{ID: id, Handle: at, Size: size}
	if mapped {
		return m, d.checkMapped(call, p, size)
	}
	if before := int64(p - a.Start); a.Size != 0 && size > a.Size-before { // Size is 0 if the driver does not know it
		return fail(core.ErrInvalid, "%d bytes at %#x exceed the allocation, which has %d bytes at %#x", size, p, a.Size, a.Start)
	}
	if a.Managed && d.hostView() {
		m.Host = p
	}
	return m, nil
}

// checkMapped fails unless memory that the device may use is mapped to all of the addresses. There may be several
// mappings: libraries let an allocation grow by mapping more memory behind it.
func (d *device) checkMapped(call string, p uintptr, size int64) error {
	for at := p; at < p+uintptr(size); {
		start, mapped, s := d.context.Mapping(at)
		if s.Kind == NotFound || s.Kind == BadValue || s.OK() && start+uintptr(mapped) <= at {
			return d.Errorf(core.ErrInvalid, call, "%d bytes at %#x are reserved addresses, and no memory is mapped to %#x", size, p, at)
		}
		if err := d.check(s, "the mapping at %#x", at); err != nil {
			return err
		}
		if !d.context.HasAccess(d.ordinal, at) {
			return d.Errorf(core.ErrInvalid, call, "%v has no access to the memory that is mapped to %#x", d.ID(), at)
		}
		at = start + uintptr(mapped)
	}
	return nil
}
