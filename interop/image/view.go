package image

import (
	"image"
	"image/color"
	"image/draw"

	"github.com/dlx-go/dlx/core"
)

// Image is an image on the memory of a tensor with any strides. With 1 channel its colors are color.Gray, with 3 or 4
// color.NRGBA: of red, green and blue, and opaque without a fourth channel.
type Image struct {
	pix                      []uint8
	first, row, column, step int // the place of the first byte in pix; bytes from a row, a pixel, a channel to the next
	channels                 int
	rect                     image.Rectangle
}

var _ draw.Image = (*Image)(nil)

// View returns an image on the memory of t, a tensor of uint8 and shape (height, width, channels), or (height, width)
// for one channel. The strides may be any. release empties the image and releases the memory. View otherwise blocks
// and fails as ToRGBA does.
func View(t *core.Tensor) (m *Image, release func(), err error) {
	const call = "View"
	l, err := dims(call, t, 0)
	if err != nil {
		return nil, nil, err
	}
	channels := l.Dim(2)
	if channels != 1 && channels != 3 && channels != 4 {
		return nil, nil, core.Errorf(core.ErrLayout, backend, call, "an image has 1, 3 or 4 channels, not %d: use Permute if the channels are another axis", channels)
	}
	p, err := share(call, t)
	if err != nil {
		return nil, nil, err
	}
	m = &Image{
		pix: p.pix, first: p.first, row: int(l.Stride(0)), column: int(l.Stride(1)), step: int(l.Stride(2)),
		channels: int(channels), rect: image.Rect(0, 0, int(l.Dim(1)), int(l.Dim(0))),
	}
	return m, p.release(func() { *m = Image{channels: m.channels} }), nil
}

// ColorModel returns color.GrayModel for one channel, and color.NRGBAModel for several.
func (m *Image) ColorModel() color.Model {
	if m.channels == 1 {
		return color.GrayModel
	}
	return color.NRGBAModel
}

// Bounds returns a rectangle from (0, 0) on.
func (m *Image) Bounds() image.Rectangle { return m.rect }

// At returns the color of a pixel, and zero outside of the bounds.
func (m *Image) At(x, y int) color.Color {
	in := image.Pt(x, y).In(m.rect)
	at := m.first + y*m.row + x*m.column
	switch {
	case m.channels == 1 && in:
		return color.Gray{Y: m.pix[at]}
	case m.channels == 1:
		return color.Gray{}
	case !in:
		return color.NRGBA{}
	}
	c := color.NRGBA{R: m.pix[at], G: m.pix[at+m.step], B: m.pix[at+2*m.step], A: 0xff}
	if m.channels == 4 {
		c.A = m.pix[at+3*m.step]
	}
	return c
}

// Set sets the color of a pixel. Outside of the bounds it does nothing. Without a fourth channel the alpha is lost.
func (m *Image) Set(x, y int, c color.Color) {
	if !image.Pt(x, y).In(m.rect) {
		return
	}
	at := m.first + y*m.row + x*m.column
	if m.channels == 1 {
		m.pix[at] = color.GrayModel.Convert(c).(color.Gray).Y
		return
	}
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	m.pix[at], m.pix[at+m.step], m.pix[at+2*m.step] = n.R, n.G, n.B
	if m.channels == 4 {
		m.pix[at+3*m.step] = n.A
	}
}
