//go:build cgo

package ffmpeg

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/asticode/go-astiav"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/interop/ffmpeg/internal/avtest"
)

// newFrame allocates a frame and fills its memory with a pattern.
func newFrame(t testing.TB, format astiav.PixelFormat, width, height int) *astiav.Frame {
	t.Helper()
	f := astiav.AllocFrame()
	t.Cleanup(f.Free)
	f.SetPixelFormat(format)
	f.SetWidth(width)
	f.SetHeight(height)
	if err := f.AllocBuffer(0); err != nil {
		t.Skipf("FFmpeg allocates no %v: %v", format, err)
	}
	for i := range avtest.Planes(format) {
		_, linesize := avtest.Data(f, i)
		rows := height
		if i == 1 || i == 2 {
			rows = (height + 1) / 2 // there are at least as many
		}
		avtest.Fill(f, i, coretest.Pattern(linesize*rows, uint64(i)))
	}
	return f
}

func named(t testing.TB, name string) astiav.PixelFormat {
	t.Helper()
	f := astiav.FindPixelFormatByName(name)
	if f < 0 {
		t.Fatalf("FFmpeg does not know %s", name)
	}
	return f
}

// The planes have the addresses, the shapes and the strides of the frame, and nothing was copied.
func TestPlanesAreTheFramesMemory(t *testing.T) {
	for _, c := range []struct {
		format string
		dtype  core.DType
		shapes [][]int64 // of 33 x 17 pixels
	}{
		{"yuv420p", core.TypeUint8, [][]int64{{17, 33}, {9, 17}, {9, 17}}},
		{"yuv422p", core.TypeUint8, [][]int64{{17, 33}, {17, 17}, {17, 17}}},
		{"yuva444p", core.TypeUint8, [][]int64{{17, 33}, {17, 33}, {17, 33}, {17, 33}}},
		{"yuv410p", core.TypeUint8, [][]int64{{17, 33}, {5, 9}, {5, 9}}},
		{"nv12", core.TypeUint8, [][]int64{{17, 33}, {9, 17, 2}}},
		{"nv24", core.TypeUint8, [][]int64{{17, 33}, {17, 33, 2}}},
		{"p010le", core.TypeUint16, [][]int64{{17, 33}, {9, 17, 2}}},
		{"yuv420p10le", core.TypeUint16, [][]int64{{17, 33}, {9, 17}, {9, 17}}},
		{"rgb24", core.TypeUint8, [][]int64{{17, 33, 3}}},
		{"bgra", core.TypeUint8, [][]int64{{17, 33, 4}}},
		{"rgb0", core.TypeUint8, [][]int64{{17, 33, 4}}},
		{"rgb48le", core.TypeUint16, [][]int64{{17, 33, 3}}},
		{"rgba64le", core.TypeUint16, [][]int64{{17, 33, 4}}},
		{"xyz12le", core.TypeUint16, [][]int64{{17, 33, 3}}},
		{"gray", core.TypeUint8, [][]int64{{17, 33}}},
		{"ya8", core.TypeUint8, [][]int64{{17, 33, 2}}},
		{"gray16le", core.TypeUint16, [][]int64{{17, 33}}},
		{"grayf32le", core.TypeFloat32, [][]int64{{17, 33}}},
		{"gbrp", core.TypeUint8, [][]int64{{17, 33}, {17, 33}, {17, 33}}},
		{"gbrapf32le", core.TypeFloat32, [][]int64{{17, 33}, {17, 33}, {17, 33}, {17, 33}}},
		{"yuyv422", core.TypeUint8, [][]int64{{17, 17, 4}}},
		{"uyyvyy411", core.TypeUint8, [][]int64{{17, 9, 6}}},
		{"y210le", core.TypeUint16, [][]int64{{17, 17, 4}}},
		{"bayer_rggb8", core.TypeUint8, [][]int64{{17, 33}}},
		{"bayer_rggb16le", core.TypeUint16, [][]int64{{17, 33}}},
	} {
		t.Run(c.format, func(t *testing.T) {
			f := newFrame(t, named(t, c.format), 33, 17)
			planes, err := Planes(f)
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(planes)
			if len(planes) != len(c.shapes) {
				t.Fatalf("%d planes instead of %d", len(planes), len(c.shapes))
			}
			for i, p := range planes {
				data, linesize := avtest.Data(f, i)
				if address, err := p.Address(); err != nil || address != data {
					t.Errorf("plane %d is at %#x (%v) instead of %#x: it was copied", i, address, err, data)
				}
				if p.DType() != c.dtype || !slices.Equal(p.Shape(), c.shapes[i]) || p.ReadOnly() {
					t.Errorf("plane %d is %v with flags %v instead of %v%v", i, p, p.Flags(), c.dtype, c.shapes[i])
				}
				if size := int64(p.DType().Bits / 8); p.Layout().Stride(0)*size != int64(linesize) {
					t.Errorf("plane %d has the strides %v; its rows are %d bytes apart", i, p.Layout().Strides(), linesize)
				}
			}
		})
	}
}

