package cudalike

import (
	"cmp"
	"context"
	"errors"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/strided"
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
	hostQueue *queue    // the stream in which the host works
	pinned    uintptr   // memory for one piece or two
	emptied   [2]*event // when each half of it was emptied; nil if it was not used
	done      *event    // when the work in hostQueue is done; nil if there is none
}

// stage enqueues such a copy.
func (w *work) stage(ctx context.Context) error {
	size := w.geometry.Size()
	if size > staging.PieceBytes {
		size = 2 * staging.PieceBytes // a half for each piece, however the pieces divide the copy
	}
	pinned, err := w.allocTemp(ctx, w.device.backend.Host, size, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
	if _, contiguous := w.geometry.Contiguous(); contiguous && w.waits && errors.Is(err, core.ErrOutOfMemory) {
		return w.submit(ctx, nil, w.plain) // the driver has staging memory of its own
	}
	if err != nil {
		return err
	}
	defer pinned.tensor.Close()
	x := &stagedCopy{work: w, hostQueue: w.queue, pinned: pinned.base}
	if size <= staging.PieceBytes {
		return w.submit(ctx, pinned.tensor, x.pieces)
	}
	d := w.device
	if x.hostQueue, err = d.borrow(); err != nil {
		return err
	}
	err = w.submit(ctx, pinned.tensor, func() error { return x.hostQueue.enqueue("Copy", x.pieces) })
	if x.done == nil {
		d.giveBack(x.hostQueue)
	} else {
		d.Reaper.After([]core.Event{x.done}, func() { d.giveBack(x.hostQueue) })
	}
	return err
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
	device := strided.Destination
	if x.dst.host {
		device = strided.Source
	}
	half := 0
	for piece, at := range x.geometry.Chunks(device, staging.PieceBytes) {
		if err := x.enqueue(half, piece, at); err != nil {
			return err
		}
		half = 1 - half
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

// enqueue copies a piece through a half of the pinned memory. Its bytes begin at the offset at in memory of the device.
func (x *stagedCopy) enqueue(half int, piece strided.Copy, at int64) error {
	pinned, n := x.pinned+uintptr(half)*staging.PieceBytes, piece.Size()
	fill, empty := x.byHost, x.byDevice
	first, then := x.hostQueue, x.queue
	if x.dst.host {
		fill, empty = empty, fill
		first, then = then, first
	}
	if x.emptied[half] != nil {
		if err := x.emptied[half].waitOn(first); err != nil {
			return err
		}
	}
	if err := fill(pinned, piece, at, n); err != nil {
		return err
	}
	if _, err := x.order(then, first); err != nil {
		return err
	}
	if err := empty(pinned, piece, at, n); err != nil || first == then {
		return err
	}
	var err error
	x.emptied[half], err = then.record()
	return err
}

// byDevice copies the n bytes of a piece between the device and pinned memory.
func (x *stagedCopy) byDevice(pinned uintptr, _ strided.Copy, at, n int64) error {
	dst, src := x.dst.base+uintptr(at), pinned
	if x.dst.host {
		dst, src = pinned, x.src.base+uintptr(at)
	}
	d := x.device
	_, s := d.context.Copy(dst, src, n, x.queue.raw, 0)
	return d.check(s, "a copy of %d bytes to or from pinned memory", n)
}

// byHost copies a piece between pinned memory and other memory of the host.
func (x *stagedCopy) byHost(pinned uintptr, piece strided.Copy, at, _ int64) error {
	dst, src := pinned, x.src.base
	if x.dst.host {
		dst, src = x.dst.base, pinned
		piece.Src -= at
	} else {
		piece.Dst -= at
	}
	return x.hostQueue.hostWork(x.queue, func() error {
		return copykernel.Run(dst, src, inShares(piece), false, runtime.GOMAXPROCS(0))
	})
}

// inShares divides contiguous bytes into rows, so that several threads copy them: alone, a thread is slower than the bus,
// since mostly one side is in no cache. What makes no whole row is a copy of one thread.
func inShares(c strided.Copy) strided.Copy {
	const row = 256 << 10
	if len(c.Axes) > 0 || c.Elem%row != 0 || c.Elem == row {
		return c
	}
	c.Axes = []strided.Axis{{N: c.Elem / row, Dst: row, Src: row}}
	c.Elem = row
	return c
}
