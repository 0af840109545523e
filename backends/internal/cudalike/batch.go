package cudalike

import (
	"context"
	"errors"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// CopyBatch makes contiguous copies by one call of the driver. Those from or to host memory that is not pinned share
// staging memory and a host function; larger ones, and strided copies, are made one at a time.
func (d *device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return devicebase.CopyBatch(ctx, &d.Device, s, dst, src, d.operandOf, func(q *queue, pairs []devicebase.Pair[operand]) error {
		if q != nil {
			return d.copyBatch(ctx, q, false, pairs)
		}
		return d.runAndWait(ctx, func(q *queue) error { return d.copyBatch(ctx, q, true, pairs) })
	})
}

// copyBatch copies pairs that do not depend on each other. waits says that the caller waits for the copies.
func (d *device) copyBatch(ctx context.Context, q *queue, waits bool, pairs []devicebase.Pair[operand]) error {
	b := &batch{device: d, queue: q, waits: waits}
	for _, p := range pairs {
		w := &work{device: d, queue: q, waits: waits, dst: p.Dst, src: p.Src, few: p.Dst.tensor.NumBytes() <= staging.SmallBytes}
		w.geometry, w.bits = copyplan.OfBits(w.dst.tensor, w.src.tensor)
		if err := w.verify(); err != nil {
			return err
		}
		_, contiguous := w.geometry.Contiguous()
		staged := !w.dst.reachable || !w.src.reachable
		onHost := w.dst.host && w.src.host // which copies by itself
		if w.bits || !contiguous || staged && (!w.few || onHost) || len(pairs) == 1 {
			if err := w.run(ctx); err != nil {
				return err
			}
			continue
		}
		if staged && b.staging+w.geometry.Elem > staging.BatchBytes {
			if err := b.submit(ctx); err != nil {
				return err
			}
		}
		b.add(w, staged)
	}
	return b.submit(ctx)
}

// batch is contiguous copies that are submitted together.
type batch struct {
	device  *device
	queue   *queue
	waits   bool
	works   []*work
	staged  []stagedWork
	staging int64 // bytes of staging memory
}

// stagedWork is a copy through staging memory.
type stagedWork struct {
	*work
	at int64 // in the staging memory
}

func (b *batch) add(w *work, staged bool) {
	if staged {
		b.staged = append(b.staged, stagedWork{w, b.staging})
		b.staging += staging.InBatch(w.geometry.Elem)
	} else {
		b.works = append(b.works, w)
	}
}

// submit submits what was added, and empties the batch.
func (b *batch) submit(ctx context.Context) error {
	works, staged, bytes := b.works, b.staged, b.staging
	b.works, b.staged, b.staging = nil, nil, 0
	n := len(works) + len(staged)
	if n == 0 {
		return nil
	}
	writes, reads := make([]*core.Tensor, 0, n+1), make([]*core.Tensor, 0, n)
	add := func(w *work) { writes, reads = append(writes, w.dst.tensor), append(reads, w.src.tensor) }
	var pieces Pieces
	for _, w := range works {
		add(w)
		pieces.Add(w.dst.base+uintptr(w.geometry.Dst), w.src.base+uintptr(w.geometry.Src), w.geometry.Elem)
	}
	var fill, empty []hostcopy.Job // by the host, before and after the device's copies
	if len(staged) > 0 {
		w := &work{device: b.device, queue: b.queue, waits: b.waits}
		pinned, err := w.allocTemp(ctx, b.device.backend.Host, bytes, core.Spec{DType: core.TypeUint8, Shape: []int64{bytes}})
		if errors.Is(err, core.ErrOutOfMemory) {
			return b.oneByOne(ctx, works, staged)
		}
		if err != nil {
			return err
		}
		defer pinned.tensor.Close()
		writes = append(writes, pinned.tensor)
		for _, w := range staged {
			add(w.work)
			dst, src, at := w.dst.base+uintptr(w.geometry.Dst), w.src.base+uintptr(w.geometry.Src), pinned.base+uintptr(w.at)
			if w.src.reachable {
				pieces.Add(at, src, w.geometry.Elem)
				empty = append(empty, hostcopy.Bytes(dst, at, w.geometry.Elem))
			} else {
				fill = append(fill, hostcopy.Bytes(at, src, w.geometry.Elem))
				pieces.Add(dst, at, w.geometry.Elem)
			}
		}
	}
	x := &submission{queue: b.queue, call: "CopyBatch", waits: b.waits, checks: len(staged) == 0, writes: writes, reads: reads,
		commands: &batchCommands{b.queue, fill, pieces, empty}}
	return x.submit(ctx)
}

// oneByOne makes copies one after the other: single ones need less pinned memory, or none.
func (b *batch) oneByOne(ctx context.Context, works []*work, staged []stagedWork) error {
	for _, s := range staged {
		works = append(works, s.work)
	}
	for _, w := range works {
		if err := w.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// batchCommands are copies of the host that fill staging memory, those of the device, and those of the host that empty the
// staging memory.
type batchCommands struct {
	queue  *queue
	fill   []hostcopy.Job
	pieces Pieces
	empty  []hostcopy.Job
}

// enqueue enqueues the copies in this order.
func (b *batchCommands) enqueue() error {
	q, d := b.queue, b.queue.device
	if err := q.hostJobs(b.fill); err != nil {
		return err
	}
	s := q.withEvent(func(event uintptr) (bool, Status) {
		if len(b.empty) > 0 {
			event = 0 // it would not be behind the host's work
		}
		return d.context.CopyBatch(b.pieces, q.raw, event)
	})
	check := d.checkEnqueued
	if len(b.fill) > 0 {
		check = d.check
	}
	if err := check(s, "%d copies", len(b.pieces.Dst)); err != nil {
		return err
	}
	return q.hostJobs(b.empty)
}

// hostJobs enqueues copies by the host, if there are any.
func (q *queue) hostJobs(jobs []hostcopy.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return q.hostWork(q, func() error { return hostcopy.RunAll(jobs, runtime.GOMAXPROCS(0)) })
}
