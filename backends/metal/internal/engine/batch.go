package engine

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// CopyBatch encodes the copies of the device in one command buffer, and makes those of the host in one piece of work.
// Large copies through staging memory are submitted one at a time.
func (d *device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return shell.CopyBatch(ctx, &d.Device, s, dst, src, d.operandOf, func(q *queue, pairs []shell.Pair[operand]) error {
		if q != nil {
			return d.copyBatch(ctx, q, false, pairs)
		}
		return d.onOwnQueue(func(q *queue) error { return d.copyBatch(ctx, q, true, pairs) })
	})
}

// copyBatch copies pairs that do not depend on each other.
func (d *device) copyBatch(ctx context.Context, q *queue, here bool, pairs []shell.Pair[operand]) error {
	b := &batch{device: d, queue: q, here: here}
	for _, p := range pairs {
		w := work{device: d, here: here, dst: p.Dst, src: p.Src}
		w.geometry, w.bits = strided.OfBits(w.dst.tensor, w.src.tensor)
		if !b.add(w) {
			if err := w.submit(ctx, q); err != nil {
				return err
			}
		}
		if b.staging > staging.BatchBytes {
			if err := b.submit(ctx); err != nil {
				return err
			}
		}
	}
	return b.submit(ctx)
}

// batch is copies that are submitted together.
type batch struct {
	device   *device
	queue    *queue
	here     bool
	onHost   []work
	onDevice []work
	staged   []stagedWork
	staging  int64 // bytes of staging memory
}

// stagedWork is a copy through staging memory.
type stagedWork struct {
	work
	at int64 // in the staging memory
}

// add adds a copy, unless it has to be submitted by itself.
func (b *batch) add(w work) bool {
	_, plain := w.geometry.Contiguous()
	device := w.dst.ours && w.src.ours
	switch {
	case w.onHostAlone(device):
		b.onHost = append(b.onHost, w)
	case w.bits:
		return false
	case device:
		b.onDevice = append(b.onDevice, w)
	case plain && w.geometry.Size() <= staging.SmallBytes:
		b.staged = append(b.staged, stagedWork{w, b.staging})
		b.staging += staging.InBatch(w.geometry.Size())
	default:
		return false
	}
	return true
}

// submit submits what was added, and empties the batch.
func (b *batch) submit(ctx context.Context) error {
	d, q := b.device, b.queue
	full := *b
	b.onHost, b.onDevice, b.staged, b.staging = nil, nil, nil, 0
	n := len(full.onHost) + len(full.onDevice) + len(full.staged)
	if n == 0 {
		return nil
	}
	writes, reads := make([]*core.Tensor, 0, n), make([]*core.Tensor, 0, n)
	add := func(w work) { writes, reads = append(writes, w.dst.tensor), append(reads, w.src.tensor) }
	for _, w := range full.onHost {
		add(w)
	}
	for _, w := range full.onDevice {
		add(w)
	}
	for _, w := range full.staged {
		add(w.work)
	}
	if full.staging == 0 {
		return enqueue(ctx, q, full.here, writes, reads, func(q *queue) error { return full.enqueue(q, nil) })
	}
	o, err := d.takeStaging(full.staging)
	if err != nil {
		return err
	}
	err = enqueue(ctx, q, full.here, writes, reads, func(q *queue) error { return full.enqueue(q, o) })
	d.giveStagingBackAfter(q, o)
	return err
}

// enqueue enqueues the copies. s is the staging memory, or nil if none is needed.
func (b *batch) enqueue(q *queue, s *object) error {
	var fill, empty []copykernel.Job // by the host, before and after the device's copies
	small := int64(0)
	for _, w := range b.onHost {
		fill = append(fill, copykernel.Between(w.dst.tensor, w.src.tensor, w.dst.host, w.src.host))
		small += w.dst.tensor.NumBytes()
	}
	copies := b.onDevice
	for _, w := range b.staged {
		n := w.geometry.Size()
		c := work{dst: w.dst, src: w.src, geometry: w.geometry}
		if w.dst.ours {
			fill = append(fill, copykernel.Bytes(s.at(w.at), w.src.host+uintptr(w.geometry.Src), n))
			c.src, c.geometry.Src = s.operand(), w.at
		} else {
			empty = append(empty, copykernel.Bytes(w.dst.host+uintptr(w.geometry.Dst), s.at(w.at), n))
			c.dst, c.geometry.Dst = s.operand(), w.at
		}
		copies = append(copies, c)
	}
	quick := b.here || len(b.staged) == 0 && small <= quickBytes
	if err := q.addJobs(fill, quick); err != nil {
		return err
	}
	if len(copies) > 0 {
		err := q.add(item{encode: func(e *encoding) error {
			for _, w := range copies {
				if err := w.encode(e); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
	return q.addJobs(empty, false)
}

// addJobs adds work of the host, if there is any. q.mu is held.
func (q *queue) addJobs(jobs []copykernel.Job, quick bool) error {
	if len(jobs) == 0 {
		return nil
	}
	return q.add(item{quick: quick, host: func() error { return copykernel.RunAll(jobs, runtime.GOMAXPROCS(0)) }})
}
