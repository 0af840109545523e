package core

import (
	"math"
	"slices"
)

// The methods of this file return the layout of a view. Those that may change the first
// element also return its offset, which is the number of elements from the first element
// of l to the first element of the view.

// Slice selects the elements start, start+step, and so on along one axis, up to but not
// including stop. If step is negative, stop must not be above start, and may be -1, which
// stands for the position before the first element. For example, Slice(axis, n-1, -1, -1)
// reverses an axis of extent n. Unlike in Python, an index does not count from the end.
// Slice also returns the offset of the view's first element, in elements. It returns
// ErrLayout if axis is out of range, step is 0, or start and stop do not lie within the
// axis in the direction of step.
func (l Layout) Slice(axis int, start, stop, step int64) (Layout, int64, error) {
	if err := l.checkAxis("Slice", axis); err != nil {
		return Layout{}, 0, err
	}
	n := l.Dim(axis)
	var count int64
	switch {
	case step > 0 && 0 <= start && start <= stop && stop <= n:
		count = (stop-start-1)/step + 1
		if start == stop {
			count = 0
		}
	case step < 0 && -1 <= stop && stop <= start && start < n:
		count = (stop-start+1)/step + 1
		if start == stop {
			count = 0
		}
	default:
		return Layout{}, 0, badLayout("Slice", "[%d:%d:%d] leaves axis %d of extent %d, or its step is 0", start, stop, step, axis, n)
	}
	// The new stride matters only if there are at least two elements. Then it cannot
	// overflow, because l was checked. Otherwise the old stride is kept.
	dims := slices.Clone(l.dims)
	dims[axis] = count
	if count > 1 {
		dims[l.Rank()+axis] *= step
	}
	if count == 0 || l.NumElements() == 0 {
		return Layout{dims}, 0, nil
	}
	return Layout{dims}, start * l.Stride(axis), nil
}

// Index selects position i of an axis and removes the axis. It also returns the offset of
// the view's first element, in elements. It returns ErrLayout if axis or i is out of range.
func (l Layout) Index(axis int, i int64) (Layout, int64, error) {
	if err := l.checkAxis("Index", axis); err != nil {
		return Layout{}, 0, err
	}
	if n := l.Dim(axis); i < 0 || i >= n {
		return Layout{}, 0, badLayout("Index", "index %d of axis %d is out of range for extent %d", i, axis, n)
	}
	offset := i * l.Stride(axis)
	if l.NumElements() == 0 {
		offset = 0
	}
	return l.drop(func(a int) bool { return a == axis }), offset, nil
}

// Permute reorders the axes. Axis i of the result is axis axes[i] of l. It returns
// ErrLayout unless axes contains every axis exactly once.
func (l Layout) Permute(axes ...int) (Layout, error) {
	n := l.Rank()
	if len(axes) != n {
		return Layout{}, badLayout("Permute", "permutation %v names %d axes of %d", axes, len(axes), n)
	}
	dims := make([]int64, 2*n)
	var seen [MaxRank]bool
	for i, a := range axes {
		if a < 0 || a >= n || seen[a] {
			return Layout{}, badLayout("Permute", "permutation %v must name each axis from 0 to %d once", axes, n-1)
		}
		seen[a] = true
		dims[i], dims[n+i] = l.Dim(a), l.Stride(a)
	}
	return Layout{dims}, nil
}

// Reshape returns a layout with another shape that has the same elements in the same
// row-major order. One extent may be -1; Reshape then computes it. It returns ErrLayout if
// the number of elements differs, or if no strides express the new shape, so that a copy
// is needed.
func (l Layout) Reshape(shape ...int64) (Layout, error) {
	shape, err := l.inferExtent(shape)
	if err != nil {
		return Layout{}, err
	}
	v, err := newLayout("Reshape", shape, nil)
	if err != nil {
		return Layout{}, err
	}
	if count := l.NumElements(); v.NumElements() != count {
		return Layout{}, badLayout("Reshape", "shape %v has %d elements, the tensor %d", shape, v.NumElements(), count)
	} else if count == 0 || l.IsContiguous() {
		return v, nil
	}
	// Walk both shapes from the left in groups of axes with equal products. The old axes
	// of a group must be mergeable into one axis; the new axes split it.
	old := l.drop(func(a int) bool { return l.Dim(a) == 1 })
	o, strides := 0, v.strides()
	for n := 0; n < len(shape); {
		if shape[n] == 1 {
			n++
			continue
		}
		oEnd, nEnd := o+1, n+1
		for op, np := old.Dim(o), shape[n]; op != np; {
			if op < np {
				op *= old.Dim(oEnd)
				oEnd++
			} else {
				np *= shape[nEnd]
				nEnd++
			}
		}
		for a := o; a+1 < oEnd; a++ {
			if old.Stride(a) != old.Dim(a+1)*old.Stride(a+1) {
				return Layout{}, badLayout("Reshape", "shape %v cannot be viewed as %v with strides %v: copy the tensor first", l.shape(), shape, l.strides())
			}
		}
		stride := old.Stride(oEnd - 1)
		for a := nEnd - 1; a >= n; a-- {
			strides[a] = stride
			stride *= shape[a]
		}
		o, n = oEnd, nEnd
	}
	return v, nil
}

