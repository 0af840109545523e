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
	const call = "MapHost"
	if err := d.properties.Require(core.CapMapHost, call); err != nil {
		return core.Memory{}, err
	}
	if err := d.gate.Enter(ctx); err != nil {
		return core.Memory{}, err
	}
	if host == nil {
		return core.Memory{}, errorf(core.ErrInvalid, call, "the buffer is nil")
	}
	if err := host.Retain(); err != nil {
		return core.Memory{}, err
	}
	memory, err := d.mapHost(host)
	if err != nil {
		host.Release()
	}
	return memory, err
}

// mapHost takes over a reference of host, if it succeeds.
func (d *device) mapHost(host *core.Buffer) (core.Memory, error) {
	const call = "MapHost"
	m := host.Memory()
	first := m.Handle + uintptr(m.Offset)
	switch {
	case !m.ID.Type.HostAccessible():
		return core.Memory{}, errorf(core.ErrInvalid, call, "the buffer lies on %v, which the host cannot reach: view it first, where its device can show it", m.ID)
	case m.Size < 0:
		return core.Memory{}, errorf(core.ErrInvalid, call, "the size of the buffer is not known")
	}
	page := uintptr(os.Getpagesize())
	skip := first % page
	whole := (int64(skip) + m.Size + int64(page) - 1) / int64(page) * int64(page)
	if whole > d.maxAlloc {
		return core.Memory{}, errorf(core.ErrOutOfMemory, call, "%d bytes are to be mapped, and CL_DEVICE_MAX_MEM_ALLOC_SIZE is %d", whole, d.maxAlloc)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return core.Memory{}, closedDevice(call)
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
	const call = "HostView"
	if err := d.properties.Require(core.CapHostView, call); err != nil {
		return core.Memory{}, err
	}
	if err := ctx.Err(); err != nil {
		return core.Memory{}, err
	}
	if b == nil {
		return core.Memory{}, errorf(core.ErrInvalid, call, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return core.Memory{}, err
	}
	m := b.Memory()
	view := core.Memory{ID: core.CPU, Size: m.Size, Owner: core.FreeFunc(b.Release)}
	err := d.checkOpen(call)
	switch {
	case err != nil:
	case m.Device != d:
		err = errorf(core.ErrDevice, call, "the buffer belongs to another device")
	case m.Size != 0:
		var k known
		if k, err = d.lookUp(call, driver.Mem(m.Handle)); err == nil && k.host == 0 {
			err = errorf(core.ErrNotSupported, call, "the host cannot use this memory in place: allocate it with AllocOptions.HostVisible")
		}
		view.Handle = k.host + uintptr(m.Offset)
	}
	if err != nil {
		b.Release()
		return core.Memory{}, err
	}
	return view, nil
}
