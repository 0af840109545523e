//go:build gl && linux && cgo

package gl

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

var liveMemory = core.NewLiveCounter("gl.Memory")

// Alloc makes a GL buffer of its own for each memory, which the host can view if
// HostVisible is asked for or the renderer is a software one. It fails with
// ErrNotSupported for Export: OpenGL exports nothing.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	switch {
	case opts.Type != 0 && opts.Type != core.DeviceGL:
		return core.Memory{}, core.Errorf(core.ErrNotSupported, "gl", "Alloc", "AllocOptions.Type is %v; this device has memory of type %v only", opts.Type, core.DeviceGL)
	case opts.Export != 0:
		return core.Memory{}, core.Errorf(core.ErrNotSupported, "gl", "Alloc", "AllocOptions.Export is %v; OpenGL exports no memory: let the other API export and import it here", opts.Export)
	case size < 0:
		return core.Memory{}, core.Errorf(core.ErrInvalid, "gl", "Alloc", "size is %d bytes", size)
	}
	b := &buffer{}
	if size > 0 {
		var err error
		if b, err = d.newBuffer(ctx, "Alloc", size, opts.HostVisible || d.facts.software); err != nil {
			return core.Memory{}, err
		}
	}
	return d.adopt("Alloc", b, 0, size, nil)
}

// memory is the owner of what the device gave out.
type memory struct {
	device *device
	buffer *buffer
	owner  core.Owner // of imported memory; may be nil
	freed  bool       // guarded by device.mu
}

var _ core.OrderedOwner = (*memory)(nil)

// adopt makes size bytes of b, from offset on, memory of the device that owns owner;
// on failure b is discarded, and owner stays the caller's.
func (d *device) adopt(call string, b *buffer, offset, size int64, owner core.Owner) (core.Memory, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return core.Memory{}, closedDevice(call) // the context went with all that it had
	}
	defer d.mu.Unlock()
	if b.name != 0 {
		if known := d.buffers[b.name]; known != nil {
			b = known
		}
		d.buffers[b.name] = b
		b.users++
	}
	d.memories++
	liveMemory.Add(1)
	m := core.Memory{
		ID: d.properties.ID, Device: d, Handle: uintptr(b.name), Offset: offset, Size: size,
		Owner: &memory{device: d, buffer: b, owner: owner},
	}
	if b.mapped != 0 {
		m.Host = b.mapped + uintptr(offset)
	}
	return m, nil
}

// Free deletes the buffer, if it is dlx's and no other memory is on it. Another
// call does nothing.
func (m *memory) Free() {
	d := m.device
	d.mu.Lock()
	freed := m.freed
	m.freed = true
	last := false
	if !freed && m.buffer.name != 0 {
		m.buffer.users--
		if last = m.buffer.users == 0; last {
			delete(d.buffers, m.buffer.name)
		}
	}
	d.mu.Unlock()
	if freed {
		return
	}
	if last && !m.buffer.theirs {
		d.discard(m.buffer.destroy)
	}
	if m.owner != nil {
		m.owner.Free()
	}
	d.drop()
}

// drop counts that memory or a semaphore was freed.
func (d *device) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memories--
	liveMemory.Add(-1)
}

// FreeAfter frees the memory when pending is done. [device.Close] waits for it.
func (m *memory) FreeAfter(pending []core.Event) { m.device.reaper.After(pending, m.Free) }
