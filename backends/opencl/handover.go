//go:build opencl && linux && cgo

package opencl

import (
	"time"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
)

// handOver gives the driver memory that the host had until now, where the driver
// must be told. What the host wrote is taken: the region is mapped for writing,
// without fetching what the driver may have, and unmapped (OpenCL 3.0 API,
// clEnqueueMapBuffer with CL_MAP_WRITE_INVALIDATE_REGION; Accessing mapped regions
// of a memory object). Where other APIs use the memory, it is acquired
// (cl_khr_external_memory). q.mu is held.
func (q *queue) handOver(s side, low, high int64) error {
	if s.external {
		return q.transferred("clEnqueueAcquireExternalMemObjectsKHR", driver.Transfer(q.device.acquire, q.raw, s.mem))
	}
	if !s.toldOf {
		return nil
	}
	p, status := driver.MapDiscard(q.raw, s.mem, low, high-low)
	return q.mapped(s.mem, p, status)
}

// handBack gives the host what a command left: by mapping the region for reading,
// which host_ptr then holds (clEnqueueMapBuffer), and unmapping it. What was only
// read the host has already. q.mu is held.
func (q *queue) handBack(s side, low, high int64, written bool) error {
	if s.external {
		return q.transferred("clEnqueueReleaseExternalMemObjectsKHR", driver.Transfer(q.device.release, q.raw, s.mem))
	}
	if !s.toldOf || !written {
		return nil
	}
	p, status := driver.MapRead(q.raw, s.mem, low, high-low)
	return q.mapped(s.mem, p, status)
}

// mapped ends a mapping.
func (q *queue) mapped(mem driver.Mem, p uintptr, s driver.Status) error {
	if err := check(s, "clEnqueueMapBuffer", "handing memory over between host and device"); err != nil {
		return err
	}
	if err := q.inOrder(); err != nil {
		return err
	}
	s = driver.Unmap(q.raw, mem, p)
	// What stays mapped keeps its cl_mem for ever. PoCL 3.1 confuses mappings of two queues
	// that begin at one address, until the other's unmap was done.
	for try := 0; s != driver.Success && (try == 0 || s == driver.InvalidValue && try < patience); try++ {
		if try > 0 {
			time.Sleep(time.Millisecond)
		}
		s = driver.Unmap(q.raw, mem, p)
	}
	if err := check(s, "clEnqueueUnmapMemObject", "handing memory over between host and device"); err != nil {
		return err
	}
	return q.inOrder()
}

func (q *queue) transferred(call string, s driver.Status) error {
	if err := check(s, call, "memory that other APIs use"); err != nil {
		return err
	}
	return q.inOrder()
}
