//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// ImportPointer takes a cl_mem of this device's context, a buffer or a sub-buffer, which another library may
// have made, and retains it until the memory is freed. The memory is its first size bytes. ImportPointer
// fails with ErrInvalid for an image, for another context, for a size beyond CL_MEM_SIZE and, if the driver
// supports the ICD loader, for a value that is not an object of the driver. It cannot detect a handle that
// was released. If size is 0, p is ignored. An address of SVM or of the host is not a cl_mem: map it as host memory.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	if err := d.Hold(call); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	if size < 0 {
		return core.Memory{}, d.errorf(core.ErrInvalid, call, "size is %d bytes", size)
	}
	if size == 0 {
		d.Mu.Lock()
		defer d.Mu.Unlock()
		return d.newMemory(0, 0, 0, known{}, core.Memory{Owner: owner}.Free), nil
	}
	if d.usm != nil {
		return d.importUSM(call, p, size, owner)
	}
	whole, err := d.checkMem(call, p)
	if err != nil {
		return core.Memory{}, err
	}
	if size > whole {
		return core.Memory{}, d.errorf(core.ErrInvalid, call, "size is %d bytes, and CL_MEM_SIZE of %#x is %d", size, p, whole)
	}
	mem := driver.Mem(p)
	flags, s := driver.Number(mem, driver.MemFlags)
	if err := d.check(s, "clGetMemObjectInfo", "the flags of %#x", p); err != nil {
		return core.Memory{}, err
	}
	if flags&(driver.HostWriteOnly|driver.HostReadOnly|driver.HostNoAccess) != 0 {
		return core.Memory{}, d.errorf(core.ErrInvalid, call, "%#x was made with CL_MEM_HOST_WRITE_ONLY, CL_MEM_HOST_READ_ONLY or CL_MEM_HOST_NO_ACCESS, so it cannot be copied to and from the host", p)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.check(driver.RetainMem(mem), "clRetainMemObject", "%#x", p); err != nil {
		return core.Memory{}, err
	}
	return d.newMemory(mem, 0, size, foreignMem(mem, whole), func() {
		driver.ReleaseMem(mem)
		if owner != nil {
			owner.Free()
		}
	}), nil
}

// ImportTypes are those of cl_khr_external_memory that the driver supports.
func (d *device) ImportTypes() []core.HandleType { return slices.Clone(d.importTypes) }

// ImportMemory makes a cl_mem of a descriptor by clCreateBufferWithProperties. Every command of dlx acquires
// it before and releases it after. OpenCL does not need to know whether the allocation is Dedicated.
func (d *device) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	const call = "ImportMemory"
	if err := d.EnterWith(ctx, core.CapImportMemory, call); err != nil {
		return core.Memory{}, err
	}
	by := external.Importer{Backend: string(d.API), Types: d.importTypes, DeviceUUID: d.Info.UUID, DriverUUID: d.Info.DriverUUID}
	if err := by.CheckMemory(m); err != nil {
		return core.Memory{}, err
	}
	kind := uint64(driver.ImportOpaqueFD)
	if m.Handle.Type() == core.HandleDMABuf {
		kind = driver.ImportDMABuf
	}
	return by.Memory(m, func(fd int) (_ core.Memory, taken bool, err error) {
		d.Mu.Lock()
		defer d.Mu.Unlock()
		if err := d.IsOpen(call); err != nil {
			return core.Memory{}, false, err
		}
		mem, s := driver.ImportFD(d.context, kind, fd, m.Size)
		if err := d.check(s, "clCreateBufferWithProperties", "%d bytes of %v", m.Size, m.Handle); err != nil {
			return core.Memory{}, false, err
		}
		return d.newMemory(mem, m.Offset, m.Length, known{external: true, after: m.Size}, func() { driver.ReleaseMem(mem) }), true, nil
	})
}
