//go:build opencl && linux && cgo

package opencl

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// ImportPointer takes a cl_mem, a buffer or a sub-buffer of this device's context,
// which another library may have made, and retains it until the memory is freed.
// The bytes are the size first of it. It fails with ErrInvalid for an image,
// another context, a size beyond CL_MEM_SIZE and, where the driver is one for the
// ICD loader, for what is no object of it; that a handle was not released already
// nobody can tell. An address of SVM or of the host is no cl_mem: map it as host memory.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	if err := d.checkOpen(call); err != nil {
		return core.Memory{}, err
	}
	if size < 0 {
		return core.Memory{}, errorf(core.ErrInvalid, call, "size is %d bytes", size)
	}
	whole, err := d.checkMem(call, p)
	if err != nil {
		return core.Memory{}, err
	}
	if size > whole {
		return core.Memory{}, errorf(core.ErrInvalid, call, "size is %d bytes, and CL_MEM_SIZE of %#x is %d", size, p, whole)
	}
	mem := driver.Mem(p)
	flags, s := driver.Number(mem, driver.MemFlags)
	if err := check(s, "clGetMemObjectInfo", "the flags of %#x", p); err != nil {
		return core.Memory{}, err
	}
	if flags&(driver.HostWriteOnly|driver.HostReadOnly|driver.HostNoAccess) != 0 {
		return core.Memory{}, errorf(core.ErrInvalid, call, "%#x was made with CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY or CL_MEM_HOST_NO_ACCESS, so it cannot be copied to and from the host", p)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return core.Memory{}, closedDevice(call)
	}
	if err := check(driver.RetainMem(mem), "clRetainMemObject", "%#x", p); err != nil {
		return core.Memory{}, err
	}
	return d.adopt(mem, 0, size, stranger(mem), func() {
		driver.ReleaseMem(mem)
		if owner != nil {
			owner.Free()
		}
	}), nil
}

// memoryImporter is what a device with cl_khr_external_memory adds.
type memoryImporter struct{ d *device }

var _ core.MemoryImporter = memoryImporter{}

func (i memoryImporter) ImportTypes() []core.HandleType { return slices.Clone(i.d.importTypes) }

// ImportMemory makes a cl_mem of a descriptor by clCreateBufferWithProperties. It
// is acquired before and released after every command of dlx. A Dedicated flag
// needs no mention here: OpenCL does not ask for it.
func (i memoryImporter) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	const call = "ImportMemory"
	d := i.d
	if err := ctx.Err(); err != nil {
		return core.Memory{}, err
	}
	if err := d.checkExternal(m); err != nil {
		return core.Memory{}, err
	}
	kind := uint64(driver.ImportOpaqueFD)
	if m.Type == core.HandleDMABuf {
		kind = driver.ImportDMABuf
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return core.Memory{}, closedDevice(call)
	}
	mem, s := driver.ImportFD(d.context, kind, m.FD, m.Size)
	if s != driver.Success {
		err := check(s, "clCreateBufferWithProperties", "%d bytes of descriptor %d as %v", m.Size, m.FD, m.Type)
		return core.Memory{}, err
	}
	return d.adopt(mem, m.Offset, m.Length, known{external: true}, func() { driver.ReleaseMem(mem) }), nil
}

// checkExternal proves what can be proved of m before the driver gets its descriptor.
func (d *device) checkExternal(m core.ExternalMemory) error {
	fail := func(sentinel error, format string, args ...any) error {
		return errorf(sentinel, "ImportMemory", format, args...)
	}
	p := &d.properties
	var none core.UUID
	switch {
	case !slices.Contains(d.importTypes, m.Type):
		return fail(core.ErrNotSupported, "Type is %v; the driver imports %v", m.Type, d.importTypes)
	case m.Type == core.HandleOpaqueFD && (m.DeviceUUID != p.UUID || m.DriverUUID != p.DriverUUID):
		return fail(core.ErrDevice, "the memory is of device %v, driver %v; this one has %v, %v", m.DeviceUUID, m.DriverUUID, p.UUID, p.DriverUUID)
	case m.Type == core.HandleDMABuf && m.DeviceUUID != none && m.DeviceUUID != p.UUID:
		return fail(core.ErrDevice, "the memory is of device %v; this one has %v", m.DeviceUUID, p.UUID)
	case m.Size < 0 || m.Offset < 0 || m.Length <= 0 || m.Length > m.Size-m.Offset:
		return fail(core.ErrInvalid, "Offset %d + Length %d must lie within Size %d, and Length be at least 1", m.Offset, m.Length, m.Size)
	}
	if _, err := unix.FcntlInt(uintptr(m.FD), unix.F_GETFD, 0); errors.Is(err, unix.EBADF) {
		return fail(core.ErrInvalid, "descriptor %d is closed", m.FD)
	}
	// A dma-buf tells its size; an opaque descriptor may, or say 0.
	if size, err := unix.Seek(m.FD, 0, unix.SEEK_END); err == nil && size > 0 && size < m.Size {
		return fail(core.ErrInvalid, "Size is %d bytes, and descriptor %d has %d", m.Size, m.FD, size)
	}
	return nil
}
