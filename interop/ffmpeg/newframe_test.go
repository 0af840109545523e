//go:build cgo

package ffmpeg

import (
	"context"
	"errors"
	"testing"

	"github.com/asticode/go-astiav"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/interop/ffmpeg/internal/avtest"
	"github.com/dlx-go/dlx/stream"
)

// A frame of tensors has their addresses, FFmpeg reads their elements, and its planes are tensors again.
func TestNewVideoFrame(t *testing.T) {
	keep := coretest.Keep(t)
	base := make([]uint8, 6*20)
	for i := range base {
		base[i] = uint8(i)
	}
	for name, c := range map[string]struct {
		first   int
		strides []int64
	}{
		"contiguous":     {0, []int64{12, 2, 1}},
		"padded rows":    {3, []int64{20, 2, 1}},
		"from bottom up": {100, []int64{-20, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			y := keep(core.FromSliceStrided(base, 0, []int64{6, 12}, []int64{20, 1}))
			uv := keep(core.FromSliceStrided(base, c.first, []int64{3, 6, 2}, c.strides))
			f, err := NewVideoFrame(t.Context(), named(t, "nv12"), 12, 6, y, uv)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range []*core.Tensor{y, uv} {
				data, linesize := avtest.Data(f, i)
				if at, _ := p.Address(); at != data || int64(linesize) != p.Layout().Stride(0) {
					t.Errorf("plane %d is at %#x with rows of %d bytes instead of %#x", i, data, linesize, at)
				}
			}
			if got, want := avtest.Component(f, 2, 4, 2), base[c.first+2*int(c.strides[0])+4*2+1]; got != uint32(want) {
				t.Errorf("FFmpeg reads %d instead of %d", got, want)
			}
			again, err := Planes(f)
			if err != nil {
				t.Fatal(err)
			}
			f.Free()
			if same, err := core.Equal(t.Context(), again[1], uv); err != nil || !same {
				t.Errorf("the planes of the frame differ: %v", err)
			}
			closeAll(again)
			dlpack.Flush()
		})
	}
}

