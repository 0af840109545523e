package cudalike

import (
	"cmp"
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/core"
)

// StagingBytes is the largest piece that goes through pinned memory at once.
const StagingBytes = 4 << 20

// staging is a copy of bytes in a row between the device and memory of the host that is
// not pinned, by way of memory that is. If there are several pieces, the host copies
// one on a stream beside, while the card copies another.
type staging struct {
	*transfer
	beside *queue
	pinned uintptr   // room for one piece, or for two
	piece  int64     // bytes
	idle   [2]*event // when the room of a piece is free again; nil where it is already
	end    *event    // of all work beside
}

// stage enqueues such a copy.
func (w *transfer) stage(ctx context.Context) error {
	room := min(w.geometry.Elem, 2*StagingBytes)
	between, err := w.room(ctx, w.device.backend.Host, room, core.Spec{DType: core.TypeUint8, Shape: []int64{room}})
	if err != nil {
		return err
	}
	defer between.tensor.Close()
	x := &staging{transfer: w, beside: w.queue, pinned: between.base, piece: min(room, StagingBytes)}
	if x.piece == room {
		return w.submit(ctx, between.tensor, x.pieces)
	}
	d := w.device
	if x.beside, err = d.borrow(); err != nil {
		return err
	}
	err = w.submit(ctx, between.tensor, func() error { return x.beside.enqueue("Copy", x.pieces) })
	if x.end == nil { // nothing is left there
		d.giveBack(x.beside)
	} else {
		d.Reaper.After([]core.Event{x.end}, func() { d.giveBack(x.beside) })
	}
	return err
}

// pieces enqueues all pieces, and has the stream wait for what is enqueued beside it.
func (x *staging) pieces() error {
	c := x.geometry
	_, err := x.order(x.beside, x.queue)
	for i := int64(0); i*x.piece < c.Elem && err == nil; i++ {
		done := i * x.piece
		err = x.enqueue(int(i%2), x.dst.base+uintptr(c.Dst+done), x.src.base+uintptr(c.Src+done), min(x.piece, c.Elem-done))
	}
	end, failed := x.order(x.queue, x.beside)
	if x.end = end; failed != nil { // nobody knows when that is over, unless it is now
		d := x.device
		if s := d.context.Synchronize(x.beside.raw); !s.OK() {
			_ = d.lose(d.backend.statusf(core.ErrDeviceLost, s, "nothing tells any more when pinned memory is free"))
		}
	}
	return cmp.Or(err, failed)
}

// order has a stream wait for the work of another, of which it returns the end.
func (x *staging) order(later, earlier *queue) (*event, error) {
	if later == earlier {
		return nil, nil
	}
	e, err := earlier.record()
	if err != nil {
		return nil, err
	}
	return e, e.holdBack(later)
}

// enqueue copies n bytes through the room of a piece.
func (x *staging) enqueue(room int, dst, src uintptr, n int64) error {
	between := x.pinned + uintptr(room)*uintptr(x.piece)
	first, fill, then, empty := x.queue, x.byCard, x.beside, x.byHost
	if x.src.host {
		first, fill, then, empty = then, empty, first, fill
	}
	if x.idle[room] != nil {
		if err := x.idle[room].holdBack(first); err != nil {
			return err
		}
	}
	if err := fill(between, src, n); err != nil {
		return err
	}
	if _, err := x.order(then, first); err != nil {
		return err
	}
	if err := empty(dst, between, n); err != nil || first == then {
		return err
	}
	var err error
	x.idle[room], err = then.record()
	return err
}

func (x *staging) byCard(dst, src uintptr, n int64) error {
	d := x.device
	return d.check(d.context.Copy(dst, src, n, x.queue.raw), "a copy of %d bytes to or from pinned memory", n)
}

func (x *staging) byHost(dst, src uintptr, n int64) error {
	return x.beside.turn(x.queue, func() error {
		return copykernel.Bytes(dst, src, n).Run(runtime.GOMAXPROCS(0))
	})
}
