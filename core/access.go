package core

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/internal/hostmem"
)

// The functions of this file read and write elements of tensors with any strides. Only
// [ToSlice] accepts tensors that are not host-accessible. The functions for single elements
// wait as [Values] and [Mutable] do. The functions for all elements take a context that
// bounds the time to wait. All of them return ErrInvalid if memory is not there any more, as
// that of a mapped file is not after somebody has truncated the file. A program that uses such
// memory through a slice, of [Values] for example, ends.

// At returns the element at the given position. It takes one index for each axis, and
// none for a 0-d tensor. At accepts any strides; otherwise it blocks and fails as
// [Values] does. It also returns ErrLayout if the number of indexes is not the rank of t
// or an index is out of range.
//
// To read many elements, use [Values] or [All], which are faster.
func At[T Element](t *Tensor, index ...int64) (T, error) {
	p, err := elementAt[T](t, "At", forReading, index)
	if err != nil {
		return *new(T), err
	}
	var x T
	err = guard("At", func() error { x = *p; return nil }, t, t)
	runtime.KeepAlive(t)
	return x, err
}

// Set writes the element at the given position, which is given as for [At]. It blocks
// and fails as [AllMutable] does. It also returns ErrLayout if the number of indexes is
// not the rank of t or an index is out of range.
func Set[T Element](t *Tensor, value T, index ...int64) error {
	if err := writable(t, "Set"); err != nil {
		return err
	}
	p, err := elementAt[T](t, "Set", forWriting, index)
	if err != nil {
		return err
	}
	err = guard("Set", func() error { *p = value; return nil }, t, t)
	runtime.KeepAlive(t)
	return err
}

// elementAt returns a pointer to the element at index.
func elementAt[T Element](t *Tensor, call string, w waiting, index []int64) (*T, error) {
	if _, err := t.buffer(call); err != nil {
		return nil, err
	}
	if len(index) != t.Rank() {
		return nil, Errorf(ErrLayout, "core", call, "%d indexes for %d axes", len(index), t.Rank())
	}
	offset := int64(0)
	for axis, i := range index {
		if n := t.layout.Dim(axis); i < 0 || i >= n {
			return nil, Errorf(ErrLayout, "core", call, "index %d of axis %d is out of range for extent %d", i, axis, n)
		}
		offset += i * t.layout.Stride(axis)
	}
	p, err := firstElement[T](t, call, false, w)
	if err != nil {
		return nil, err
	}
	return (*T)(unsafe.Add(unsafe.Pointer(p), offset*int64(unsafe.Sizeof(*p)))), nil
}

// writable returns an error if t must not be written element by element.
func writable(t *Tensor, call string) error {
	switch {
	case t == nil: // refused later
		return nil
	case t.ReadOnly():
		return readOnly(call)
	case t.layout.HasOverlap():
		return Errorf(ErrLayout, "core", call, "the tensor repeats elements: strides %v", t.layout.strides())
	}
	return nil
}

// Fill sets every element to value. It blocks until all work on the memory is done, or
// returns ctx's error if ctx ends first. It fails as [AllMutable] does.
func Fill[T Element](ctx context.Context, t *Tensor, value T) error {
	const call = "Fill"
	if err := writable(t, call); err != nil {
		return err
	}
	p, err := firstElement[T](t, call, false, withoutWaiting)
	if err != nil {
		return err
	}
	b, err := t.buffer(call)
	if err == nil {
		err = t.waitFor(ctx, b, forWriting)
	}
	if err != nil || p == nil {
		return err
	}
	size := int64(unsafe.Sizeof(value))
	err = t.eachRow(ctx, call, t, stepping{1, 8 * size, 8 * size}, func(to, _ int64, s stepping) bool {
		at := unsafe.Add(unsafe.Pointer(p), to>>3)
		if s.dst == 8*size {
			row := unsafe.Slice((*T)(at), s.n)
			for i := range row {
				row[i] = value
			}
			return true
		}
		for i := range s.n {
			*(*T)(unsafe.Add(at, i*s.dst>>3)) = value
		}
		return true
	})
	runtime.KeepAlive(t)
	return err
}

