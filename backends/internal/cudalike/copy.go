package cudalike

import (
	"cmp"
	"context"

	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between memory of this device, pinned and managed memory, and any
// other that the host can reach; tensors of DLPack may lie in all of these. Memory of
// the host that is not pinned goes through pinned memory, in pieces. It
// fails with ErrNotSupported for packed elements that do not lie on whole bytes,
// and for a stream that is being captured into a graph: a graph runs its work when dlx
// knows nothing of it, so that no event could tell of it.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	if err := d.hold("Copy"); err != nil {
		return err
	}
	defer d.Drop()
	return shell.Copy(ctx, &d.Device, s, dst, src, d.sideOf, func(q *queue, to, from side) error {
		w := &transfer{device: d, queue: q, waits: q == nil, dst: to, src: from}
		if !w.waits {
			return w.run(ctx)
		}
		return d.waited(ctx, func(q *queue) error {
			w.queue = q
			return w.run(ctx)
		})
	})
}

// side is where one tensor of a copy lies.
type side struct {
	tensor *core.Tensor
	base   uintptr // what offsets count from
	mapped bool    // the device uses the memory by its address: its own, pinned and managed memory
	host   bool    // the host does, and it is not the driver's to move
	probe  bool    // nobody has proved that it is what it says
	others bool    // it is pinned for another opening of a device, if not for this one
}

func (s side) Ours() bool { return s.mapped }

// Host is 0: core.CheckCopy knows all addresses of the host.
func (s side) Host() uintptr { return 0 }

// sideOf finds out about a tensor, or refuses one on another device.
func (d *device) sideOf(t *core.Tensor) (side, error) {
	m, host, err := d.Locate(t)
	if err != nil {
		return side{}, err
	}
	s := side{tensor: t, base: m.Handle}
	s.mapped = !host || m.ID.Type == d.backend.Host || m.ID.Type == d.backend.Managed
	s.host = host && m.ID.Type != d.backend.Managed
	s.probe = s.mapped && m.Device == nil && m.Handle != 0
	s.others = s.mapped && s.host && m.Device != nil && m.Device != d
	return s, nil
}

// run carries the copy out, or enqueues it.
func (w *transfer) run(ctx context.Context) error {
	w.geometry, w.bits = strided.OfBits(w.dst.tensor, w.src.tensor)
	if err := w.verify(); err != nil {
		return err
	}
	how, err := w.choose()
	if err != nil {
		return err
	}
	if how == nil {
		return w.pack(ctx)
	}
	return w.submit(ctx, nil, how)
}

// submit enqueues commands that use a third tensor besides, which may be nil.
func (w *transfer) submit(ctx context.Context, between *core.Tensor, commands func() error) error {
	writes := []*core.Tensor{w.dst.tensor}
	if between != nil {
		writes = append(writes, between)
	}
	order := stream.Submit
	if w.waits {
		order = stream.SubmitAndWait // the driver uses memory that is not pinned when it is called, not in the stream's turn
	}
	return w.queue.submit(ctx, order, "Copy", writes, w.src.tensor, func() error {
		w.queue.turns = append(w.queue.turns, w.behind...)
		return commands()
	})
}

// submit is stream.Submit to q, or stream.SubmitAndWait. That a command cannot
// be enqueued neither learns: others may have been before it, for which the event
// must come that ends them.
func (q *queue) submit(ctx context.Context, order submitter, call string, writes []*core.Tensor, src *core.Tensor, commands func() error) error {
	var failed error
	err := order(ctx, q, writes, []*core.Tensor{src}, func() error {
		return q.enqueue(call, func() error {
			failed = commands()
			return nil
		})
	})
	return cmp.Or(failed, err)
}

type submitter = func(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error
