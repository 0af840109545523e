package core

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
)

// Flags is a set of properties of a tensor. The values are those of DLPack.
type Flags uint64

// The flags of dlpack.h 1.3.
const (
	FlagReadOnly      Flags = 1 << iota // the memory must not be written through this tensor or its views
	FlagCopied                          // the memory is a copy that was made for its consumer, who is its only owner
	FlagSubBytePadded                   // each number of fewer than 8 bits takes one byte
)

// Tensor is a view of a buffer: it has an element type, a shape with strides, and the
// position of its first element in the buffer. Several tensors can share a buffer. Each
// tensor, also one that was made as a view of another, has one owner, who closes it.
//
// The properties of a tensor never change and can be read after Close, but its memory must
// not be used after Close. The methods may be called concurrently. A Tensor does not
// synchronize accesses to its memory; events do (see the package documentation, "Order").
type Tensor struct {
	share  *share
	dtype  DType
	id     DeviceID
	empty  bool
	flags  Flags
	offset int64 // bytes from the memory's handle to the first element
	layout Layout
	dims   [8]int64 // used by layout, if it has at most 4 axes
}

// Spec describes a tensor that [Wrap] or [NewTensor] makes.
type Spec struct {
	DType   DType
	Shape   []int64 // extents; empty for a tensor without axes
	Strides []int64 // in elements; nil means row-major
	Offset  int64   // bytes from the start of the memory to the first element; may be negative only if Memory.Size is UnknownSize
	Flags   Flags
}

// Wrap makes a tensor on memory. If it succeeds, the tensor owns the memory, and m.Owner
// frees it after the last view is closed and all work on it is done. If it fails, the
// caller still owns the memory. Shape and strides are copied. Wrap returns ErrDType or
// ErrLayout if s is malformed or an element would lie outside of the memory, and ErrInvalid
// if the tensor has elements but m.Handle is 0.
func Wrap(m Memory, s Spec) (*Tensor, error) { return wrap("Wrap", m, s) }

// wrap is Wrap. Its errors name call.
func wrap(call string, m Memory, s Spec) (*Tensor, error) {
	here := shardHere()
	t, b := here.wrapped.take(true)
	if err := t.init(call, &m, &s); err != nil {
		here.closed.Add(1)
		here.freed.Add(1)
		return nil, err
	}
	b.mem, b.reads = m, t.flags&FlagReadOnly != 0
	if m.Backing != nil {
		b.noteBacked()
	}
	t.share.open(b)
	return t, nil
}

// NewTensor makes another tensor on a buffer and adds a reference to the buffer. The caller
// must hold a reference, or an open tensor on the buffer, during the call. The caller
// closes the result. NewTensor returns the errors of [Wrap], ErrInvalid if b is nil, and
// ErrClosed if the buffer was released.
func NewTensor(b *Buffer, s Spec) (*Tensor, error) { return newTensor("NewTensor", b, s) }

