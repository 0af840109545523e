//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"runtime"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between memory of this device, including tensors from DLPack on it, and memory that the host
// can reach. If the host reaches both as fast as its own memory, the host makes strided copies, in the order
// of the stream. Copy fails with ErrNotSupported for packed elements that do not lie on whole bytes, if the
// host cannot reach the memory.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return shell.Copy(ctx, &d.Device, s, dst, src, d.operandOf, func(q *queue, to, from operand) error {
		w := work{device: d, dst: to, src: from}
		if q != nil {
			return w.submit(ctx, q)
		}
		return d.copyHere(ctx, w)
	})
}

// copyHere copies on a queue that nothing else uses meanwhile, and waits.
func (d *device) copyHere(ctx context.Context, w work) error {
	w.here = true
	return d.onOwnQueue(func(q *queue) error { return w.submit(ctx, q) })
}

// onOwnQueue calls f with a queue that nothing else uses meanwhile. f waits for the work that it has enqueued there,
// unless it fails.
func (d *device) onOwnQueue(f func(q *queue) error) error {
	q, err := d.queues.Borrow(&d.Device, func() (*queue, error) { return newQueue(d) })
	if err != nil {
		return d.noteLoss(err)
	}
	if err = f(q); err == nil {
		d.queues.GiveBack(&d.Device, q)
		return nil
	}
	go func() { // what was enqueued goes on, and events report on it
		_ = q.Synchronize(context.Background())
		q.rest()
		d.queues.GiveBack(&d.Device, q)
	}()
	return err
}

// operand is the memory of one tensor of a copy.
type operand struct {
	tensor *core.Tensor
	object *object // nil for memory of the host
	host   uintptr // the host address of the byte that offsets count from; 0 if the host cannot reach it
}

func (e operand) Host() uintptr { return e.host }
func (e operand) Ours() bool    { return e.object != nil }

// operandOf finds the memory of a tensor. It fails for memory of another device.
func (d *device) operandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	if err != nil {
		return operand{}, err
	}
	if host {
		return operand{tensor: t, host: m.Handle}, nil
	}
	if m.Handle == 0 {
		return operand{tensor: t, object: &object{}}, nil
	}
	d.Mu.Lock()
	o := d.objects[m.Handle]
	d.Mu.Unlock()
	if o == nil {
		b, err := d.describedAt("Copy", m.Handle)
		if err != nil {
			return operand{}, err
		}
		o = d.objectFrom(b)
	}
	if m.Size == core.UnknownSize && t.NumElements() > 0 {
		first, last := t.Layout().Extent()
		before, err1 := t.DType().Size(-first, t.Padded())
		behind, err2 := t.DType().Size(last, t.Padded())
		if err1 != nil || err2 != nil || t.Offset() < before || behind > o.size-t.Offset() {
			return operand{}, errorf(core.ErrInvalid, "Copy", "%v at byte %d does not fit in its VkBuffer of %d bytes", t, t.Offset(), o.size)
		}
	}
	return operand{t, o, o.host}, nil
}

// work is a copy whose arguments were checked.
type work struct {
	device   *device
	here     bool // the caller waits for it
	dst, src operand
	geometry strided.Copy
	bits     bool
}

const (
	// quickBytes is the largest copy on the host that the submitting goroutine makes itself,
	// if nothing is before it. Passing it to another goroutine costs more: copying takes 3 us.
	quickBytes = 64 << 10
	// maxRegions is the largest number of pieces that vkCmdCopyBuffer copies. For pieces of
	// at least longRegion bytes, which a shader moves no faster, it is maxLongRegions.
	maxRegions     = 1024
	longRegion     = 2048
	maxLongRegions = 64 << 10
)

// fewRegions reports whether the device copies by vkCmdCopyBuffer, instead of a shader.
func (w work) fewRegions() bool {
	n := w.geometry.Count()
	return n <= maxRegions || n <= maxLongRegions && w.geometry.Elem >= longRegion
}

// submit chooses how to copy, and enqueues the copy.
func (w work) submit(ctx context.Context, q *queue) error {
	w.geometry, w.bits = strided.OfBits(w.dst.tensor, w.src.tensor)
	_, plain := w.geometry.Contiguous()
	plain = plain && !w.bits
	device := w.dst.object != nil && w.src.object != nil
	var enqueue func(*queue) error
	switch {
	case device && plain && w.geometry.Size() > quickBytes:
		enqueue = w.regions
	case w.dst.host != 0 && w.src.host != 0:
		enqueue = w.onHost
	case w.bits:
		return errorf(core.ErrNotSupported, "Copy", "packed %v that do not lie on whole bytes can be copied only in memory that the host reaches: allocate it with AllocOptions.HostVisible", w.dst.tensor.DType())
	case device && w.fewRegions():
		enqueue = w.regions
	case device:
		enqueue = w.gather
	default:
		return w.stage(ctx, q, plain)
	}
	return w.enqueue(ctx, q, enqueue)
}

