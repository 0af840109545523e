package coretest

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// opaqueDevice is a device whose memory has handles, with what those of its kind
// offer besides.
type opaqueDevice struct{ *Device }

var (
	_ core.HostViewer     = opaqueDevice{}
	_ core.StreamImporter = opaqueDevice{}
)

// page is the unit in which opaque devices map and export memory.
const page = 4096

// HostAlignment is a page. MapHost maps the pages around other memory.
func (opaqueDevice) HostAlignment() int64 { return page }

// MapHost makes an object of the pages that host touches.
func (d opaqueDevice) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	if err := d.call("MapHost"); err != nil {
		return core.Memory{}, err
	}
	if host == nil {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "MapHost", "host is nil")
	}
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
	handle := d.backend.objects.add(object{device: d.Device, address: address - uintptr(skip), size: size})
	return d.own(handle, skip, m.Size, func() {
		d.backend.objects.remove(handle)
		host.Release()
	}), nil
}

// HostView shows memory that was allocated with AllocOptions.HostVisible, and no other.
func (d opaqueDevice) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	if err := d.call("HostView"); err != nil {
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
	return core.Memory{ID: core.CPU, Handle: x.address + uintptr(m.Offset), Size: m.Size, Owner: core.FreeFunc(b.Release)}, nil
}

// ImportStream returns a [*Stream] on the work of an open one.
func (d opaqueDevice) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	if err := d.call("ImportStream"); err != nil {
		return nil, err
	}
	of := d.backend.scheduler.find(d.Device, native)
	if of == nil {
		return nil, d.backend.errorf(core.ErrInvalid, "ImportStream", "%#x is no stream of %v", native, d.id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams++
	liveStreams.Add(1)
	return &Stream{device: d.Device, native: native, of: of}, nil
}
