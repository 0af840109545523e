//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"cmp"
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// minHostBatch is from how many small copies on the host makes them in one piece of work, where it reaches the memory: the
// queue then waits for the host once. For fewer copies, commands need no such wait. See DESIGN.md.
const minHostBatch = 16

// CopyBatch enqueues the commands of all copies between two locks of the queue, with one marker and one flush, and lets the
// host make those in its own memory in one piece of work. Copies that need temporary memory are made one at a time.
func (d *device) CopyBatch(ctx context.Context, s core.Stream, dst, src []*core.Tensor) error {
	return devicebase.CopyBatch(ctx, &d.Device, s, dst, src, d.operandOf, func(q *queue, pairs []devicebase.Pair[operand]) error {
		b := batch{device: d, queue: q}
		if err := b.sort(pairs); err != nil {
			return err
		}
		for _, w := range b.apart {
			if err := w.submit(ctx); err != nil {
				return err
			}
		}
		if err := b.byHost(ctx); err != nil {
			return err
		}
		return b.byDevice(ctx)
	})
}

// batch is copies that do not depend on each other, by who makes them.
type batch struct {
	device          *device
	queue           *queue // nil if the caller waits
	apart           []*work
	host, commanded []*work
}

// sort chooses how each copy is made. It fails before anything is enqueued.
func (b *batch) sort(pairs []devicebase.Pair[operand]) error {
	list := make([]work, len(pairs))
	var small []*work // which may be either
	for i, p := range pairs {
		w := &list[i]
		*w = b.device.newWork(b.queue, p.Dst, p.Src)
		if err := w.choose(); err != nil {
			return err
		}
		switch {
		case w.way == staged:
			b.apart = append(b.apart, w)
		case w.way == inCaller || w.way == onHost:
			b.host = append(b.host, w)
		case w.dst.host != 0 && w.src.host != 0 && w.geometry.Size() < minCommand:
			small = append(small, w)
		default:
			b.commanded = append(b.commanded, w)
		}
	}
	if len(b.host) > 0 || len(small) >= minHostBatch {
		b.host = append(b.host, small...)
	} else {
		b.commanded = append(b.commanded, small...)
	}
	return nil
}

// tensors returns what works write and read.
func tensors(list []*work) (writes, reads []*core.Tensor) {
	all := make([]*core.Tensor, 2*len(list))
	writes, reads = all[:len(list)], all[len(list):]
	for i, w := range list {
		writes[i], reads[i] = w.dst.tensor, w.src.tensor
	}
	return writes, reads
}

// byHost lets the host copy: the caller if it waits, else the host's part of the queue.
func (b *batch) byHost(ctx context.Context) error {
	if len(b.host) == 0 {
		return nil
	}
	jobs := make([]hostcopy.Job, len(b.host))
	for i, w := range b.host {
		jobs[i] = hostcopy.Between(w.dst.tensor, w.src.tensor, w.dst.host, w.src.host)
	}
	run := func() error { return hostcopy.RunAll(jobs, runtime.GOMAXPROCS(0)) }
	writes, reads := tensors(b.host)
	if b.queue == nil {
		return stream.Do(ctx, writes, reads, run)
	}
	return b.enqueue(ctx, writes, reads, func(q *queue) error {
		return q.hostWork(func(failed error) error {
			if failed == nil {
				failed = run()
			}
			return failed
		})
	})
}

// byDevice enqueues the commands of the device.
func (b *batch) byDevice(ctx context.Context) error {
	if len(b.commanded) == 0 {
		return nil
	}
	writes, reads := tensors(b.commanded)
	return b.enqueue(ctx, writes, reads, func(*queue) error {
		for _, w := range b.commanded {
			if err := w.onDevice(); err != nil {
				return err
			}
		}
		return nil
	})
}

// enqueue is work.submit for commands that add enqueues, with q.mu held.
func (b *batch) enqueue(ctx context.Context, writes, reads []*core.Tensor, add func(q *queue) error) error {
	q := cmp.Or(b.queue, b.device.own)
	var failed error // why a command could not be enqueued: those before it may run, and need their event
	enqueue := func() error {
		if err := q.lock("CopyBatch"); err != nil {
			return err
		}
		defer q.mu.Unlock()
		failed = add(q)
		return nil
	}
	submit := stream.Submit
	if b.queue == nil {
		submit = stream.SubmitAndWait
	}
	err := submit(ctx, q, writes, reads, enqueue)
	return cmp.Or(failed, err)
}
