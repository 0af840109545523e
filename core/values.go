package core

import (
	"context"
	"iter"
	"runtime"
	"unsafe"
)

// Values returns the elements of a contiguous, host-accessible tensor in row-major order. It
// does not copy: the slice is the memory of the tensor. Only read from it; to write, use
// [Mutable]. The slice is valid until the tensor is closed, and does not keep the tensor
// open. Defer the call of Close, so that the tensor is not lost while the slice is in use.
// A bool from another library may be a byte other than 0 and 1, which is not a valid bool in
// Go; read such memory as uint8, through a tensor of that type.
//
// Values blocks until the last write to the memory is done, however long that takes. To
// bound the time, call [Tensor.WaitReady] first. Values does not wait for work that is
// enqueued after the call. A function that runs on a stream and writes t must not call
// Values, because it would wait for itself; it uses [ValuesWithoutWaiting].
//
// Values returns
//
//   - ErrInvalid if t is nil, or ErrClosed if it is closed;
//   - ErrDType if T is not its element type;
//   - ErrDevice if it is not host-accessible;
//   - ErrLayout if it is not contiguous or not aligned for T: use [All], or a copy;
//   - the error of the last write.
func Values[T Element](t *Tensor) ([]T, error) { return values[T](t, "Values", forReading) }

// ValuesWithoutWaiting is like [Values], but does not wait: work may still write the
// elements. It is for code that keeps the order itself, such as a function that runs on a
// stream after the stream waited for that work.
func ValuesWithoutWaiting[T Element](t *Tensor) ([]T, error) {
	return values[T](t, "ValuesWithoutWaiting", withoutWaiting)
}

// Mutable is like [Values], but the slice may be written to. It blocks until all work on the
// memory is done, including reads. To bound the time, call [Tensor.WaitIdle] first. Mutable
// also returns ErrReadOnly if t is read-only. For a tensor that is not contiguous, use
// [AllMutable].
//
// If the last write to the memory failed, Mutable returns its error. To overwrite the memory
// nevertheless, use [MutableWithoutWaiting], and record the write with [Buffer.Wrote].
func Mutable[T Element](t *Tensor) ([]T, error) {
	if t != nil && t.ReadOnly() {
		return nil, readOnly("Mutable")
	}
	return values[T](t, "Mutable", forWriting)
}

// MutableWithoutWaiting is like [Mutable], but does not wait: work may still read and write
// the elements. It is for code that keeps the order itself.
func MutableWithoutWaiting[T Element](t *Tensor) ([]T, error) {
	if t != nil && t.ReadOnly() {
		return nil, readOnly("MutableWithoutWaiting")
	}
	return values[T](t, "MutableWithoutWaiting", withoutWaiting)
}

func values[T Element](t *Tensor, call string, w waiting) ([]T, error) {
	p, err := firstElement[T](t, call, true, w)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice(p, t.NumElements()), nil
}

func readOnly(call string) error {
	return Errorf(ErrReadOnly, "core", call, "the tensor may only be read")
}

// All returns a sequence of the elements of a host-accessible tensor in row-major order. The
// strides may be any. The sequence is valid until the tensor is closed. All blocks and
// otherwise fails as [Values] does. The sequence itself does not wait for work.
func All[T Element](t *Tensor) (iter.Seq[T], error) { return all[T](t, "All", forReading) }

// AllWithoutWaiting is like [All], but does not wait. It is for code that keeps the order
// itself; see [ValuesWithoutWaiting].
func AllWithoutWaiting[T Element](t *Tensor) (iter.Seq[T], error) {
	return all[T](t, "AllWithoutWaiting", withoutWaiting)
}

func all[T Element](t *Tensor, call string, w waiting) (iter.Seq[T], error) {
	seq, err := elements[T](t, call, w)
	if err != nil {
		return nil, err
	}
	return func(yield func(T) bool) {
		seq(func(p *T) bool { return yield(*p) })
	}, nil
}

