package engine

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copykernel"
	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
	"github.com/dlx-go/dlx/stream"
)

// Copy copies between memory of this device, including tensors from DLPack on it, and memory that the host
// can reach. The host makes small copies of memory that it reaches, in the order of the stream. Copy fails with
// ErrNotSupported for packed elements that do not lie on whole bytes, if the host cannot reach the memory.
func (d *device) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	return shell.Copy(ctx, &d.Device, s, dst, src, d.operandOf, func(q *queue, to, from operand) error {
		w := work{device: d, dst: to, src: from}
		if q != nil {
			return w.submit(ctx, q)
		}
		w.here = true
		return d.onOwnQueue(func(q *queue) error { return w.submit(ctx, q) })
	})
}

// onOwnQueue calls f with a queue that nothing else uses meanwhile. f waits for the work that it has enqueued there,
// unless it fails.
func (d *device) onOwnQueue(f func(q *queue) error) error {
	q, err := d.queues.Borrow(&d.Device, func() (*queue, error) { return newQueue(d) })
	if err != nil {
		return err
	}
	if err = f(q); err == nil {
		_ = q.failures.take() // f has returned it
		d.queues.GiveBack(&d.Device, q)
		return nil
	}
	go func() { // what was enqueued goes on, and events report on it
		q.rest()
		<-q.progress.until(q.newest())
		_ = q.failures.take()
		d.queues.GiveBack(&d.Device, q)
	}()
	return err
}

// newest returns the number of the newest item.
func (q *queue) newest() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next
}

// operand is the memory of one tensor of a copy.
type operand struct {
	tensor *core.Tensor
	buffer driver.ID // 0 for memory of the host, and for no memory
	ours   bool
	host   uintptr // the host address of the byte that offsets count from; 0 if the host cannot reach it
}

func (e operand) Host() uintptr { return e.host }
func (e operand) Ours() bool    { return e.ours }

// operandOf finds the memory of a tensor. It fails for memory of another device.
func (d *device) operandOf(t *core.Tensor) (operand, error) {
	m, host, err := d.Locate(t)
	switch {
	case err != nil:
		return operand{}, err
	case host:
		return operand{tensor: t, host: m.Handle}, nil
	case m.Handle == 0:
		return operand{tensor: t, ours: true}, nil
	}
	o, err := d.lookUp("Copy", driver.ID(m.Handle))
	if err != nil {
		return operand{}, err
	}
	if m.Size == core.UnknownSize && t.NumElements() > 0 {
		first, last := t.Layout().Extent()
		before, err1 := t.DType().Size(-first, t.Padded())
		behind, err2 := t.DType().Size(last, t.Padded())
		if err1 != nil || err2 != nil || t.Offset() < before || behind > o.size-t.Offset() {
			return operand{}, errorf(core.ErrInvalid, "Copy", "%v at byte %d does not fit in its MTLBuffer of %d bytes", t, t.Offset(), o.size)
		}
	}
	return operand{tensor: t, buffer: o.buffer, ours: true, host: o.host}, nil
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
	// quickBytes is the largest copy that the host makes where it reaches both sides, and that the submitting
	// goroutine makes itself, if nothing is before it. A command buffer costs more.
	quickBytes = 64 << 10
	// blitUnit divides the offsets and the size of every copy of a blit encoder on macOS (Apple,
	// "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:").
	blitUnit = 4
	// maxBlits is the largest number of pieces that a blit encoder copies. For pieces of at least longBlit bytes, which
	// a kernel moves no faster, it is maxLongBlits.
	maxBlits     = 16
	longBlit     = 64 << 10
	maxLongBlits = 1024
)

// blits reports whether the blit encoder can copy all pieces, and they are few.
func (w work) blits() bool {
	c := w.geometry
	if n := c.Count(); n > maxBlits && (n > maxLongBlits || c.Elem < longBlit) {
		return false
	}
	steps := c.Elem | c.Dst | c.Src
	for _, a := range c.Axes {
		steps |= a.Dst | a.Src
	}
	return steps%blitUnit == 0
}

// submit chooses how to copy, and enqueues the copy.
func (w work) submit(ctx context.Context, q *queue) error {
	w.geometry, w.bits = strided.OfBits(w.dst.tensor, w.src.tensor)
	device := w.dst.ours && w.src.ours
	switch {
	case w.onHostAlone(device):
		return w.enqueue(ctx, q, w.onHost)
	case w.bits:
		return errorf(core.ErrNotSupported, "Copy", "packed %v that do not lie on whole bytes can be copied only in memory that the host reaches: allocate it with AllocOptions.HostVisible", w.dst.tensor.DType())
	case device:
		return w.enqueue(ctx, q, func(q *queue) error { return q.add(item{encode: w.encode}) })
	}
	return w.stage(ctx, q)
}

// onHostAlone reports whether the host makes the copy without the GPU. device says that the GPU could.
func (w work) onHostAlone(device bool) bool {
	return w.dst.host != 0 && w.src.host != 0 && (w.bits || !device || w.geometry.Size() <= quickBytes)
}

// enqueue is [stream.Submit] or [stream.SubmitAndWait], and holds the stream's lock during f.
func (w work) enqueue(ctx context.Context, q *queue, f func(*queue) error) error {
	return enqueue(ctx, q, w.here, []*core.Tensor{w.dst.tensor}, []*core.Tensor{w.src.tensor}, f)
}

