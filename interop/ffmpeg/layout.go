//go:build cgo

package ffmpeg

import (
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// layout is the layout of a plane, without the distance of its rows.
type layout struct {
	dtype    core.DType
	size     int64 // bytes of an element
	rows     int64
	columns  int64
	elements int64 // of a column
}

func (l layout) rowBytes() int64 { return l.columns * l.elements * l.size }

func (l layout) shape() []int64 {
	if l.elements == 1 {
		return []int64{l.rows, l.columns}
	}
	return []int64{l.rows, l.columns, l.elements}
}

// strides returns the strides if rows are stride bytes apart.
func (l layout) strides(stride int64) []int64 {
	if l.elements == 1 {
		return []int64{stride / l.size, 1}
	}
	return []int64{stride / l.size, l.elements, 1}
}

// span returns where the bytes of a plane begin, from its first row on, and how many there are. stride is that of
// a frame, and may be hostile.
func (l layout) span(call string, plane int, stride int64) (low, size int64, err error) {
	switch {
	case l.rows > 1 && max(stride, -stride) < l.rowBytes():
		err = core.Errorf(core.ErrLayout, backend, call, "plane %d: rows of %d bytes are %d bytes apart", plane, l.rowBytes(), stride)
	case stride%l.size != 0:
		err = core.Errorf(core.ErrLayout, backend, call, "plane %d: rows are %d bytes apart, which are not whole elements of %v", plane, stride, l.dtype)
	}
	distance := (l.rows - 1) * stride
	return min(distance, 0), max(distance, -distance) + l.rowBytes(), err
}

// component and format are AVComponentDescriptor and AVPixFmtDescriptor.
type component struct{ plane, step, offset, shift, depth int }

type format struct {
	name                     string
	components               []component
	log2Width, log2Height    int
	refused                  bool // bits, a palette, or hardware
	bigEndian, floats, bayer bool
}

var nativeBigEndian = func() bool {
	word := uint16(1)
	return *(*byte)(unsafe.Pointer(&word)) == 0
}()

// layouts returns the layouts of the planes of a picture.
func (f *format) layouts(call string, width, height int) ([]layout, error) {
	refuse := func(text string) error {
		return core.Errorf(core.ErrDType, backend, call, "pixel format %s %s: convert the frame to another format with swscale", f.name, text)
	}
	if f.refused {
		return nil, refuse("has no elements in memory")
	}
	if width <= 0 || height <= 0 {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "a picture of %d x %d pixels: the frame is empty", width, height)
	}
	var planes [][]int // the components of each plane
	for i, c := range f.components {
		if c.plane < 0 || c.plane > 3 {
			return nil, refuse("has an unknown plane")
		}
		for len(planes) <= c.plane {
			planes = append(planes, nil)
		}
		planes[c.plane] = append(planes[c.plane], i)
	}
	if len(planes) == 0 {
		return nil, refuse("has no planes")
	}
	var all []layout
	for _, inside := range planes {
		l, text := f.layout(inside, width, height)
		if text != "" {
			return nil, refuse(text)
		}
		all = append(all, l)
	}
	return all, nil
}

// layout returns the layout of the plane with these components, or what is wrong with it.
func (f *format) layout(inside []int, width, height int) (l layout, wrong string) {
	step, bits := 0, 0
	luma, chroma, even := false, false, true
	for _, i := range inside {
		c := f.components[i]
		even = even && (step == 0 || c.step == step)
		step = max(step, c.step)
		bits = max(bits, c.shift+c.depth)
		if i == 1 || i == 2 {
			chroma = true
		} else {
			luma = true
		}
	}
	if f.bayer { // the components take turns in the one element of a pixel
		bits = 8 * step
	}
	var ok bool
	if l.dtype, ok = elementOf(bits, f.floats); !ok || len(inside) == 0 {
		return l, "has components of another size than elements"
	}
	l.size = int64(l.dtype.Bits / 8)
	if l.size > 1 && f.bigEndian != nativeBigEndian {
		return l, "has the other byte order than the processor"
	}
	taken := map[int]bool{}
	for _, i := range inside {
		c := f.components[i]
		switch size := int(l.size); {
		case c.step <= 0 || c.step%size != 0:
			return l, "has components that are not whole elements"
		case f.bayer:
		case c.offset < 0 || c.offset%size != 0 || c.offset+size > step || taken[c.offset]:
			return l, "has components that share elements"
		}
		taken[c.offset] = true
	}
	l.rows, l.columns, l.elements = int64(height), int64(width), int64(step)/l.size
	switch {
	case luma && chroma && f.log2Width+f.log2Height > 0: // a column is some pixels that share their colors
		if f.log2Height > 0 {
			return l, "shares colors between the rows of a plane"
		}
		l.columns = roundUp(width, f.log2Width)
	case !even:
		return l, "has components with different steps"
	case chroma && !luma:
		l.columns, l.rows = roundUp(width, f.log2Width), roundUp(height, f.log2Height)
	}
	return l, ""
}

func roundUp(n, log2 int) int64 { return (int64(n) + 1<<log2 - 1) >> log2 }

func elementOf(bits int, floats bool) (t core.DType, ok bool) {
	switch {
	case floats && bits == 16:
		return core.TypeFloat16, true
	case floats && bits == 32:
		return core.TypeFloat32, true
	case floats || bits <= 0 || bits > 32:
		return t, false
	case bits <= 8:
		return core.TypeUint8, true
	case bits <= 16:
		return core.TypeUint16, true
	}
	return core.TypeUint32, true
}

// rowStride returns how many bytes the rows of a tensor are apart, which becomes a plane with the layout l.
func (l layout) rowStride(call string, plane int, t *core.Tensor) (int64, error) {
	want := l.shape()
	if t.DType() != l.dtype {
		return 0, core.Errorf(core.ErrDType, backend, call, "plane %d: the tensor has the type %v, and the format %v", plane, t.DType(), l.dtype)
	}
	given := t.Layout()
	if w, err := core.NewLayout(want...); err != nil || !given.SameShape(w) {
		return 0, core.Errorf(core.ErrLayout, backend, call, "plane %d: the tensor has the shape %v, and the plane %v", plane, given.Shape(), want)
	}
	next := l.elements // the stride of the axis that is looked at, from the second one on
	for axis := 1; axis < given.Rank(); axis++ {
		if axis == 2 {
			next = 1
		}
		if given.Dim(axis) > 1 && given.Stride(axis) != next {
			return 0, core.Errorf(core.ErrLayout, backend, call, "plane %d: the elements of a row are not adjacent: strides %v", plane, given.Strides())
		}
	}
	stride := l.rowBytes()
	if l.rows > 1 {
		stride = given.Stride(0)
		if max(stride, -stride) > math.MaxInt32/l.size {
			return 0, core.Errorf(core.ErrLayout, backend, call, "plane %d: the rows are more than 2 GiB apart", plane)
		}
		stride *= l.size
	}
	if stride > math.MaxInt32 {
		return 0, core.Errorf(core.ErrLayout, backend, call, "plane %d: a row has more than 2 GiB", plane)
	}
	_, _, err := l.span(call, plane, stride)
	return stride, err
}
