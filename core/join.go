package core

import (
	"context"
	"math"
	"runtime"
	"slices"
	"unsafe"
)

// Stack copies tensors into a new tensor, along a new axis: the elements of tensors[i] are
// those of Index(axis, i) of the result. The tensors have one element type and one shape,
// and any strides. They may repeat elements, and a tensor may be in the list twice. axis is
// from 0 to the rank of the tensors. The result is allocated once, and each tensor is copied
// to its place in it. It is row-major and not read-only. The caller closes it, and still
// owns the tensors.
//
// The tensors and the result lie on one device. If opts.Stream is not nil, that is the
// device of the stream; tensors in host memory are then copied to it. opts says which memory
// is allocated, as for [Empty]. Memory that belongs to no opened device, such as that of Go
// slices, is copied by the host, and opts must then be its zero value.
//
// If opts.Stream is nil, Stack blocks until the last writes to the tensors and the copies
// are done, or returns ctx's error if ctx ends first. If it is not nil, the copies are work
// on that stream and may still be running when Stack returns; see [Device.Copy]. Only
// copies within the memory of the host are then still made by the caller, such as those
// into pinned memory.
//
// Stack returns
//
//   - ErrInvalid if there are no tensors, one is nil, or opts cannot be satisfied because
//     no opened device is known; ErrClosed if one is closed;
//   - ErrDType if the element types differ, or only some tensors are padded;
//   - ErrLayout if the shapes differ, axis is out of range, the result would have more than
//     [MaxRank] axes or more elements than an int64 counts, or packed elements of two
//     tensors would share a byte that a device writes;
//   - ErrDevice if the tensors lie on several devices; move them by ToAll of package
//     exchange first;
//   - ErrOutOfMemory, the error of the last write to a tensor, or an error of
//     [Device.Alloc] or [Device.Copy].
//
// If it fails, the memory of the result is freed.
func Stack(ctx context.Context, tensors []*Tensor, axis int, opts AllocOptions) (*Tensor, error) {
	return join(ctx, &joint{call: "Stack", tensors: tensors, axis: axis, fresh: true}, opts)
}

// Concat copies tensors into a new tensor, one behind the other along an axis that they
// have. Their shapes may differ in the extent of that axis, which may be 0; that of the
// result is the sum. axis is from 0 to the rank of the tensors - 1. Otherwise Concat is like
// [Stack]. It also returns ErrLayout if the tensors have no axes.
func Concat(ctx context.Context, tensors []*Tensor, axis int, opts AllocOptions) (*Tensor, error) {
	return join(ctx, &joint{call: "Concat", tensors: tensors, axis: axis}, opts)
}

// joint is what [Stack] and [Concat] make of tensors.
type joint struct {
	call    string
	tensors []*Tensor
	axis    int
	fresh   bool // the axis is a new one

	layout Layout // of the result
	device Device // that allocates the result, and copies; nil if the host does
}

