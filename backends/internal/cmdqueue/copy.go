package cmdqueue

import (
	"context"
	"runtime"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
	"github.com/dlx-go/dlx/stream"
)

// QuickBytes is the largest copy on the host that the submitting goroutine makes itself, if nothing is before it, and the
// largest copy of contiguous bytes that the host makes where it reaches both sides. Passing it to another goroutine, or to the
// device, costs more: copying takes 3 us.
const QuickBytes = 64 << 10

// Operand is the memory of one tensor of a copy.
type Operand[O Object] struct {
	Tensor *core.Tensor
	Object O       // the zero value for memory of the host
	At     uintptr // the host address of the byte that offsets count from; 0 if the host cannot reach it
}

// Host implements [devicebase.Operand].
func (o Operand[O]) Host() uintptr { return o.At }

// Ours implements [devicebase.Operand].
func (o Operand[O]) Ours() bool {
	var none O
	return o.Object != none
}

// Copy is a copy between two buffers of the device.
type Copy[O Object] struct {
	Dst, Src O
	Geometry copyplan.Copy // in bytes
}

// CheckExtent fails if a tensor, whose memory has an unknown size, does not fit in its buffer. kind is what the API calls that.
func (d *Base) CheckExtent(t *core.Tensor, size int64, kind string) error {
	if t.NumElements() == 0 {
		return nil
	}
	first, last := t.Layout().Extent()
	before, err1 := t.DType().Size(-first, t.Padded())
	behind, err2 := t.DType().Size(last, t.Padded())
	if err1 != nil || err2 != nil || t.Offset() < before || behind > size-t.Offset() {
		return d.Errorf(core.ErrInvalid, "Copy", "%v at byte %d does not fit in its %s of %d bytes", t, t.Offset(), kind, size)
	}
	return nil
}

// Copy copies between memory of this device, including tensors from DLPack on it, and memory that the host can reach, in the
// order of the stream. It fails with ErrNotSupported for packed elements that do not lie on whole bytes, if the host cannot
// reach the memory.
func (d *Device[Q, O]) Copy(ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
	q, p, todo, err := devicebase.BeginCopy[Q](ctx, &d.Device, s, dst, src, d.api.OperandOf)
	if err != nil || !todo {
		return err
	}
	defer d.Drop()
	return d.CopyBetween(ctx, q, p.Dst, p.Src)
}

// CopyBetween is Copy of operands that were checked. For the zero value of Q it waits for the copy.
func (d *Device[Q, O]) CopyBetween(ctx context.Context, q Q, dst, src Operand[O]) error {
	return d.withStream(q, func(q Q, here bool) error { return d.newWork(q, here, dst, src).submit(ctx) })
}

// work is a copy whose arguments were checked.
type work[Q Stream[Q], O Object] struct {
	device   *Device[Q, O]
	queue    Q
	here     bool // the caller waits for it
	bits     bool // geometry counts bits, not bytes
	dst, src Operand[O]
	geometry copyplan.Copy
	tensors  [2]*core.Tensor // of dst and src

	// For a copy that needs staging memory between the host and what it cannot reach. A piece is known by the number of
	// bytes before it, a half by its offset in the staging memory, and the end of a copy by the device by the number of an item.
	staging  O
	pipeline staging.Pipeline[int64, int64, uint64]
	first    uint64 // the item before the copy, for which its host work waits
}

func (d *Device[Q, O]) newWork(q Q, here bool, dst, src Operand[O]) *work[Q, O] {
	w := &work[Q, O]{device: d, queue: q, here: here, dst: dst, src: src, tensors: [2]*core.Tensor{dst.Tensor, src.Tensor}}
	w.geometry, w.bits = copyplan.OfBits(dst.Tensor, src.Tensor)
	return w
}

// plain reports whether the copy is one of contiguous bytes.
func (w *work[Q, O]) plain() bool {
	_, contiguous := w.geometry.Contiguous()
	return contiguous && !w.bits
}

// onDevice reports whether the device reaches both sides, and onHost whether the host makes the copy.
func (w *work[Q, O]) onDevice() bool { return w.dst.Ours() && w.src.Ours() }

func (w *work[Q, O]) onHost() bool {
	if w.dst.At == 0 || w.src.At == 0 {
		return false
	}
	return w.bits || !w.onDevice() || w.geometry.Size() <= QuickBytes || w.device.HostStrides && !w.plain()
}

// submit enqueues the copy.
func (w *work[Q, O]) submit(ctx context.Context) (err error) {
	switch {
	case w.onHost() || w.onDevice() && !w.bits:
	case w.bits:
		return w.device.Errorf(core.ErrNotSupported, "Copy", "packed %v that do not lie on whole bytes can be copied only in memory that the host reaches: allocate it with AllocOptions.HostVisible", w.dst.Tensor.DType())
	default:
		size := w.dst.Tensor.NumBytes()
		if w.plain() {
			size = min(size, staging.Buffers*staging.PieceBytes)
		}
		if w.staging, err = w.device.takeStaging(size); err != nil {
			return err
		}
		defer w.device.giveStagingBackAfter(w.queue, w.staging)
	}
	return w.device.submit(ctx, w.queue, w.here, w.tensors[:1], w.tensors[1:], w)
}

// submission is what submit enqueues: a copy, or several.
type submission interface {
	// add adds the items. The Mu of the stream is held.
	add() error
}

// submit is [stream.Submit] or, if the caller waits here for the work, [stream.SubmitAndWait].
func (d *Device[Q, O]) submit(ctx context.Context, s Q, here bool, writes, reads []*core.Tensor, x submission) error {
	submit := stream.Submit
	if here {
		submit = stream.SubmitAndWait
	}
	return submit(ctx, s, writes, reads, func() error {
		q := s.Common()
		if err := q.Enter("Copy"); err != nil {
			return err
		}
		defer q.Mu.Unlock()
		before := q.next
		err := x.add()
		if number := q.next; err != nil && number != before { // running work must not outlive its tensors
			q.Mu.Unlock()
			_ = q.driver.Await(number)
			q.Mu.Lock()
		}
		return err
	})
}

// add adds the items of the copy.
func (w *work[Q, O]) add() error {
	q := w.queue.Common()
	plain, upload := w.plain(), w.dst.Ours()
	switch {
	case w.onHost():
		job := hostcopy.Between(w.dst.Tensor, w.src.Tensor, w.dst.At, w.src.At)
		return q.Add(Item[Q]{Quick: w.here || w.dst.Tensor.NumBytes() <= QuickBytes, Host: run(job)})
	case w.onDevice():
		return w.copy(w.dst.Object, w.src.Object, w.geometry)
	case plain:
		return w.addPieces(q)
	case upload:
		return w.uploadPacked(q)
	default:
		return w.downloadPacked(q)
	}
}

// copy adds a copy by the device.
func (w *work[Q, O]) copy(dst, src O, c copyplan.Copy) error {
	return w.device.api.AddCopy(w.queue, Copy[O]{dst, src, c})
}

// run returns a job as the work of an item.
func run(job hostcopy.Job) func() error {
	return func() error { return job.Run(runtime.GOMAXPROCS(0)) }
}