// Every format of FFmpeg becomes tensors that agree with FFmpeg's own functions, or is refused with a reason.
func TestEveryFormat(t *testing.T) {
	taken, refused := 0, 0
	for _, format := range avtest.Formats() {
		for _, size := range [][2]int{{1, 1}, {7, 5}, {64, 32}} {
			f := astiav.AllocFrame()
			f.SetPixelFormat(format)
			f.SetWidth(size[0])
			f.SetHeight(size[1])
			if err := f.AllocBuffer(0); err != nil { // hardware, or bits that FFmpeg has no size for
				if _, err := Planes(f); err == nil {
					t.Errorf("%v: planes of a frame without memory", format)
				}
				f.Free()
				continue
			}
			planes, err := Planes(f)
			switch {
			case errors.Is(err, core.ErrDType):
				refused++
			case err != nil:
				t.Errorf("%v of %v: %v", format, size, err)
			case len(planes) != avtest.Planes(format):
				t.Errorf("%v has %d planes instead of %d", format, len(planes), avtest.Planes(format))
			default:
				taken++
				for i, p := range planes {
					row := int64(p.DType().Bits / 8)
					for _, n := range p.Shape()[1:] {
						row *= n
					}
					if want := int64(avtest.Linesize(format, size[0], i)); row != want {
						t.Errorf("%v of %v: rows of plane %d have %d bytes (%v), and for FFmpeg %d", format, size, i, row, p, want)
					}
				}
			}
			f.Free()
			closeAll(planes)
		}
	}
	t.Logf("%d frames became tensors, %d were refused", taken, refused)
	if taken < 300 || refused < 100 {
		t.Errorf("%d frames became tensors, %d were refused: too few", taken, refused)
	}
}

// What FFmpeg reads of a component of a pixel is the element of the tensor.
func TestComponentsAreElements(t *testing.T) {
	for name, at := range map[string]func(p []*core.Tensor, c, x, y int64) (*core.Tensor, []int64, int){
		"yuv420p": func(p []*core.Tensor, c, x, y int64) (*core.Tensor, []int64, int) {
			if c > 0 {
				x, y = x/2, y/2
			}
			return p[c], []int64{y, x}, 0
		},
		"nv12": func(p []*core.Tensor, c, x, y int64) (*core.Tensor, []int64, int) {
			if c > 0 {
				return p[1], []int64{y / 2, x / 2, c - 1}, 0
			}
			return p[0], []int64{y, x}, 0
		},
		"p010le": func(p []*core.Tensor, c, x, y int64) (*core.Tensor, []int64, int) {
			if c > 0 {
				return p[1], []int64{y / 2, x / 2, c - 1}, 6
			}
			return p[0], []int64{y, x}, 6
		},
		"bgra": func(p []*core.Tensor, c, x, y int64) (*core.Tensor, []int64, int) {
			return p[0], []int64{y, x, []int64{2, 1, 0, 3}[c]}, 0
		},
		"gbrp": func(p []*core.Tensor, c, x, y int64) (*core.Tensor, []int64, int) {
			return p[[]int64{2, 0, 1}[c]], []int64{y, x}, 0
		},
		"yuyv422": func(p []*core.Tensor, c, x, y int64) (*core.Tensor, []int64, int) {
			return p[0], []int64{y, x / 2, [][]int64{{0, 2}, {1, 1}, {3, 3}}[c][x%2]}, 0
		},
	} {
		for _, flipped := range []bool{false, true} {
			t.Run(fmt.Sprint(name, flipped), func(t *testing.T) {
				const width, height = 24, 10
				f := newFrame(t, named(t, name), width, height)
				if flipped {
					avtest.Flip(f)
				}
				planes, err := Planes(f)
				if err != nil {
					t.Fatal(err)
				}
				defer closeAll(planes)
				if flipped && planes[0].Layout().Stride(0) >= 0 {
					t.Errorf("a picture that is stored from the bottom up has the strides %v", planes[0].Layout().Strides())
				}
				parts := 3
				for c := range parts {
					for y := range height {
						for x := range width {
							p, index, shift := at(planes, int64(c), int64(x), int64(y))
							across := x
							if c > 0 && name != "bgra" && name != "gbrp" {
								across = x / 2 // FFmpeg counts the columns of the component
							}
							down := y
							if c > 0 && (name == "yuv420p" || name == "nv12" || name == "p010le") {
								down = y / 2
							}
							if got, want := element(t, p, index)>>shift, avtest.Component(f, c, across, down); got != want {
								t.Fatalf("component %d of pixel (%d, %d) is %d in the tensor, and %d for FFmpeg", c, x, y, got, want)
							}
						}
					}
				}
			})
		}
	}
}

func element(t *testing.T, p *core.Tensor, index []int64) uint32 {
	t.Helper()
	if p.DType() == core.TypeUint16 {
		v, err := core.At[uint16](p, index...)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(v)
	}
	v, err := core.At[uint8](p, index...)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(v)
}

