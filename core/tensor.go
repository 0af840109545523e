package core

import (
	"context"
	"fmt"
	"math"
	"math/bits"
)

// Flags are what a tensor carries besides its layout; the values are DLPack's.
type Flags uint64

// The flags of dlpack.h 1.3.
const (
	FlagReadOnly      Flags = 1 << iota // must not be written through; every view has it too
	FlagCopied                          // a copy made for its consumer, who alone owns it
	FlagSubBytePadded                   // numbers narrower than a byte take one byte each
)

// Tensor is a view of a buffer: an element type, a shape with strides, and where
// the first element lies. Views share the buffer without a copy. Each tensor, a
// view too, has one owner, who closes it.
//
// What a tensor says of itself never changes and may be asked for after Close.
// Its memory may be used until Close only. Methods may be called concurrently;
// order between accesses to the memory is the business of events.
type Tensor struct {
	share  *share
	dtype  DType
	id     DeviceID
	empty  bool
	flags  Flags
	offset int64 // bytes from the memory's handle to the first element
	layout Layout
	dims   [8]int64 // room for layout up to 4 axes
}

// Spec describes a tensor on given memory.
type Spec struct {
	DType   DType
	Shape   []int64 // extents; empty for 0-d
	Strides []int64 // in elements; nil means row-major
	Offset  int64   // bytes from the start of the memory to the first element; negative only where the size is unknown
	Flags   Flags
}

// Wrap makes a tensor of memory. On success the tensor owns m.Owner and frees it
// after the last view is closed; on failure it stays the caller's. The shape and
// strides are copied. It fails with ErrDType or ErrLayout if the spec is
// malformed or leaves the memory, and with ErrInvalid if elements have no memory.
func Wrap(m Memory, s Spec) (*Tensor, error) { return wrap("Wrap", m, s) }

// wrap is Wrap for the function call, which its errors name.
func wrap(call string, m Memory, s Spec) (*Tensor, error) {
	t, b := wrapped.take()
	if err := t.init(call, &m, &s); err != nil {
		closedTensors.Add(1)
		freedBuffers.Add(1)
		return nil, err
	}
	b.mem = m
	if m.Backing != nil {
		b.noteBacked()
	}
	t.share.open(b)
	return t, nil
}

// NewTensor makes another tensor on a buffer that is kept alive by somebody else
// for the time of the call. The errors are those of [Wrap], and ErrClosed.
func NewTensor(b *Buffer, s Spec) (*Tensor, error) { return newTensor("NewTensor", b, s) }

// newTensor is NewTensor for the function call, which its errors name.
func newTensor(call string, b *Buffer, s Spec) (*Tensor, error) {
	if b == nil {
		return nil, Errorf(ErrInvalid, "core", call, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return nil, err
	}
	t, _ := views.take()
	if err := t.init(call, &b.mem, &s); err != nil {
		closedTensors.Add(1)
		b.Release()
		return nil, err
	}
	t.share.open(b)
	return t, nil
}

// init fills and checks everything but the reference. Its errors name call.
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
	if err := t.checkRange(call, m, s, low, high); err != nil {
		return err
	}
	t.offset = m.Offset + s.Offset
	return nil
}