// inferExtent replaces an extent of -1 by the one that makes the number of elements equal
// to that of l.
func (l Layout) inferExtent(shape []int64) ([]int64, error) {
	unknown := slices.Index(shape, -1)
	if unknown < 0 {
		return shape, nil
	}
	shape = slices.Clone(shape)
	shape[unknown] = 1
	rest, err := newLayout("Reshape", shape, nil)
	if err != nil {
		return nil, err // a second -1 is a negative extent
	}
	count := rest.NumElements()
	if count == 0 || l.NumElements()%count != 0 {
		return nil, badLayout("Reshape", "%d elements do not divide by the other extents of %v", l.NumElements(), shape)
	}
	shape[unknown] = l.NumElements() / count
	return shape, nil
}

// Squeeze removes the given axes, which must have extent 1. Without arguments it removes
// every axis with extent 1. It returns ErrLayout if an axis is out of range or has another
// extent.
func (l Layout) Squeeze(axes ...int) (Layout, error) {
	for _, a := range axes {
		if err := l.checkAxis("Squeeze", a); err != nil {
			return Layout{}, err
		}
		if l.Dim(a) != 1 {
			return Layout{}, badLayout("Squeeze", "axis %d has extent %d; only extent 1 can be squeezed", a, l.Dim(a))
		}
	}
	return l.drop(func(a int) bool {
		return l.Dim(a) == 1 && (len(axes) == 0 || slices.Contains(axes, a))
	}), nil
}

// Expand inserts an axis of extent 1 before the given axis. Expand(Rank) appends it. It
// returns ErrLayout if axis is out of range or there would be more than [MaxRank] axes.
func (l Layout) Expand(axis int) (Layout, error) {
	n := l.Rank()
	if axis < 0 || axis > n || n == MaxRank {
		return Layout{}, badLayout("Expand", "no axis can be inserted at %d of %d", axis, n)
	}
	stride := int64(1)
	if axis < n {
		stride = l.Dim(axis) * l.Stride(axis) // as if the new axis were the outer half of a reshape
		if l.NumElements() == 0 {
			stride = 1
		}
	}
	dims := slices.Insert(slices.Clone(l.dims), n+axis, stride)
	return Layout{slices.Insert(dims, axis, 1)}, nil
}

// Broadcast repeats elements to fill a larger shape, by the rules of NumPy: it sets the
// stride of an axis of extent 1 to 0, and adds leading axes of stride 0. It returns
// ErrLayout if another axis has a different extent or shape has fewer axes.
func (l Layout) Broadcast(shape ...int64) (Layout, error) {
	lead := len(shape) - l.Rank()
	if lead < 0 {
		return Layout{}, badLayout("Broadcast", "shape %v cannot be broadcast to the fewer axes of %v", l.shape(), shape)
	}
	strides := make([]int64, len(shape))
	for i := range strides[lead:] {
		switch l.Dim(i) {
		case shape[lead+i]:
			strides[lead+i] = l.Stride(i)
		case 1: // stride 0
		default:
			return Layout{}, badLayout("Broadcast", "axis %d has extent %d, which cannot be broadcast to %d", i, l.Dim(i), shape[lead+i])
		}
	}
	return newLayout("Broadcast", shape, strides)
}

// drop returns the layout without the axes that match.
func (l Layout) drop(match func(axis int) bool) Layout {
	n := l.Rank()
	dims := make([]int64, 0, 2*n)
	for a := range 2 * n {
		if !match(a % n) {
			dims = append(dims, l.dims[a])
		}
	}
	return Layout{dims}
}

func (l Layout) checkAxis(call string, axis int) error {
	if axis < 0 || axis >= l.Rank() {
		return badLayout(call, "axis %d is out of range for %d axes", axis, l.Rank())
	}
	return nil
}

// withLanes returns the layout of the same numbers in elements of lanes numbers each, where l
// has was of them in an element.
func (l Layout) withLanes(was, lanes int64) (Layout, error) {
	const call = "WithLanes"
	if was == lanes {
		return l, nil
	}
	if l.Rank() == 0 {
		return Layout{}, badLayout(call, "a tensor without axes has %d numbers in its element, not %d", was, lanes)
	}
	shape, strides, last := l.Shape(), l.Strides(), l.Rank()-1
	// Each element of l falls into split parts, and group of these are an element of the result.
	split, group := was/gcd(was, lanes), lanes/gcd(was, lanes)
	steps := func(axis int) bool { return l.Dim(axis) > 1 && l.NumElements() > 0 } // otherwise the stride means nothing
	switch n := l.Dim(last); {
	case n > math.MaxInt64/was:
		return Layout{}, badLayout(call, "the last axis of %v has more numbers than an int64 counts", shape)
	case n*split%group != 0:
		return Layout{}, badLayout(call, "the %d numbers along the last axis of %v cannot be divided among elements of %d lanes", n*was, shape, lanes)
	case steps(last) && l.Stride(last) != 1:
		return Layout{}, badLayout(call, "the elements along the last axis have the stride %d: copy the tensor first", l.Stride(last))
	default:
		shape[last], strides[last] = n*split/group, 1
	}
	for a := range last {
		parts := strides[a] * split
		switch {
		case steps(a) && parts/split != strides[a]:
			return Layout{}, badLayout(call, "the stride %d of axis %d overflows", strides[a], a)
		case steps(a) && parts%group != 0:
			return Layout{}, badLayout(call, "the stride %d of axis %d is no whole number of elements of %d lanes: copy the tensor first", strides[a], a, lanes)
		}
		strides[a] = parts / group
	}
	return newLayout(call, shape, strides)
}
