//go:build gl && linux && cgo

package gl

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Alloc makes a GL buffer for each memory, or takes one that was freed from the pool. The host can view it if
// HostVisible is requested or the renderer is a software renderer. Alloc fails with ErrNotSupported for Export,
// since OpenGL exports nothing.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, nil); err != nil {
		return core.Memory{}, err
	}
	visible := opts.HostVisible || d.info.software
	switch {
	case size < 0:
		return core.Memory{}, d.Errorf(core.ErrInvalid, "Alloc", "size is %d bytes", size)
	case size == 0:
		return d.newMemory("Alloc", &buffer{}, 0, 0, nil)
	case d.stop != nil:
		return d.allocPooled(size, visible)
	}
	if err := d.Hold("Alloc"); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	b, err := d.newBuffer(ctx, "Alloc", size, visible)
	if err != nil {
		return core.Memory{}, err
	}
	return d.newMemory("Alloc", b, 0, size, nil)
}

// newMemory returns size bytes of b, from offset on, as memory of the device that owns owner. The device is held, or b has no
// bytes. If newMemory fails, owner stays the caller's.
func (d *device) newMemory(call string, b *buffer, offset, size int64, owner core.Owner) (core.Memory, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	return d.handOut(call, b, offset, size, owner)
}

// handOut is newMemory with Mu held.
func (d *device) handOut(call string, b *buffer, offset, size int64, owner core.Owner) (core.Memory, error) {
	if b.theirs && d.kept[b.name] {
		return core.Memory{}, core.Errorf(core.ErrInvalid, "gl", call, "%d is a GL buffer of memory that was freed", b.name)
	}
	if b.name != 0 {
		if known := d.buffers[b.name]; known != nil {
			b = known
		}
		d.buffers[b.name] = b
		b.users++
	}
	m := core.Memory{ID: d.ID(), Handle: uintptr(b.name), Offset: offset, Size: size}
	if b.mapped != 0 {
		m.Host = b.mapped + uintptr(offset)
	}
	// The buffer is deleted, or goes back to the pool, if it belongs to dlx and no other memory is on it.
	last := false
	return d.HandOut(m, func() {
		if b.name != 0 {
			b.users--
			if last = b.users == 0; last {
				delete(d.buffers, b.name)
				if b.part != nil {
					d.kept[b.name] = true
				}
			}
		}
	}, func() {
		switch {
		case !last || b.theirs:
		case b.part != nil:
			d.giveBack(b)
		default:
			d.discard(b.destroy)
		}
		core.Memory{Owner: owner}.Free()
	}), nil
}
