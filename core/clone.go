package core

import (
	"context"
	"runtime"
	"unsafe"

	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/internal/hostmem"
)

// hostAlignment is the alignment of new host memory in bytes. It suits a cache line and
// the largest vector registers.
const hostAlignment = 64

// mappedMemory owns memory of package hostmem.
type mappedMemory struct{ bytes []byte }

// Free frees the memory. Another call does nothing.
func (m *mappedMemory) Free() {
	if m.bytes != nil {
		hostmem.Unmap(m.bytes)
		m.bytes = nil
	}
}

// noMemory returns the error for memory that the system refuses.
func noMemory(call string, size int64, cause error) error {
	return Errorf(ErrOutOfMemory, "core", call, "%d bytes cannot be allocated: %v", size, cause)
}

// newHost makes a row-major tensor of zeros in new memory of the host. Its errors name call.
func newHost(call string, dtype DType, shape []int64, flags Flags) (*Tensor, error) {
	l, err := newLayout(call, shape, nil)
	if err != nil {
		return nil, err
	}
	size, err := dtype.Size(l.NumElements(), flags&FlagSubBytePadded != 0)
	if err != nil {
		return nil, err
	}
	m := Memory{ID: CPU, Size: size}
	switch {
	case size >= hostmem.Large:
		bytes, err := hostmem.Map(size)
		if err != nil {
			return nil, noMemory(call, size, err)
		}
		m.Handle, m.Owner = uintptr(unsafe.Pointer(&bytes[0])), &mappedMemory{bytes}
	case size > 0:
		bytes := make([]byte, size+hostAlignment-1)
		start := uintptr(unsafe.Pointer(&bytes[0]))
		m.Handle = (start + hostAlignment - 1) &^ (hostAlignment - 1)
		m.Owner = pin(&bytes[0])
	}
	t, err := wrap(call, m, Spec{DType: dtype, Shape: shape, Flags: flags})
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// Clone returns a copy of the tensor in new memory of the same place. The copy is
// row-major and not read-only. The caller closes it. Clone blocks until the last write to
// t and the copy are done, or returns ctx's error if ctx ends first.
//
// If the memory belongs to an opened device, that device makes the copy. Otherwise the
// memory must be host-accessible; if it is not, Clone returns ErrDevice, and To of
// package exchange can copy the tensor. Clone also returns ErrInvalid if t is nil,
// ErrClosed, ErrOutOfMemory, the error of the last write to t, or an error of
// [Device.Alloc] or [Device.Copy].
func (t *Tensor) Clone(ctx context.Context) (*Tensor, error) { return t.clone(ctx, "Clone") }

func (t *Tensor) clone(ctx context.Context, call string) (*Tensor, error) {
	b, err := t.buffer(call)
	if err != nil {
		return nil, err
	}
	if d := b.mem.Device; d != nil && d.ID().Type == t.id.Type {
		return t.cloneOn(ctx, call, d)
	} else if !t.id.Type.HostAccessible() {
		return nil, t.id.unowned(call)
	}
	v, err := newHost(call, t.dtype, t.layout.shape(), t.flags&FlagSubBytePadded)
	if err != nil || t.NumElements() == 0 {
		return v, err
	}
	to, err := v.Buffer()
	if err == nil {
		err = t.waitFor(ctx, b, forReading)
	}
	if err == nil {
		err = copyOnHost(ctx, call, v, t, v.first(to), t.first(b), 0)
	}
	runtime.KeepAlive(t)
	if err != nil {
		_ = v.Close()
		return nil, err
	}
	return v, nil
}

// cloneOn clones a tensor on device d. Its errors name call.
func (t *Tensor) cloneOn(ctx context.Context, call string, d Device) (*Tensor, error) {
	v, err := newOn(ctx, call, d, t.NumBytes(), Spec{DType: t.dtype, Shape: t.layout.shape(), Flags: t.flags & FlagSubBytePadded}, AllocOptions{})
	if err != nil {
		return nil, err
	}
	if err := copyPacked(ctx, call, d, v, t); err != nil {
		_ = v.Close()
		return nil, err
	}
	return v, nil
}

// copyPacked has d copy src to dst, and waits. It writes all bits of the last byte of dst if the
// elements are packed. Its errors name call.
func copyPacked(ctx context.Context, call string, d Device, dst, src *Tensor) error {
	to, from, err := packedBytes(call, dst, src)
	if err != nil {
		return err
	}
	defer to.Close()
	defer from.Close()
	return d.Copy(ctx, nil, to, from)
}

// packedBytes returns tensors of the bytes in which the elements of dst and src lie, if those
// are packed and row-major: any device can copy bytes, and only some copy parts of one.
// Otherwise it returns tensors of the elements. The caller closes both.
func packedBytes(call string, dst, src *Tensor) (to, from *Tensor, err error) {
	view := func(t *Tensor) (*Tensor, error) { return t.view(call, t.layout, 0, nil) }
	if dst.dtype.storageBits(dst.Padded())%8 != 0 && dst.layout.IsContiguous() && src.layout.IsContiguous() {
		view = func(t *Tensor) (*Tensor, error) {
			b, err := t.buffer(call)
			if err != nil {
				return nil, err
			}
			return newTensor(call, b, Spec{DType: TypeUint8, Shape: []int64{t.NumBytes()}, Offset: t.offset - b.mem.Offset, Flags: t.flags & FlagReadOnly})
		}
	}
	if to, err = view(dst); err != nil {
		return nil, nil, err
	}
	if from, err = view(src); err != nil {
		_ = to.Close()
		return nil, nil, err
	}
	return to, from, nil
}

// newOn makes a tensor in size bytes of new memory of device d. Its errors name call.
func newOn(ctx context.Context, call string, d Device, size int64, s Spec, opts AllocOptions) (*Tensor, error) {
	m, err := Alloc(ctx, d, size, opts)
	if err != nil {
		return nil, err
	}
	t, err := wrap(call, m, s)
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// copyOnHost copies the elements of src into dst, which has the same type and shape. to
// and from point at the first elements; that of dst begins skip bits after to.
func copyOnHost(ctx context.Context, call string, dst, src *Tensor, to, from unsafe.Pointer, skip int64) error {
	bits := src.dtype.storageBits(src.Padded())
	lanes := stepping{1, bits, bits}
	var row rowConverter
	if bits%8 == 0 {
		row = copier(bits / 8)
	} else { // one lane at a time, since an element may have more bits than a byte
		c := component{code: typecode.UInt, bits: int64(src.dtype.Bits)}
		lanes, row = stepping{int64(src.dtype.Lanes), c.bits, c.bits}, converterOf(c, c)
	}
	if row == nil {
		return Errorf(ErrDType, "core", call, "elements of %d bits cannot be copied", bits)
	}
	p := &conversion{axes: steppings(dst, src, lanes), row: row, skip: skip}
	return p.run(ctx, call, dst, src, to, from)
}

// Contiguous returns a row-major tensor with the elements of t. If t is row-major, the
// result is a view of the same memory and Contiguous does not block. Otherwise the result
// is a clone, and Contiguous blocks and fails as [Tensor.Clone] does. The caller closes
// the result.
func (t *Tensor) Contiguous(ctx context.Context) (*Tensor, error) {
	if _, err := t.buffer("Contiguous"); err != nil {
		return nil, err
	}
	if t.layout.IsContiguous() {
		return t.view("Contiguous", t.layout, 0, nil)
	}
	return t.clone(ctx, "Contiguous")
}
