//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/gl/internal/ext"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// ImportTypes are opaque descriptors, if the driver has GL_EXT_memory_object_fd.
func (d *device) ImportTypes() []core.HandleType {
	if !d.Info.Capabilities.Has(core.CapImportMemory) {
		return nil
	}
	return []core.HandleType{core.HandleOpaqueFD}
}

// slack is how many bytes an allocation must have after the imported part, since llvmpipe of Mesa 22.3
// requires memory after a buffer.
const slack = 64

// ImportMemory makes a GL buffer of memory that Vulkan exported. The buffer begins with the allocation and
// ends with the imported bytes, since llvmpipe of Mesa 22.3 ignores an offset. In addition to the errors of
// its interface, ImportMemory fails with ErrNotSupported for another handle type, and with ErrOutOfMemory
// (GL_OUT_OF_MEMORY) if the driver requires the allocation to be larger than the buffer; 64 bytes are enough.
func (d *device) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	if err := d.EnterWith(ctx, core.CapImportMemory, "ImportMemory"); err != nil {
		return core.Memory{}, err
	}
	if err := d.Hold("ImportMemory"); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	by := d.importer()
	if err := by.CheckMemory(m); err != nil {
		return core.Memory{}, err
	}
	b := &buffer{size: m.Offset + m.Length}
	if b.size%4 != 0 && roundUp(b.size)+slack <= m.Size {
		b.size = roundUp(b.size)
	}
	return by.Memory(m, func(fd int) (_ core.Memory, taken bool, err error) {
		if taken, err = d.importFD(ctx, b, m, fd); err != nil {
			d.discard(b.destroy)
			return core.Memory{}, taken, err
		}
		memory, err := d.newMemory("ImportMemory", b, m.Offset, m.Length, nil)
		return memory, taken, err
	})
}

// importer describes what the device can import.
func (d *device) importer() *external.Importer {
	return &external.Importer{
		Backend: "gl", Types: d.ImportTypes(),
		DeviceUUID: d.info.deviceUUID, DriverUUID: d.info.driverUUID, Software: d.info.software,
	}
}

// importFD makes a memory object of fd and a buffer on it, in b. It reports whether the driver owns fd now.
// If it fails, b holds what was made before.
func (d *device) importFD(ctx context.Context, b *buffer, m core.ExternalMemory, fd int) (taken bool, err error) {
	if err = d.do(ctx, "glImportMemoryFdEXT", func() {
		b.object = ext.CreateMemoryObject(m.Dedicated)
		ext.ImportMemoryFD(b.object, m.Size, fd)
	}); err != nil {
		return false, err // the driver takes a descriptor on success only
	}
	err = d.do(ctx, "glNamedBufferStorageMemEXT", func() {
		gl.CreateBuffers(1, &b.name)
		ext.NamedBufferStorageMem(b.name, b.size, b.object)
	})
	var typed *core.Error
	if errors.As(err, &typed) && typed.Code == gl.OUT_OF_MEMORY {
		if m.Size-b.size >= slack {
			// There is room: only now do Mesa's drivers report that the descriptor is not theirs.
			typed.Err = core.ErrInvalid
			typed.Detail += ": the driver cannot import the descriptor, which may come from another driver"
		} else {
			typed.Detail += ": export an allocation that is larger than what is used of it; 64 bytes more are enough"
		}
	}
	return true, err
}