// newTensor is NewTensor. Its errors name call.
func newTensor(call string, b *Buffer, s Spec) (*Tensor, error) {
	if b == nil {
		return nil, Errorf(ErrInvalid, "core", call, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return nil, err
	}
	here := shardHere()
	t, _ := here.views.take(false)
	if err := t.init(call, &b.mem, &s); err != nil {
		here.closed.Add(1)
		b.Release()
		return nil, err
	}
	t.share.open(b)
	return t, nil
}

// init checks s and sets all fields of t but share. Its errors name call.
func (t *Tensor) init(call string, m *Memory, s *Spec) error {
	if !s.DType.Valid() {
		return Errorf(ErrDType, "core", call, "%v: bits and lanes must not be 0", s.DType)
	}
	dims := t.dims[:0]
	if 2*len(s.Shape) > len(t.dims) {
		dims = make([]int64, 0, 2*len(s.Shape))
	}
	layout, low, high, err := makeLayout(call, dims, s.Shape, s.Strides)
	if err != nil {
		return err
	}
	t.dtype, t.id, t.empty, t.flags, t.layout = s.DType, m.ID, low == high, s.Flags, layout
	if m.ReadOnly {
		t.flags |= FlagReadOnly
	}
	if err := t.checkRange(call, m, s, low, high); err != nil {
		return err
	}
	t.offset = m.Offset + s.Offset
	return nil
}

// checkRange checks that the elements from low to high, counted from the first one, lie
// inside of the memory.
func (t *Tensor) checkRange(call string, m *Memory, s *Spec, low, high int64) error {
	width := s.DType.storageBits(s.Flags&FlagSubBytePadded != 0)
	// Common tensors first: no element before the first one, and numbers so small that nothing can overflow. A width has
	// 24 bits.
	if low == 0 && high > 0 && high>>38 == 0 && m.Handle != 0 && (uint64(m.Handle)|uint64(m.Offset)|uint64(s.Offset))>>61 == 0 &&
		(m.Size == UnknownSize || s.Offset+(high*width+7)>>3 <= m.Size) {
		return nil
	}
	// Memory of unknown size may have elements before its address, and a view may begin
	// at one of them.
	before := m.Size == UnknownSize && !m.ID.Type.OpaqueHandle() && s.Offset > math.MinInt64
	if s.Offset < 0 && !before || m.Offset < 0 || m.Offset > math.MaxInt64-max(s.Offset, 0) {
		return Errorf(ErrLayout, "core", call, "byte offsets %d + %d are negative or overflow", m.Offset, s.Offset)
	}
	if low == high {
		return nil
	}
	if m.Handle == 0 {
		return Errorf(ErrInvalid, "core", call, "data is NULL, but shape %v has elements", t.layout.shape())
	}
	first, last, ok := byteRange(width, low, high)
	if at := m.Offset + s.Offset; !ok || last > math.MaxInt64-max(at, 0) || first < math.MinInt64-min(at, 0) {
		return Errorf(ErrLayout, "core", call, "shape %v with strides %v of %v spans more bytes than an int64 counts", t.layout.shape(), t.layout.strides(), s.DType)
	}
	if !m.ID.Type.OpaqueHandle() && wraps(m.Handle, m.Offset+s.Offset, first, last) {
		return Errorf(ErrLayout, "core", call, "the elements reach from byte %d to %d of address %#x, beyond the ends of the address space", m.Offset+s.Offset+first, m.Offset+s.Offset+last, m.Handle)
	}
	if m.Size == UnknownSize {
		return nil
	}
	if first+s.Offset < 0 || last+s.Offset > m.Size {
		return Errorf(ErrLayout, "core", call, "the elements reach from byte %d to %d, but the memory has %d bytes", first+s.Offset, last+s.Offset, m.Size)
	}
	return nil
}

// wraps reports whether addresses from base+offset+first to base+offset+last wrap around,
// where first <= 0 and last > 0.
func wraps(base uintptr, offset, first, last int64) bool {
	low, high := offset+first, offset+last
	return low < 0 && uint64(base) < uint64(-low) || high > 0 && uint64(base) > math.MaxUint-uint64(high)
}

// byteRange converts a range of elements of width bits, where low <= 0 < high, to a range
// of bytes. ok is false if it overflows.
func byteRange(width, low, high int64) (first, last int64, ok bool) {
	hi, lo := bits.Mul64(uint64(high), uint64(width))
	if hi >= 4 {
		return 0, 0, false
	}
	end, carry := bits.Add64(hi<<61|lo>>3, (lo&7+7)>>3, 0)
	hi, lo = bits.Mul64(uint64(-low), uint64(width))
	if carry != 0 || end > math.MaxInt64 || hi >= 4 {
		return 0, 0, false
	}
	begin := hi<<61 | lo>>3
	if lo&7 != 0 {
		begin++
	}
	return -int64(begin), int64(end), begin <= math.MaxInt64
}

// Close closes the tensor. When the last tensor on a buffer is closed, the memory is freed
// after all work on it is done; Close does not wait for that. Closing a closed or nil
// tensor does nothing. Close always returns nil; the result makes Tensor an io.Closer.
func (t *Tensor) Close() error {
	if t != nil && t.share != nil {
		t.share.close()
		runtime.KeepAlive(t) // closeLost must not overtake the call
	}
	return nil
}

// Buffer returns the buffer of the tensor. It is borrowed: use it only while the tensor is
// open, or call [Buffer.Retain]. Buffer returns ErrClosed if the tensor was closed.
func (t *Tensor) Buffer() (*Buffer, error) {
	if t != nil && t.share != nil {
		if b := t.share.buf.Load(); b != nil {
			return b, nil
		}
	}
	return nil, errTensorClosed
}

// errTensorClosed is a variable so that Buffer is small enough to be inlined.
var errTensorClosed = Errorf(ErrClosed, "core", "Buffer", "the tensor was closed")

// buffer is Buffer, but returns ErrInvalid for a nil tensor and the zero Tensor. Its errors
// name call.
func (t *Tensor) buffer(call string) (*Buffer, error) {
	if t == nil || t.share == nil {
		return nil, Errorf(ErrInvalid, "core", call, "the tensor is nil or the zero Tensor")
	}
	if b := t.share.buf.Load(); b != nil {
		return b, nil
	}
	return nil, Errorf(ErrClosed, "core", call, "the tensor was closed")
}

// DType returns the element type.
func (t *Tensor) DType() DType {
	if t == nil {
		return DType{}
	}
	return t.dtype
}

// Layout returns the shape and the strides.
func (t *Tensor) Layout() Layout {
	if t == nil {
		return Layout{}
	}
	return t.layout
}

// Shape returns a copy of the extents.
func (t *Tensor) Shape() []int64 { return t.Layout().Shape() }

// Rank returns the number of axes.
func (t *Tensor) Rank() int { return t.Layout().Rank() }

// PutDims writes the extents and then the strides to dst, and reports whether they fit,
// which they do for up to 4 axes. It allocates nothing and is two or three times as fast
// as calling [Tensor.Layout]: use it to fill the structs of another library by the million.
func (t *Tensor) PutDims(dst *[8]int64) bool {
	if t == nil || dst == nil || len(t.layout.dims) > len(t.dims) {
		return false
	}
	*dst = t.dims
	return true
}

// NumElements returns the number of elements, which is the product of the extents.
func (t *Tensor) NumElements() int64 { return t.Layout().NumElements() }

// IsEmpty reports whether the tensor has no elements.
func (t *Tensor) IsEmpty() bool { return t == nil || t.empty }

// NumBytes returns the number of bytes that the elements take when they are contiguous.
// This is how many bytes a copy of the tensor moves.
func (t *Tensor) NumBytes() int64 {
	n, err := t.DType().Size(t.NumElements(), t.Padded())
	if err != nil { // only repeated elements (stride 0) can be more than the memory holds
		return math.MaxInt64
	}
	return n
}

// DeviceID returns the place of the memory.
func (t *Tensor) DeviceID() DeviceID {
	if t == nil {
		return DeviceID{}
	}
	return t.id
}

// Flags returns the flags of the tensor.
func (t *Tensor) Flags() Flags {
	if t == nil {
		return 0
	}
	return t.flags
}

// ReadOnly reports whether the memory must not be written through this tensor.
func (t *Tensor) ReadOnly() bool { return t.Flags()&FlagReadOnly != 0 }

// Padded reports whether each number of fewer than 8 bits takes one byte.
func (t *Tensor) Padded() bool { return t.Flags()&FlagSubBytePadded != 0 }

// Offset returns the number of bytes from [Memory.Handle] to the first element. If the
// handle is an address, the element lies at their sum. If the handle is opaque, pass both
// to the API.
func (t *Tensor) Offset() int64 {
	if t == nil {
		return 0
	}
	return t.offset
}

// Device returns the opened device that the memory belongs to. It returns nil if the memory
// belongs to none, such as a Go slice or memory from another library, or if the tensor was
// closed.
func (t *Tensor) Device() Device {
	if b, _ := t.Buffer(); b != nil {
		return b.mem.Device
	}
	return nil
}

// Address returns the address of the first element on its device. It is valid while the
// tensor is open. Address returns ErrNotSupported if memory of the device has opaque
// handles, and ErrClosed if the tensor was closed.
func (t *Tensor) Address() (uintptr, error) {
	b, err := t.Buffer()
	if err != nil {
		return 0, err
	}
	if t.id.Type.OpaqueHandle() {
		return 0, Errorf(ErrNotSupported, "core", "Address", "memory on %v has a handle and an offset, no address", t.id)
	}
	return b.mem.Handle + uintptr(t.offset), nil
}

// Ready returns the event of the last write to the memory through any view, or nil if that
// write is done and did not fail, or the tensor was closed. Readers wait for the event. See
// [Buffer.Ready].
func (t *Tensor) Ready() Event {
	if b, _ := t.Buffer(); b != nil {
		return b.Ready()
	}
	return nil
}

// WaitReady blocks until the last write to the memory is done, and returns the error of
// that write. It returns ctx's error if ctx ends first.
func (t *Tensor) WaitReady(ctx context.Context) error {
	if e := t.Ready(); e != nil {
		return waitOnHost(ctx, t.id, e)
	}
	return nil
}

// WaitIdle blocks until all work that is recorded on the memory is done, including reads.
// The memory may then be overwritten. WaitIdle returns the error of the last write, or
// ctx's error if ctx ends first. It ignores errors of other work.
func (t *Tensor) WaitIdle(ctx context.Context) error {
	b, _ := t.Buffer()
	if b == nil {
		return nil
	}
	for _, e := range b.Pending() {
		if err := waitOnHost(ctx, t.id, e); err != nil && !isDone(e) { // work that failed is done, too
			return err
		}
	}
	return t.WaitReady(ctx)
}

// String describes the tensor without its elements, as in "float32[2 3] on cpu".
func (t *Tensor) String() string {
	if t == nil {
		return "nil tensor"
	}
	s := fmt.Sprintf("%v%v on %v", t.dtype, t.layout.shape(), t.id)
	if !t.layout.IsContiguous() {
		s += fmt.Sprintf(" strides %v", t.layout.strides())
	}
	if t.ReadOnly() {
		s += " read-only"
	}
	return s
}
