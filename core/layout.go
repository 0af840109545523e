package core

import (
	"math/bits"
	"slices"
)

// MaxRank is the largest number of axes that a [Layout] may have. DLPack sets no
// limit; NumPy's is 64, PyTorch's too. A foreign ndim beyond it is taken for garbage.
const MaxRank = 64

// Layout tells how a shape lies in memory: an extent and a stride for every axis.
// Strides count elements, as in DLPack; they may be negative or zero. A Layout is
// a value and never changes; the zero Layout is that of a 0-d tensor.
//
// Every Layout is checked when it is made: no extent is negative, and neither the
// number of elements nor the distance between any two of them overflows int64.
type Layout struct {
	dims []int64 // the shape, then the strides
}

// NewLayout makes the row-major (C order) layout of a shape, which is copied.
func NewLayout(shape ...int64) (Layout, error) {
	return newLayout("NewLayout", shape, nil)
}

// NewStridedLayout makes a layout of a shape and its strides in elements. Both
// are copied; nil strides mean row-major. The strides of axes with extent 1 are
// kept as they are given.
func NewStridedLayout(shape, strides []int64) (Layout, error) {
	return newLayout("NewStridedLayout", shape, strides)
}

// newLayout is NewStridedLayout for the function call, which its errors name.
func newLayout(call string, shape, strides []int64) (Layout, error) {
	l, _, _, err := makeLayout(call, make([]int64, 0, 2*len(shape)), shape, strides)
	return l, err
}

// makeLayout builds the layout in dims if that has room, so that a caller can keep
// it beside the tensor. It also returns what [Layout.Extent] does. It reads each
// number of shape and strides once, since these may be memory of a foreign producer
// that still writes there: what is checked is the copy. Its errors name call.
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
			// An overflow is found below, unless an extent is 0 and strides are never used.
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

// check proves what the type promises and returns the extent.
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
			reached = reached && low < 0 // a sum of negative numbers that overflows is not
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

// smallExtent is check for the usual tensors, whose numbers are so small that
// nothing can overflow: up to 4 axes, extents below 2^15, strides below 2^40.
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

// mulInt64 multiplies, and reports whether the product fits.
func mulInt64(a, b int64) (int64, bool) {
	if (uint64(a)|uint64(b))>>31 == 0 { // the usual case
		return a * b, true
	}
	hi, lo := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	return a * b, hi == 0 && lo < 1<<63
}

// Rank is the number of axes.
func (l Layout) Rank() int { return len(l.dims) / 2 }

// Dim is the extent of axis i, which must be in [0, Rank).
func (l Layout) Dim(i int) int64 { return l.dims[:len(l.dims)/2][i] }

// Stride is the distance in elements between neighbours along axis i, which must be in [0, Rank).
func (l Layout) Stride(i int) int64 { return l.dims[len(l.dims)/2:][i] }

// Shape returns a copy of the extents.
func (l Layout) Shape() []int64 { return slices.Clone(l.shape()) }

// Strides returns a copy of the strides in elements.
func (l Layout) Strides() []int64 { return slices.Clone(l.strides()) }

// AppendShape appends the extents to dst, for callers who must not allocate.
func (l Layout) AppendShape(dst []int64) []int64 { return append(dst, l.shape()...) }

// AppendStrides appends the strides in elements to dst, for callers who must not allocate.
func (l Layout) AppendStrides(dst []int64) []int64 { return append(dst, l.strides()...) }

func (l Layout) shape() []int64   { return l.dims[:len(l.dims)/2] }
func (l Layout) strides() []int64 { return l.dims[len(l.dims)/2:] }

// NumElements is the product of the extents; 1 for a 0-d layout.
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

// Extent gives the half-open range of element offsets that the layout reaches,
// relative to its first element: low is at most 0. It is empty (0, 0) if there
// are no elements.
func (l Layout) Extent() (low, high int64) {
	low, high, _ = l.check("Extent") // passed when l was made
	return low, high
}

// IsContiguous reports whether the elements lie in row-major order without gaps.
// Strides of axes with extent 1 do not count, and an empty layout is contiguous.
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

// HasOverlap reports whether some axis repeats elements: an extent above 1 with
// stride 0, as broadcasting makes it. Such a layout cannot be written to. It does
// not find two axes whose strides happen to meet.
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

// SameShape reports whether both have the same extents.
func (l Layout) SameShape(m Layout) bool { return slices.Equal(l.shape(), m.shape()) }

// sameSteps reports whether layouts of the same shape reach their elements by the
// same steps: strides of axes with extent 1 do not count.
func (l Layout) sameSteps(m Layout) bool {
	for i, extent := range l.shape() {
		if extent > 1 && l.Stride(i) != m.Stride(i) {
			return false
		}
	}
	return true
}

// Equal reports whether both have the same extents and the same strides.
func (l Layout) Equal(m Layout) bool { return slices.Equal(l.dims, m.dims) }
