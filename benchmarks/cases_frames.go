package benchmarks

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// frames are batches of images as cameras and decoders make them, RGBA.
type frames struct {
	name                 string
	count, height, width int64
}

var frameBatches = []frames{{"1080p", 1, 1080, 1920}, {"32x224", 32, 224, 224}}

// Every library scales with the same numbers for each channel: one factor and three offsets.
const frameScale = float32(1. / 255)

var frameOffset = []float32{-0.485, -0.456, -0.406}

// framesCases measure how frames become the planes of float32 that models expect.
func (l *lister) framesCases(id core.DeviceID, extra bool) {
	for _, f := range frameBatches {
		c := Case{
			Name:        "frames/" + id.String() + "/" + f.name,
			Description: fmt.Sprintf("exchange.To with a conversion of %d frames RGBA of %d by %d to planes of float32, red, green and blue, scaled, until they may be read", f.count, f.width, f.height),
			Family:      "frames", Kind: Bandwidth, From: Ends{core.CPU}, To: Ends{id}, Size: f.planes(),
			setup: func(e *env) (trial, error) { return framesTo(e, id, e.frames(f)) },
		}
		if id == core.CPU { // where the other libraries make the same
			c.Target = Target{Measure: Speed, Limit: 1, Baseline: openCVFrames}
		}
		l.add(c, extra)
		if id == core.CPU {
			continue
		}
		l.add(Case{
			Name:        c.Name + "/there",
			Description: fmt.Sprintf("core.Converter.ConvertOn of the same %d frames of %d by %d, which lie on the device, by its kernel, until the planes may be read", f.count, f.width, f.height),
			Family:      "frames", Kind: Bandwidth, From: Ends{id}, To: Ends{id}, Size: f.planes(),
			setup: func(e *env) (trial, error) { return framesThere(e, id, e.frames(f)) },
		}, true)
	}
}

// The other libraries that make the same of the same frames, in host memory.
const (
	openCVFrames = "OpenCV blobFromImages"
	torchFrames  = "PyTorch permute and scale"
	numpyFrames  = "NumPy multiply and add"
)

// convertedBefore is what a device's case is measured beside.
const convertedBefore = "ConvertScaled on the host, then To"

// convertedOutside is what a conversion by the device's kernel is measured beside.
const convertedOutside = "To the host, ConvertScaled there, then To"

// frames returns f, or a few small frames instead.
func (e *env) frames(f frames) frames {
	if e.small {
		f.count, f.height, f.width = min(f.count, 2), 18, 32
	}
	return f
}

// planes is how many bytes the result has.
func (f frames) planes() int64 { return f.count * 3 * f.height * f.width * 4 }

// content makes the frames in memory of the host, with a view of the colors alone.
func (f frames) content(e *env) (content []byte, all, colors *core.Tensor, err error) {
	content = make([]byte, f.count*f.height*f.width*4)
	fill(content, sentSeed)
	if all, err = e.keep(core.FromSlice(content, f.count, f.height, f.width, 4)); err == nil {
		colors, err = e.keep(all.Slice(3, 0, 3, 1))
	}
	return content, all, colors, err
}

// frameScaling is that of planes, whose axis 1 has the channels.
var frameScaling = core.Scaling{Scale: []float32{frameScale}, Offset: frameOffset, Axis: 1}

// check compares the planes of x with those of the frames.
func (f frames) check(e *env, x *core.Tensor, content []byte) (*Mismatch, error) {
	host, err := core.FromSlice(make([]float32, f.planes()/4), f.count, 3, f.height, f.width)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	if err := core.Convert(e.ctx, host, x); err != nil {
		return nil, err
	}
	got, err := core.Values[float32](host)
	if err != nil {
		return nil, err
	}
	return f.compare(got, content), nil
}

