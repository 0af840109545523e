package cmdqueue

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// CopyBatch submits the copies of the device together, as far as the backend can, and makes those of the host in one piece of
// work. Large copies through staging memory are submitted one at a time.
func (d *Device[Q, O]) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return devicebase.CopyBatch(ctx, &d.Device, s, dst, src, d.api.OperandOf, func(q Q, pairs []devicebase.Pair[Operand[O]]) error {
		return d.withStream(q, func(q Q, here bool) error { return d.copyBatch(ctx, q, here, pairs) })
	})
}

// copyBatch copies pairs that do not depend on each other.
func (d *Device[Q, O]) copyBatch(ctx context.Context, q Q, here bool, pairs []devicebase.Pair[Operand[O]]) error {
	b := &batch[Q, O]{device: d, queue: q, here: here}
	for _, p := range pairs {
		if w := d.newWork(q, here, p.Dst, p.Src); !b.take(w) {
			if err := w.submit(ctx); err != nil {
				return err
			}
		}
		if b.bytes > staging.BatchBytes {
			if err := b.submit(ctx); err != nil {
				return err
			}
		}
	}
	return b.submit(ctx)
}

// batch is copies that are submitted together.
type batch[Q Stream[Q], O Object] struct {
	device        *Device[Q, O]
	queue         Q
	here          bool
	writes, reads []*core.Tensor
	onHost        []hostcopy.Job
	hostBytes     int64
	onDevice      []Copy[O]
	staged        []*work[Q, O]
	at            []int64 // where each of staged lies in the staging memory
	bytes         int64   // of staging memory
	staging       O
}

// take takes a copy into the batch, unless it has to be submitted by itself.
func (b *batch[Q, O]) take(w *work[Q, O]) bool {
	c := Copy[O]{w.dst.Object, w.src.Object, w.geometry}
	switch {
	case w.onHost():
		b.onHost = append(b.onHost, hostcopy.Between(w.dst.Tensor, w.src.Tensor, w.dst.At, w.src.At))
		b.hostBytes += w.dst.Tensor.NumBytes()
	case w.bits || !b.device.api.Joins(c):
		return false
	case w.onDevice():
		b.onDevice = append(b.onDevice, c)
	case w.plain() && w.geometry.Size() <= staging.SmallBytes:
		b.staged, b.at = append(b.staged, w), append(b.at, b.bytes)
		b.bytes += staging.InBatch(w.geometry.Size())
	default:
		return false
	}
	b.writes, b.reads = append(b.writes, w.dst.Tensor), append(b.reads, w.src.Tensor)
	return true
}

// submit submits what was taken, and empties the batch.
func (b *batch[Q, O]) submit(ctx context.Context) (err error) {
	full := *b
	*b = batch[Q, O]{device: b.device, queue: b.queue, here: b.here}
	if len(full.writes) == 0 {
		return nil
	}
	if full.bytes > 0 {
		if full.staging, err = b.device.takeStaging(full.bytes); err != nil {
			return err
		}
		defer b.device.giveStagingBackAfter(b.queue, full.staging)
	}
	return b.device.submit(ctx, b.queue, b.here, full.writes, full.reads, &full)
}

// add adds the items of the copies.
func (b *batch[Q, O]) add() error {
	q, copies := b.queue.Common(), b.onDevice
	fill, empty := b.onHost, []hostcopy.Job(nil) // by the host, before and after the device's copies
	for i, w := range b.staged {
		at, n := b.at[i], w.geometry.Size()
		c := Copy[O]{w.dst.Object, w.src.Object, copyplan.Copy{Elem: n, Dst: w.geometry.Dst, Src: w.geometry.Src}}
		if w.dst.Ours() {
			fill = append(fill, hostcopy.Bytes(b.staging.HostAt(at), w.src.At+uintptr(w.geometry.Src), n))
			c.Src, c.Geometry.Src = b.staging, at
		} else {
			empty = append(empty, hostcopy.Bytes(w.dst.At+uintptr(w.geometry.Dst), b.staging.HostAt(at), n))
			c.Dst, c.Geometry.Dst = b.staging, at
		}
		copies = append(copies, c)
	}
	quick := b.here || len(b.staged) == 0 && b.hostBytes <= QuickBytes
	if err := q.addJobs(fill, quick); err != nil {
		return err
	}
	if len(copies) > 0 {
		if err := b.device.api.AddCopies(b.queue, copies); err != nil {
			return err
		}
	}
	return q.addJobs(empty, false)
}

// addJobs adds work of the host, if there is any. Mu is held.
func (q *Queue[Q]) addJobs(jobs []hostcopy.Job, quick bool) error {
	if len(jobs) == 0 {
		return nil
	}
	return q.Add(Item[Q]{Quick: quick, Host: func() error { return hostcopy.RunAll(jobs, runtime.GOMAXPROCS(0)) }})
}
