package image_test

import (
	"context"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	dlximage "github.com/dlx-go/dlx/interop/image"
	"github.com/dlx-go/dlx/stream"
)

// painted makes an image of 9 by 5 pixels, all of which differ, within a larger one.
func painted(kind int) image.Image {
	r := image.Rect(2, 1, 11, 6)
	paint := func(m draw.Image) {
		for y := range 8 {
			for x := range 14 {
				m.Set(x, y, color.RGBA{uint8(16*x + kind), uint8(30 * y), uint8(x * y), 255})
			}
		}
	}
	switch kind {
	case 0:
		m := image.NewRGBA(image.Rect(0, 0, 14, 8))
		paint(m)
		return m.SubImage(r)
	case 1:
		m := image.NewNRGBA(image.Rect(0, 0, 14, 8))
		paint(m)
		return m.SubImage(r)
	case 2:
		m := image.NewYCbCr(r, image.YCbCrSubsampleRatio420)
		for i := range m.Y {
			m.Y[i] = uint8(5 * i)
		}
		for i := range m.Cb {
			m.Cb[i], m.Cr[i] = uint8(100+3*i), uint8(160-4*i)
		}
		return m
	case 3:
		m := image.NewGray(image.Rect(0, 0, 14, 8))
		paint(m)
		return m.SubImage(r)
	}
	m := image.NewRGBA64(r)
	draw.Draw(m, r, painted(0), r.Min, draw.Src)
	return m
}

// on returns the host and simulated devices.
func devices(t *testing.T) map[string]core.Device {
	t.Helper()
	d, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return map[string]core.Device{
		"host":            d,
		"device":          coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf}),
		"device converts": coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf, Converts: true}),
	}
}

func TestBatch(t *testing.T) {
	images := []image.Image{painted(0), painted(1), painted(2), painted(3), painted(4)}
	scale, offset := []float32{0.5, 0.25, 2}, []float32{1, -2, 3} // exact
	for name, d := range devices(t) {
		for _, order := range []dlximage.Order{dlximage.NCHW, dlximage.NHWC} {
			for _, mirror := range []bool{false, true} {
				batch, err := dlximage.Batch(t.Context(), images, d, dlximage.BatchOptions{Order: order, Mirror: mirror, Scale: scale, Offset: offset})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				host := batch
				if !d.ID().Type.HostAccessible() {
					host = coretest.Keep(t)(core.FromSlice(make([]float32, batch.NumElements()), batch.Shape()...))
					if err := d.Copy(t.Context(), nil, host, batch); err != nil {
						t.Fatal(err)
					}
				}
				for n, m := range images {
					for y := range 5 {
						for x := range 9 {
							at := m.Bounds().Min.Add(image.Pt(x, y))
							if mirror {
								at.X = m.Bounds().Max.X - 1 - x
							}
							c := color.RGBAModel.Convert(m.At(at.X, at.Y)).(color.RGBA)
							for i, v := range []uint8{c.R, c.G, c.B} {
								index := []int64{int64(n), int64(i), int64(y), int64(x)}
								if order == dlximage.NHWC {
									index = []int64{int64(n), int64(y), int64(x), int64(i)}
								}
								got, err := core.At[float32](host, index...)
								if want := float32(v)*scale[i] + offset[i]; err != nil || got != want {
									t.Fatalf("%s, order %d, mirror %v: image %d has %v in channel %d of (%d, %d), %v; want %v", name, order, mirror, n, got, i, x, y, err, want)
								}
							}
						}
					}
				}
				batch.Close()
			}
		}
	}
}

func TestBatchOfOtherChannels(t *testing.T) {
	d := devices(t)["host"]
	for channels, m := range map[int]image.Image{1: painted(3), 4: painted(0)} {
		x, err := dlximage.Batch(t.Context(), []image.Image{m, m}, d, dlximage.BatchOptions{DType: core.TypeUint8, Channels: channels, Order: dlximage.NHWC})
		if err != nil {
			t.Fatal(err)
		}
		one := coretest.Keep(t)(dlximage.From(m))
		second := coretest.Keep(t)(x.Index(0, 1))
		if equal, err := core.EqualBits(t.Context(), one, second); err != nil || !equal {
			t.Errorf("%d channels: %v, %v", channels, equal, err)
		}
		x.Close()
	}
}

