package cudalike

import (
	"context"
	"math"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
)

// transfer is a copy that was checked.
type transfer struct {
	device   *device
	queue    *queue
	behind   []*turn // whose errors are the copy's, too
	waits    bool    // the caller does, for all that is before and for the copy
	dst, src side
	geometry strided.Copy
	bits     bool // what geometry counts
}

const (
	// maxBoxes is how many rectangular commands replace one launch of a kernel.
	maxBoxes = 8
	// minRow is the least number of bytes of a row that a rectangular command moves well.
	minRow = 256
	// maxPitch is the largest pitch of every device known, in bytes.
	maxPitch = math.MaxInt32
)

// fewBoxes reports whether rectangular commands do a copy well.
func fewBoxes(c strided.Copy) bool {
	box, at := c.Boxes()
	return at.Count() <= maxBoxes && box.Row >= minRow && max(box.DstRowPitch, box.SrcRowPitch) <= maxPitch
}

// verify proves that memory which another library says to be the driver's is, and finds
// memory of the host that another library has pinned.
func (w *transfer) verify() error {
	r := w.geometry.ByteRange(w.bits)
	for _, x := range []struct {
		*side
		low, high int64
	}{{&w.dst, r.DstLow, r.DstHigh}, {&w.src, r.SrcLow, r.SrcHigh}} {
		first, size := x.base+uintptr(x.low), x.high-x.low
		switch {
		case x.probe:
			if err := w.device.prove("Copy", x.tensor, first, size); err != nil {
				return err
			}
		case x.others:
			x.mapped = w.device.pinned(first, size)
		case !x.mapped && !w.waits: // who waits gains nothing by it
			x.mapped = w.device.pinned(first, size)
		}
	}
	return nil
}

// prove fails unless size bytes from p on are memory of the kind that a tensor on them says.
func (d *device) prove(call string, t *core.Tensor, p uintptr, size int64) error {
	id, _, err := d.identify(call, p, size)
	if err != nil {
		return err
	}
	if place := t.DeviceID(); id.Type != place.Type {
		return d.Errorf(core.ErrInvalid, call, "%v says that it lies on %v, and it lies on %v", t, place, id)
	}
	return nil
}

// pinned reports whether size bytes of the host from p on are registered with the driver, so that the
// card copies them itself.
func (d *device) pinned(p uintptr, size int64) bool {
	a, s := d.context.Pointer(p)
	return s.OK() && a.Type == HostMemory && !a.Managed && d.reaches(a) && a.Size-int64(p-a.Start) >= size
}

// reaches reports whether pinned memory is that for this device, too: what was allocated
// by any context is, but what another has registered need not be (CUDA driver API,
// "Unified Addressing"), and is copied like all other memory of the host then: the driver
// does not tell whether it is.
func (d *device) reaches(a Pointer) bool {
	return a.Context == 0 || a.Context == d.context.ID() || d.context.IsHostAllocation(a.Host)
}

// choose picks the cheapest way that is there, nil if there is none in one piece.
func (w *transfer) choose() (func() error, error) {
	_, contiguous := w.geometry.Contiguous()
	mapped := w.dst.mapped && w.src.mapped
	switch {
	case w.bits:
		return nil, w.device.Errorf(core.ErrNotSupported, "Copy", "packed %v elements do not lie on whole bytes, and the host cannot reach the memory", w.dst.tensor.DType())
	case contiguous && (mapped || w.waits):
		return w.plain, nil
	case mapped && fewBoxes(w.geometry):
		return w.boxes, nil
	case w.dst.host && w.src.host:
		return w.onHost, nil
	case mapped && !w.dst.host && !w.src.host:
		return w.byKernel, nil
	}
	return nil, nil
}

// plain copies bytes that lie in a row.
func (w *transfer) plain() error {
	c := w.geometry
	s := w.device.context.Copy(w.dst.base+uintptr(c.Dst), w.src.base+uintptr(c.Src), c.Elem, w.queue.raw)
	return w.device.check(s, "a copy of %d bytes", c.Elem)
}

// boxes copies rectangles.
func (w *transfer) boxes() error {
	box, at := w.geometry.Boxes()
	for dst, src := range at.Pieces() {
		s := w.device.context.CopyBox(w.dst.base+uintptr(dst), w.src.base+uintptr(src), box, w.queue.raw)
		if err := w.device.check(s, "%d slices of %d rows of %d bytes", box.Slices, box.Rows, box.Row); err != nil {
			return err
		}
	}
	return nil
}

// onHost has the host copy when the turn of the copy has come, or now.
func (w *transfer) onHost() error {
	dst, src, c := w.dst.base, w.src.base, w.geometry
	work := func() error { return copykernel.Run(dst, src, c, false, runtime.GOMAXPROCS(0)) }
	if w.waits { // for all that is before
		return work()
	}
	return w.queue.turn(w.queue, work)
}

// turn is work of the host that has its turn in a stream, and how it ended.
type turn struct{ err error }

// turn enqueues work of the host. The events of told, which is q or waits for it, tell
// what it failed with. The mutexes of both are held.
func (q *queue) turn(told *queue, work func() error) error {
	d, t := q.device, new(turn)
	s := d.context.HostTurn(q.raw, func() {
		if d.lostError() == nil { // else its memory may be freed: see event.fail
			t.err = work()
		}
		d.backend.hostWork.Pass()
	})
	if s.OK() {
		told.turns = append(told.turns, t)
	}
	return d.check(s, "a copy by the host")
}

// pack copies where neither one command nor a kernel does: elements are packed on
// the side where they are not, and cross in one piece. What lies in between is closed
// at once, and stays until the work is done.
func (w *transfer) pack(ctx context.Context) error {
	loose := w.src
	if loose.tensor.Layout().IsContiguous() {
		loose = w.dst
	}
	if loose.tensor.Layout().IsContiguous() {
		return w.stage(ctx)
	}
	packed, err := w.packed(ctx, loose)
	if err != nil {
		return err
	}
	defer packed.tensor.Close()
	if err := w.step(ctx, packed, w.src); err != nil {
		return err
	}
	return w.step(ctx, w.dst, packed)
}

// step is a copy that is a part of this one. It tells what work of the host failed with
// that src comes from.
func (w *transfer) step(ctx context.Context, dst, src side) error {
	step := transfer{device: w.device, queue: w.queue, waits: w.waits, dst: dst, src: src}
	if e, ok := core.UnwrapEvent(src.tensor.Ready()).(*event); ok && e.queue == w.queue {
		step.behind = e.turnsLeft()
	}
	return step.run(ctx)
}

// packed is a row-major tensor like that of s, on the device or in pinned memory.
func (w *transfer) packed(ctx context.Context, s side) (side, error) {
	t := s.tensor
	place := w.device.backend.Device
	if s.host {
		place = w.device.backend.Host
	}
	return w.room(ctx, place, t.NumBytes(), core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded})
}

// room allocates memory of the device or pinned memory.
func (w *transfer) room(ctx context.Context, place core.DeviceType, bytes int64, spec core.Spec) (side, error) {
	o := core.AllocOptions{Type: place}
	if !w.waits {
		o.Stream = w.queue
	}
	m, err := w.device.Alloc(ctx, bytes, o)
	if err != nil {
		return side{}, err
	}
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
		return side{}, err
	}
	return side{tensor: t, base: m.Handle, mapped: true, host: place == w.device.backend.Host}, nil
}
