//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"os"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

// HostAlignment is the size of a page. It suits every driver with unified memory; some drivers copy memory
// that is less aligned.
func (*device) HostAlignment() int64 { return int64(os.Getpagesize()) }

// MapHost makes a cl_mem with CL_MEM_USE_HOST_PTR over the whole pages of host memory. The copies of dlx hand
// the memory over and back. Code that enqueues other work on the cl_mem maps and unmaps it: see the package
// documentation. One command must not use two such cl_mem that share a page (clCreateBuffer), or such a
// cl_mem and a pointer to one of its pages; Copy and ConvertOn never do.
func (d *device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	return d.Map(ctx, host, d.CanMap, func(m core.Memory) (core.Memory, error) { return d.mapHost(host, m) })
}

// CanMap refuses memory that the host cannot write. The cl_mem can be written, and clCreateBuffer does not say that a
// driver pins the pages of a read-only one only for reading.
func (d *device) CanMap(host core.Memory) error { return d.CheckMap(host, false) }

// mapHost maps m, the memory of host.
func (d *device) mapHost(host *core.Buffer, m core.Memory) (core.Memory, error) {
	const call = "MapHost"
	first := m.Handle + uintptr(m.Offset)
	page := uintptr(os.Getpagesize())
	skip := first % page
	whole := (int64(skip) + m.Size + int64(page) - 1) / int64(page) * int64(page)
	if whole > d.maxAlloc {
		return core.Memory{}, d.errorf(core.ErrOutOfMemory, call, "mapping %d bytes exceeds CL_DEVICE_MAX_MEM_ALLOC_SIZE, which is %d", whole, d.maxAlloc)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	if m.Size == 0 {
		return d.newMemory(0, 0, 0, known{}, host.Release), nil
	}
	mem, s := driver.CreateBufferOver(d.context, first-skip, whole)
	if err := d.check(s, "clCreateBuffer", "over %d bytes of the host", m.Size); err != nil {
		return core.Memory{}, err
	}
	k := known{host: first - skip, mustHandOver: true, after: whole, over: spanOf(first-skip, whole)}
	return d.newMemory(mem, int64(skip), m.Size, k, func() {
		driver.ReleaseMem(mem)
		host.Release()
	}), nil
}

// HostView serves mapped host memory, and memory of Alloc that the host can use in place. It refuses imported
// memory and memory of other libraries.
func (d *device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return d.View(ctx, b, func(m core.Memory) (uintptr, error) {
		k, err := d.lookUp("HostView", driver.Mem(m.Handle))
		if err == nil {
			err = k.viewable(d.API)
		}
		return k.host, err
	})
}

// viewable fails if the host cannot view the memory.
func (k known) viewable(a API) error {
	switch {
	case k.host != 0:
		return nil
	case k.over != (span{}):
		return a.errorf(core.ErrNotSupported, "HostView", "another library made the cl_mem over host memory (CL_MEM_USE_HOST_PTR), of which the driver may keep a copy: map the cl_mem there, and use the address")
	default:
		return a.errorf(core.ErrNotSupported, "HostView", "the host cannot use this memory in place: allocate it with AllocOptions.HostVisible")
	}
}

// CanView looks only at what the device knows of the memory.
func (d *device) CanView(m core.Memory) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if k := d.known[driver.Mem(m.Handle)]; k != nil {
		return k.viewable(d.API)
	}
	return nil
}
