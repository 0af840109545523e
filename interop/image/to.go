package image

import (
	"image"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// ToRGBA returns an image on the memory of t, a tensor of uint8 and shape (height, width, 4). The pixels of a row must
// be adjacent, and the rows not overlap. It has a reference of its own to the memory, so t may be closed before.
// release empties the image and releases the memory; calling it again does nothing. After that, copies and SubImages
// of the image must not be used.
//
// ToRGBA blocks until all work on the memory is done, as core.Mutable does. It returns core.ErrInvalid, core.ErrClosed,
// core.ErrDType, core.ErrReadOnly, the error of the last write, core.ErrDevice if the host cannot access the memory
// (move the tensor with exchange.To first), and core.ErrLayout if the shape or the strides do not fit: View takes
// any strides.
func ToRGBA(t *core.Tensor) (m *image.RGBA, release func(), err error) {
	p, err := toPix("ToRGBA", t, 4)
	if err != nil {
		return nil, nil, err
	}
	m = &image.RGBA{Pix: p.pix, Stride: p.stride, Rect: p.rect}
	return m, p.release(func() { *m = image.RGBA{} }), nil
}

// ToNRGBA is like ToRGBA for colors that are not multiplied by alpha.
func ToNRGBA(t *core.Tensor) (m *image.NRGBA, release func(), err error) {
	p, err := toPix("ToNRGBA", t, 4)
	if err != nil {
		return nil, nil, err
	}
	m = &image.NRGBA{Pix: p.pix, Stride: p.stride, Rect: p.rect}
	return m, p.release(func() { *m = image.NRGBA{} }), nil
}

// ToGray is like ToRGBA for a tensor of shape (height, width, 1) or (height, width).
func ToGray(t *core.Tensor) (m *image.Gray, release func(), err error) {
	p, err := toPix("ToGray", t, 1)
	if err != nil {
		return nil, nil, err
	}
	m = &image.Gray{Pix: p.pix, Stride: p.stride, Rect: p.rect}
	return m, p.release(func() { *m = image.Gray{} }), nil
}

// ToAlpha is like ToGray for a mask.
func ToAlpha(t *core.Tensor) (m *image.Alpha, release func(), err error) {
	p, err := toPix("ToAlpha", t, 1)
	if err != nil {
		return nil, nil, err
	}
	m = &image.Alpha{Pix: p.pix, Stride: p.stride, Rect: p.rect}
	return m, p.release(func() { *m = image.Alpha{} }), nil
}

// pixels is the memory of a tensor, from the lowest to the highest address.
type pixels struct {
	pix    []uint8
	stride int
	rect   image.Rectangle
	first  int    // the position of the first byte in pix
	free   func() // releases the memory
}

// release returns a function that calls clean and then releases the memory, once.
func (p pixels) release(clean func()) func() {
	return sync.OnceFunc(func() {
		clean()
		p.free()
	})
}

func toPix(call string, t *core.Tensor, channels int64) (pixels, error) {
	l, err := dims(call, t, channels)
	if err != nil {
		return pixels{}, err
	}
	height, width, stride := l.Dim(0), l.Dim(1), l.Stride(0)
	if height <= 1 || width == 0 {
		stride = width * channels
	}
	if width > 1 && l.Stride(1) != channels || width > 0 && channels > 1 && l.Stride(2) != 1 || stride < width*channels {
		return pixels{}, core.Errorf(core.ErrLayout, backend, call, "the rows of shape %v with strides %v are not pixels side by side: use View, or Contiguous", l.Shape(), l.Strides())
	}
	p, err := share(call, t)
	p.stride, p.rect = int(stride), image.Rect(0, 0, int(width), int(height))
	return p, err
}

// dims returns the layout of t as height, width and channels. channels is the number that is needed; 0 is any.
func dims(call string, t *core.Tensor, channels int64) (core.Layout, error) {
	if t == nil {
		return core.Layout{}, isNil(call)
	}
	if t.DType() != core.TypeUint8 {
		return core.Layout{}, core.Errorf(core.ErrDType, backend, call, "the tensor has %v, not uint8: use AsType", t.DType())
	}
	l := t.Layout()
	if l.Rank() == 2 && channels <= 1 {
		var err error
		if l, err = l.Expand(2); err != nil {
			return core.Layout{}, core.Errorf(err, backend, call, "")
		}
	}
	if l.Rank() != 3 || channels != 0 && l.Dim(2) != channels {
		return core.Layout{}, core.Errorf(core.ErrLayout, backend, call, "shape %v is not height, width and %d channels: use Permute, Index or Slice", l.Shape(), max(channels, 1))
	}
	if l.Dim(0) > 1<<30 || l.Dim(1) > 1<<30 { // as much as an image of 32 bits has, and no product overflows
		return core.Layout{}, core.Errorf(core.ErrLayout, backend, call, "shape %v is too large for an image", l.Shape())
	}
	if l.HasOverlap() {
		return core.Layout{}, core.Errorf(core.ErrLayout, backend, call, "the tensor repeats elements: use Contiguous")
	}
	return l, nil
}

// share adds a reference to the memory of t and waits for all work on it.
func share(call string, t *core.Tensor) (pixels, error) {
	if !t.DeviceID().Type.HostAccessible() {
		return pixels{}, core.Errorf(core.ErrDevice, backend, call, "the tensor is on %v: move it to the host with exchange.To", t.DeviceID())
	}
	pix, first, free, err := core.MutableSpan[uint8](t)
	if err != nil {
		return pixels{}, core.Errorf(err, backend, call, "")
	}
	return pixels{pix: pix, first: int(first), free: free}, nil
}