// ToSlice returns a copy of the elements in row-major order. The slice belongs to the
// caller and does not depend on the tensor. The strides may be any. If the host cannot
// access the memory, the opened device that the memory belongs to makes the copy.
//
// ToSlice blocks until the last write to the memory and the copy are done, or returns
// ctx's error if ctx ends first. Otherwise it fails as [Values] does, or with the error of
// [Device.Copy]. It returns ErrDevice if neither the host nor an opened device can access
// the memory.
func ToSlice[T Element](ctx context.Context, t *Tensor) ([]T, error) {
	const call = "ToSlice"
	b, err := t.buffer(call)
	if err != nil {
		return nil, err
	}
	if d := b.mem.Device; d != nil && !t.id.Type.HostAccessible() {
		return toSliceFrom[T](ctx, call, t, d)
	}
	p, err := firstElement[T](t, call, false, withoutWaiting)
	if err == nil {
		err = t.waitFor(ctx, b, forReading)
	}
	if err != nil || p == nil {
		return nil, err
	}
	s, err := makeSlice[T](call, t.NumElements())
	if err != nil {
		return nil, err
	}
	size := int64(unsafe.Sizeof(*p))
	done, row := int64(0), copier(size)
	err = t.eachRow(ctx, call, t, stepping{1, 8 * size, 8 * size}, func(_, from int64, x stepping) bool {
		row(unsafe.Pointer(&s[done]), unsafe.Pointer(p), 0, from, stepping{x.n, 8 * size, x.src})
		done += x.n
		return true
	})
	runtime.KeepAlive(t)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// toSliceFrom is ToSlice for memory of device d, which the host cannot access.
func toSliceFrom[T Element](ctx context.Context, call string, t *Tensor, d Device) ([]T, error) {
	if t.dtype != DTypeOf[T]() {
		return nil, wrongType[T](t, call)
	}
	if t.NumElements() == 0 {
		return nil, ctx.Err()
	}
	s, err := makeSlice[T](call, t.NumElements())
	if err != nil {
		return nil, err
	}
	dst, err := FromSlice(s, t.Shape()...)
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	if err := d.Copy(ctx, nil, dst, t); err != nil {
		return nil, err
	}
	return s, nil
}

// makeSlice allocates a slice, and returns ErrOutOfMemory where the built-in make would end
// the program.
func makeSlice[T Element](call string, n int64) ([]T, error) {
	size := int64(unsafe.Sizeof(*new(T)))
	if n > math.MaxInt64/size {
		return nil, Errorf(ErrOutOfMemory, "core", call, "%d elements of %d bytes cannot be allocated", n, size)
	}
	if err := hostmem.Check(n * size); err != nil {
		return nil, noMemory(call, n*size, err)
	}
	return make([]T, n), nil
}

// Equal reports whether two tensors have the same element type, the same shape and equal
// elements. It compares numbers as Go's == does: a NaN is not equal to anything, and 0
// equals -0. [EqualBits] compares the bits instead. Equal also compares the bits if
// [Convert] does not support the type. The tensors must be host-accessible and may have
// any strides.
//
// Equal blocks until the last write to each tensor is done, or returns ctx's error if ctx
// ends first. It returns ErrInvalid if a tensor is nil, ErrClosed if one is closed,
// ErrDevice if one is not host-accessible, or the error of the last write to one.
func Equal(ctx context.Context, a, b *Tensor) (bool, error) {
	return equal(ctx, a, b, "Equal", true)
}

// EqualBits is like [Equal], but compares the bits of the elements. It shows whether a
// copy is exact. It ignores bits that belong to no element, such as those after the last
// packed element.
func EqualBits(ctx context.Context, a, b *Tensor) (bool, error) {
	return equal(ctx, a, b, "EqualBits", false)
}

func equal(ctx context.Context, a, b *Tensor, call string, asNumbers bool) (bool, error) {
	ab, err := hostBuffer(a, call)
	if err != nil {
		return false, err
	}
	bb, err := hostBuffer(b, call)
	if err != nil {
		return false, err
	}
	if a.dtype != b.dtype || !a.layout.SameShape(b.layout) {
		return false, nil
	}
	if a.NumElements() == 0 {
		return true, nil
	}
	if err := a.waitFor(ctx, ab, forReading); err != nil {
		return false, err
	}
	if err := b.waitFor(ctx, bb, forReading); err != nil {
		return false, err
	}
	compare, lanes := comparison(a, b, asNumbers)
	if compare == nil {
		return false, Errorf(ErrDType, "core", call, "elements of %v cannot be compared", a.dtype)
	}
	pa, pb, same := a.first(ab), b.first(bb), true
	err = a.eachRow(ctx, call, b, lanes, func(i, j int64, s stepping) bool {
		for s.n > 0 && same {
			part := stepping{min(s.n, block), s.dst, s.src}
			same = compare(pa, pb, i, j, part)
			s.n -= part.n
			i, j = i+part.n*part.dst, j+part.n*part.src
		}
		return same
	})
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	return same && err == nil, err
}

// comparison returns a function that compares components of two tensors of one type, and
// the axis along which the components of an element lie. The function is nil if elements
// of the type cannot be compared.
func comparison(a, b *Tensor, asNumbers bool) (func(pa, pb unsafe.Pointer, i, j int64, s stepping) bool, stepping) {
	c, d := a.component(), b.component()
	lanes := stepping{c.count, c.stride, d.stride}
	if asNumbers && (c.code == typecode.Bool || c.code > typecode.UInt) {
		load, floating := loader(c)
		if load != nil {
			return func(pa, pb unsafe.Pointer, i, j int64, s stepping) bool {
				var x, y numbers
				x.n, y.n = int(s.n), int(s.n)
				load(&x, at{pa, i, s.dst})
				load(&y, at{pb, j, s.src})
				if floating {
					return slices.Equal(x.floats[:x.n], y.floats[:y.n])
				}
				return slices.Equal(x.ints[:x.n], y.ints[:y.n])
			}, lanes
		}
	}
	if c.bits < 8 {
		return func(pa, pb unsafe.Pointer, i, j int64, s stepping) bool {
			x, y := at{pa, i, s.dst}, at{pb, j, s.src}
			for k := range int(s.n) {
				if x.get(k, c.bits) != y.get(k, c.bits) {
					return false
				}
			}
			return true
		}, lanes
	}
	if c.bits%8 != 0 {
		return nil, lanes
	}
	size := c.bits / 8
	return func(pa, pb unsafe.Pointer, i, j int64, s stepping) bool {
		size := size
		if s.dst == 8*size && s.src == 8*size { // both rows are dense: compare them in one piece
			s.n, size = 1, s.n*size
		}
		for k := range s.n {
			x := unsafe.Slice((*byte)(unsafe.Add(pa, (i+k*s.dst)>>3)), size)
			y := unsafe.Slice((*byte)(unsafe.Add(pb, (j+k*s.src)>>3)), size)
			if !bytes.Equal(x, y) {
				return false
			}
		}
		return true
	}, lanes
}