// AllMutable is like [All], but returns a sequence of pointers to the elements, which may be
// written to until the tensor is closed. It blocks as [Mutable] does. It also returns
// ErrReadOnly if t is read-only, and ErrLayout if t repeats elements (see
// [Layout.HasOverlap]).
func AllMutable[T Element](t *Tensor) (iter.Seq[*T], error) {
	return allMutable[T](t, "AllMutable", forWriting)
}

// AllMutableWithoutWaiting is like [AllMutable], but does not wait. It is for code that keeps
// the order itself; see [MutableWithoutWaiting].
func AllMutableWithoutWaiting[T Element](t *Tensor) (iter.Seq[*T], error) {
	return allMutable[T](t, "AllMutableWithoutWaiting", withoutWaiting)
}

func allMutable[T Element](t *Tensor, call string, w waiting) (iter.Seq[*T], error) {
	if err := writable(t, call); err != nil {
		return nil, err
	}
	return elements[T](t, call, w)
}

// elements returns a sequence of pointers to the elements in row-major order.
func elements[T Element](t *Tensor, call string, w waiting) (iter.Seq[*T], error) {
	p, err := firstElement[T](t, call, false, w)
	if err != nil {
		return nil, err
	}
	return func(yield func(*T) bool) {
		if t.NumElements() > 0 {
			walk(p, t.layout.shape(), t.layout.strides(), yield)
			runtime.KeepAlive(t) // p does not keep t reachable, and a lost tensor is closed
		}
	}, nil
}

// walk calls yield for each element from p on, with one level of recursion for each axis.
// It reports whether to continue.
func walk[T Element](p *T, shape, strides []int64, yield func(*T) bool) bool {
	if len(shape) == 0 {
		return yield(p)
	}
	step, innermost := uintptr(strides[0])*unsafe.Sizeof(*p), len(shape) == 1
	for i := range uintptr(shape[0]) {
		at := (*T)(unsafe.Add(unsafe.Pointer(p), i*step))
		if innermost && !yield(at) || !innermost && !walk(at, shape[1:], strides[1:], yield) {
			return false
		}
	}
	return true
}

// waiting says which work must be done before the host uses the memory.
type waiting uint8

const (
	withoutWaiting waiting = iota
	forReading             // the last write
	forWriting             // all work
)

// firstElement checks that the host can access t with element type T, waits for work, and
// returns a pointer to the first element; nil if there are no elements. If rowMajor is set,
// it also checks that t is contiguous.
func firstElement[T Element](t *Tensor, call string, rowMajor bool, w waiting) (*T, error) {
	b, err := t.buffer(call)
	switch {
	case err != nil:
		return nil, err
	case t.dtype != DTypeOf[T]():
		return nil, wrongType[T](t, call)
	case !t.id.Type.HostAccessible():
		return nil, t.id.unreachable(call)
	case t.NumElements() == 0:
		return nil, nil
	}
	address := b.mem.Handle + uintptr(t.offset)
	if address%unsafe.Alignof(*new(T)) != 0 {
		return nil, Errorf(ErrLayout, "core", call, "the memory is not aligned for %v: copy the tensor", t.dtype)
	}
	if rowMajor && !t.layout.IsContiguous() {
		return nil, Errorf(ErrLayout, "core", call, "strides %v are not row-major: copy the tensor, or use All", t.layout.strides())
	}
	if o := b.order.Load(); o != nil && (o.origin != nil || o.busy.Load()) && w != withoutWaiting {
		if err := t.await(b, w); err != nil {
			return nil, err
		}
	}
	return (*T)(pointer(address)), nil
}

// wrongType is the error of call if the elements of t have another type than T.
func wrongType[T Element](t *Tensor, call string) error {
	return Errorf(ErrDType, "core", call, "the tensor has %v, not %v", t.dtype, DTypeOf[T]())
}

// await waits for work on b, which is the buffer of t, however long that takes.
func (t *Tensor) await(b *Buffer, w waiting) error {
	switch {
	case !b.busy():
		return nil
	case w == forWriting:
		return t.WaitIdle(context.Background())
	default:
		return t.WaitReady(context.Background())
	}
}

// pointer converts an address to a pointer. The memory lies outside of Go's heap or is
// pinned.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
