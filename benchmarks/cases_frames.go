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
			setup: func(e *env) (trial, error) { return framesTo(e, id, f) },
		}
		if id == core.CPU { // where the other libraries make the same
			c.Target = Target{Measure: Speed, Limit: 1, Baseline: openCVFrames}
		}
		l.add(c, extra)
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

// planes is how many bytes the result has.
func (f frames) planes() int64 { return f.count * 3 * f.height * f.width * 4 }

func framesTo(e *env, id core.DeviceID, f frames) (trial, error) {
	d, err := e.open(id)
	if err != nil {
		return trial{}, err
	}
	content := make([]byte, f.count*f.height*f.width*4)
	fill(content, sentSeed)
	all, err := e.keep(core.FromSlice(content, f.count, f.height, f.width, 4))
	if err != nil {
		return trial{}, err
	}
	colors, err := e.keep(all.Slice(3, 0, 3, 1))
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
		},
	}
	if id != core.CPU {
		t.baselines = []baseline{{name: convertedBefore, sample: repeat(func() error {
			numbers, err := core.Empty(e.ctx, host, core.TypeFloat32, []int64{f.count, 3, f.height, f.width}, core.AllocOptions{})
			if err != nil {
				return err
			}
			defer numbers.Close()
			if err := core.ConvertScaled(e.ctx, numbers, planes, core.Scaling{Scale: []float32{frameScale}, Offset: frameOffset, Axis: 1}); err != nil {
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
