//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"cmp"
	"time"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
)

// handOverBoth calls command, which enqueues work on the bytes in r of dst and src, after handing both over and before handing
// both back. Memory that other APIs use is acquired once, also if dst and src lie in it. q.mu is held.
func (q *queue) handOverBoth(dst, src operand, r copyplan.Range, command func() error) error {
	withDst := func() error { return q.handedOver(dst, r.DstLow, r.DstHigh, true, command) }
	if dst.external && dst.mem == src.mem {
		return withDst()
	}
	return q.handedOver(src, r.SrcLow, r.SrcHigh, false, withDst)
}

// handedOver calls command with one operand handed over, and hands it back even if command fails.
func (q *queue) handedOver(s operand, low, high int64, written bool, command func() error) error {
	if err := q.handOver(s, low, high); err != nil {
		return err
	}
	err := command()
	return cmp.Or(err, q.handBack(s, low, high, written))
}

// handOver gives memory that the host used until now to the driver, if the driver requires that. It maps the
// region for writing, without fetching the driver's copy, and unmaps it; the driver then has what the host
// wrote (OpenCL 3.0 API, clEnqueueMapBuffer with CL_MAP_WRITE_INVALIDATE_REGION; Accessing mapped regions of
// a memory object). It acquires memory that other APIs use (cl_khr_external_memory). q.mu is held.
func (q *queue) handOver(s operand, low, high int64) error {
	if s.external {
		return q.passed("clEnqueueAcquireExternalMemObjectsKHR", driver.Transfer(q.device.acquire, q.raw, s.mem))
	}
	if !s.mustHandOver {
		return nil
	}
	p, status := driver.MapDiscard(q.raw, s.mem, low, high-low)
	return q.mapped(s.mem, p, status)
}

// handBack gives memory back to the host after a command. It maps the region for reading, which updates
// host_ptr (clEnqueueMapBuffer), and unmaps it. Memory that was only read needs no mapping. q.mu is held.
func (q *queue) handBack(s operand, low, high int64, written bool) error {
	if s.external {
		return q.passed("clEnqueueReleaseExternalMemObjectsKHR", driver.Transfer(q.device.release, q.raw, s.mem))
	}
	if !s.mustHandOver || !written {
		return nil
	}
	p, status := driver.MapRead(q.raw, s.mem, low, high-low)
	return q.mapped(s.mem, p, status)
}

// mapped unmaps a region that was mapped.
func (q *queue) mapped(mem driver.Mem, p uintptr, s driver.Status) error {
	if err := q.device.check(s, "clEnqueueMapBuffer", "handing memory over between host and device"); err != nil {
		return err
	}
	if err := q.inOrder(); err != nil {
		return err
	}
	s = driver.Unmap(q.raw, mem, p)
	// A region that stays mapped keeps its cl_mem for ever. PoCL 3.1 confuses mappings of two queues
	// that begin at the same address, until the other queue has unmapped.
	for try := 0; s != driver.Success && (try == 0 || s == driver.InvalidValue && try < patience); try++ {
		if try > 0 {
			time.Sleep(time.Millisecond)
		}
		s = driver.Unmap(q.raw, mem, p)
	}
	if err := q.device.check(s, "clEnqueueUnmapMemObject", "handing memory over between host and device"); err != nil {
		return err
	}
	return q.inOrder()
}

func (q *queue) passed(call string, s driver.Status) error {
	if err := q.device.check(s, call, "memory that other APIs use"); err != nil {
		return err
	}
	return q.inOrder()
}
