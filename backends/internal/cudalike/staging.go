package cudalike

import (
	"cmp"
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// stagedCopy copies contiguous bytes between the device and host memory that is not pinned, through pinned
// memory. If there are several pieces, the host copies one in a second stream while the device copies another.
type stagedCopy struct {
	*work
	hostQueue *queue    // the stream in which the host works
	pinned    uintptr   // memory for one piece or two
	emptied   [2]*event // when each half of it was emptied; nil if it was not used
	done      *event    // when the work in hostQueue is done; nil if there is none
}

// stage enqueues such a copy.
func (w *work) stage(ctx context.Context) error {
	size := min(w.geometry.Elem, 2*staging.PieceBytes)
	pinned, err := w.allocTemp(ctx, w.device.backend.Host, size, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
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
	c := x.geometry
	_, err := x.order(x.hostQueue, x.queue)
	if err == nil {
		err = staging.Pieces(c.Elem, func(done int64, half int, n int64) error {
			return x.enqueue(half, x.dst.base+uintptr(c.Dst+done), x.src.base+uintptr(c.Src+done), n)
		})
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

// enqueue copies n bytes through a half of the pinned memory.
func (x *stagedCopy) enqueue(half int, dst, src uintptr, n int64) error {
	pinned := x.pinned + uintptr(half)*staging.PieceBytes
	first, fill, then, empty := x.queue, x.byDevice, x.hostQueue, x.byHost
	if x.src.host {
		first, fill, then, empty = then, empty, first, fill
	}
	if x.emptied[half] != nil {
		if err := x.emptied[half].waitOn(first); err != nil {
			return err
		}
	}
	if err := fill(pinned, src, n); err != nil {
		return err
	}
	if _, err := x.order(then, first); err != nil {
		return err
	}
	if err := empty(dst, pinned, n); err != nil || first == then {
		return err
	}
	var err error
	x.emptied[half], err = then.record()
	return err
}

func (x *stagedCopy) byDevice(dst, src uintptr, n int64) error {
	d := x.device
	return d.check(d.context.Copy(dst, src, n, x.queue.raw), "a copy of %d bytes to or from pinned memory", n)
}

func (x *stagedCopy) byHost(dst, src uintptr, n int64) error {
	return x.hostQueue.hostWork(x.queue, func() error {
		return copykernel.Bytes(dst, src, n).Run(runtime.GOMAXPROCS(0))
	})
}
