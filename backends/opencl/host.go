//go:build opencl && linux && cgo

package opencl

import (
	"context"
	"os"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// HostAlignment is the size of a page, which every driver with unified memory is
// content with: some copy what is less aligned.
func (*device) HostAlignment() int64 { return int64(os.Getpagesize()) }

// MapHost makes a cl_mem over host memory with CL_MEM_USE_HOST_PTR, of whole pages.
// The copies of dlx tell the driver whose turn it is; who enqueues work on the
// cl_mem by other means maps and unmaps it: see the package. One command must not
// use two such cl_mem that lie on one page (clCreateBuffer), or such a cl_mem and a
// pointer to one of its pages; Copy never does.
func (d *device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	return d.Map(ctx, host, func(m core.Memory) (core.Memory, error) { return d.mapHost(host, m) })
}

// mapHost maps m, the memory of host.
func (d *device) mapHost(host *core.Buffer, m core.Memory) (core.Memory, error) {
	const call = "MapHost"
	first := m.Handle + uintptr(m.Offset)
	page := uintptr(os.Getpagesize())
	skip := first % page
	whole := (int64(skip) + m.Size + int64(page) - 1) / int64(page) * int64(page)
	if whole > d.maxAlloc {
		return core.Memory{}, errorf(core.ErrOutOfMemory, call, "%d bytes are to be mapped, and CL_DEVICE_MAX_MEM_ALLOC_SIZE is %d", whole, d.maxAlloc)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	if m.Size == 0 {
		return d.adopt(0, 0, 0, known{}, host.Release), nil
	}
	mem, s := driver.CreateBufferOver(d.context, first-skip, whole)
	if err := check(s, "clCreateBuffer", "over %d bytes of the host", m.Size); err != nil {
		return core.Memory{}, err
	}
	k := known{host: first - skip, toldOf: true, over: spanOf(first-skip, whole)}
	return d.adopt(mem, int64(skip), m.Size, k, func() {
		driver.ReleaseMem(mem)
		host.Release()
	}), nil
}

// HostView serves memory that Alloc made for it and mapped host memory. Memory of
// other libraries it refuses, and imported memory.
func (d *device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return d.View(ctx, b, func(m core.Memory) (uintptr, error) {
		k, err := d.lookUp("HostView", driver.Mem(m.Handle))
		if err == nil && k.host == 0 {
			err = errorf(core.ErrNotSupported, "HostView", "the host cannot use this memory in place: allocate it with AllocOptions.HostVisible")
		}
		return k.host, err
	})
}
