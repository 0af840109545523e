package core

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"unsafe"
)

// Element is a Go type whose memory is that of a tensor element.
type Element interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 |
		Float16 | BFloat16 | float32 | float64 | complex64 | complex128 | bool
}

// DTypeOf gives the element type of T.
func DTypeOf[T Element]() DType {
	switch any(*new(T)).(type) {
	case int8:
		return TypeInt8
	case int16:
		return TypeInt16
	case int32:
		return TypeInt32
	case int64:
		return TypeInt64
	case uint8:
		return TypeUint8
	case uint16:
		return TypeUint16
	case uint32:
		return TypeUint32
	case uint64:
		return TypeUint64
	case Float16:
		return TypeFloat16
	case BFloat16:
		return TypeBFloat16
	case float32:
		return TypeFloat32
	case float64:
		return TypeFloat64
	case complex64:
		return TypeComplex64
	case complex128:
		return TypeComplex128
	default:
		return TypeBool
	}
}

// FromSlice makes a row-major CPU tensor of a Go slice without a copy: both see
// each other's writes. Without a shape it is 1-d. The slice is pinned until the
// last view is closed, so that its address may be given to C. It fails with
// ErrLayout if the shape is bad or does not have len(s) elements.
func FromSlice[T Element](s []T, shape ...int64) (*Tensor, error) {
	if shape == nil {
		shape = []int64{int64(len(s))}
	}
	l, err := NewLayout(shape...)
	if err != nil {
		return nil, err
	}
	if l.NumElements() != int64(len(s)) {
		return nil, Errorf(ErrLayout, "core", "FromSlice", "shape %v has %d elements, the slice %d", shape, l.NumElements(), len(s))
	}
	m := Memory{ID: CPU, Size: int64(len(s)) * int64(unsafe.Sizeof(*new(T)))}
	if len(s) > 0 {
		m.Handle, m.Owner = uintptr(unsafe.Pointer(&s[0])), pin(&s[0])
	}
	t, err := Wrap(m, Spec{DType: DTypeOf[T](), Shape: shape})
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// pinnedSlice keeps Go memory in place and alive.
type pinnedSlice struct{ runtime.Pinner }

// pinnedSlices holds all that were not freed: the runtime ends a program that
// loses a Pinner, and a lost reference shall cost no more than its memory.
var pinnedSlices struct {
	mu  sync.Mutex
	all map[*pinnedSlice]struct{}
}

// pin pins the slice whose first element it gets.
func pin(first any) *pinnedSlice {
	p := new(pinnedSlice)
	p.Pin(first)
	pinnedSlices.mu.Lock()
	defer pinnedSlices.mu.Unlock()
	if pinnedSlices.all == nil {
		pinnedSlices.all = make(map[*pinnedSlice]struct{})
	}
	pinnedSlices.all[p] = struct{}{}
	return p
}

// Free unpins.
func (p *pinnedSlice) Free() {
	p.Unpin()
	pinnedSlices.mu.Lock()
	defer pinnedSlices.mu.Unlock()
	delete(pinnedSlices.all, p)
}

// Values returns the elements of a contiguous tensor in host-accessible memory,
// in row-major order and in place. The slice is valid until the tensor is closed,
// and does not keep the tensor from the net: defer the Close. It must not be
// written to if the tensor is read-only, use [Mutable] for that. A bool from
// another library may hold a byte other than 0 and 1, which Go does not expect: read
// such memory as uint8, through a tensor of that type.
//
// It blocks until the last write to the memory is done, however long that takes:
// call [Tensor.WaitReady] before to bound the time. It does not wait for work that
// is enqueued after the call. Work that writes t must not call it, since it would wait for
// itself; [ValuesWithoutWaiting] is for that.
//
// It fails with ErrClosed, ErrDType if T is not the element type, ErrDevice if the
// host cannot reach the memory, ErrLayout if the tensor is not contiguous (a copy or
// [All] helps) or misaligned for T, or with the error of the last write.
func Values[T Element](t *Tensor) ([]T, error) { return values[T](t, "Values", forReading) }

// ValuesWithoutWaiting is [Values] for callers who keep the order themselves, such as
// work on a stream that was made to wait: the elements may still be written to.
func ValuesWithoutWaiting[T Element](t *Tensor) ([]T, error) {
	return values[T](t, "ValuesWithoutWaiting", withoutWaiting)
}

// Mutable is [Values] for writing: it blocks until all work on the memory is done,
// reads included; [Tensor.WaitIdle] bounds the time. It also fails with ErrReadOnly.
// Where the strides are not row-major, [AllMutable] serves. To overwrite what failed
// work has left, use [MutableWithoutWaiting], and record the write with [Buffer.Wrote].
func Mutable[T Element](t *Tensor) ([]T, error) {
	if t.ReadOnly() {
		return nil, readOnly("Mutable")
	}
	return values[T](t, "Mutable", forWriting)
}

// MutableWithoutWaiting is [Mutable] for callers who keep the order themselves: the
// elements may still be read and written.
func MutableWithoutWaiting[T Element](t *Tensor) ([]T, error) {
	if t.ReadOnly() {
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

// All yields the elements of a tensor in host-accessible memory in row-major
// order, whatever its strides. The sequence is valid until the tensor is closed.
// It blocks and fails like [Values], but for the strides; the sequence itself waits
// for nothing.
func All[T Element](t *Tensor) (iter.Seq[T], error) { return all[T](t, "All", forReading) }

// AllWithoutWaiting is [All] for callers who keep the order themselves.
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

// AllMutable is [All] for writing: it yields a pointer to each element, valid until
// the tensor is closed. It blocks like [Mutable]. It also fails with ErrReadOnly, and
// with ErrLayout if the tensor repeats elements, as a copy into such a tensor does.
func AllMutable[T Element](t *Tensor) (iter.Seq[*T], error) {
	return allMutable[T](t, "AllMutable", forWriting)
}

// AllMutableWithoutWaiting is [AllMutable] for callers who keep the order themselves.
func AllMutableWithoutWaiting[T Element](t *Tensor) (iter.Seq[*T], error) {
	return allMutable[T](t, "AllMutableWithoutWaiting", withoutWaiting)
}

func allMutable[T Element](t *Tensor, call string, w waiting) (iter.Seq[*T], error) {
	switch {
	case t.ReadOnly():
		return nil, readOnly(call)
	case t.Layout().HasOverlap():
		return nil, Errorf(ErrLayout, "core", call, "the tensor repeats elements: strides %v", t.layout.strides())
	}
	return elements[T](t, call, w)
}

// elements yields where the elements lie, in row-major order.
func elements[T Element](t *Tensor, call string, w waiting) (iter.Seq[*T], error) {
	p, err := firstElement[T](t, call, false, w)
	if err != nil {
		return nil, err
	}
	return func(yield func(*T) bool) {
		if t.NumElements() > 0 {
			walk(p, t.layout.shape(), t.layout.strides(), yield)
			runtime.KeepAlive(t) // p does not keep the memory: the net would free it
		}
	}, nil
}

// walk yields the places below p, one axis at a level, and reports whether to go on.
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

// waiting says which work is to be over before the host uses the memory.
type waiting uint8

const (
	withoutWaiting waiting = iota
	forReading             // the last write
	forWriting             // all
)

// firstElement checks all that typed access needs, rowMajor strides if it needs those,
// and waits. It returns nil for a tensor without elements.
func firstElement[T Element](t *Tensor, call string, rowMajor bool, w waiting) (*T, error) {
	b, err := t.Buffer()
	switch {
	case err != nil:
		return nil, err
	case t.dtype != DTypeOf[T]():
		return nil, Errorf(ErrDType, "core", call, "the tensor has %v, not %v", t.dtype, DTypeOf[T]())
	case !t.id.Type.HostAccessible():
		return nil, Errorf(ErrDevice, "core", call, "the host cannot reach memory on %v: copy it to the host first", t.id)
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

// await waits for work on b, the tensor's buffer, however long that takes.
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

// pointer turns an address outside of Go's heap, or pinned in it, into a pointer.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
