package core

import (
	"math/bits"
	"slices"
)

// MaxRank is the largest number of axes that a [Layout] can have. DLPack sets no limit; 64
// is the limit of NumPy and of PyTorch.
const MaxRank = 64

// Layout describes the arrangement of elements in memory. It has an extent, which is the
// number of elements, and a stride for each axis. A stride is the distance between
// neighbors along its axis. As in DLPack it counts elements, and may be negative or zero. A
// Layout never changes. The zero Layout has no axes and one element.
//
// The functions that make a Layout check it: no extent is negative, and neither the number
// of elements nor the distance between two elements overflows int64.
type Layout struct {
	dims []int64 // the extents, then the strides
}

// NewLayout returns the row-major layout (C order) of a shape. It copies the shape. It
// returns ErrLayout if an extent is negative, there are more than [MaxRank] axes, or the
// number of elements overflows int64.
func NewLayout(shape ...int64) (Layout, error) {
	return newLayout("NewLayout", shape, nil)
}

// NewStridedLayout returns the layout with the given shape and strides. Strides count
// elements; nil strides mean row-major. Both slices are copied. The strides of axes with
// extent 1 have no effect, but are kept. NewStridedLayout returns ErrLayout as [NewLayout]
// does, and if the strides do not match the shape or reach farther than an int64 counts.
func NewStridedLayout(shape, strides []int64) (Layout, error) {
	return newLayout("NewStridedLayout", shape, strides)
}

// newLayout is NewStridedLayout. Its errors name call.
func newLayout(call string, shape, strides []int64) (Layout, error) {
	l, _, _, err := makeLayout(call, make([]int64, 0, 2*len(shape)), shape, strides)
	return l, err
}

// makeLayout is newLayout with two additions: it builds the layout in dims if that has
// room, which saves an allocation, and it returns the result of [Layout.Extent]. It reads
// each number of shape and strides only once and checks the copy, because another library
// may own that memory and change it at any time. Its errors name call.
func makeLayout(call string, dims, shape, strides []int64) (l Layout, low, high int64, err error) {
	n := len(shape)
	if n > MaxRank {
		return l, 0, 0, badLayout(call, "rank is %d; at most %d axes are supported", n, MaxRank)
	}
	if strides != nil && len(strides) != n {
		return l, 0, 0, badLayout(call, "shape has %d axes, strides have %d", n, len(strides))
	}
	dims = append(dims, shape...)
	if strides != nil {
		dims = append(dims, strides...)
	} else {
		dims = slices.Grow(dims, n)[:2*n]
		stride := int64(1)
		for i := n - 1; i >= 0; i-- {
			dims[n+i] = stride
			// check finds an overflow, unless an extent is 0; then no stride is ever used.
			stride *= max(dims[i], 1)
		}
	}
	l = Layout{dims: dims[: 2*n : 2*n]}
	low, high, err = l.check(call)
	if err != nil {
		return Layout{}, 0, 0, err
	}
	return l, low, high, nil
}

// check checks the layout and returns the result of [Layout.Extent].
func (l Layout) check(call string) (low, high int64, err error) {
	shape, strides := l.shape(), l.strides()
	if low, high, ok := smallExtent(shape, strides); ok {
		return low, high, nil
	}
	count, fits := int64(1), true
	for i, extent := range shape {
		if extent < 0 {
			return 0, 0, badLayout(call, "shape[%d] is %d; extents must not be negative", i, extent)
		}
		var counted bool
		count, counted = mulInt64(count, extent)
		reach, reached := mulInt64(extent-1, strides[i])
		if reach < 0 {
			low += reach
			reached = reached && low < 0 // a sum of negative numbers that overflows is not negative
		} else {
			high += reach
			reached = reached && high >= 0
		}
		fits = fits && counted && reached
	}
	if slices.Contains(shape, 0) { // no element is ever reached
		return 0, 0, nil
	}
	if !fits || high+1 <= 0 || high+1-low <= 0 {
		return 0, 0, badLayout(call, "shape %v with strides %v has more elements, or elements further apart, than an int64 counts", shape, strides)
	}
	return low, high + 1, nil
}

