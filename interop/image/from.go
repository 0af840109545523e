package image

import (
	"image"
	"image/draw"
	"reflect"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/hostmem"
)

const backend = "image"

// From returns a tensor of uint8 and shape (height, width, channels) on the pixels of m. The channels are those of
// the type: 4 of RGBA and NRGBA (red, green, blue, alpha), and of CMYK; 1 of Gray, Alpha, and of Paletted, whose
// elements are indexes of the palette. The caller closes it. From returns
//
//   - core.ErrInvalid if m is nil;
//   - core.ErrDType for images of 16 bits: use Copy16;
//   - core.ErrNotSupported for YCbCr and NYCbCrA, whose channels are apart: use Planes; and for other types: use Copy;
//   - core.ErrLayout if the fields contradict each other.
func From(m image.Image) (*core.Tensor, error) {
	const call = "From"
	switch m := m.(type) {
	case nil:
		return nil, isNil(call)
	case *image.RGBA:
		if m != nil {
			return fromPix(call, m.Pix, m.Stride, m.Rect, 4)
		}
	case *image.NRGBA:
		if m != nil {
			return fromPix(call, m.Pix, m.Stride, m.Rect, 4)
		}
	case *image.CMYK:
		if m != nil {
			return fromPix(call, m.Pix, m.Stride, m.Rect, 4)
		}
	case *image.Gray:
		if m != nil {
			return fromPix(call, m.Pix, m.Stride, m.Rect, 1)
		}
	case *image.Alpha:
		if m != nil {
			return fromPix(call, m.Pix, m.Stride, m.Rect, 1)
		}
	case *image.Paletted:
		if m != nil {
			return fromPix(call, m.Pix, m.Stride, m.Rect, 1)
		}
	case *image.RGBA64, *image.NRGBA64, *image.Gray16, *image.Alpha16:
		return nil, core.Errorf(core.ErrDType, backend, call, "%T stores the high byte of 16 bits first, which no element type does: use Copy16", m)
	case *image.YCbCr, *image.NYCbCrA:
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "%T has planes of their own sizes: use Planes, or Copy", m)
	default:
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "the pixels of %T are not known: use Copy", m)
	}
	return nil, isNil(call)
}

// Planes returns a tensor of uint8 and shape (height, width) on each plane of m, an image.YCbCr or image.NYCbCrA:
// Y, Cb, Cr and, for NYCbCrA, A. With subsampling, Cb and Cr are smaller. The caller closes all of them. Planes
// returns the errors of From, and core.ErrNotSupported for images of other types.
func Planes(m image.Image) ([]*core.Tensor, error) {
	const call = "Planes"
	var c *image.YCbCr
	var alpha *image.NYCbCrA
	switch m := m.(type) {
	case *image.YCbCr:
		c = m
	case *image.NYCbCrA:
		if alpha = m; m != nil {
			c = &m.YCbCr
		}
	case nil:
	default:
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "%T has no planes: use From, or Copy", m)
	}
	if c == nil {
		return nil, isNil(call)
	}
	// As package image computes it: a pixel of Cb and Cr belongs to the pixels of Y from a multiple of the ratio on,
	// counted from the origin of the coordinates.
	horizontal, vertical, ok := ratio(c.SubsampleRatio)
	if !ok {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the subsampling is %v", c.SubsampleRatio)
	}
	small := image.Rectangle{}
	if r := c.Rect; !r.Empty() {
		small = image.Rect(r.Min.X/horizontal, r.Min.Y/vertical, (r.Max.X-1)/horizontal+1, (r.Max.Y-1)/vertical+1)
	}
	var planes []*core.Tensor
	add := func(pix []uint8, stride int, r image.Rectangle) error {
		t, err := fromPix(call, pix, stride, r, 0)
		if err == nil {
			planes = append(planes, t)
		}
		return err
	}
	err := add(c.Y, c.YStride, c.Rect)
	if err == nil {
		err = add(c.Cb, c.CStride, small)
	}
	if err == nil {
		err = add(c.Cr, c.CStride, small)
	}
	if err == nil && alpha != nil {
		err = add(alpha.A, alpha.AStride, c.Rect)
	}
	if err != nil {
		for _, t := range planes {
			t.Close()
		}
		return nil, err
	}
	return planes, nil
}

func ratio(r image.YCbCrSubsampleRatio) (horizontal, vertical int, ok bool) {
	switch r {
	case image.YCbCrSubsampleRatio444:
		return 1, 1, true
	case image.YCbCrSubsampleRatio422:
		return 2, 1, true
	case image.YCbCrSubsampleRatio420:
		return 2, 2, true
	case image.YCbCrSubsampleRatio440:
		return 1, 2, true
	case image.YCbCrSubsampleRatio411:
		return 4, 1, true
	case image.YCbCrSubsampleRatio410:
		return 4, 2, true
	}
	return 0, 0, false
}

