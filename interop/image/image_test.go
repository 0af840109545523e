package image

import (
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func wantAt(t *testing.T, x *core.Tensor, p *uint8) {
	t.Helper()
	a, err := x.Address()
	if err != nil || a != uintptr(unsafe.Pointer(p)) {
		t.Fatalf("the memory is at %#x, not at %p: something was copied (%v)", a, p, err)
	}
}

func wantDims(t *testing.T, x *core.Tensor, shape, strides []int64) {
	t.Helper()
	if l := x.Layout(); !slices.Equal(l.Shape(), shape) || !slices.Equal(l.Strides(), strides) {
		t.Fatalf("shape %v with strides %v, not %v with %v", l.Shape(), l.Strides(), shape, strides)
	}
}

// Parts of images of all types of 8 bits share their pixels, and go back.
func TestFromShares(t *testing.T) {
	all, part := image.Rect(-2, -3, 8, 9), image.Rect(1, 2, 4, 6)
	rgba, nrgba, cmyk, gray, alpha := image.NewRGBA(all), image.NewNRGBA(all), image.NewCMYK(all), image.NewGray(all), image.NewAlpha(all)
	paletted := image.NewPaletted(all, color.Palette{color.Black, color.White})
	for _, c := range []struct {
		m        image.Image
		first    *uint8
		channels int64
	}{
		{rgba.SubImage(part), &rgba.Pix[rgba.PixOffset(1, 2)], 4},
		{nrgba.SubImage(part), &nrgba.Pix[nrgba.PixOffset(1, 2)], 4},
		{cmyk.SubImage(part), &cmyk.Pix[cmyk.PixOffset(1, 2)], 4},
		{gray.SubImage(part), &gray.Pix[gray.PixOffset(1, 2)], 1},
		{alpha.SubImage(part), &alpha.Pix[alpha.PixOffset(1, 2)], 1},
		{paletted.SubImage(part), &paletted.Pix[paletted.PixOffset(1, 2)], 1},
	} {
		x := coretest.Keep(t)(From(c.m))
		wantAt(t, x, c.first)
		wantDims(t, x, []int64{4, 3, c.channels}, []int64{10 * c.channels, c.channels, 1})
		var pix []uint8
		var release func()
		if c.channels == 4 {
			m, r, err := ToRGBA(x)
			if err != nil {
				t.Fatal(err)
			}
			pix, release = m.Pix, r
			n, r, err := ToNRGBA(x)
			if err != nil || &n.Pix[0] != c.first || n.Stride != 40 {
				t.Fatal(err)
			}
			r()
			if n.Pix != nil || !n.Rect.Empty() {
				t.Fatal("the image is not empty after release")
			}
		} else {
			m, r, err := ToGray(x)
			if err != nil {
				t.Fatal(err)
			}
			pix, release = m.Pix, r
			a, r, err := ToAlpha(x)
			if err != nil || &a.Pix[0] != c.first || a.Stride != 10 {
				t.Fatal(err)
			}
			r()
		}
		x.Close() // the image has a reference of its own
		if &pix[0] != c.first || cap(pix) != int((3*10+3)*c.channels) {
			t.Fatalf("%T: something was copied", c.m)
		}
		release()
		release()
	}
}

// The planes are those of package image, for every subsampling and every odd corner.
func TestPlanes(t *testing.T) {
	for ratio := image.YCbCrSubsampleRatio444; ratio <= image.YCbCrSubsampleRatio410; ratio++ {
		for _, r := range []image.Rectangle{image.Rect(0, 0, 8, 8), image.Rect(1, 3, 6, 6), image.Rect(3, 2, 4, 3), image.Rect(5, 5, 12, 10)} {
			whole := image.NewNYCbCrA(image.Rect(0, 0, 13, 11), ratio)
			for _, p := range [][]uint8{whole.Y, whole.Cb, whole.Cr, whole.A} {
				for i := range p {
					p[i] = uint8(7 * i)
				}
			}
			m := whole.SubImage(r).(*image.NYCbCrA)
			planes, err := Planes(m)
			if err != nil || len(planes) != 4 {
				t.Fatal(ratio, r, err)
			}
			wantAt(t, planes[0], &m.Y[0])
			wantAt(t, planes[1], &m.Cb[0])
			wantAt(t, planes[2], &m.Cr[0])
			wantAt(t, planes[3], &m.A[0])
			h, v, _ := horizontalAndVertical(ratio)
			last := m.NYCbCrAAt(r.Max.X-1, r.Max.Y-1)
			for i, want := range []uint8{last.Y, last.Cb, last.Cr, last.A} {
				y, x := int64(r.Dy()-1), int64(r.Dx()-1)
				if i == 1 || i == 2 {
					y, x = int64((r.Max.Y-1)/v-r.Min.Y/v), int64((r.Max.X-1)/h-r.Min.X/h)
				}
				if s := planes[i].Shape(); s[0] != y+1 || s[1] != x+1 {
					t.Errorf("%v %v: plane %d has shape %v, not %d %d", ratio, r, i, s, y+1, x+1)
				} else if got, err := core.At[uint8](planes[i], y, x); err != nil || got != want {
					t.Errorf("%v %v: the last element of plane %d is %d, not %d (%v)", ratio, r, i, got, want, err)
				}
				planes[i].Close()
			}
		}
	}
	three, err := Planes(image.NewYCbCr(image.Rect(0, 0, 5, 5), image.YCbCrSubsampleRatio420))
	if err != nil || len(three) != 3 {
		t.Fatal(err)
	}
	for _, p := range three {
		p.Close()
	}
}

// horizontalAndVertical reads the ratio from its name, such as YCbCrSubsampleRatio420.
func horizontalAndVertical(r image.YCbCrSubsampleRatio) (h, v int, name string) {
	name = r.String()
	digits := name[len(name)-3:]
	h = 4 / int(digits[1]-'0')
	v = 1
	if digits[2] == '0' {
		v = 2
	}
	if digits == "440" {
		h = 1
	}
	return h, v, name
}

// A view shows and changes the elements of a tensor with any strides, as its own pixels.
func TestView(t *testing.T) {
	keep := coretest.Keep(t)
	data := make([]uint8, 3*4*5)
	for i := range data {
		data[i] = uint8(i)
	}
	planar := keep(core.FromSlice(data, 3, 4, 5)) // channels, height, width
	rows := keep(planar.Slice(1, 3, -1, -1))      // upside down
	x := keep(rows.Permute(1, 2, 0))
	m, release, err := View(x)
	if err != nil {
		t.Fatal(err)
	}
	if m.Bounds() != image.Rect(0, 0, 5, 4) || m.ColorModel() != color.NRGBAModel {
		t.Fatal(m.Bounds())
	}
	if got, want := m.At(1, 0), (color.NRGBA{16, 36, 56, 255}); got != want {
		t.Fatalf("%v, not %v", got, want)
	}
	draw.Draw(m, m.Bounds(), image.NewUniform(color.RGBA{9, 8, 7, 255}), image.Point{}, draw.Src)
	if data[0] != 9 || data[20] != 8 || data[59] != 7 {
		t.Fatal(data)
	}
	m.Set(5, 0, color.White)
	if m.At(-1, 0) != (color.NRGBA{}) {
		t.Fatal("a color outside of the bounds")
	}
	release()
	if !m.Bounds().Empty() || m.At(0, 0) != (color.NRGBA{}) {
		t.Fatal("the image is not empty after release")
	}

	gray := keep(planar.Index(0, 1))
	m, release, err = View(gray)
	if err != nil || m.ColorModel() != color.GrayModel || m.At(0, 0) != (color.Gray{8}) || m.At(9, 9) != (color.Gray{}) {
		t.Fatal(err)
	}
	m.Set(4, 3, color.White)
	if data[39] != 255 {
		t.Fatal(data)
	}
	release()
	four := keep(core.FromSlice([]uint8{1, 2, 3, 4}, 1, 1, 4))
	m, release, err = View(four)
	if err != nil || m.At(0, 0) != (color.NRGBA{1, 2, 3, 4}) {
		t.Fatal(err)
	}
	m.Set(0, 0, color.NRGBA{40, 30, 20, 10})
	if got, err := core.Values[uint8](four); err != nil || !slices.Equal(got, []uint8{40, 30, 20, 10}) {
		t.Fatal(got, err)
	}
	release()
}

func TestCopies(t *testing.T) {
	keep := coretest.Keep(t)
	paletted := image.NewPaletted(image.Rect(3, 3, 5, 4), color.Palette{color.NRGBA{200, 100, 50, 128}, color.White})
	paletted.Pix[1] = 1
	x := keep(Copy(paletted.SubImage(image.Rect(3, 3, 5, 4))))
	wantDims(t, x, []int64{1, 2, 4}, []int64{8, 4, 1})
	if got, err := core.Values[uint8](x); err != nil || !slices.Equal(got, []uint8{100, 50, 25, 128, 255, 255, 255, 255}) {
		t.Fatal(got, err)
	}
	keep(Copy(image.NewGray(image.Rect(0, 0, 0, 5))))
	deep := image.NewNRGBA64(image.Rect(0, 0, 4, 3))
	deep.SetNRGBA64(2, 1, color.NRGBA64{R: 0x0102, G: 0x0304, B: 0x0506, A: 0x0708})
	y := keep(Copy16(deep.SubImage(image.Rect(2, 1, 4, 3))))
	if got, err := core.Values[uint16](y); err != nil || len(got) != 16 || !slices.Equal(got[:5], []uint16{0x0102, 0x0304, 0x0506, 0x0708, 0}) {
		t.Fatal(got, err)
	}
	gray := image.NewGray16(image.Rect(0, 0, 1, 1))
	gray.SetGray16(0, 0, color.Gray16{Y: 0x1234})
	if got, err := core.Values[uint16](keep(Copy16(gray))); err != nil || got[0] != 0x1234 {
		t.Fatal(got, err)
	}
	wantDims(t, keep(Copy16(image.NewAlpha16(image.Rect(0, 0, 0, 2)))), []int64{2, 0, 1}, []int64{1, 1, 1})
	keep(Copy16(image.NewRGBA64(image.Rect(0, 0, 2, 2))))
}

// unknown is an image of a type that nobody knows, with any size.
type unknown struct {
	*image.Uniform
	r image.Rectangle
}

func (u unknown) Bounds() image.Rectangle { return u.r }

func TestRefusals(t *testing.T) {
	keep := coretest.Keep(t)
	r := image.Rect(0, 0, 2, 2)
	for name, c := range map[string]struct {
		m    image.Image
		want error
	}{
		"nil":             {nil, core.ErrInvalid},
		"a nil pointer":   {(*image.RGBA)(nil), core.ErrInvalid},
		"RGBA64":          {image.NewRGBA64(r), core.ErrDType},
		"YCbCr":           {image.NewYCbCr(r, image.YCbCrSubsampleRatio420), core.ErrNotSupported},
		"uniform":         {image.NewUniform(color.White), core.ErrNotSupported},
		"short":           {&image.RGBA{Pix: make([]uint8, 15), Stride: 8, Rect: r}, core.ErrLayout},
		"no stride":       {&image.RGBA{Pix: make([]uint8, 16), Rect: r}, core.ErrLayout},
		"negative stride": {&image.RGBA{Pix: make([]uint8, 16), Stride: -8, Rect: r}, core.ErrLayout},
		"small stride":    {&image.Gray{Pix: make([]uint8, 16), Stride: 1, Rect: r}, core.ErrLayout},
		"huge":            {&image.Gray{Pix: make([]uint8, 16), Stride: math.MaxInt, Rect: image.Rect(0, 0, math.MaxInt, math.MaxInt)}, core.ErrLayout},
		"huge stride":     {&image.RGBA{Pix: make([]uint8, 16), Stride: math.MaxInt, Rect: image.Rect(0, 0, 1, 4)}, core.ErrLayout},
	} {
		_, err := From(c.m)
		coretest.WantError(t, err, c.want, name)
	}
	for name, c := range map[string]struct {
		m    image.Image
		want error
	}{
		"nil":     {nil, core.ErrInvalid},
		"pointer": {(*image.NYCbCrA)(nil), core.ErrInvalid},
		"RGBA":    {image.NewRGBA(r), core.ErrNotSupported},
		"ratio":   {&image.YCbCr{Rect: r, SubsampleRatio: 99}, core.ErrInvalid},
		"no Cr":   {&image.YCbCr{Y: make([]uint8, 4), Cb: make([]uint8, 4), YStride: 2, CStride: 2, Rect: r}, core.ErrLayout},
		"no A":    {&image.NYCbCrA{YCbCr: *image.NewYCbCr(r, image.YCbCrSubsampleRatio444), AStride: 2}, core.ErrLayout},
	} {
		_, err := Planes(c.m)
		coretest.WantError(t, err, c.want, "Planes: "+name)
	}
	_, err := Copy(nil)
	coretest.WantError(t, err, core.ErrInvalid, "Copy of nil")
	_, err = Copy(unknown{r: image.Rect(0, 0, math.MaxInt, math.MaxInt)})
	coretest.WantError(t, err, core.ErrOutOfMemory, "Copy of a huge image")
	_, err = Copy16(nil)
	coretest.WantError(t, err, core.ErrInvalid, "Copy16 of nil")
	_, err = Copy16((*image.Gray16)(nil))
	coretest.WantError(t, err, core.ErrInvalid, "Copy16 of a nil pointer")
	_, err = Copy16(image.NewGray(r))
	coretest.WantError(t, err, core.ErrNotSupported, "Copy16 of 8 bits")
	_, err = Copy16(&image.Gray16{Pix: make([]uint8, 7), Stride: 4, Rect: r})
	coretest.WantError(t, err, core.ErrLayout, "Copy16 of a short slice")

	base := keep(core.FromSlice(make([]uint8, 48), 3, 4, 4))
	closed := keep(base.Share())
	closed.Close()
	row := keep(base.Slice(0, 0, 1, 1))
	memory, err := base.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		x          *core.Tensor
		want, view error // view is nil if View takes it
	}{
		"nil":           {nil, core.ErrInvalid, core.ErrInvalid},
		"closed":        {closed, core.ErrClosed, core.ErrClosed},
		"float32":       {keep(core.FromSlice(make([]float32, 4), 1, 1, 4)), core.ErrDType, core.ErrDType},
		"one axis":      {keep(base.Reshape(48)), core.ErrLayout, core.ErrLayout},
		"two axes":      {keep(base.Reshape(6, 8)), core.ErrLayout, nil},
		"five channels": {keep(core.FromSlice(make([]uint8, 5), 1, 1, 5)), core.ErrLayout, core.ErrLayout},
		"read-only":     {keep(base.AsReadOnly()), core.ErrReadOnly, core.ErrReadOnly},
		"broadcast":     {keep(row.Broadcast(3, 4, 4)), core.ErrLayout, core.ErrLayout},
		"upside down":   {keep(base.Slice(0, 2, -1, -1)), core.ErrLayout, nil},
		"mirrored":      {keep(base.Slice(1, 3, -1, -1)), core.ErrLayout, nil},
		"BGR":           {keep(base.Slice(2, 3, -1, -1)), core.ErrLayout, nil},
		"every second":  {keep(base.Slice(1, 0, 4, 2)), core.ErrLayout, nil},
		"overlapping":   {keep(core.NewTensor(memory, core.Spec{DType: core.TypeUint8, Shape: []int64{2, 4, 4}, Strides: []int64{8, 4, 1}})), core.ErrLayout, nil},
		"huge":          {keep(core.FromSlice([]uint8{}, 1<<40, 0, 4)), core.ErrLayout, core.ErrLayout},
		"device":        {far(t), core.ErrDevice, core.ErrDevice},
	} {
		_, release, err := ToRGBA(c.x)
		coretest.WantError(t, err, c.want, "ToRGBA: "+name)
		if release != nil {
			t.Errorf("%s: a function comes with the error", name)
		}
		_, release, err = View(c.x)
		if c.view != nil {
			coretest.WantError(t, err, c.view, "View: "+name)
		} else if err != nil {
			t.Errorf("View: %s: %v", name, err)
		} else {
			release()
		}
	}
	empty := keep(core.FromSlice([]uint8{}, 0, 4, 4))
	m, release, err := ToRGBA(empty)
	if err != nil || !m.Bounds().Empty() {
		t.Fatal(err)
	}
	release()
}

// far returns a tensor on a device that the host cannot access.
func far(t *testing.T) *core.Tensor {
	d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
	return coretest.Keep(t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{3, 4, 4}, core.AllocOptions{}))
}
