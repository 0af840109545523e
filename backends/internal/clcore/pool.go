//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

// class is what blocks must have in common to replace each other.
type class struct {
	size int64 // bytes of the cl_mem
	host bool  // in memory that the host uses in place
}

func (c class) Bytes() int64 { return c.size }

// classFor is the class of blocks for a size, which is at most d.maxAlloc.
func (d *device) classFor(size int64, host bool) class {
	most := d.maxAlloc
	if d.usm != nil {
		most -= leastAlignment // see makeUSM
	}
	return class{max(size, min(blockpool.RoundUp(size, leastAlignment), most)), host}
}

// block is a cl_mem of the pool, or an allocation in USM.
type block struct {
	class      class
	mem        driver.Mem // in USM its address
	host       uintptr    // the host address; 0 if the host cannot use it
	pages      uintptr    // the host pages that it was made over; 0 if the driver allocated its memory
	allocation uintptr    // the allocation in USM that it lies in
}

// makeBlock makes a block. Memory that the host uses too is fine-grained SVM with a cl_mem over it, which
// needs no map and unmap (OpenCL 3.0 API, Shared Virtual Memory). Without such SVM it is host pages with a
// cl_mem over them.
func (d *device) makeBlock(c class) (b block, err error) {
	if d.usm != nil {
		return d.makeUSM(c)
	}
	b.class = c
	if !c.host {
		var s driver.Status
		b.mem, s = driver.CreateBuffer(d.context, c.size)
		return b, d.check(s, "clCreateBuffer", "%d bytes", c.size)
	}
	if d.fineGrained {
		if b.host = driver.SVMAlloc(d.context, c.size); b.host == 0 {
			return b, d.errorf(core.ErrOutOfMemory, "clSVMAlloc", "no memory for %d bytes", c.size)
		}
	} else {
		p, err := unix.MmapPtr(-1, 0, nil, uintptr(c.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return b, d.errorf(core.ErrOutOfMemory, "mmap", "no memory for %d bytes: %v", c.size, err)
		}
		b.host = uintptr(p)
		b.pages = b.host
	}
	var s driver.Status
	if b.mem, s = driver.CreateBufferOver(d.context, b.host, c.size); s != driver.Success {
		d.destroyBlock(b)
		return block{}, d.check(s, "clCreateBuffer", "over %d bytes that the host uses too", c.size)
	}
	return b, nil
}

// destroyBlock releases a block: first its cl_mem, then its memory.
func (d *device) destroyBlock(b block) {
	if d.usm != nil {
		d.usm.Free(d.context, b.allocation) // all work on it is done
		return
	}
	if b.mem != 0 {
		driver.ReleaseMem(b.mem)
	}
	switch {
	case b.pages != 0:
		_ = unix.MunmapPtr(pointer(b.pages), uintptr(b.class.size)) // was mapped, so it can be unmapped
	case b.host != 0:
		driver.SVMFree(d.context, b.host)
	}
}