// Copy returns a tensor of uint8 and shape (height, width, 4) with a copy of the pixels of m as RGBA, whose colors are
// multiplied by alpha, as image.RGBA has them. It takes any image. The caller closes it. Copy returns core.ErrInvalid
// if m is nil, or if drawing it panics, as it does if its fields contradict each other, and core.ErrOutOfMemory if the copy
// does not fit into memory.
func Copy(m image.Image) (*core.Tensor, error) {
	if missing(m) {
		return nil, isNil("Copy")
	}
	drawn, err := drawInto(nil, m)
	if err != nil {
		return nil, err
	}
	return From(drawn)
}

// missing reports whether m is nil, or a nil pointer.
func missing(m image.Image) bool {
	v := reflect.ValueOf(m)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// sizeOf returns the width and the height of m.
func sizeOf(m image.Image) image.Point {
	r := m.Bounds()
	return image.Pt(max(r.Dx(), 0), max(r.Dy(), 0))
}

// drawInto draws m as RGBA into room, or into new memory if room is not of its size.
func drawInto(room *image.RGBA, m image.Image) (drawn *image.RGBA, err error) {
	defer func() {
		if p := recover(); p != nil {
			drawn, err = nil, core.Errorf(core.ErrInvalid, backend, "Copy", "drawing %T panicked: %v", m, p)
		}
	}()
	size := sizeOf(m)
	if size.X == 0 || size.Y == 0 {
		return &image.RGBA{Rect: image.Rectangle{Max: size}}, nil
	}
	if room == nil || room.Rect.Size() != size {
		if int64(size.X) > (1<<40)/int64(size.Y) {
			return nil, core.Errorf(core.ErrOutOfMemory, backend, "Copy", "an image of %v cannot be allocated", size)
		}
		if err := hostmem.Check(4 * int64(size.X) * int64(size.Y)); err != nil {
			return nil, core.Errorf(core.ErrOutOfMemory, backend, "Copy", "an image of %v cannot be allocated: %v", size, err)
		}
		room = image.NewRGBA(image.Rectangle{Max: size})
	}
	draw.Draw(room, room.Rect, m, m.Bounds().Min, draw.Src)
	return room, nil
}

// Copy16 returns a tensor of uint16 and shape (height, width, channels) with a copy of the pixels of m, an
// image.RGBA64, NRGBA64, Gray16 or Alpha16, in the order of bytes of the processor. The caller closes it. It returns
// core.ErrNotSupported for images of other types.
func Copy16(m image.Image) (*core.Tensor, error) {
	const call = "Copy16"
	var pix []uint8
	var stride, channels int
	var r image.Rectangle
	switch m := m.(type) {
	case *image.RGBA64:
		if m != nil {
			pix, stride, r, channels = m.Pix, m.Stride, m.Rect, 4
		}
	case *image.NRGBA64:
		if m != nil {
			pix, stride, r, channels = m.Pix, m.Stride, m.Rect, 4
		}
	case *image.Gray16:
		if m != nil {
			pix, stride, r, channels = m.Pix, m.Stride, m.Rect, 1
		}
	case *image.Alpha16:
		if m != nil {
			pix, stride, r, channels = m.Pix, m.Stride, m.Rect, 1
		}
	case nil:
	default:
		return nil, core.Errorf(core.ErrNotSupported, backend, call, "%T does not have 16 bits: use From, or Copy", m)
	}
	if channels == 0 {
		return nil, isNil(call)
	}
	halves, err := fromPix(call, pix, stride, r, 2*channels) // checks the fields
	if err != nil {
		return nil, err
	}
	defer halves.Close()
	height, width := int(halves.Layout().Dim(0)), int(halves.Layout().Dim(1))
	if halves.NumElements() == 0 {
		return core.FromSlice([]uint16{}, int64(height), int64(width), int64(channels))
	}
	if err := hostmem.Check(2 * halves.NumElements()); err != nil {
		return nil, core.Errorf(core.ErrOutOfMemory, backend, call, "a copy of an image of %v cannot be allocated: %v", r.Size(), err)
	}
	swapped := make([]uint16, 0, height*width*channels)
	for y := range height {
		row := pix[y*stride:]
		for i := range width * channels {
			swapped = append(swapped, uint16(row[2*i])<<8|uint16(row[2*i+1]))
		}
	}
	return core.FromSlice(swapped, int64(height), int64(width), int64(channels))
}

// fromPix returns a tensor on pixels. Without channels it has two axes.
func fromPix(call string, pix []uint8, stride int, r image.Rectangle, channels int) (*core.Tensor, error) {
	width, height := int64(max(r.Dx(), 0)), int64(max(r.Dy(), 0))
	size := int64(max(channels, 1))
	if height > 1 && width > 0 && (stride < 0 || int64(stride)/size < width) {
		return nil, core.Errorf(core.ErrLayout, backend, call, "the rows overlap: stride %d is less than %d pixels of %d bytes", stride, width, size)
	}
	shape, strides := []int64{height, width}, []int64{int64(stride), size}
	if channels > 0 {
		shape, strides = append(shape, size), append(strides, 1)
	}
	t, err := core.FromSliceStrided(pix, 0, shape, strides)
	if err != nil {
		return nil, core.Errorf(err, backend, call, "")
	}
	return t, nil
}

func isNil(call string) error {
	return core.Errorf(core.ErrInvalid, backend, call, "the argument is nil")
}
