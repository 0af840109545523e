package cudalike

import (
	"context"
	"os"

	"github.com/dlx-go/dlx/core"
)

// HostAlignment is the size of a page, which is what the driver registers.
func (*device) HostAlignment() int64 { return int64(os.Getpagesize()) }

// MapHost registers the memory with the driver, on a device that has
// its memory in common with the host: a card would read it over the bus each time. It fails with
// core.ErrInvalid for memory that is registered already, by whomever: ImportPointer
// takes that.
func (d *device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	return d.Map(ctx, host, func(m core.Memory) (core.Memory, error) { return d.mapHost("MapHost", host, m) })
}

// mapHost maps m, the memory of host.
func (d *device) mapHost(call string, host *core.Buffer, m core.Memory) (core.Memory, error) {
	if err := d.hold(call); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	if m.Size == 0 {
		return d.handOut(d.ID(), 0, 0, d.after(host.Release)), nil
	}
	first := m.Handle + uintptr(m.Offset)
	address, s := d.context.MapHost(first, m.Size)
	if err := d.check(s, "%d bytes of the host at %#x", m.Size, first); err != nil {
		return core.Memory{}, err
	}
	mapped := d.handOut(d.ID(), address, m.Size, d.after(func() {
		_ = d.check(d.context.UnmapHost(first), "%d bytes of the host at %#x", m.Size, first)
		host.Release()
	}))
	mapped.Host = first
	return mapped, nil
}