// enqueue is that of a work which writes and reads several tensors. here says that the caller waits for it.
func enqueue(ctx context.Context, q *queue, here bool, writes, reads []*core.Tensor, f func(*queue) error) error {
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
			<-q.progress.until(number)
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

// encode encodes the copy of the geometry between two buffers: by the blit encoder, else by kernels.
func (w work) encode(e *encoding) error {
	if !w.blits() {
		return w.gather(e)
	}
	blit, err := e.blits()
	if err != nil {
		return err
	}
	for to, from := range w.geometry.Pieces() {
		e.device.driver.CopyBuffer(blit, w.dst.buffer, uint64(to), w.src.buffer, uint64(from), uint64(w.geometry.Elem))
	}
	return nil
}

// gather encodes a copy by kernels, in as many dispatches as they need.
func (w work) gather(e *encoding) error {
	d := e.device
	for part := range gather.Plan(w.geometry, gather.MetalLimits()) {
		pipeline, err := d.kernels.get(d, part.Shader)
		if err != nil {
			return err
		}
		compute, err := e.computes()
		if err != nil {
			return err
		}
		d.driver.SetPipeline(compute, pipeline)
		d.driver.SetBuffer(compute, w.dst.buffer, uint64(part.Dst.Offset), 0)
		d.driver.SetBuffer(compute, w.src.buffer, uint64(part.Src.Offset), 1)
		d.driver.SetBytes(compute, constants(&part.Constants), 2)
		d.driver.Dispatch(compute, part.Groups, [3]uint32{gather.GroupSize, 1, 1})
	}
	return nil
}

// stage copies between the host and memory that it cannot reach, through staging memory that both can:
// in pieces if both tensors are contiguous, else packed and as a whole.
func (w work) stage(ctx context.Context, q *queue) error {
	d := w.device
	size := w.dst.tensor.NumBytes()
	_, plain := w.geometry.Contiguous()
	if plain {
		size = min(size, 2*staging.PieceBytes)
	}
	o, err := d.takeStaging(size)
	if err != nil {
		return err
	}
	err = w.enqueue(ctx, q, func(q *queue) error {
		switch upload := w.dst.ours; {
		case plain && upload:
			return w.uploadPieces(q, o)
		case plain:
			return w.downloadPieces(q, o)
		case upload:
			return w.uploadPacked(q, o)
		default:
			return w.downloadPacked(q, o)
		}
	})
	d.giveStagingBackAfter(q, o)
	return err
}

// at is the host address of a byte of the object.
func (o *object) at(offset int64) uintptr { return o.host + uintptr(offset) }

// operand is the object as an operand.
func (o *object) operand() operand { return operand{buffer: o.buffer, ours: true, host: o.host} }

func (w work) uploadPieces(q *queue, s *object) error {
	used := [2]uint64{q.next, q.next} // the item that emptied each half last
	total, _ := w.geometry.Contiguous()
	return staging.Pieces(total, func(done int64, half int, n int64) error {
		room := int64(half) * staging.PieceBytes
		fill := copykernel.Bytes(s.at(room), w.src.host+uintptr(w.geometry.Src+done), n)
		if err := q.add(item{early: true, after: used[half], host: run(fill)}); err != nil {
			return err
		}
		piece := work{dst: w.dst, src: s.operand(), geometry: strided.Copy{Elem: n, Dst: w.geometry.Dst + done, Src: room}}
		err := q.add(item{encode: piece.encode})
		used[half] = q.next
		return err
	})
}

// downloadPieces lets the device fill one half while the host empties the other.
func (w work) downloadPieces(q *queue, s *object) error {
	empty := func() error { return nil }
	total, _ := w.geometry.Contiguous()
	err := staging.Pieces(total, func(done int64, half int, n int64) error {
		room := int64(half) * staging.PieceBytes
		piece := work{dst: s.operand(), src: w.src, geometry: strided.Copy{Elem: n, Dst: room, Src: w.geometry.Src + done}}
		if err := q.add(item{encode: piece.encode}); err != nil {
			return err
		}
		if err := empty(); err != nil {
			return err
		}
		job, filled := copykernel.Bytes(w.dst.host+uintptr(w.geometry.Dst+done), s.at(room), n), q.next
		empty = func() error { return q.add(item{early: true, after: filled, host: run(job)}) }
		return nil
	})
	if err == nil {
		err = empty()
	}
	if err != nil {
		return err
	}
	return q.add(item{host: func() error { return nil }}) // done when the host is
}

// uploadPacked lets the host pack the elements, and the device distribute them.
func (w work) uploadPacked(q *queue, s *object) error {
	if err := q.add(item{host: run(copykernel.Pack(s.at(0), w.src.tensor, w.src.host))}); err != nil {
		return err
	}
	c, _ := strided.Unpack(w.dst.tensor)
	return q.add(item{encode: work{dst: w.dst, src: s.operand(), geometry: c}.encode})
}

// downloadPacked lets the device pack the elements, and the host distribute them.
func (w work) downloadPacked(q *queue, s *object) error {
	c, _ := strided.Pack(w.src.tensor)
	if err := q.add(item{encode: work{dst: s.operand(), src: w.src, geometry: c}.encode}); err != nil {
		return err
	}
	return q.add(item{host: run(copykernel.Unpack(w.dst.tensor, w.dst.host, s.at(0)))})
}
