package cudalike

import (
	"cmp"
	"context"
	"errors"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// stagesPageable reports whether a copy of n contiguous bytes, of which the caller waits for the end, is staged by dlx,
// although the driver can stage it. The driver copies with one thread, dlx with all. With one piece, the host and the
// device do not work at the same time. backends/cuda/DESIGN.md has the reasons.
func stagesPageable(n int64) bool {
	return n > staging.PieceBytes && runtime.GOMAXPROCS(0) > 1
}

// stagedCopy copies between contiguous bytes of the device and host memory that is not pinned or not contiguous, through
// pinned memory. If there are several pieces, the host copies one in a second stream while the device copies another.
type stagedCopy struct {
	*work
	ctx       context.Context                                // of the call
	hostQueue *queue                                         // the stream in which the host works
	pipeline  staging.Pipeline[uintptr, stagedPiece, *event] // its buffers are addresses
	done      *event                                         // when the work in hostQueue is done; nil if there is none
}

// stagedPiece is a piece of a copy. Its bytes begin at an offset in memory of the device.
type stagedPiece struct {
	copyplan.Copy
	at int64
}

var _ staging.Steps[uintptr, stagedPiece, *event] = (*stagedCopy)(nil)

// stage enqueues such a copy.
func (w *work) stage(ctx context.Context) error {
	size := w.geometry.Size()
	if size > staging.PieceBytes {
		size = staging.Buffers * staging.PieceBytes // however the pieces divide the copy
	}
	pinned, err := w.allocTemp(ctx, w.device.backend.Host, size, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
	if _, contiguous := w.geometry.Contiguous(); contiguous && w.waits && errors.Is(err, core.ErrOutOfMemory) {
		w.way = plain // the driver has staging memory of its own
		return w.submit(ctx, nil, w)
	}
	if err != nil {
		return err
	}
	defer pinned.tensor.Close()
	x := &stagedCopy{work: w, ctx: ctx, hostQueue: w.queue}
	x.pipeline.Steps = x
	for i := range staging.Buffers { // a single piece uses the first one
		x.pipeline.Use(i, pinned.base+uintptr(i)*staging.PieceBytes)
	}
	if size <= staging.PieceBytes {
		return w.submit(ctx, pinned.tensor, x)
	}
	d := w.device
	if x.hostQueue, err = d.borrow(); err != nil {
		return err
	}
	err = w.submit(ctx, pinned.tensor, x)
	if x.done == nil {
		d.giveBack(x.hostQueue)
	} else {
		d.Reaper.After([]core.Event{x.done}, func() { d.giveBack(x.hostQueue) })
	}
	return err
}

// enqueue enqueues the copy in both streams.
func (x *stagedCopy) enqueue() error {
	x.queue.hostTasks = append(x.queue.hostTasks, x.tasks...)
	if x.hostQueue != x.queue {
		return x.hostQueue.enqueue("Copy", x.pieces)
	}
	return x.pieces()
}

// pieces enqueues all pieces, and makes the stream of the copy wait for hostQueue.
func (x *stagedCopy) pieces() error {
	_, err := x.order(x.hostQueue, x.queue)
	if err == nil {
		err = x.enqueueAll()
	}
	done, failed := x.order(x.queue, x.hostQueue)
	if x.done = done; failed != nil { // no event says when the work is done: wait for it here
		d := x.device
		if s := d.context.Synchronize(x.hostQueue.raw); !s.OK() {
			_ = d.setLost(d.backend.statusf(core.ErrDeviceLost, s, "the driver does not say when pinned memory is free"))
		}
	}
	return cmp.Or(err, failed)
}

func (x *stagedCopy) enqueueAll() error {
	device := copyplan.Destination
	if x.dst.host {
		device = copyplan.Source
	}
	for piece, at := range x.geometry.Chunks(device, staging.PieceBytes) {
		if err := x.pipeline.Put(x.ctx, stagedPiece{piece, at}); err != nil {
			return err
		}
	}
	return nil
}

// order makes later work of one stream wait for earlier work of another, and returns an event of the latter. For
// one and the same stream it does nothing.
func (x *stagedCopy) order(later, earlier *queue) (*event, error) {
	if later == earlier {
		return nil, nil
	}
	e, err := earlier.record()
	if err != nil {
		return nil, err
	}
	e.hostTasks = nil // its stream does not wait yet for those of an earlier piece, which are in the other stream
	return e, e.waitOn(later)
}

// queues returns the streams in which pinned memory is filled and emptied.
func (x *stagedCopy) queues() (fill, empty *queue) {
	if x.dst.host {
		return x.queue, x.hostQueue
	}
	return x.hostQueue, x.queue
}

// Fill enqueues the copy of a piece to pinned memory.
func (x *stagedCopy) Fill(_ context.Context, pinned *uintptr, p stagedPiece, free *event) (*event, error) {
	fill, empty := x.queues()
	if free != nil {
		if err := free.waitOn(fill); err != nil {
			return nil, err
		}
	}
	by := x.byHost
	if x.dst.host {
		by = x.byDevice
	}
	if err := by(*pinned, p); err != nil {
		return nil, err
	}
	_, err := x.order(empty, fill)
	return nil, err
}

// Empty enqueues the copy of a piece from pinned memory. Its stream waits already.
func (x *stagedCopy) Empty(_ context.Context, pinned *uintptr, p stagedPiece, _ *event) (*event, error) {
	by := x.byDevice
	if x.dst.host {
		by = x.byHost
	}
	fill, empty := x.queues()
	if err := by(*pinned, p); err != nil || fill == empty {
		return nil, err
	}
	return empty.record()
}

// byDevice copies the bytes of a piece between the device and pinned memory.
func (x *stagedCopy) byDevice(pinned uintptr, p stagedPiece) error {
	dst, src := x.dst.base+uintptr(p.at), pinned
	if x.dst.host {
		dst, src = pinned, x.src.base+uintptr(p.at)
	}
	d, n := x.device, p.Size()
	_, s := d.context.Copy(dst, src, n, x.queue.raw, 0)
	return d.check(s, "a copy of %d bytes to or from pinned memory", n)
}

// byHost copies a piece between pinned memory and other memory of the host.
func (x *stagedCopy) byHost(pinned uintptr, p stagedPiece) error {
	piece, dst, src := p.Copy, pinned, x.src.base
	if x.dst.host {
		dst, src = x.dst.base, pinned
		piece.Src -= p.at
	} else {
		piece.Dst -= p.at
	}
	return x.hostQueue.hostWork(x.queue, func() error {
		return hostcopy.Run(dst, src, inShares(piece), false, runtime.GOMAXPROCS(0))
	})
}

// inShares divides contiguous bytes into rows, so that several threads copy them: alone, a thread is slower than the bus,
// since mostly one side is in no cache. What makes no whole row is a copy of one thread.
func inShares(c copyplan.Copy) copyplan.Copy {
	const row = 256 << 10
	if len(c.Axes) > 0 || c.Elem%row != 0 || c.Elem == row {
		return c
	}
	c.Axes = []copyplan.Axis{{N: c.Elem / row, Dst: row, Src: row}}
	c.Elem = row
	return c
}
