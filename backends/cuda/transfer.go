//go:build cuda && linux && cgo

package cuda

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
	waits    bool // the caller does, for all that is before and for the copy
	dst, src side
	geometry strided.Copy
	bits     bool // what geometry counts
}

const (
	// maxBoxes is how many rectangular commands replace one launch of a kernel.
	maxBoxes = 8
	// minRow is the least number of bytes of a row that a rectangular command moves well.
	minRow = 256
	// stagingBytes is the largest piece that goes through pinned memory at once.
	stagingBytes = 4 << 20
)

// verify proves that memory which another library says to be CUDA's is.
func (w *transfer) verify() error {
	r := w.geometry.Range()
	if w.bits {
		r = strided.Range{DstLow: r.DstLow / 8, DstHigh: (r.DstHigh + 7) / 8, SrcLow: r.SrcLow / 8, SrcHigh: (r.SrcHigh + 7) / 8}
	}
	for _, x := range []struct {
		side
		low, high int64
	}{{w.dst, r.DstLow, r.DstHigh}, {w.src, r.SrcLow, r.SrcHigh}} {
		if !x.probe {
			continue
		}
		id, _, err := w.device.identify("Copy", x.base+uintptr(x.low), x.high-x.low)
		if err != nil {
			return err
		}
		if place := x.tensor.ID(); id.Type != place.Type {
			return errorf(core.ErrInvalid, "Copy", "%v says that it lies on %v, and it lies on %v", x.tensor, place, id)
		}
	}
	return nil
}

// choose picks the cheapest way that is there, nil if there is none in one piece.
func (w *transfer) choose() (func() error, error) {
	_, contiguous := w.geometry.Contiguous()
	mapped := w.dst.mapped && w.src.mapped
	box, at := w.geometry.Boxes()
	switch {
	case w.bits:
		return nil, errorf(core.ErrNotSupported, "Copy", "packed %v elements do not lie on whole bytes, and the host cannot reach the memory", w.dst.tensor.DType())
	case contiguous && (mapped || w.waits):
		return w.plain, nil
	case mapped && at.Count() <= maxBoxes && box.Row >= minRow && max(box.DstRowPitch, box.SrcRowPitch) <= math.MaxInt32:
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
	return w.device.check(s, "cuMemcpyAsync", "a copy of %d bytes", c.Elem)
}

// boxes copies rectangles.
func (w *transfer) boxes() error {
	box, at := w.geometry.Boxes()
	for dst, src := range at.Pieces() {
		s := w.device.context.CopyBox(w.dst.base+uintptr(dst), w.src.base+uintptr(src), box, w.queue.raw)
		if err := w.device.check(s, "cuMemcpy3DAsync", "%d slices of %d rows of %d bytes", box.Slices, box.Rows, box.Row); err != nil {
			return err
		}
	}
	return nil
}

// onHost has the host copy when the turn of the copy has come, or now.
func (w *transfer) onHost() error {
	// The addresses are those of the first elements: what lies before may not be Go's.
	c := w.geometry
	dst, src := w.dst.base+uintptr(c.Dst), w.src.base+uintptr(c.Src)
	c.Dst, c.Src = 0, 0
	return w.turn(func() { copykernel.Copy(pointer(dst), pointer(src), c, runtime.GOMAXPROCS(0)) })
}

// turn enqueues work of the host.
func (w *transfer) turn(work func()) error {
	if w.waits { // for all that is before
		work()
		return nil
	}
	d := w.device
	s := d.context.HostTurn(w.queue.raw, func() {
		work()
		d.hostWorkDone.Add(1)
	})
	return d.check(s, "cuLaunchHostFunc", "a copy by the host")
}

// pack copies where neither one command nor a kernel does: elements are packed on
// either side where they are not, and cross in one piece. What lies in between is closed
// at once, and stays until the work is done.
func (w *transfer) pack(ctx context.Context) error {
	if !w.src.tensor.Layout().IsContiguous() {
		packed, err := w.packed(ctx, w.src)
		if err != nil {
			return err
		}
		defer packed.tensor.Close()
		if err := w.step(ctx, packed, w.src); err != nil {
			return err
		}
		return w.step(ctx, w.dst, packed)
	}
	if !w.dst.tensor.Layout().IsContiguous() {
		packed, err := w.packed(ctx, w.dst)
		if err != nil {
			return err
		}
		defer packed.tensor.Close()
		if err := w.step(ctx, packed, w.src); err != nil {
			return err
		}
		return w.step(ctx, w.dst, packed)
	}
	return w.stage(ctx)
}

// step is a copy that is a part of this one.
func (w *transfer) step(ctx context.Context, dst, src side) error {
	return (&transfer{device: w.device, queue: w.queue, waits: w.waits, dst: dst, src: src}).run(ctx)
}

// packed is a row-major tensor like that of s, on the device or in pinned memory.
func (w *transfer) packed(ctx context.Context, s side) (side, error) {
	t := s.tensor
	place := core.DeviceCUDA
	if s.host {
		place = core.DeviceCUDAHost
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
	return side{tensor: t, base: m.Handle, mapped: true, host: place == core.DeviceCUDAHost}, nil
}

// stage copies bytes in a row between memory of the host that is not pinned and the
// device, through pinned memory, when the turn of the copy has come.
func (w *transfer) stage(ctx context.Context) error {
	c := w.geometry
	between, err := w.room(ctx, core.DeviceCUDAHost, min(c.Elem, stagingBytes), core.Spec{DType: core.TypeUint8, Shape: []int64{min(c.Elem, stagingBytes)}})
	if err != nil {
		return err
	}
	defer between.tensor.Close()
	return w.submit(ctx, between.tensor, func() error {
		for done := int64(0); done < c.Elem; done += stagingBytes {
			n := min(c.Elem-done, stagingBytes)
			dst, src := w.dst.base+uintptr(c.Dst+done), w.src.base+uintptr(c.Src+done)
			if err := w.piece(dst, src, between.base, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// piece copies n bytes from src to dst by way of pinned memory at between.
func (w *transfer) piece(dst, src, between uintptr, n int64) error {
	d := w.device
	if w.src.host {
		if err := w.turn(func() { move(between, src, n) }); err != nil {
			return err
		}
		return d.check(d.context.Copy(dst, between, n, w.queue.raw), "cuMemcpyAsync", "a copy of %d bytes to the device", n)
	}
	if err := d.check(d.context.Copy(between, src, n, w.queue.raw), "cuMemcpyAsync", "a copy of %d bytes from the device", n); err != nil {
		return err
	}
	return w.turn(func() { move(dst, between, n) })
}

// move copies bytes of the host.
func move(dst, src uintptr, n int64) {
	copykernel.Copy(pointer(dst), pointer(src), strided.Copy{Elem: n}, runtime.GOMAXPROCS(0))
}
