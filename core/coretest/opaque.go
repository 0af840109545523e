package coretest

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// page is the unit in bytes in which opaque devices map and export memory.
const page = 4096

// require is call, but also returns core.ErrNotSupported if the device lacks a capability.
func (d *Device) require(want core.Capabilities, call string) error {
	p := d.Properties()
	if err := p.Require(want, call); err != nil {
		return err
	}
	return d.call(call)
}

// mapPages is MapHost of an opaque device.
func (d *Device) mapPages(host *core.Buffer) (core.Memory, error) {
	m := host.Memory()
	if !m.ID.Type.HostAccessible() || m.Size == core.UnknownSize {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "MapHost", "%d bytes on %v: only memory of known size on the host can be mapped", m.Size, m.ID)
	}
	if err := host.Retain(); err != nil {
		return core.Memory{}, err
	}
	address := m.Handle + uintptr(m.Offset)
	skip := int64(address % page)
	size := (skip + m.Size + page - 1) &^ (page - 1)
	handle := d.backend.objects.add(object{device: d, address: address - uintptr(skip), size: size})
	mapped := d.own(handle, skip, m.Size, func() {
		d.backend.objects.remove(handle)
		host.Release()
	})
	mapped.Origin = m.OriginType()
	return mapped, nil
}

// HostView returns the host's view of memory that was allocated with
// AllocOptions.HostVisible. It returns core.ErrNotSupported for other memory.
func (d *Device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	if err := d.require(core.CapHostView, "HostView"); err != nil {
		return core.Memory{}, err
	}
	if b == nil {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "HostView", "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return core.Memory{}, err
	}
	m := b.Memory()
	x, ok := d.backend.objects.find(m.Handle)
	switch {
	case m.ID != d.id || !ok:
		b.Release()
		return core.Memory{}, d.backend.errorf(core.ErrDevice, "HostView", "memory on %v is not of this device", m.ID)
	case !x.visible:
		b.Release()
		return core.Memory{}, d.backend.errorf(core.ErrNotSupported, "HostView", "the memory was not allocated with AllocOptions.HostVisible")
	}
	return core.Memory{ID: core.CPU, Handle: x.address + uintptr(m.Offset), Size: m.Size, Origin: m.OriginType(), Owner: core.FreeFunc(b.Release)}, nil
}

// ImportStream returns a [*Stream] that uses the queue of an open stream, given by its native
// handle.
func (d *Device) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	if err := d.require(core.CapImportStream, "ImportStream"); err != nil {
		return nil, err
	}
	of := d.backend.scheduler.find(d, native)
	if of == nil {
		return nil, d.backend.errorf(core.ErrInvalid, "ImportStream", "%#x is not a stream of %v", native, d.id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams++
	liveStreams.Add(1)
	return &Stream{device: d, native: native, of: of}, nil
}
