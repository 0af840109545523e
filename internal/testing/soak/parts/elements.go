package parts

import (
	"context"
	"runtime"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/stream"
)

// elements is where the elements of a tensor lie that the host can reach.
type elements struct {
	first   uintptr
	width   int64 // in bits, from one element to the next
	shape   []int64
	strides []int64
}

func elementsOf(t *core.Tensor) (elements, error) {
	if !t.DType().Valid() || !t.DeviceID().Type.HostAccessible() {
		return elements{}, core.Errorf(core.ErrDevice, "soak", "elements", "the host cannot reach %v", t)
	}
	address, err := t.Address()
	if err != nil {
		return elements{}, err
	}
	e := elements{first: address, width: t.DType().ElementBits(), shape: t.Shape(), strides: t.Layout().Strides()}
	if t.Padded() && t.DType().SubByte() {
		e.width = 8 * int64(t.DType().Lanes)
	}
	return e, nil
}

// opened is the elements of a tensor, with the buffer that keeps their order.
func opened(t *core.Tensor) (elements, *core.Buffer, error) {
	e, err := elementsOf(t)
	if err != nil {
		return elements{}, nil, err
	}
	b, err := t.Buffer()
	return e, b, err
}

// each calls f with the byte and the bit in it at which each element begins.
func (e *elements) each(f func(at uintptr, bit int64)) { e.walk(0, 0, f) }

func (e *elements) walk(axis int, index int64, f func(at uintptr, bit int64)) {
	if axis == len(e.shape) {
		bits := index * e.width
		f(e.first+uintptr(bits>>3), bits&7)
		return
	}
	for i := range e.shape[axis] {
		e.walk(axis+1, index+i*e.strides[axis], f)
	}
}

// put stores items, each in a whole number of bytes, as [Load] returns them.
func (e *elements) put(items []byte) {
	size := (e.width + 7) / 8
	e.each(func(at uintptr, bit int64) {
		if e.width%8 == 0 {
			copy(unsafe.Slice((*byte)(pointer(at)), size), items[:size])
		} else {
			for i := range e.width {
				b := (*byte)(pointer(at + uintptr((bit+i)>>3)))
				k := (bit + i) & 7
				*b = *b&^(1<<k) | items[i>>3]>>(i&7)&1<<k
			}
		}
		items = items[size:]
	})
}

func (e *elements) get() []byte {
	size := (e.width + 7) / 8
	var items []byte
	e.each(func(at uintptr, bit int64) {
		if e.width%8 == 0 {
			items = append(items, unsafe.Slice((*byte)(pointer(at)), size)...)
			return
		}
		item := make([]byte, size)
		for i := range e.width {
			item[i>>3] |= *(*byte)(pointer(at + uintptr((bit+i)>>3))) >> ((bit + i) & 7) & 1 << (i & 7)
		}
		items = append(items, item...)
	})
	return items
}

// Wait waits for all work on the memory of t, whatever its errors, and returns ctx's.
func Wait(ctx context.Context, t *core.Tensor) error {
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	for _, e := range b.Pending() {
		_ = e.Wait(ctx)
	}
	return ctx.Err()
}

// Load reads the elements, once work on them is done, in row-major order and each in a
// whole number of bytes.
func Load(ctx context.Context, t *core.Tensor) ([]byte, error) {
	if err := t.WaitReady(ctx); err != nil {
		return nil, err
	}
	e, err := elementsOf(t)
	if err != nil {
		return nil, err
	}
	items := e.get()
	runtime.KeepAlive(t)
	return items, nil
}

// Store writes elements as [Load] returns them, once all work on them is done.
func Store(ctx context.Context, t *core.Tensor, items []byte) error {
	if err := Wait(ctx, t); err != nil {
		return err
	}
	e, b, err := opened(t)
	if err != nil {
		return err
	}
	e.put(items)
	b.Wrote(nil)
	return nil
}

