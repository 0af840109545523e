package cudalike

import (
	"context"
	"os"

	"github.com/dlx-go/dlx/core"
)

// HostAlignment returns the size of a page: the driver registers whole pages.
func (*device) HostAlignment() int64 { return int64(os.Getpagesize()) }

// MapHost registers the memory with the driver. Only an integrated device, which shares the host's memory, has
// this: a card would read the memory over the bus each time. MapHost fails with ErrInvalid for memory that is
// already registered, by dlx or another library: use ImportPointer for it. What was mapped and released while a
// stream waits for a semaphore stays registered until the stream goes on.
func (d *device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	return d.Map(ctx, host, d.CanMap, func(m core.Memory) (core.Memory, error) { return d.mapHost("MapHost", host, m) })
}

// CanMap refuses memory that the host cannot write, if the driver registers only memory that the device may write.
func (d *device) CanMap(host core.Memory) error { return d.CheckMap(host, d.readOnlyHost) }

// mapHost maps m, the memory of the buffer host. On success it owns a reference to host.
func (d *device) mapHost(call string, host *core.Buffer, m core.Memory) (core.Memory, error) {
	if err := d.Hold(call); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	if m.Size == 0 {
		return d.handOut(core.Memory{ID: d.ID()}, host.Release), nil
	}
	first := m.Handle + uintptr(m.Offset)
	address, s := d.context.MapHost(first, m.Size, m.ReadOnly)
	if err := d.check(s, "%d bytes of host memory at %#x", m.Size, first); err != nil {
		return core.Memory{}, err
	}
	mapped := d.handOutToDrain(address, m.Size, func() {
		_ = d.check(d.context.UnmapHost(first), "%d bytes of host memory at %#x", m.Size, first)
	}, host.Release)
	mapped.Host = first
	return mapped, nil
}
