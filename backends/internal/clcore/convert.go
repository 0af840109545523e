//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"cmp"
	"context"
	"math"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

var _ core.Converter = (*device)(nil)

// converter is the kernel for conversions. It is compiled on first use.
type converter struct {
	mu      sync.Mutex // held from the first argument to the launch too
	program *program   // nil before the first use
}

// CanConvert says what the device converts: see [gpuconvert.Supports].
func (d *device) CanConvert(dst, src core.DType, s core.Scaling) error {
	return gpuconvert.CanConvert(&d.Info, dst, src, s)
}

// PrefersHost reports whether the device is the processor.
func (d *device) PrefersHost() bool { return d.cpu }

// ConvertOn converts by a kernel, in as many launches as needed. If dst and src are two cl_mem over the same pages of host
// memory, it converts a copy of src: see [queue.handOver] and DESIGN.md.
func (d *device) ConvertOn(ctx context.Context, s core.Stream, dst, src *core.Tensor, scaling core.Scaling) error {
	q, p, todo, err := devicebase.BeginConversion[*queue](ctx, &d.Device, s, dst, src, scaling, d.operandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	for _, o := range []operand{p.Dst, p.Src} {
		if o.wordSize() < int64(o.tensor.DType().Bits)/8 {
			return d.errorf(core.ErrLayout, "ConvertOn", "the memory of %v is not aligned for its type: use a Clone", o.tensor)
		}
	}
	if p.Dst.mem != p.Src.mem && p.Dst.over.meets(p.Src.over) {
		return d.convertApart(ctx, q, p.Dst, p.Src, scaling)
	}
	return d.convert(ctx, q, p.Dst, p.Src, scaling)
}

// convertApart converts a packed copy of src, since one command must not use dst and src.
func (d *device) convertApart(ctx context.Context, q *queue, dst, src operand, scaling core.Scaling) error {
	packed, err := d.packed(ctx, src.tensor, true)
	if err != nil {
		return err
	}
	defer func() { _ = packed.Close() }() // never fails; the memory stays until it is converted
	if err := d.step(ctx, q, packed, src.tensor); err != nil {
		return err
	}
	from, err := d.operandOf(packed)
	if err != nil {
		return err
	}
	return d.convert(ctx, q, dst, from, scaling, q.tasksOf(packed)...)
}

// convert is ConvertOn with checked operands, which one command may use. The event of the conversion also reports the
// errors of tasks.
func (d *device) convert(ctx context.Context, q *queue, dst, src operand, scaling core.Scaling, tasks ...*hostTask) error {
	limits := gpuconvert.Limits{Range: math.MaxInt32, Alignment: 8, Groups: 1 << 22}
	dispatches, err := gpuconvert.Plan(dst.tensor, src.tensor, scaling, limits)
	if err != nil {
		return err
	}
	w := &conversion{queue: cmp.Or(q, d.own), dst: dst, src: src, dispatches: dispatches, tasks: tasks}
	submit := stream.Submit
	if q == nil {
		submit = stream.SubmitAndWait
	}
	err = submit(ctx, w.queue, []*core.Tensor{dst.tensor}, []*core.Tensor{src.tensor}, w.enqueue)
	return cmp.Or(w.failed, err)
}

// conversion is a conversion whose arguments were checked.
type conversion struct {
	queue      *queue
	dst, src   operand
	dispatches []gpuconvert.Dispatch
	tasks      []*hostTask // see convert
	failed     error       // why a command could not be enqueued
}

// enqueue enqueues the launches. If one fails, its error is kept in failed: those before it may run, and need their event.
func (w *conversion) enqueue() error {
	if err := w.queue.lock("ConvertOn"); err != nil {
		return err
	}
	defer w.queue.mu.Unlock()
	w.queue.hostTasks = append(w.queue.hostTasks, w.tasks...)
	var r copyplan.Range
	r.DstLow, r.DstHigh = bytesOf(w.dst.tensor)
	r.SrcLow, r.SrcHigh = bytesOf(w.src.tensor)
	w.failed = w.queue.handOverBoth(w.dst, w.src, r, w.commands)
	return nil
}

// commands enqueues the launches. w.queue.mu is held.
func (w *conversion) commands() error {
	for _, part := range w.dispatches {
		if err := w.queue.device.converter.launch(w.queue, w.dst.mem, w.src.mem, part); err != nil {
			return err
		}
	}
	return nil
}

// bytesOf returns the range of bytes in which the elements of t lie, whole bytes each, from the start of its memory.
func bytesOf(t *core.Tensor) (low, high int64) {
	first, last := t.Layout().Extent()
	size := int64(t.DType().Bits) / 8
	return t.Offset() + first*size, t.Offset() + last*size
}

// launch launches the kernel on q. q.mu is held.
func (c *converter) launch(q *queue, dst, src driver.Mem, x gpuconvert.Dispatch) error {
	const what = "the kernel for conversions"
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.compile(q.device)
	if err != nil {
		return err
	}
	constants := unsafe.Slice((*byte)(unsafe.Pointer(&x.Constants)), unsafe.Sizeof(x.Constants))
	for _, s := range [...]driver.Status{
		q.device.setMem(p.kernel, 0, dst), q.device.setMem(p.kernel, 1, src),
		driver.SetArg(p.kernel, 2, uint64(x.Dst.Offset)), driver.SetArg(p.kernel, 3, uint64(x.Src.Offset)),
		driver.SetStruct(p.kernel, 4, constants),
	} {
		if err := q.device.check(s, "clSetKernelArg", what); err != nil {
			return err
		}
	}
	if !p.launched { // some drivers compile now
		p.launched = true
		defer dl.KeepHandlers()()
	}
	s := driver.Launch(q.raw, p.kernel, int64(x.Groups)*gpuconvert.GroupSize, gpuconvert.GroupSize)
	if err := q.device.check(s, "clEnqueueNDRangeKernel", "a conversion of %d elements", x.Constants.Count*x.Constants.Channels); err != nil {
		return err
	}
	return q.inOrder()
}

// compile makes the kernel. c.mu is held.
func (c *converter) compile(d *device) (p *program, err error) {
	if c.program == nil {
		c.program, err = compileProgram(d, gpuconvert.OpenCL(), "convert", "the kernel for conversions")
	}
	return c.program, err
}

// release releases the kernel.
func (c *converter) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program != nil {
		c.program.release()
		c.program = nil
	}
}