func TestBatchIsRefused(t *testing.T) {
	d := devices(t)["host"]
	rgba := painted(0)
	small := image.NewRGBA(image.Rect(0, 0, 3, 3))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		images []image.Image
		d      core.Device
		o      dlximage.BatchOptions
		want   error
	}{
		"no images":        {t.Context(), nil, d, dlximage.BatchOptions{}, core.ErrInvalid},
		"a nil image":      {t.Context(), []image.Image{rgba, nil}, d, dlximage.BatchOptions{}, core.ErrInvalid},
		"a nil pointer":    {t.Context(), []image.Image{(*image.YCbCr)(nil)}, d, dlximage.BatchOptions{}, core.ErrInvalid},
		"no device":        {t.Context(), []image.Image{rgba}, nil, dlximage.BatchOptions{}, core.ErrInvalid},
		"two channels":     {t.Context(), []image.Image{rgba}, d, dlximage.BatchOptions{Channels: 2}, core.ErrInvalid},
		"an order":         {t.Context(), []image.Image{rgba}, d, dlximage.BatchOptions{Order: 2}, core.ErrInvalid},
		"two factors":      {t.Context(), []image.Image{rgba}, d, dlximage.BatchOptions{Scale: []float32{1, 2}}, core.ErrInvalid},
		"gray of RGBA":     {t.Context(), []image.Image{rgba}, d, dlximage.BatchOptions{Channels: 1}, core.ErrLayout},
		"different sizes":  {t.Context(), []image.Image{rgba, small}, d, dlximage.BatchOptions{}, core.ErrLayout},
		"complex elements": {t.Context(), []image.Image{rgba}, d, dlximage.BatchOptions{DType: core.TypeComplex64, Scale: []float32{1}}, core.ErrDType},
		"an ended context": {ended, []image.Image{rgba, rgba}, d, dlximage.BatchOptions{}, context.Canceled},
	} {
		if x, err := dlximage.Batch(c.ctx, c.images, c.d, c.o); !errors.Is(err, c.want) || x != nil {
			t.Errorf("%s: %v, %v, want %v", name, x, err, c.want)
		}
	}
}

// opaque is an image of a type that is not known, which counts the images whose drawing has begun.
type opaque struct {
	image.Image
	once  sync.Once
	drawn *atomic.Int64
}

func (m *opaque) At(x, y int) color.Color {
	m.once.Do(func() { m.drawn.Add(1) })
	return m.Image.At(x, y)
}

// Images are drawn by those that convert them, each in its own memory, which is used again.
func TestBatchDrawsInBoundedMemory(t *testing.T) {
	const count = 40
	var drawn, done atomic.Int64
	var mu sync.Mutex
	rooms := make(map[*uint8]bool)
	ahead := int64(0)
	d := coretest.OpenSimulated(t, coretest.Options{Converts: true, Log: t.Logf, Submit: func(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if reads[0].DeviceID() == core.CPU {
			pixels, err := core.Values[uint8](reads[0])
			if err != nil {
				return err
			}
			rooms[&pixels[0]] = true
			ahead = max(ahead, drawn.Load()-done.Add(1)+1)
		}
		return stream.Submit(ctx, s, writes, reads, enqueue)
	}})
	images := make([]image.Image, count)
	for i := range images {
		images[i] = &opaque{Image: painted(0), drawn: &drawn}
	}
	batch, err := dlximage.Batch(t.Context(), images, d, dlximage.BatchOptions{Channels: 4, Order: dlximage.NHWC})
	if err != nil {
		t.Fatal(err)
	}
	batch.Close()
	if most := runtime.GOMAXPROCS(0); done.Load() != count || len(rooms) > most || ahead > int64(most) {
		t.Errorf("%d images were drawn in %d places, up to %d ahead; want %d in at most %d", done.Load(), len(rooms), ahead, count, most)
	}
}

// The fields of an image may contradict each other, and an image of another package may panic.
func TestBatchOfBrokenImages(t *testing.T) {
	broken := painted(2).(*image.YCbCr)
	broken.Cb = broken.Cb[:1]
	for name, d := range devices(t) {
		if x, err := dlximage.Batch(t.Context(), []image.Image{painted(0), broken, painted(2)}, d, dlximage.BatchOptions{}); !errors.Is(err, core.ErrInvalid) || x != nil {
			t.Errorf("%s: %v, %v, want ErrInvalid", name, x, err)
		}
	}
	var empty struct{ image.Image }
	for name, d := range devices(t) {
		if x, err := dlximage.Batch(t.Context(), []image.Image{painted(0), empty}, d, dlximage.BatchOptions{}); !errors.Is(err, core.ErrInvalid) || x != nil {
			t.Errorf("%s, without bounds: %v, %v, want ErrInvalid", name, x, err)
		}
	}
	if x, err := dlximage.Copy(broken); !errors.Is(err, core.ErrInvalid) || x != nil {
		t.Errorf("Copy: %v, %v, want ErrInvalid", x, err)
	}
}

// ending is an image whose pixels end the goroutine that reads them.
type ending struct{ image.Image }

func (ending) At(x, y int) color.Color {
	runtime.Goexit()
	return nil
}

func TestBatchOfAnImageThatEndsItsGoroutine(t *testing.T) {
	for name, d := range devices(t) {
		images := slices.Repeat([]image.Image{ending{image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black})}}, 6)
		if x, err := dlximage.Batch(t.Context(), images, d, dlximage.BatchOptions{}); !errors.Is(err, core.ErrInvalid) || x != nil {
			t.Errorf("%s: %v, %v, want ErrInvalid", name, x, err)
		}
	}
}
