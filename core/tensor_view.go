package core

// The methods of this file return views: tensors on the same memory, without a copy. The
// caller closes each view. They return ErrClosed if the tensor was closed, and ErrLayout if
// the method of Layout of the same name does. A view has the flags of the tensor except
// FlagCopied, because the memory then has more than one owner.

// view returns a tensor with layout l, whose first element lies by elements after that of
// t. err is the error of the method that made l; view returns it. Other errors name call.
func (t *Tensor) view(call string, l Layout, by int64, err error) (*Tensor, error) {
	return t.viewAs(call, t.DType(), l, by, err)
}

// viewAs is view for another element type.
func (t *Tensor) viewAs(call string, dtype DType, l Layout, by int64, err error) (*Tensor, error) {
	if err != nil {
		return nil, err
	}
	b, err := t.buffer(call)
	if err != nil {
		return nil, err
	}
	// Eight elements are a whole number of bytes. Computed in this order, the offset in
	// bytes cannot overflow, because init checked that t lies in its memory.
	width := t.dtype.storageBits(t.Padded())
	bytes, rest := by/8*width, by%8*width
	if rest%8 != 0 {
		return nil, Errorf(ErrLayout, "core", call, "element %d of packed %v does not start on a byte", by, t.dtype)
	}
	return newTensor(call, b, Spec{
		DType:   dtype,
		Shape:   l.shape(),
		Strides: l.strides(),
		Offset:  t.offset - b.mem.Offset + bytes + rest/8,
		Flags:   t.flags &^ FlagCopied,
	})
}

// Share returns a second tensor on the same elements. The caller closes it.
func (t *Tensor) Share() (*Tensor, error) { return t.view("Share", t.Layout(), 0, nil) }

// AsReadOnly returns a read-only view of the same elements. The caller closes it.
func (t *Tensor) AsReadOnly() (*Tensor, error) {
	v, err := t.view("AsReadOnly", t.Layout(), 0, nil)
	if err == nil {
		v.flags |= FlagReadOnly
	}
	return v, err
}

// Slice returns a view of the elements start, start+step, and so on along one axis, up to
// but not including stop; see [Layout.Slice]. It also returns ErrLayout if the first
// element is packed and does not begin at a byte. The caller closes the view.
func (t *Tensor) Slice(axis int, start, stop, step int64) (*Tensor, error) {
	l, by, err := t.Layout().Slice(axis, start, stop, step)
	return t.view("Slice", l, by, err)
}

// Index returns a view at position i of an axis, without that axis; see [Layout.Index]. It
// also returns ErrLayout if the first element is packed and does not begin at a byte. The
// caller closes the view.
func (t *Tensor) Index(axis int, i int64) (*Tensor, error) {
	l, by, err := t.Layout().Index(axis, i)
	return t.view("Index", l, by, err)
}

// Permute returns a view with reordered axes; see [Layout.Permute]. The caller closes it.
func (t *Tensor) Permute(axes ...int) (*Tensor, error) {
	l, err := t.Layout().Permute(axes...)
	return t.view("Permute", l, 0, err)
}

// Transpose returns a view with the axes in reverse order. The caller closes it.
func (t *Tensor) Transpose() (*Tensor, error) {
	axes := make([]int, t.Rank())
	for i := range axes {
		axes[i] = len(axes) - 1 - i
	}
	l, err := t.Layout().Permute(axes...)
	return t.view("Transpose", l, 0, err)
}

// Reshape returns a view with another shape; see [Layout.Reshape]. It returns ErrLayout if
// that needs a copy; use [Tensor.Contiguous] first then. The caller closes the view.
func (t *Tensor) Reshape(shape ...int64) (*Tensor, error) {
	l, err := t.Layout().Reshape(shape...)
	return t.view("Reshape", l, 0, err)
}

// WithLanes returns a view whose elements have another number of lanes: the numbers along
// the last axis are the same, and lanes of them that lie next to each other are an element.
// A float4_e2m1fn tensor of the shape (2, 8) with 2 lanes is a float4_e2m1fnx2 tensor of the
// shape (2, 4), which is what PyTorch calls float4_e2m1fn_x2, and with 1 lane it is the
// first one again.
//
// WithLanes returns ErrDType if lanes is 0. It returns ErrLayout if the numbers along the
// last axis do not lie next to each other or cannot be divided among elements, if the other
// strides are no whole number of elements, or if a tensor without axes has another number of
// lanes. The caller closes the view.
func (t *Tensor) WithLanes(lanes uint16) (*Tensor, error) {
	was := t.DType()
	dtype := DType{was.Code, was.Bits, lanes}
	if !dtype.Valid() {
		return nil, Errorf(ErrDType, "core", "WithLanes", "%v with %d lanes: neither bits nor lanes may be 0", was, lanes)
	}
	l, err := t.Layout().withLanes(int64(was.Lanes), int64(lanes))
	return t.viewAs("WithLanes", dtype, l, 0, err)
}

// Squeeze returns a view without some axes of extent 1; see [Layout.Squeeze]. The caller
// closes it.
func (t *Tensor) Squeeze(axes ...int) (*Tensor, error) {
	l, err := t.Layout().Squeeze(axes...)
	return t.view("Squeeze", l, 0, err)
}

// Expand returns a view with one more axis of extent 1; see [Layout.Expand]. The caller
// closes it.
func (t *Tensor) Expand(axis int) (*Tensor, error) {
	l, err := t.Layout().Expand(axis)
	return t.view("Expand", l, 0, err)
}

// Broadcast returns a view that repeats elements to fill a larger shape; see
// [Layout.Broadcast]. The view is read-only if it repeats elements. The caller closes it.
func (t *Tensor) Broadcast(shape ...int64) (*Tensor, error) {
	l, err := t.Layout().Broadcast(shape...)
	v, err := t.view("Broadcast", l, 0, err)
	if err == nil && l.HasOverlap() {
		v.flags |= FlagReadOnly
	}
	return v, err
}