// The memory of a frame lives until the last tensor is closed, in every order.
func TestLifetime(t *testing.T) {
	for order := range 6 {
		f := newFrame(t, named(t, "yuv420p"), 32, 16)
		planes, err := Planes(f)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := core.At[uint8](planes[order%3], 3, 5)
		f.Unref()
		for i := range 3 {
			at := (i + order) % 3
			if order > 2 {
				at = 2 - at
			}
			if i == 0 {
				view, err := planes[order%3].Slice(0, 3, 4, 1)
				if err != nil {
					t.Fatal(err)
				}
				defer view.Close()
				defer func() {
					if got, err := core.At[uint8](view, 0, 5); err != nil || got != want {
						t.Errorf("the memory has changed: %d (%v) instead of %d", got, err, want)
					}
				}()
			}
			planes[at].Close()
		}
		if n := core.Live()["ffmpeg.frame"]; n == 0 {
			t.Error("the frame is gone while a view is open")
		}
	}
}

// A frame that somebody else refers to must not be written.
func TestWritable(t *testing.T) {
	f := newFrame(t, named(t, "gray"), 16, 16)
	first, err := Planes(f)
	if err != nil {
		t.Fatal(err)
	}
	if first[0].ReadOnly() {
		t.Error("the tensor of a frame that nobody shares is read-only")
	}
	if err := core.Set(first[0], uint8(77), 2, 3); err != nil {
		t.Fatal(err)
	}
	if got := avtest.Component(f, 0, 3, 2); got != 77 {
		t.Errorf("the frame has %d after a write of 77 through the tensor", got)
	}
	second, err := Planes(f)
	if err != nil {
		t.Fatal(err)
	}
	if !second[0].ReadOnly() {
		t.Error("tensors of two calls can both be written")
	}
	closeAll(first)
	closeAll(second)
	clone := f.Clone()
	defer clone.Free()
	third, err := Planes(f)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(third)
	if !third[0].ReadOnly() {
		t.Error("the tensor of a frame with a clone can be written")
	}
}

func TestMisuse(t *testing.T) {
	freed := astiav.AllocFrame()
	freed.Free()
	empty := astiav.AllocFrame()
	defer empty.Free()
	for name, f := range map[string]*astiav.Frame{"nil": nil, "freed": freed, "empty": empty} {
		_, err := Planes(f)
		coretest.WantError(t, err, core.ErrInvalid, "Planes of a frame that is "+name)
	}
	f := newFrame(t, named(t, "yuv420p"), 32, 16)
	avtest.WithoutReferences(f, func() {
		_, err := Planes(f)
		coretest.WantError(t, err, core.ErrInvalid, "Planes of memory without references")
	})
	for _, name := range []string{"monow", "pal8", "rgb565le", "rgb8", "rgb4_byte", "bgr4", "x2rgb10le", "gray16be", "rgb444le"} {
		bad := newFrame(t, named(t, name), 32, 16)
		_, err := Planes(bad)
		coretest.WantError(t, err, core.ErrDType, "Planes of "+name)
	}
	data, linesize := avtest.Data(f, 1)
	for name, bad := range map[string]struct {
		address  uintptr
		linesize int
		want     error
	}{
		"rows that overlap":      {data, 3, core.ErrLayout},
		"rows that are far away": {data, 1 << 30, core.ErrLayout},
		"rows before the buffer": {data, -1 << 20, core.ErrLayout},
		"another address":        {data - 1<<20, linesize, core.ErrLayout},
		"address 1":              {1, -1 << 31, core.ErrLayout},
		"no address":             {0, linesize, core.ErrInvalid},
	} {
		avtest.SetData(f, 1, bad.address, bad.linesize)
		_, err := Planes(f)
		coretest.WantError(t, err, bad.want, "Planes with "+name)
	}
	avtest.SetData(f, 1, data, linesize)
	f.SetPixelFormat(astiav.PixelFormat(99999))
	_, err := Planes(f)
	coretest.WantError(t, err, core.ErrDType, "Planes of an unknown format")
}

// No value of a field that a frame can have reads outside of its buffers.
func FuzzPlanes(f *testing.F) {
	f.Add(0, 32, 16, 32, 16, 16, uint16(0))
	f.Add(23, 64, 64, -64, 64, 0, uint16(640))
	f.Add(2, 1<<30, 1<<30, 1<<30, -1<<31, 1, uint16(9))
	f.Fuzz(func(t *testing.T, format, width, height, first, second, third int, shift uint16) {
		frame := newFrame(t, named(t, "yuv420p"), 64, 32)
		for i, linesize := range []int{first, second, third} {
			address, _ := avtest.Data(frame, i)
			avtest.SetData(frame, i, address+uintptr(shift), int(int32(linesize)))
		}
		frame.SetPixelFormat(astiav.PixelFormat(int32(format)))
		frame.SetWidth(int(int32(width)))
		frame.SetHeight(int(int32(height)))
		planes, err := Planes(frame)
		if err != nil {
			var typed *core.Error
			if !errors.As(err, &typed) {
				t.Errorf("an error without a type: %v", err)
			}
			return
		}
		defer closeAll(planes)
		for _, p := range planes {
			c, err := p.Clone(t.Context()) // reads every element
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
	})
}