func TestNewVideoFrameOwnership(t *testing.T) {
	freed := 0
	pixels := make([]byte, 16*8)
	backing, err := core.FromSlice(pixels, 8, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer backing.Close()
	at, _ := backing.Address()
	gray := func() *core.Tensor {
		x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: at, Size: 16 * 8, Owner: core.FreeFunc(func() { freed++ })},
			core.Spec{DType: core.TypeUint8, Shape: []int64{8, 16}})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := gray()
	f, err := NewVideoFrame(t.Context(), named(t, "gray"), 16, 8, x)
	if err != nil {
		t.Fatal(err)
	}
	clone := f.Clone()
	x.Close()
	f.Free()
	dlpack.Flush()
	if freed != 0 {
		t.Error("the memory was freed while FFmpeg uses it")
	}
	clone.Free()
	dlpack.Flush()
	if freed != 1 {
		t.Errorf("the memory was freed %d times", freed)
	}
	y := gray()
	readOnly, err := y.AsReadOnly()
	if err != nil {
		t.Fatal(err)
	}
	f, err = NewVideoFrame(t.Context(), named(t, "gray"), 16, 8, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	readOnly.Close()
	planes, err := Planes(f)
	if err != nil {
		t.Fatal(err)
	}
	if !planes[0].ReadOnly() {
		t.Error("a read-only tensor became a frame that can be written")
	}
	f.Free()
	y.Close()
	closeAll(planes)
	dlpack.Flush()
	if freed != 2 {
		t.Errorf("the memory was freed %d times instead of 2", freed)
	}
	// A failure in the second plane releases the first one.
	z := gray()
	transposed, err := backing.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer transposed.Close()
	_, err = NewVideoFrame(t.Context(), named(t, "yuv444p"), 16, 8, z, z, transposed)
	if !errors.Is(err, core.ErrLayout) {
		t.Errorf("planes of the wrong shape: %v", err)
	}
	z.Close()
	dlpack.Flush()
	if freed != 3 {
		t.Errorf("the memory was freed %d times instead of 3", freed)
	}
}

func TestNewVideoFrameMisuse(t *testing.T) {
	keep := coretest.Keep(t)
	gray := named(t, "gray")
	pixels := keep(core.FromSlice(make([]byte, 8*16), 8, 16))
	closed, _ := pixels.Share()
	closed.Close()
	device := coretest.NewBackend(coretest.Options{})
	d, err := device.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the end of the tensors below
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	there := coretest.Row(t, d, 128, core.AllocOptions{})
	for name, c := range map[string]struct {
		format        astiav.PixelFormat
		width, height int
		planes        []*core.Tensor
		want          error
	}{
		"no planes":            {gray, 16, 8, nil, core.ErrInvalid},
		"two planes":           {gray, 16, 8, []*core.Tensor{pixels, pixels}, core.ErrInvalid},
		"a nil plane":          {gray, 16, 8, []*core.Tensor{nil}, core.ErrInvalid},
		"a closed plane":       {gray, 16, 8, []*core.Tensor{closed}, core.ErrClosed},
		"no size":              {gray, 0, 8, []*core.Tensor{pixels}, core.ErrInvalid},
		"a negative size":      {gray, 16, -8, []*core.Tensor{pixels}, core.ErrInvalid},
		"a huge size":          {gray, 1 << 33, 8, []*core.Tensor{pixels}, core.ErrInvalid},
		"another size":         {gray, 8, 16, []*core.Tensor{pixels}, core.ErrLayout},
		"another type":         {gray, 16, 8, []*core.Tensor{keep(core.FromSlice(make([]int8, 128), 8, 16))}, core.ErrDType},
		"gaps":                 {gray, 8, 8, []*core.Tensor{keep(pixels.Slice(1, 0, 16, 2))}, core.ErrLayout},
		"columns first":        {gray, 8, 16, []*core.Tensor{keep(pixels.Transpose())}, core.ErrLayout},
		"rows that overlap":    {gray, 16, 8, []*core.Tensor{keep(core.FromSliceStrided(make([]byte, 128), 0, []int64{8, 16}, []int64{8, 1}))}, core.ErrLayout},
		"one row many times":   {gray, 16, 8, []*core.Tensor{keep(keep(pixels.Slice(0, 0, 1, 1)).Broadcast(8, 16))}, core.ErrLayout},
		"a device":             {gray, 128, 1, []*core.Tensor{there}, core.ErrDevice},
		"a format of hardware": {named(t, "vulkan"), 16, 8, []*core.Tensor{pixels}, core.ErrDType},
		"an unknown format":    {99999, 16, 8, []*core.Tensor{pixels}, core.ErrDType},
	} {
		f, err := NewVideoFrame(t.Context(), c.format, c.width, c.height, c.planes...)
		if f != nil || !errors.Is(err, c.want) {
			t.Errorf("NewVideoFrame with %s: %v instead of %v", name, err, c.want)
		}
	}
}

func TestNewAudioFrame(t *testing.T) {
	keep := coretest.Keep(t)
	packed := keep(core.FromSliceStrided([]int16{1, 2, 3, 4, 5, 6}, 0, []int64{2, 3}, []int64{1, 2}))
	f, err := NewAudioFrame(t.Context(), astiav.SampleFormatS16, packed)
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := packed.Address(); avtest.Sound(f, 0) != at || f.NbSamples() != 3 {
		t.Errorf("samples at %#x instead of %#x, %d of them", avtest.Sound(f, 0), at, f.NbSamples())
	}
	again, err := Planes(f)
	f.Free()
	if err != nil {
		t.Fatal(err)
	}
	if same, err := core.Equal(t.Context(), again[0], packed); err != nil || !same {
		t.Errorf("the samples differ: %v", err)
	}
	closeAll(again)
	left, right := keep(core.FromSlice([]float32{1, 2}, 1, 2)), keep(core.FromSlice([]float32{3, 4}, 1, 2))
	f, err = NewAudioFrame(t.Context(), astiav.SampleFormatFltp, left, right)
	if err != nil {
		t.Fatal(err)
	}
	if at, _ := right.Address(); avtest.Sound(f, 1) != at {
		t.Errorf("the second channel is at %#x instead of %#x", avtest.Sound(f, 1), at)
	}
	f.Free()
	for name, c := range map[string]struct {
		format astiav.SampleFormat
		planes []*core.Tensor
		want   error
	}{
		"no planes":               {astiav.SampleFormatFltp, nil, core.ErrInvalid},
		"two planes of packed":    {astiav.SampleFormatFlt, []*core.Tensor{left, right}, core.ErrInvalid},
		"channels that differ":    {astiav.SampleFormatFltp, []*core.Tensor{left, keep(core.FromSlice([]float32{1}, 1, 1))}, core.ErrLayout},
		"samples of another type": {astiav.SampleFormatFltp, []*core.Tensor{left, keep(core.FromSlice([]int32{3, 4}, 1, 2))}, core.ErrDType},
		"one axis":                {astiav.SampleFormatFlt, []*core.Tensor{keep(core.FromSlice([]float32{1}))}, core.ErrLayout},
		"planes for packed":       {astiav.SampleFormatS16, []*core.Tensor{keep(core.FromSlice([]int16{1, 2, 3, 4}, 2, 2))}, core.ErrLayout},
		"an unknown format":       {99, []*core.Tensor{left}, core.ErrDType},
	} {
		f, err := NewAudioFrame(t.Context(), c.format, c.planes...)
		if f != nil || !errors.Is(err, c.want) {
			t.Errorf("NewAudioFrame with %s: %v instead of %v", name, err, c.want)
		}
	}
	dlpack.Flush()
}

// A frame that FFmpeg may write to is handed out when nothing reads the memory any more, another one at once.
func TestNewVideoFrameWaits(t *testing.T) {
	keep := coretest.Keep(t)
	x := keep(core.FromSlice(make([]byte, 4), 2, 2))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	read := stream.NewEvent()
	b.Used(read)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := NewVideoFrame(ended, named(t, "gray"), 2, 2, x); f != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("while the memory is read: %v, %v", f, err)
	}
	f, err := NewVideoFrame(ended, named(t, "gray"), 2, 2, keep(x.AsReadOnly()))
	if err != nil {
		t.Fatal(err)
	}
	f.Free()
	read.Complete(nil)
	if f, err = NewVideoFrame(ended, named(t, "gray"), 2, 2, x); err != nil {
		t.Fatal(err)
	}
	f.Free()
	dlpack.Flush()
}