// Kernel is work of the program itself, noted on the memory of t by an event of its
// own: it writes items after a while and after the work before it, and fails with
// fails, if that is not nil. The tensor may be closed at once.
func Kernel(t *core.Tensor, items []byte, after time.Duration, fails error) error {
	e, b, err := opened(t)
	if err != nil {
		return err
	}
	before, done := b.Pending(), stream.NewEvent()
	b.Wrote(done)
	go func() {
		for _, p := range before {
			_ = p.Wait(context.Background())
		}
		time.Sleep(after)
		e.put(items)
		done.Complete(fails)
	}()
	return nil
}

// Reader is work of the program itself that reads t after a while, and gives what it
// read to got. The tensor may be closed at once.
func Reader(t *core.Tensor, after time.Duration, got func([]byte, error)) error {
	e, b, err := opened(t)
	if err != nil {
		return err
	}
	before, done := b.Ready(), stream.NewEvent()
	b.Used(done)
	go func() {
		var err error
		if before != nil {
			err = before.Wait(context.Background())
		}
		time.Sleep(after)
		if err == nil {
			got(e.get(), nil)
		} else {
			got(nil, err)
		}
		done.Complete(nil)
	}()
	return nil
}

// Queued writes items by work on a queue of the host, in order with all other work.
func Queued(ctx context.Context, q *stream.Queue, t *core.Tensor, items []byte) error {
	e, err := elementsOf(t)
	if err != nil {
		return err
	}
	return stream.Submit(ctx, q, []*core.Tensor{t}, nil, func() error {
		return q.Enqueue(func() error {
			e.put(items)
			return nil
		})
	})
}

// Door reads a tensor through core.Values and core.All, as bytes of row-major
// elements. It waits for nothing itself.
func Door(t *core.Tensor) ([]byte, error) {
	switch t.DType() {
	case core.TypeUint8:
		return door[uint8](t)
	case core.TypeInt16:
		return door[int16](t)
	case core.TypeFloat16:
		return door[float.Float16](t)
	case core.TypeFloat32:
		return door[float32](t)
	case core.TypeFloat64:
		return door[float64](t)
	case core.TypeComplex128:
		return door[complex128](t)
	}
	return nil, core.Errorf(core.ErrDType, "soak", "Door", "no type of Go for %v", t.DType())
}

func door[T core.Element](t *core.Tensor) ([]byte, error) {
	v, err := core.Values[T](t)
	if err != nil && t.Layout().IsContiguous() {
		return nil, err
	}
	if err != nil {
		all, err := core.All[T](t)
		if err != nil {
			return nil, err
		}
		v = nil
		for x := range all {
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return nil, nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))...), nil
}

// DoorWrite writes elements through core.Mutable, or core.AllMutable where the
// strides are not row-major. It waits for nothing itself.
func DoorWrite(t *core.Tensor, items []byte) error {
	switch t.DType() {
	case core.TypeUint8:
		return doorWrite[uint8](t, items)
	case core.TypeInt16:
		return doorWrite[int16](t, items)
	case core.TypeFloat16:
		return doorWrite[float.Float16](t, items)
	case core.TypeFloat32:
		return doorWrite[float32](t, items)
	case core.TypeFloat64:
		return doorWrite[float64](t, items)
	case core.TypeComplex128:
		return doorWrite[complex128](t, items)
	}
	return core.Errorf(core.ErrDType, "soak", "DoorWrite", "no type of Go for %v", t.DType())
}

func doorWrite[T core.Element](t *core.Tensor, items []byte) error {
	n := int(t.NumElements())
	from := make([]T, n)
	if n > 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&from[0])), n*int(unsafe.Sizeof(from[0]))), items)
	}
	if t.Layout().IsContiguous() {
		v, err := core.Mutable[T](t)
		copy(v, from)
		return err
	}
	all, err := core.AllMutable[T](t)
	if err != nil {
		return err
	}
	i := 0
	for p := range all {
		*p = from[i]
		i++
	}
	return nil
}