func join(ctx context.Context, j *joint, opts AllocOptions) (*Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	if err := j.place(opts); err != nil {
		return nil, err
	}
	v, err := j.alloc(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := j.copy(ctx, opts.Stream, v); err != nil {
		_ = v.Close()
		return nil, err
	}
	return v, nil
}

// errorf returns an error of the call.
func (j *joint) errorf(sentinel error, format string, args ...any) error {
	return Errorf(sentinel, "core", j.call, format, args...)
}

// check checks the tensors and the axis, and computes the layout of the result.
func (j *joint) check() error {
	if len(j.tensors) == 0 {
		return j.errorf(ErrInvalid, "there are no tensors: at least one must say the element type and the shape")
	}
	for i, t := range j.tensors {
		if t == nil || t.share == nil {
			return j.errorf(ErrInvalid, "tensors[%d] is nil or the zero Tensor", i)
		}
		if _, err := t.Buffer(); err != nil {
			return j.errorf(ErrClosed, "tensors[%d] was closed", i)
		}
	}
	first := j.tensors[0]
	last := first.Rank() - 1
	if j.fresh {
		last++
	}
	if j.axis < 0 || j.axis > last {
		return j.errorf(ErrLayout, "axis %d is out of range for tensors with %d axes", j.axis, first.Rank())
	}
	sum := int64(0)
	for i, t := range j.tensors {
		switch {
		case t.dtype != first.dtype:
			return j.errorf(ErrDType, "tensors[%d] has %v, tensors[0] has %v: convert it by AsType", i, t.dtype, first.dtype)
		case t.dtype.SubByte() && t.Padded() != first.Padded():
			return j.errorf(ErrDType, "tensors[%d] and tensors[0] store %v differently: one is packed, one padded", i, t.dtype)
		case !j.suits(t, first):
			return j.errorf(ErrLayout, "tensors[%d] has shape %v, tensors[0] has %v", i, t.layout.shape(), first.layout.shape())
		}
		n := j.extent(t)
		if sum > math.MaxInt64-n {
			return j.errorf(ErrLayout, "the extents of axis %d add up to more than an int64 counts", j.axis)
		}
		sum += n
	}
	shape := first.layout.Shape()
	if j.fresh {
		shape = slices.Insert(shape, j.axis, sum)
	} else {
		shape[j.axis] = sum
	}
	var err error
	j.layout, err = newLayout(j.call, shape, nil)
	return err
}

// suits reports whether t has the same extents as first, except along the axis.
func (j *joint) suits(t, first *Tensor) bool {
	a, b := t.layout.shape(), first.layout.shape()
	if j.fresh {
		return slices.Equal(a, b)
	}
	return len(a) == len(b) && slices.Equal(a[:j.axis], b[:j.axis]) && slices.Equal(a[j.axis+1:], b[j.axis+1:])
}

// extent returns how much of the axis a tensor takes.
func (j *joint) extent(t *Tensor) int64 {
	if j.fresh {
		return 1
	}
	return t.layout.Dim(j.axis)
}

// place sets the device, and checks that all tensors lie on it.
func (j *joint) place(opts AllocOptions) error {
	if opts.Stream != nil {
		if j.device = opts.Stream.Device(); j.device == nil {
			return j.errorf(ErrInvalid, "opts.Stream belongs to no opened device")
		}
		return nil // Device.Copy refuses memory of other devices
	}
	first := j.tensors[0].id
	for i, t := range j.tensors {
		if t.id != first {
			return j.errorf(ErrDevice, "tensors[%d] lies on %v, tensors[0] on %v: move them to one device by exchange.ToAll", i, t.id, first)
		}
		if d := t.Device(); d != nil && j.device == nil && (d.ID().Type == first.Type || opts != (AllocOptions{})) {
			j.device = d
		}
	}
	switch {
	case j.device != nil:
		return nil
	case opts != (AllocOptions{}):
		return j.errorf(ErrInvalid, "no opened device owns the memory of the tensors on %v: set opts.Stream to a stream of the device that is to allocate", first)
	case !first.Type.HostAccessible():
		return first.unowned(j.call)
	}
	return nil
}

// alloc allocates the result.
func (j *joint) alloc(ctx context.Context, opts AllocOptions) (*Tensor, error) {
	first := j.tensors[0]
	flags := first.flags & FlagSubBytePadded
	if j.device == nil {
		return newHost(j.call, first.dtype, j.layout.shape(), flags)
	}
	size, err := first.dtype.Size(j.layout.NumElements(), flags != 0)
	if err != nil {
		return nil, err
	}
	if opts.Type.HostAccessible() && !j.device.ID().Type.HostAccessible() {
		opts.Stream = nil // the host writes the memory, too, and not in the order of the stream
	}
	return newOn(ctx, j.call, j.device, size, Spec{DType: first.dtype, Shape: j.layout.shape(), Flags: flags}, opts)
}

// copy copies each tensor to its place in v: first those that the host copies, then those
// that the device does.
func (j *joint) copy(ctx context.Context, s Stream, v *Tensor) error {
	var dst, src []*Tensor
	defer func() {
		for _, t := range slices.Concat(dst, src) {
			_ = t.Close()
		}
	}()
	at := int64(0)
	for i, t := range j.tensors {
		part, by, err := j.part(at, t)
		at += j.extent(t)
		switch {
		case err != nil:
			return err
		case t.NumElements() == 0:
			continue
		case j.hostCopies(s, v, t):
			err = t.copyToPart(ctx, j.call, v, part, by)
		default:
			var to, from *Tensor
			if to, from, err = j.partOf(v, i, part, by); err == nil {
				dst, src = append(dst, to), append(src, from)
			}
		}
		if err != nil {
			return err
		}
	}
	if len(dst) == 0 {
		return nil
	}
	b, err := v.buffer(j.call)
	if err != nil {
		return err
	}
	end := b.parts() // the result reports the error of each copy
	defer end()
	return copyAll(ctx, j.device, s, dst, src)
}

// part returns the layout of the part of the result that begins at a position of the axis
// and is like t, and how many elements lie before it.
func (j *joint) part(at int64, t *Tensor) (Layout, int64, error) {
	if j.fresh {
		return j.layout.Index(j.axis, at)
	}
	return j.layout.Slice(j.axis, at, at+j.extent(t), 1)
}

// partOf returns views of v and tensors[i] for a device, which copies the latter to the
// former. The caller closes them.
func (j *joint) partOf(v *Tensor, i int, part Layout, by int64) (to, from *Tensor, err error) {
	bits, end := v.dtype.storageBits(v.Padded()), by+part.NumElements()
	within := func(element int64) bool { return element%8*bits%8 != 0 }
	if within(by) || part.IsContiguous() && end < v.NumElements() && within(end) {
		return nil, nil, j.errorf(ErrLayout, "elements %d to %d of packed %v on %v would be those of tensors[%d], but they do not lie on whole bytes: copy the tensors to the host first", by, end-1, v.dtype, v.id, i)
	}
	place, err := v.view(j.call, part, by, nil)
	if err != nil {
		return nil, nil, err
	}
	defer place.Close()
	return packedBytes(j.call, place, j.tensors[i]) // the bits behind the last part are nobody's
}

// hostCopies reports whether the caller copies t into v by itself, instead of the device on
// s. The device of the host copies on its own streams, except for packed elements, which may
// share bytes with those of other tensors.
func (j *joint) hostCopies(s Stream, v, t *Tensor) bool {
	if j.device == nil {
		return true
	}
	packed := v.dtype.storageBits(v.Padded())%8 != 0
	return v.id.Type.HostAccessible() && t.id.Type.HostAccessible() && (!j.device.ID().Type.HostAccessible() || s == nil && packed)
}

// copyToPart copies t into a part of v on the host. The part has the layout part, and begins
// by elements after v. Nobody else uses v yet.
func (t *Tensor) copyToPart(ctx context.Context, call string, v *Tensor, part Layout, by int64) error {
	b, err := t.buffer(call)
	if err != nil {
		return err
	}
	to, err := v.buffer(call)
	if err != nil {
		return err
	}
	if err := t.waitFor(ctx, b, forReading); err != nil {
		return err
	}
	bit := by * v.dtype.storageBits(v.Padded())
	dst := &Tensor{dtype: v.dtype, flags: v.flags, layout: part}
	err = copyOnHost(ctx, call, dst, t, unsafe.Add(v.first(to), bit>>3), t.first(b), bit&7)
	runtime.KeepAlive(v)
	runtime.KeepAlive(t)
	return err
}
