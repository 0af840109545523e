//go:build gl && linux && cgo

package gl

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Alloc makes a GL buffer for each memory. The host can view it if HostVisible is requested or the renderer
// is a software renderer. Alloc fails with ErrNotSupported for Export, since OpenGL exports nothing.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, nil); err != nil {
		return core.Memory{}, err
	}
	if size < 0 {
		return core.Memory{}, d.Errorf(core.ErrInvalid, "Alloc", "size is %d bytes", size)
	}
	b := &buffer{}
	if size > 0 {
		var err error
		if b, err = d.newBuffer(ctx, "Alloc", size, opts.HostVisible || d.info.software); err != nil {
			return core.Memory{}, err
		}
	}
	return d.newMemory("Alloc", b, 0, size, nil)
}

// newMemory returns size bytes of b, from offset on, as memory of the device that owns owner. If it fails, b
// is discarded, and owner stays the caller's.
func (d *device) newMemory(call string, b *buffer, offset, size int64, owner core.Owner) (core.Memory, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err // the context was destroyed with its objects
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
	// The buffer is deleted if it belongs to dlx and no other memory is on it.
	last := false
	return d.HandOut(m, func() {
		if b.name != 0 {
			b.users--
			if last = b.users == 0; last {
				delete(d.buffers, b.name)
			}
		}
	}, func() {
		if last && !b.theirs {
			d.discard(b.destroy)
		}
		core.Memory{Owner: owner}.Free()
	}), nil
}
