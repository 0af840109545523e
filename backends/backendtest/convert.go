package backendtest

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

var convertCases = []Case{
	{
		Name:  "convert/bits",
		Rule:  "core.Converter.ConvertOn: for all types that CanConvert accepts, the bits are those of core.ConvertScaled on the host; no other byte changes",
		Needs: core.CapConvert,
		run:   caseConvertBits,
	},
	{
		Name:  "convert/layouts",
		Rule:  "core.Converter.ConvertOn: strides may be any; each index of the axis has its own numbers",
		Needs: core.CapConvert,
		run:   caseConvertLayouts,
	},
	{
		Name:  "convert/order",
		Rule:  "core.Converter.ConvertOn: waits for the last write of src and for all work on dst; the work becomes the last write of dst and a use of src, which may be closed; the numbers of the scaling may be changed when ConvertOn has returned",
		Needs: core.CapConvert | core.CapAsync,
		run:   caseConvertOrder,
	},
	{
		Name:  "convert/errors",
		Rule:  "core.Converter.ConvertOn: fails as core.ConvertScaled does, and with ErrDevice for memory or a stream of another device, before anything changes",
		Needs: core.CapConvert,
		run:   caseConvertErrors,
	},
}

// numberTypes are real numbers of whole bytes.
func numberTypes() []core.DType {
	return []core.DType{
		core.TypeUint8, core.TypeInt8, core.TypeUint16, core.TypeInt16, core.TypeFloat16, core.TypeBFloat16, core.TypeFloat32,
		core.TypeInt32, core.TypeUint32, core.TypeInt64, core.TypeFloat64, core.TypeBool,
	}
}

// wantConverted converts src to dst on the device, in the order of s, and compares with the host.
func (e *env) wantConverted(s core.Stream, dst, src *image, scaling core.Scaling) {
	e.Helper()
	c := as[core.Converter](e)
	to, from := e.onDevice(dst), e.onDevice(src)
	what := func() string { return to.String() + " from " + from.String() }
	e.check(c.ConvertOn(e.ctx, s, to, from, scaling), "ConvertOn %s, %+v", what(), scaling)
	want := &image{spec: dst.spec, bytes: bytes.Clone(dst.bytes)}
	onHost := e.onHost(want)
	e.check(core.ConvertScaled(e.ctx, onHost, e.onHost(src), scaling), "ConvertScaled on the host")
	content := bytes.Clone(e.allocation(onHost))
	if got := e.memoryOf(to); !bytes.Equal(got, content) {
		at := 0
		for at < len(got) && got[at] == content[at] {
			at++
		}
		e.Fatalf("%s, %+v: byte %d of the memory is %#x, and the host's is %#x", what(), scaling, at, got[at], content[at])
	}
	_, _ = to.Close(), from.Close()
}

// someScalings scale by what makes sums that a fused multiplication rounds otherwise, numbers that do not fit
// integers, and nothing.
func someScalings() []core.Scaling {
	return []core.Scaling{
		{},
		{Scale: []float32{1.0 / 255 / 0.229}, Offset: []float32{-0.485 / 0.229}},
		{Scale: []float32{-3.7}, Offset: []float32{1000.3}},
		{Scale: []float32{0.1}},
		{Offset: []float32{-77.77}},
	}
}

func caseConvertBits(e *env) {
	c := as[core.Converter](e)
	if c.CanConvert(core.TypeFloat32, core.TypeUint8, core.Scaling{}) != nil {
		e.Errorf("the device cannot convert uint8 to float32, which is the least")
	}
	s := e.stream()
	for i, from := range numberTypes() {
		for k, to := range numberTypes() {
			for n, scaling := range someScalings() {
				if coretest.Quick() && n != (i+k)%len(someScalings()) && n != 1 {
					continue
				}
				if err := c.CanConvert(to, from, scaling); err != nil {
					e.wantError(err, core.ErrNotSupported, "CanConvert")
					continue
				}
				shape := []int64{5003}
				e.wantConverted(s, e.newImage(to, 0, shape, nil, 0), e.newImage(from, 0, shape, nil, 0), scaling)
			}
		}
	}
}

func caseConvertLayouts(e *env) {
	scaling := func(axis int, n int64) core.Scaling {
		s := core.Scaling{Axis: axis}
		for i := range n {
			s.Scale = append(s.Scale, float32(math.Sqrt(float64(i+1)))/7)
			s.Offset = append(s.Offset, 3-float32(math.Cbrt(float64(i+2))))
		}
		return s
	}
	for _, l := range []struct {
		strided
		axis int
	}{
		{strided{shape: []int64{0, 3}}, 1},
		{strided{shape: []int64{3, 20, 33}, src: []int64{1, 132, 4}}, 0},             // pixels of 4 bytes
		{strided{shape: []int64{3, 20, 33}, src: []int64{-1, -99, -3}}, 0},           // flipped, and the channels too
		{strided{shape: []int64{2, 3, 9, 16}, src: []int64{432, 1, 48, 3}}, 1},       // NHWC to NCHW
		{strided{shape: []int64{2, 9, 16, 3}, src: []int64{432, 16, 1, 144}}, 3},     // NCHW to NHWC
		{strided{shape: []int64{7, 5}, dst: []int64{-2, 17}, src: []int64{0, 3}}, 1}, // gaps, and repeated elements
		{strided{shape: []int64{2, 2, 2, 2, 2, 2, 2}, src: []int64{1, 2, 4, 8, 16, 32, 64}}, 4},
		{strided{shape: []int64{300, 1000}}, 1},
	} {
		for _, to := range []core.DType{core.TypeFloat32, core.TypeFloat16, core.TypeInt16} {
			for _, s := range []core.Scaling{scaling(l.axis, l.shape[l.axis]), scaling(l.axis, 1)} {
				if as[core.Converter](e).CanConvert(to, core.TypeUint8, s) == nil {
					e.wantConverted(nil, e.newImage(to, 0, l.shape, l.dst, 0), e.newImage(core.TypeUint8, 0, l.shape, l.src, 0), s)
				}
			}
		}
	}
}