// smallExtent is check for common tensors, whose numbers are so small that nothing can
// overflow: up to 4 axes, extents below 2^15, strides below 2^40. ok is false for others.
func smallExtent(shape, strides []int64) (low, high int64, ok bool) {
	if len(shape) > 4 || len(strides) != len(shape) {
		return 0, 0, false
	}
	var extents, distances uint64
	count := int64(1)
	for i, extent := range shape {
		stride := strides[i]
		extents |= uint64(extent)
		distances |= uint64(stride ^ stride>>63)
		count *= extent
		if reach := (extent - 1) * stride; reach < 0 {
			low += reach
		} else {
			high += reach
		}
	}
	if extents>>15|distances>>40 != 0 {
		return 0, 0, false
	}
	if count == 0 {
		return 0, 0, true
	}
	return low, high + 1, true
}

func badLayout(call, format string, args ...any) error {
	return Errorf(ErrLayout, "core", call, format, args...)
}

// mulInt64 returns a*b, and reports whether the product fits.
func mulInt64(a, b int64) (int64, bool) {
	if (uint64(a)|uint64(b))>>31 == 0 { // the usual case
		return a * b, true
	}
	hi, lo := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	return a * b, hi == 0 && lo < 1<<63
}

// Rank returns the number of axes.
func (l Layout) Rank() int { return len(l.dims) / 2 }

// Dim returns the extent of axis i. It panics if i is not in [0, Rank).
func (l Layout) Dim(i int) int64 { return l.dims[:len(l.dims)/2][i] }

// Stride returns the distance in elements between neighbors along axis i. It panics if i is
// not in [0, Rank).
func (l Layout) Stride(i int) int64 { return l.dims[len(l.dims)/2:][i] }

// Shape returns a copy of the extents.
func (l Layout) Shape() []int64 { return slices.Clone(l.shape()) }

// Strides returns a copy of the strides in elements.
func (l Layout) Strides() []int64 { return slices.Clone(l.strides()) }

// AppendShape appends the extents to dst and returns the extended slice. Unlike
// [Layout.Shape], it does not allocate if dst has room.
func (l Layout) AppendShape(dst []int64) []int64 { return append(dst, l.shape()...) }

// AppendStrides appends the strides in elements to dst and returns the extended slice.
// Unlike [Layout.Strides], it does not allocate if dst has room.
func (l Layout) AppendStrides(dst []int64) []int64 { return append(dst, l.strides()...) }

func (l Layout) shape() []int64   { return l.dims[:len(l.dims)/2] }
func (l Layout) strides() []int64 { return l.dims[len(l.dims)/2:] }

// NumElements returns the number of elements, which is the product of the extents. It is 1
// for a layout without axes.
func (l Layout) NumElements() int64 {
	n := int64(1)
	for _, extent := range l.shape() {
		n *= extent
		if n == 0 {
			return 0
		}
	}
	return n
}

// Extent returns the range of positions of the elements, from low up to but not including
// high. Positions count elements from the first element, so low is at most 0. Both are 0
// if there are no elements.
func (l Layout) Extent() (low, high int64) {
	low, high, _ = l.check("Extent") // passed when l was made
	return low, high
}

// IsContiguous reports whether the elements lie in row-major order without gaps. It ignores
// the strides of axes with extent 1. A layout without elements is contiguous.
func (l Layout) IsContiguous() bool {
	next := int64(1)
	for i := l.Rank() - 1; i >= 0; i-- {
		switch extent := l.Dim(i); {
		case extent == 0:
			return true
		case extent != 1 && l.Stride(i) != next:
			return l.NumElements() == 0
		default:
			next *= extent
		}
	}
	return true
}

// HasOverlap reports whether an axis repeats elements, which means that its stride is 0 and
// its extent is above 1. [Layout.Broadcast] makes such axes. A tensor with such a layout
// cannot be written to. HasOverlap does not detect elements that coincide because of the
// strides of two axes.
func (l Layout) HasOverlap() bool {
	if l.NumElements() == 0 {
		return false
	}
	for i, extent := range l.shape() {
		if extent > 1 && l.Stride(i) == 0 {
			return true
		}
	}
	return false
}

// SameShape reports whether l and m have the same extents.
func (l Layout) SameShape(m Layout) bool { return slices.Equal(l.shape(), m.shape()) }

// sameSteps reports whether two layouts of the same shape have the same strides, ignoring
// axes with extent 1.
func (l Layout) sameSteps(m Layout) bool {
	for i, extent := range l.shape() {
		if extent > 1 && l.Stride(i) != m.Stride(i) {
			return false
		}
	}
	return true
}

// Equal reports whether l and m have the same extents and the same strides. It compares the
// strides of axes with extent 1, too.
func (l Layout) Equal(m Layout) bool { return slices.Equal(l.dims, m.dims) }