// checkRange proves that the elements from low to high, relative to the first, lie inside the memory.
func (t *Tensor) checkRange(call string, m *Memory, s *Spec, low, high int64) error {
	// Memory of unknown size may have elements before its start, and views that begin at one of them.
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
	first, last, ok := byteRange(s.DType.storageBits(s.Flags&FlagSubBytePadded != 0), low, high)
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

// wraps reports whether the bytes from first <= 0 to last > 0 around an offset leave
// the address space that the base lies in.
func wraps(base uintptr, offset, first, last int64) bool {
	low, high := offset+first, offset+last
	return low < 0 && uint64(base) < uint64(-low) || high > 0 && uint64(base) > math.MaxUint-uint64(high)
}

// byteRange turns a range of elements, low <= 0 < high, into one of bytes.
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

// Close gives the tensor's share of the memory back. The last view that is
// closed frees it. A second Close does nothing. It never fails; the error makes
// Tensor an io.Closer.
func (t *Tensor) Close() error {
	if t != nil && t.share != nil {
		t.share.close()
	}
	return nil
}

// Buffer returns the memory that the tensor stands on, borrowed while the tensor
// is open, or ErrClosed.
func (t *Tensor) Buffer() (*Buffer, error) {
	if t != nil && t.share != nil {
		if b := t.share.buf.Load(); b != nil {
			return b, nil
		}
	}
	return nil, errTensorClosed
}

// errTensorClosed is made once, so that Buffer is small enough to be inlined.
var errTensorClosed = Errorf(ErrClosed, "core", "Buffer", "the tensor was closed")

// buffer is Buffer for the function call, which its errors name. It also refuses a nil
// tensor and the zero Tensor, with ErrInvalid.
func (t *Tensor) buffer(call string) (*Buffer, error) {
	if t == nil || t.share == nil {
		return nil, Errorf(ErrInvalid, "core", call, "the tensor is nil or the zero Tensor")
	}
	if b := t.share.buf.Load(); b != nil {
		return b, nil
	}
	return nil, Errorf(ErrClosed, "core", call, "the tensor was closed")
}

// DType is the element type.
func (t *Tensor) DType() DType {
	if t == nil {
		return DType{}
	}
	return t.dtype
}

// Layout is the shape with its strides.
func (t *Tensor) Layout() Layout {
	if t == nil {
		return Layout{}
	}
	return t.layout
}

// Shape returns a copy of the extents.
func (t *Tensor) Shape() []int64 { return t.Layout().Shape() }

// Rank is the number of axes.
func (t *Tensor) Rank() int { return t.Layout().Rank() }

// PutDims writes the extents and then the strides into dst, and reports whether
// they fit. It is what an exporter of many tensors uses: two or three times
// faster than going through [Tensor.Layout].
func (t *Tensor) PutDims(dst *[8]int64) bool {
	if t == nil || dst == nil || len(t.layout.dims) > len(t.dims) {
		return false
	}
	*dst = t.dims
	return true
}

// NumElements is the product of the extents.
func (t *Tensor) NumElements() int64 { return t.Layout().NumElements() }

// IsEmpty reports whether there are no elements.
func (t *Tensor) IsEmpty() bool { return t == nil || t.empty }

// NumBytes is how many bytes the elements take when they lie in a row: what a
// copy of the tensor has to move.
func (t *Tensor) NumBytes() int64 {
	n, err := t.DType().Size(t.NumElements(), t.Padded())
	if err != nil { // only repeated elements (stride 0) can be more than the memory holds
		return math.MaxInt64
	}
	return n
}

// ID is where the memory lies.
func (t *Tensor) ID() DeviceID {
	if t == nil {
		return DeviceID{}
	}
	return t.id
}

// Flags are the flags of the tensor.
func (t *Tensor) Flags() Flags {
	if t == nil {
		return 0
	}
	return t.flags
}

// ReadOnly reports whether the memory must not be written through this tensor.
func (t *Tensor) ReadOnly() bool { return t.Flags()&FlagReadOnly != 0 }

// Padded reports whether numbers narrower than a byte take one byte each.
func (t *Tensor) Padded() bool { return t.Flags()&FlagSubBytePadded != 0 }

// Offset is the distance in bytes from the memory's handle to the first element.
// On devices with opaque handles it is carried beside the handle.
func (t *Tensor) Offset() int64 {
	if t == nil {
		return 0
	}
	return t.offset
}

// Device is the opened device that the memory belongs to, nil for memory that
// came from elsewhere or whose tensor was closed.
func (t *Tensor) Device() Device {
	if b, _ := t.Buffer(); b != nil {
		return b.mem.Device
	}
	return nil
}

// Address is the address of the first element in the address space of its
// device. It fails with ErrNotSupported where the device has opaque handles, and
// with ErrClosed. The memory behind it stays the tensor's.
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

// Ready is the event of the last write to the memory, through whichever view;
// nil if that is done. Consumers wait for it.
func (t *Tensor) Ready() Event {
	if b, _ := t.Buffer(); b != nil {
		return b.Ready()
	}
	return nil
}

// WaitReady blocks until the last write to the memory is done, and returns its error.
func (t *Tensor) WaitReady(ctx context.Context) error {
	if e := t.Ready(); e != nil {
		return e.Wait(ctx)
	}
	return nil
}

// WaitIdle blocks until all work on the memory is done that is known of now, reads
// included, so that the memory may be overwritten. It returns the error of the last
// write, or ctx's.
func (t *Tensor) WaitIdle(ctx context.Context) error {
	b, _ := t.Buffer()
	if b == nil {
		return nil
	}
	for _, e := range b.Pending() {
		if err := e.Wait(ctx); err != nil && !isDone(e) { // what failed is over, too
			return err
		}
	}
	return t.WaitReady(ctx)
}

// String describes the tensor without its elements: "float32[2 3] on cpu".
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