// enqueue is [stream.Submit] or [stream.SubmitAndWait], and holds the stream's lock during f.
func (w work) enqueue(ctx context.Context, q *queue, f func(*queue) error) error {
	return w.device.enqueue(ctx, q, w.here, []*core.Tensor{w.dst.tensor}, []*core.Tensor{w.src.tensor}, f)
}

// enqueue is that of a work which writes and reads several tensors. here says that the caller waits for it.
func (d *device) enqueue(ctx context.Context, q *queue, here bool, writes, reads []*core.Tensor, f func(*queue) error) error {
	submit := stream.Submit
	if here {
		submit = stream.SubmitAndWait
	}
	return submit(ctx, q, writes, reads, func() error {
		if err := q.lock("Copy"); err != nil {
			return err
		}
		defer q.mu.Unlock()
		before := q.next
		err := f(q)
		if err != nil && q.next != before { // running work must not outlive its tensors
			number := q.next
			q.mu.Unlock()
			_ = q.device.await(driver.Point{Timeline: q.resources.timeline, Value: number})
			q.mu.Lock()
		}
		return err
	})
}

// onHost enqueues a copy by the host.
func (w work) onHost(q *queue) error {
	job := copykernel.Between(w.dst.tensor, w.src.tensor, w.dst.host, w.src.host)
	return q.add(item{quick: w.here || w.dst.tensor.NumBytes() <= quickBytes, host: run(job)})
}

// run returns a job as the work of an item.
func run(job copykernel.Job) func() error {
	return func() error { return job.Run(runtime.GOMAXPROCS(0)) }
}

// regions enqueues a copy of the pieces of the geometry by the device.
func (w work) regions(q *queue) error {
	list := make([]driver.Region, 0, w.geometry.Count())
	for to, from := range w.geometry.Pieces() {
		list = append(list, driver.Region{Src: from, Dst: to, Size: w.geometry.Elem})
	}
	return q.command(w.dst.object.operand(), w.src.object.operand(), list, nil)
}

// command adds an item of one command buffer. q.mu is held.
func (q *queue) command(dst, src driver.Operand, regions []driver.Region, run func(*command) (*driver.Dispatch, error)) error {
	return q.recorded(func(c *command) (err error) {
		var dispatch *driver.Dispatch
		if run != nil {
			if dispatch, err = run(c); err != nil {
				return err
			}
		}
		return q.device.driver.Record(c.handle, dst, src, regions, dispatch)
	})
}

// recorded adds an item of one command buffer, which record records. q.mu is held.
func (q *queue) recorded(record func(*command) error) error {
	return q.add(item{submit: func(i item) error { return q.submitCommand(i, record) }})
}

// submitCommand submits an item of one command buffer. q.mu is held.
func (q *queue) submitCommand(i item, record func(*command) error) error {
	c, err := q.takeCommand()
	if err != nil {
		return err
	}
	if err := record(c); err != nil {
		return err
	}
	s := q.place(i)
	s.Command = c.handle
	if err := q.send(s); err != nil {
		return err
	}
	c.busy = i.number
	return nil
}

// gather enqueues a copy by a shader, in as many dispatches as the device's limits require.
func (w work) gather(q *queue) error {
	d := w.device
	for part := range gather.Plan(w.geometry, d.gatherLimits()) {
		p, err := d.pipeline(part.Shader)
		if err != nil {
			return err
		}
		dst, src := w.dst.object.operand(), w.src.object.operand()
		dst.Offset, dst.Range = part.Dst.Offset, part.Dst.Size
		src.Offset, src.Range = part.Src.Offset, part.Src.Size
		constants := part.Constants
		err = q.command(dst, src, nil, func(c *command) (*driver.Dispatch, error) {
			set, err := c.setFor(d, p)
			if err != nil {
				return nil, err
			}
			push := unsafe.Slice((*byte)(unsafe.Pointer(&constants)), unsafe.Sizeof(constants))
			return &driver.Dispatch{Pipeline: p, Set: set, Groups: part.Groups, Push: push}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *device) gatherLimits() gather.Limits {
	p := d.physical
	return gather.Limits{
		StorageRange:    p.MaxStorageRange,
		OffsetAlignment: p.StorageAlignment,
		Groups:          p.MaxGroups,
		Storage8:        p.Storage8,
		Storage16:       p.Storage16,
		Tiles:           p.Kind != driver.CPU,
	}
}

// pipeline returns the pipeline of a shader, and makes it on first use.
func (d *device) pipeline(s gather.Shader) (*driver.Pipeline, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if p, ok := d.pipelines[s]; ok {
		return p, nil
	}
	if !d.gatherLimits().Allows(s) {
		return nil, errorf(core.ErrNotSupported, "vkCreateComputePipelines", "%v needs 8 or 16 bit storage, which the driver lacks", s)
	}
	p, err := d.driver.NewPipeline(s.SPIRV(), int(unsafe.Sizeof(gather.Constants{})))
	if err != nil {
		return nil, d.noteLoss(err)
	}
	d.pipelines[s] = p
	return p, nil
}
