package core

import (
	"cmp"
	"slices"

	"github.com/dlx-go/dlx/internal/staging"
)

// nearBytes bounds the memory that near takes on a device. A device copies a part in pieces of its own, of
// staging.PieceBytes: with eight of them it is still busy most of the time.
const nearBytes = 8 * staging.PieceBytes

// near has a device convert between its memory and that of the host, by way of memory there for a part of the host's tensor.
func (s *staged) near(d Device, c Converter, dst, src *Tensor, scaling Scaling) error {
	ofHost := func(dst, src *Tensor) *Tensor {
		if s.to == nil {
			return dst
		}
		return src
	}
	host := ofHost(dst, src)
	limit := max(dst.NumBytes(), src.NumBytes()) / host.NumBytes() * nearBytes
	dst, src, scaling, err := asItLies(s.call, host, dst, src, scaling)
	if err != nil {
		return err
	}
	defer dst.Close()
	defer src.Close()
	var room *Tensor // on the device, for a part; the host's path, if it follows, does not need it
	defer func() { _ = room.Close() }()
	return inParts(dst, src, scaling, limit, func(dst, src *Tensor, scaling Scaling) error {
		host, err := ofHost(dst, src).once(s.call)
		if err != nil {
			return err
		}
		defer host.Close()
		there, err := s.like(&room, host, func(n int64) (*Tensor, error) {
			return newOn(s.ctx, s.call, d, n, Spec{DType: TypeUint8, Shape: []int64{n}}, AllocOptions{})
		})
		if err != nil {
			return err
		}
		defer there.Close()
		if s.to == nil {
			if err := c.ConvertOn(s.ctx, nil, there, src, scaling); err != nil {
				return err
			}
			return d.Copy(s.ctx, nil, host, there)
		}
		if err := d.Copy(s.ctx, nil, there, host); err != nil {
			return err
		}
		all, err := there.Broadcast(src.layout.shape()...)
		if err != nil {
			return err
		}
		defer all.Close()
		return c.ConvertOn(s.ctx, nil, dst, all, scaling)
	})
}

// asItLies returns views of dst and src, and the scaling for them, whose axes are in the order in which the elements of t
// lie in memory, upwards. t is one of both. A row-major copy of a part of its view then takes no pass over the elements
// that brings them into another order: the kernel does that. The caller closes the views.
func asItLies(call string, t, dst, src *Tensor, scaling Scaling) (*Tensor, *Tensor, Scaling, error) {
	l := t.layout
	order := make([]int, l.Rank())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(max(l.Stride(b), -l.Stride(b)), max(l.Stride(a), -l.Stride(a)))
	})
	scaling.Axis = slices.Index(order, scaling.Axis) // -1 only if it has no meaning
	var down []int
	bytes := !dst.dtype.SubByte() && !src.dtype.SubByte() // a view cannot begin at an element within a byte
	for i, axis := range order {
		if !bytes || l.Stride(axis) >= 0 || l.Dim(axis) == 1 {
			continue
		}
		down = append(down, i)
		if i == scaling.Axis {
			scaling.Scale, scaling.Offset = slices.Clone(scaling.Scale), slices.Clone(scaling.Offset)
			slices.Reverse(scaling.Scale)
			slices.Reverse(scaling.Offset)
		}
	}
	dst, err := dst.turned(call, order, down)
	if err != nil {
		return nil, nil, scaling, err
	}
	src, err = src.turned(call, order, down)
	if err != nil {
		_ = dst.Close()
		return nil, nil, scaling, err
	}
	return dst, src, scaling, nil
}

// turned returns a view with the axes in another order, and then some of them reversed. The caller closes it.
func (t *Tensor) turned(call string, order, reversed []int) (*Tensor, error) {
	l, err := t.layout.Permute(order...)
	first := int64(0)
	for _, axis := range reversed {
		if err == nil {
			var by int64
			l, by, err = l.Slice(axis, l.Dim(axis)-1, -1, -1)
			first += by
		}
	}
	return t.view(call, l, first, err)
}

// once returns a view in which axes that repeat elements have an extent of 1. Broadcast repeats them again. The caller
// closes it.
func (t *Tensor) once(call string) (*Tensor, error) {
	l, err := t.layout, error(nil)
	for axis := range l.Rank() {
		if err == nil && l.Stride(axis) == 0 {
			l, _, err = l.Slice(axis, 0, 1, 1)
		}
	}
	return t.view(call, l, 0, err)
}