func caseConvertOrder(e *env) {
	c := as[core.Converter](e)
	first, second := e.stream(), e.stream()
	content := e.pattern(1000)
	src := e.upload(e.pattern(1000))
	dst := e.keep(core.Empty(e.ctx, e.dev, core.TypeFloat32, []int64{1000}, core.AllocOptions{}))
	want := make([]byte, 0, 4000)
	for _, x := range content {
		bits := math.Float32bits(float32(x)*2 + 1) // exact
		want = append(want, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	raw, err := dst.Buffer()
	e.check(err, "Buffer")
	all := e.keep(core.NewTensor(raw, core.Spec{DType: core.TypeUint8, Shape: []int64{4000}}))
	old, read := e.pattern(4000), e.bytes(4000)
	e.write(all, old)
	scaling := core.Scaling{Scale: []float32{2}, Offset: []float32{1}}
	release, _ := e.hold(first)
	e.copy(first, src, e.hostBytes(content))
	e.copy(first, read, all)
	err = e.whileHeld(release, func() error {
		err := c.ConvertOn(e.ctx, second, dst, src, scaling)
		_ = src.Close()
		return errors.Join(err, second.Synchronize(e.ctx))
	})
	e.check(err, "ConvertOn of a tensor that is being written")
	for range 4 { // memory that was given back too early would be these tensors'
		e.bytes(1000)
	}
	e.synchronize(first)
	e.check(dst.WaitReady(e.ctx), "WaitReady")
	e.wantBytes(all, want, "what was converted from src, which was being written and then closed")
	e.wantBytes(read, old, "what an earlier reader of dst got")

	src = e.upload(content)
	release, sure := e.hold(second)
	e.check(c.ConvertOn(e.ctx, second, dst, src, scaling), "ConvertOn")
	scaling.Scale[0], scaling.Offset[0] = 100, 100 // which belong to the caller again
	if sure && e.isDone(dst.Ready()) {
		e.Errorf("dst is ready before the conversion has begun")
	}
	if sure && len(e.pendingWork(src)) == 0 {
		e.Errorf("src has no pending work, but the conversion has not begun")
	}
	release()
	e.check(dst.WaitReady(e.ctx), "WaitReady")
	e.wantBytes(all, want, "what was converted behind other work")
	e.synchronize(second)
}

func caseConvertErrors(e *env) {
	c := as[core.Converter](e)
	content := e.pattern(24)
	raw := e.upload(content)
	b, err := raw.Buffer()
	e.check(err, "Buffer")
	dst := e.keep(core.NewTensor(b, core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}}))
	src := e.upload(e.pattern(6))
	pixels := e.view(src, core.Spec{DType: core.TypeUint8, Shape: []int64{2, 3}})
	readOnly := e.keep(dst.AsReadOnly())
	closed := e.upload(content)
	_ = closed.Close()
	nan := float32(math.NaN())
	for _, x := range []struct {
		what     string
		dst, src *core.Tensor
		s        core.Scaling
		want     error
	}{
		{"no dst", nil, pixels, core.Scaling{}, core.ErrInvalid},
		{"no src", dst, nil, core.Scaling{}, core.ErrInvalid},
		{"a closed src", dst, closed, core.Scaling{}, core.ErrClosed},
		{"a read-only dst", readOnly, pixels, core.Scaling{}, core.ErrReadOnly},
		{"other shapes", dst, raw, core.Scaling{}, core.ErrLayout},
		{"too few factors", dst, pixels, core.Scaling{Scale: []float32{1, 2}, Axis: 1}, core.ErrInvalid},
		{"a factor that is not finite", dst, pixels, core.Scaling{Scale: []float32{nan}}, core.ErrInvalid},
		{"the memory of dst", dst, e.keep(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{2, 3}})), core.Scaling{}, core.ErrLayout},
	} {
		e.wantError(c.ConvertOn(e.ctx, nil, x.dst, x.src, x.s), x.want, "ConvertOn with %s", x.what)
	}
	if !e.dev.ID().Type.HostAccessible() {
		host := e.view(e.hostBytes(slices.Clone(content[:6])), core.Spec{DType: core.TypeUint8, Shape: []int64{2, 3}})
		e.wantError(c.ConvertOn(e.ctx, nil, dst, host, core.Scaling{}), core.ErrDevice, "ConvertOn from memory of the host")
	}
	e.wantBytes(raw, content, "dst after the refused conversions")

	// Kernels have few axes. What has too many that do not merge may be refused, but not in the middle.
	shape, strides := make([]int64, 18), make([]int64, 18)
	for i := range shape {
		shape[i], strides[i] = 2, 1<<i
	}
	many, across := e.onDevice(e.newImage(core.TypeFloat32, 0, shape, nil, 0)), e.onDevice(e.newImage(core.TypeUint8, 0, shape, strides, 0))
	before := e.memoryOf(many)
	if err := c.ConvertOn(e.ctx, nil, many, across, core.Scaling{Scale: []float32{2}}); err != nil {
		e.wantError(err, core.ErrNotSupported, "ConvertOn of 18 axes")
		if !bytes.Equal(e.memoryOf(many), before) {
			e.Errorf("ConvertOn of 18 axes fails, and dst has changed")
		}
	}
	_, _ = many.Close(), across.Close()
}
