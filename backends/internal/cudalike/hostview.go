package cudalike

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// hostView reports whether the device's own memory can be managed memory: where DLPack has no type for that.
func (d *device) hostView() bool { return d.managed && d.backend.Managed == 0 }

// HostView serves managed memory: that of Alloc with HostVisible, and imported pointers.
func (d *device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return d.View(ctx, b, func(m core.Memory) (uintptr, error) { return m.Host, d.CanView(m) })
}

// CanView refuses memory that is not managed.
func (d *device) CanView(m core.Memory) error {
	if m.Host == 0 {
		return d.Errorf(core.ErrNotSupported, "HostView", "the memory is the device's alone: allocate it with AllocOptions.HostVisible")
	}
	return nil
}
