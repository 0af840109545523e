package core

import (
	"context"
	"runtime"
	"unsafe"

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
		if t.id.Type.addressed() || t.id.Type.OpaqueHandle() {
			return nil, Errorf(ErrDevice, "core", call, "no opened device owns the memory on %v: open the device, and use exchange.To", t.id)
		}
		return nil, t.id.unreachable(call)
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
		err = copyOnHost(ctx, call, v, t, v.first(to), t.first(b))
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
	m, err := Alloc(ctx, d, t.NumBytes(), AllocOptions{})
	if err != nil {
		return nil, err
	}
	v, err := wrap(call, m, Spec{DType: t.dtype, Shape: t.layout.shape(), Flags: t.flags & FlagSubBytePadded})
	if err != nil {
		m.Free()
		return nil, err
	}
	if err := d.Copy(ctx, nil, v, t); err != nil {
		_ = v.Close()
		return nil, err
	}
	return v, nil
}

// copyOnHost copies the elements of src into dst, which has the same type and shape. to
// and from point at the first elements.
func copyOnHost(ctx context.Context, call string, dst, src *Tensor, to, from unsafe.Pointer) error {
	bits := src.dtype.storageBits(src.Padded())
	p := &conversion{axes: steppings(dst, src, stepping{1, bits, bits})}
	c := component{code: CodeUInt, bits: bits}
	switch {
	case bits%8 == 0:
		p.row = copier(bits / 8)
	case bits < 8:
		p.row = converterOf(c, c)
	default:
		return Errorf(ErrDType, "core", call, "elements of %d bits cannot be copied", bits)
	}
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
