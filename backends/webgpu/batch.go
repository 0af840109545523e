//go:build webgpu && linux && cgo

package webgpu

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// CopyBatch makes contiguous copies of whole words by one submission for each direction and each piece. All others are made one at a
// time.
func (d *device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return devicebase.CopyBatch(ctx, &d.Device, s, dst, src, d.operandOf, func(q *devicebase.Queue, pairs []devicebase.Pair[operand]) error {
		up, within, down := batch{work: d.uploads}, batch{work: d.copies}, batch{work: d.downloads}
		for _, p := range pairs {
			b := &within
			switch {
			case p.Src.buffer == nil:
				b = &up
			case p.Dst.buffer == nil:
				b = &down
			}
			if len(pairs) > 1 && b.take(p.Dst, p.Src) {
				continue
			}
			if err := d.copyOne(ctx, q, p); err != nil {
				return err
			}
		}
		for _, b := range []*batch{&up, &within, &down} {
			if err := b.enqueue(ctx, d, q); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch is copies in one direction that do not depend on each other.
type batch struct {
	work          func([]transfer) func(*stream.Queue) error // returns a function that enqueues copies
	writes, reads []*core.Tensor
	list          []transfer
}

// transfer copies size bytes. to and from are offsets in a buffer, and addresses of the host if there is none.
type transfer struct {
	dst, src wgpu.Handle
	to, from int64
	size     int64
}

// take takes a copy into the batch, unless it has to be made by itself.
func (b *batch) take(dst, src operand) bool {
	c, err := copyplan.Of(dst.Tensor, src.Tensor)
	if err != nil {
		return false // copyWork returns the error
	}
	n, contiguous := c.Contiguous()
	x := transfer{to: int64(dst.base) + c.Dst, from: int64(src.base) + c.Src, size: n}
	words := n
	if dst.buffer != nil {
		x.dst, words = dst.buffer.handle, words|x.to
	}
	if src.buffer != nil {
		x.src, words = src.buffer.handle, words|x.from
	}
	if !contiguous || n > piece || words%unit != 0 || x.dst == x.src {
		return false
	}
	b.writes, b.reads, b.list = append(b.writes, dst.Tensor), append(b.reads, src.Tensor), append(b.list, x)
	return true
}

// mostCopies bounds the copies of one submission, which keeps the lock of the device.
const mostCopies = 4096

// enqueue enqueues the copies, at most a piece at a time.
func (b *batch) enqueue(ctx context.Context, d *device, q *devicebase.Queue) error {
	for first := 0; first < len(b.list); {
		end, size := first, int64(0)
		for ; end < len(b.list) && end-first < mostCopies && size+b.list[end].size <= piece; end++ {
			size += b.list[end].size
		}
		if err := d.enqueue(ctx, q, b.writes[first:end], b.reads[first:end], b.work(b.list[first:end])); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// copies returns a function that enqueues copies between buffers.
func (d *device) copies(list []transfer) func(*stream.Queue) error {
	return onDevice(0, func() (*wgpu.Work, error) {
		r := recording{device: d}
		r.copies(list)
		return r.submit()
	})
}

// copies adds copies between buffers.
func (r *recording) copies(list []transfer) {
	r.add("wgpuCommandEncoderCopyBufferToBuffer", func(e *wgpu.Encoder) {
		for _, x := range list {
			e.Copy(x.dst, x.to, x.src, x.from, x.size)
		}
	})
}

// uploads returns a function that enqueues copies from the host.
func (d *device) uploads(list []transfer) func(*stream.Queue) error {
	return onHost(func() error { return wait(d.uploadAll(list)) })
}

// uploadAll submits copies from the host.
func (d *device) uploadAll(list []transfer) (*wgpu.Work, error) {
	r := recording{device: d, call: "wgpuQueueSubmitForIndex"}
	defer r.giveBack()
	var small []transfer
	var size int64
	for _, x := range list {
		if x.size <= smallCopy {
			small, size = append(small, x), size+x.size
		} else if err := d.native.Write(x.dst, x.to, uintptr(x.from), x.size); err != nil {
			return nil, err
		}
	}
	if err := r.uploadPacked(small, size); err != nil {
		return nil, err
	}
	return r.submit()
}

// uploadPacked adds copies from the host, of size bytes together. They go through one buffer, since a write of the library costs more
// than a small copy. The host fills it in place: a write of the library would copy the bytes twice more.
func (r *recording) uploadPacked(list []transfer, size int64) error {
	if size == 0 {
		return nil
	}
	staging, err := r.device.fill(size, func(host uintptr) error {
		jobs := make([]hostcopy.Job, len(list))
		for i, x := range list {
			jobs[i] = hostcopy.Bytes(host, uintptr(x.from), x.size)
			host += uintptr(x.size)
		}
		return hostcopy.RunAll(jobs, runtime.GOMAXPROCS(0))
	})
	if err != nil {
		return err
	}
	r.taken = append(r.taken, staging)
	at := int64(0)
	for i := range list {
		list[i].src, list[i].from = staging.handle, at
		at += list[i].size
	}
	r.copies(list)
	return nil
}

// downloads returns a function that enqueues copies to the host.
func (d *device) downloads(list []transfer) func(*stream.Queue) error {
	return onHost(func() error {
		size := int64(0)
		for _, x := range list {
			size += x.size
		}
		x, err := d.beginRead(size, func(e *wgpu.Encoder, into wgpu.Handle) {
			at := int64(0)
			for _, x := range list {
				e.Copy(into, at, x.src, x.from, x.size)
				at += x.size
			}
		})
		if err != nil {
			return err
		}
		return d.endRead(x, func(host uintptr) error {
			jobs := make([]hostcopy.Job, len(list))
			for i, x := range list {
				jobs[i] = hostcopy.Bytes(uintptr(x.to), host, x.size)
				host += uintptr(x.size)
			}
			return hostcopy.RunAll(jobs, runtime.GOMAXPROCS(0))
		})
	})
}
