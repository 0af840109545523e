package cudalike

import (
	"context"
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core"
)

var _ core.Converter = (*device)(nil)

// CanConvert says what the kernel converts: see [gpuconvert.Supports]. It fails with ErrNotSupported if the driver could not
// load the kernel.
func (d *device) CanConvert(dst, src core.DType, s core.Scaling) error {
	if d.kernels.missing != nil {
		return d.kernels.missing
	}
	return gpuconvert.CanConvert(&d.Info, dst, src, s)
}

// PrefersHost reports false: the device is a card.
func (d *device) PrefersHost() bool { return false }

// ConvertOn converts by a kernel, in as many launches as needed. The memory is this device's, pinned or managed.
func (d *device) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	const call = "ConvertOn"
	q, p, todo, err := devicebase.BeginConversion[*queue](ctx, &d.Device, s, dst, src, scaling, d.operandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	for _, o := range []operand{p.Dst, p.Src} {
		first, size := bytesOf(o)
		if err := d.verify(call, &o, first, size, false); err != nil {
			return err
		}
		if !o.reachable {
			return d.Errorf(core.ErrDevice, call, "%v is memory that another device has pinned: move it here first", o.tensor)
		}
		if n := uintptr(o.tensor.DType().Bits) / 8; o.base%n != 0 {
			return d.Errorf(core.ErrLayout, call, "the memory of %v is not aligned for its type: use a Clone", o.tensor)
		}
	}
	dispatches, err := gpuconvert.Plan(dst, src, scaling, gpuconvert.Limits{Range: math.MaxInt32, Alignment: 8, Groups: math.MaxInt32})
	if err != nil {
		return err
	}
	w := &conversion{queue: q, dst: p.Dst, src: p.Src, dispatches: dispatches}
	if q != nil {
		return w.submit(ctx, false)
	}
	return d.runAndWait(ctx, func(q *queue) error {
		w.queue = q
		return w.submit(ctx, true)
	})
}

// bytesOf returns where the elements of an operand lie, which are whole bytes.
func bytesOf(o operand) (first uintptr, size int64) {
	low, high := o.tensor.Layout().Extent()
	n := int64(o.tensor.DType().Bits) / 8
	return o.base + uintptr(o.tensor.Offset()+low*n), (high - low) * n
}

// conversion is a conversion whose arguments were checked.
type conversion struct {
	queue      *queue
	dst, src   operand
	dispatches []gpuconvert.Dispatch
}

// submit enqueues the launches. With waits, the caller waits for earlier work and for them.
func (w *conversion) submit(ctx context.Context, waits bool) error {
	x := &submission{queue: w.queue, call: "ConvertOn", waits: waits,
		writes: []*core.Tensor{w.dst.tensor}, reads: []*core.Tensor{w.src.tensor}, commands: w}
	return x.submit(ctx)
}

// enqueue launches the kernel. The offsets of a window are multiples of the elements' sizes, as the memory is.
func (w *conversion) enqueue() error {
	q := w.queue
	d := q.device
	for i := range w.dispatches {
		part := &w.dispatches[i]
		s := q.launch(d.kernels.converter, [3]uint32{part.Groups, 1, 1}, gpuconvert.GroupSize,
			w.dst.base+uintptr(part.Dst.Offset), w.src.base+uintptr(part.Src.Offset), unsafe.Pointer(&part.Constants))
		if err := d.check(s, "a conversion of %d elements", part.Constants.Count*part.Constants.Channels); err != nil {
			return err
		}
	}
	return nil
}
