package core

import "slices"

// The functions of this file derive the layout of a view. Those that move the
// first element also return by how many elements.

// Slice takes the elements start, start+step, ... before stop of one axis. Step
// may be negative, stop then lies before start and may be -1, "before the first":
// Slice(axis, n-1, -1, -1) reverses an axis of n. Unlike in Python, indices do
// not count from the end. It returns the offset of the view's first element.
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
	// The new stride is only reached if there are two elements; then it is
	// within the checked extent. Otherwise the old one is as good.
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

// Index takes one element of an axis and drops the axis. It returns the offset
// of the view's first element.
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

// Permute orders the axes anew: axis i of the view is axis axes[i] of l. Every
// axis must be named once.
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

// Reshape gives the same elements in the same row-major order another shape. One
// extent may be -1 and is then computed. It fails with ErrLayout if the number of
// elements differs, or if the new shape cannot be had without a copy.
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
	// Walk both shapes from the left in groups of axes with equal products. The
	// old axes of a group must lie like one axis; the new ones divide it.
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

// inferExtent replaces the one -1 of a shape by what the number of elements leaves for it.
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

// Squeeze drops the named axes, each of which must have extent 1; without names,
// every axis with extent 1.
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

// Expand inserts an axis of extent 1 before the given one; axis Rank appends it.
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

// Broadcast stretches axes of extent 1 to the extents of shape by stride 0 and
// adds leading axes, by the rules of NumPy. The view repeats elements, so it can
// be read only.
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

// drop leaves out the axes that match.
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