func framesTo(e *env, id core.DeviceID, f frames) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	content, _, colors, err := f.content(e)
	if err != nil {
		return trial{}, err
	}
	options := exchange.Options{Convert: &exchange.Conversion{
		DType: core.TypeFloat32, Order: []int{0, 3, 1, 2}, Scale: []float32{frameScale}, Offset: frameOffset, Axis: 1,
	}}
	convert := func() (exchange.Report, *core.Tensor, error) {
		x, r, err := exchange.To(e.ctx, colors, d, options)
		if err == nil {
			if err = x.WaitReady(e.ctx); err != nil {
				_ = x.Close()
			}
		}
		return r, x, err
	}
	planes, err := e.keep(colors.Permute(0, 3, 1, 2))
	if err != nil {
		return trial{}, err
	}
	host, err := e.open(core.CPU)
	if err != nil {
		return trial{}, err
	}
	report, x, err := convert()
	if err != nil {
		return trial{}, err
	}
	_ = x.Close()
	t := trial{
		bytes: f.planes(), way: fmt.Sprintf("converted by %v", report.Converted), refused: report.Refused(),
		own: repeat(func() error {
			_, x, err := convert()
			if err == nil {
				_ = x.Close()
			}
			return err
		}),
		verify: func() (*Mismatch, error) {
			_, x, err := convert()
			if err != nil {
				return nil, err
			}
			defer x.Close()
			return f.check(e, x, content)
		},
	}
	if id != core.CPU {
		t.baselines = []baseline{{name: convertedBefore, sample: repeat(func() error {
			numbers, err := core.Empty(e.ctx, host, core.TypeFloat32, []int64{f.count, 3, f.height, f.width}, core.AllocOptions{})
			if err != nil {
				return err
			}
			defer numbers.Close()
			if err := core.ConvertScaled(e.ctx, numbers, planes, frameScaling); err != nil {
				return err
			}
			x, _, err := exchange.To(e.ctx, numbers, d, exchange.Options{Copy: exchange.Always})
			if err != nil {
				return err
			}
			return readyAndClose(e.ctx, []*core.Tensor{x})
		})}}
		return t, nil
	}
	r := request{Prepare: "frames", Shape: []int64{f.count, f.height, f.width, 4}, Threads: runtime.GOMAXPROCS(0)}
	t.baselines = []baseline{
		e.pythonBaseline(openCVFrames, "cv2", r), e.pythonBaseline(torchFrames, "torch", r), e.pythonBaseline(numpyFrames, "numpy", r),
	}
	return t, nil
}

// framesThere lets a device convert frames that lie there.
func framesThere(e *env, id core.DeviceID, f frames) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	k, ok := core.As[core.Converter](d)
	if !ok {
		p := d.Properties()
		return trial{}, p.Require(core.CapConvert, "ConvertOn")
	}
	host, err := e.open(core.CPU)
	if err != nil {
		return trial{}, err
	}
	content, all, _, err := f.content(e)
	if err != nil {
		return trial{}, err
	}
	empty := func(d core.Device, t core.DType, shape ...int64) (*core.Tensor, error) {
		return e.keep(core.Empty(e.ctx, d, t, shape, core.AllocOptions{}))
	}
	there, err := empty(d, core.TypeUint8, f.count, f.height, f.width, 4)
	if err != nil {
		return trial{}, err
	}
	back, err := empty(host, core.TypeUint8, f.count, f.height, f.width, 4)
	if err != nil {
		return trial{}, err
	}
	dst, err := empty(d, core.TypeFloat32, f.count, 3, f.height, f.width)
	if err != nil {
		return trial{}, err
	}
	numbers, err := empty(host, core.TypeFloat32, f.count, 3, f.height, f.width)
	if err != nil {
		return trial{}, err
	}
	if err := d.Copy(e.ctx, nil, there, all); err != nil {
		return trial{}, err
	}
	planes := func(x *core.Tensor) (*core.Tensor, error) {
		colors, err := e.keep(x.Slice(3, 0, 3, 1))
		if err != nil {
			return nil, err
		}
		return e.keep(colors.Permute(0, 3, 1, 2))
	}
	src, err := planes(there)
	if err != nil {
		return trial{}, err
	}
	fetched, err := planes(back)
	if err != nil {
		return trial{}, err
	}
	convert := func() error { return k.ConvertOn(e.ctx, nil, dst, src, frameScaling) }
	return trial{
		bytes: f.planes(), way: fmt.Sprintf("converted by %v", id), own: repeat(convert),
		verify: func() (*Mismatch, error) {
			if err := convert(); err != nil {
				return nil, err
			}
			return f.check(e, dst, content)
		},
		baselines: []baseline{{name: convertedOutside, sample: repeat(func() error {
			if err := d.Copy(e.ctx, nil, back, there); err != nil {
				return err
			}
			if err := core.ConvertScaled(e.ctx, numbers, fetched, frameScaling); err != nil {
				return err
			}
			return d.Copy(e.ctx, nil, dst, numbers)
		})}},
	}, nil
}

// compare compares planes with those of the definition, one number after the other.
func (f frames) compare(got []float32, content []byte) *Mismatch {
	var m *Mismatch
	i := 0
	for n := range f.count {
		for c := range int64(3) {
			for at := range f.height * f.width {
				x := content[(n*f.height*f.width+at)*4+c]
				want := float32(float32(x)*frameScale) + frameOffset[c]
				if math.Float32bits(want) != math.Float32bits(got[i]) {
					if m == nil {
						m = &Mismatch{Offset: int64(4 * i), Of: f.planes(), Want: hexOf(want), Got: hexOf(got[i])}
						m.Text = fmt.Sprintf("number %d is %v, and %v was expected", i, got[i], want)
					}
					m.Wrong += 4
				}
				i++
			}
		}
	}
	return m
}

func hexOf(f float32) string {
	return hex.EncodeToString(binary.LittleEndian.AppendUint32(nil, math.Float32bits(f)))
}
