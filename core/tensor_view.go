package core

// The methods of this file return views: tensors on the same memory, without a
// copy. The caller closes each of them; the memory stays until the last one is
// closed. They fail with ErrClosed, or with ErrLayout where Layout's method of the
// same name does. They have the tensor's flags, but for FlagCopied: the memory has
// more than one owner now.

// view makes a tensor with another layout, whose first element lies by so many elements
// further. Its errors name call, the method of Tensor; err is that of the layout's method.
func (t *Tensor) view(call string, l Layout, by int64, err error) (*Tensor, error) {
	if err != nil {
		return nil, err
	}
	b, err := t.buffer(call)
	if err != nil {
		return nil, err
	}
	// Eight elements are a whole number of bytes: counted so, nothing overflows
	// that was not refused when t was made.
	width := t.dtype.storageBits(t.Padded())
	bytes, rest := by/8*width, by%8*width
	if rest%8 != 0 {
		return nil, Errorf(ErrLayout, "core", call, "element %d of packed %v does not start on a byte", by, t.dtype)
	}
	return newTensor(call, b, Spec{
		DType:   t.dtype,
		Shape:   l.shape(),
		Strides: l.strides(),
		Offset:  t.offset - b.mem.Offset + bytes + rest/8,
		Flags:   t.flags &^ FlagCopied,
	})
}

// Share returns a second tensor of the same elements.
func (t *Tensor) Share() (*Tensor, error) { return t.view("Share", t.Layout(), 0, nil) }

// AsReadOnly returns a view that must not be written through.
func (t *Tensor) AsReadOnly() (*Tensor, error) {
	v, err := t.view("AsReadOnly", t.Layout(), 0, nil)
	if err == nil {
		v.flags |= FlagReadOnly
	}
	return v, err
}

// Slice takes the elements start, start+step, ... before stop of an axis; see [Layout.Slice].
func (t *Tensor) Slice(axis int, start, stop, step int64) (*Tensor, error) {
	l, by, err := t.Layout().Slice(axis, start, stop, step)
	return t.view("Slice", l, by, err)
}

// Index takes one element of an axis and drops the axis.
func (t *Tensor) Index(axis int, i int64) (*Tensor, error) {
	l, by, err := t.Layout().Index(axis, i)
	return t.view("Index", l, by, err)
}

// Permute orders the axes anew; see [Layout.Permute].
func (t *Tensor) Permute(axes ...int) (*Tensor, error) {
	l, err := t.Layout().Permute(axes...)
	return t.view("Permute", l, 0, err)
}

// Transpose reverses the order of the axes.
func (t *Tensor) Transpose() (*Tensor, error) {
	axes := make([]int, t.Rank())
	for i := range axes {
		axes[i] = len(axes) - 1 - i
	}
	l, err := t.Layout().Permute(axes...)
	return t.view("Transpose", l, 0, err)
}

// Reshape gives the elements another shape where a view can; see [Layout.Reshape].
func (t *Tensor) Reshape(shape ...int64) (*Tensor, error) {
	l, err := t.Layout().Reshape(shape...)
	return t.view("Reshape", l, 0, err)
}

// Squeeze drops axes of extent 1; see [Layout.Squeeze].
func (t *Tensor) Squeeze(axes ...int) (*Tensor, error) {
	l, err := t.Layout().Squeeze(axes...)
	return t.view("Squeeze", l, 0, err)
}

// Expand inserts an axis of extent 1; see [Layout.Expand].
func (t *Tensor) Expand(axis int) (*Tensor, error) {
	l, err := t.Layout().Expand(axis)
	return t.view("Expand", l, 0, err)
}

// Broadcast repeats axes of extent 1 by stride 0; see [Layout.Broadcast]. The
// view is read-only if it repeats elements.
func (t *Tensor) Broadcast(shape ...int64) (*Tensor, error) {
	l, err := t.Layout().Broadcast(shape...)
	v, err := t.view("Broadcast", l, 0, err)
	if err == nil && l.HasOverlap() {
		v.flags |= FlagReadOnly
	}
	return v, err
}
