package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// toPlanes is the conversion that models of images ask for, of the first three channels, mirrored.
var toPlanes = exchange.Conversion{
	DType: core.TypeFloat32, Order: []int{2, 0, 1}, Flip: []int{2},
	Scale: []float32{1 / 58.395, 1 / 57.12, 1 / 57.375}, Offset: []float32{-2.117904, -2.0357144, -1.8044444},
}

// fromPlanes is one that makes fewer bytes of more.
var fromPlanes = exchange.Conversion{
	DType: core.TypeUint8, Order: []int{1, 2, 0}, Flip: []int{0},
	Scale: []float32{58.395, 57.12, 57.375}, Offset: []float32{123.675, 116.28, 103.53}, Axis: 2,
}

// frame makes a frame of the host with four channels, and a view of the first three.
func frame(t *testing.T, height, width int64) *core.Tensor {
	t.Helper()
	keep := coretest.Keep(t)
	all := keep(core.FromSlice(coretest.Pattern(int(height*width*4), 9), height, width, 4))
	return keep(all.Slice(2, 0, 3, 1))
}

// expected is what a conversion makes on the host.
func expected(t *testing.T, x *core.Tensor, c exchange.Conversion) *core.Tensor {
	t.Helper()
	keep := coretest.Keep(t)
	v := keep(x.Permute(c.Order...))
	for _, axis := range c.Flip {
		v = keep(v.Slice(axis, v.Layout().Dim(axis)-1, -1, -1))
	}
	dst := keep(core.Empty(t.Context(), host(t), c.DType, v.Shape(), core.AllocOptions{}))
	if err := core.ConvertScaled(t.Context(), dst, v, core.Scaling{Scale: c.Scale, Offset: c.Offset, Axis: c.Axis}); err != nil {
		t.Fatal(err)
	}
	return dst
}

// converting moves frames to a device, between two, and back.
func converting(t *testing.T, d core.Device) (there, within, back exchange.Report) {
	pixels := frame(t, 36, 67)
	planes := expected(t, pixels, toPlanes)
	bytes := expected(t, planes, fromPlanes)
	got, there := to(t, pixels, d, exchange.Options{Convert: &toPlanes})
	same(t, "a frame from the host", d, got, planes)
	if got.DeviceID() != d.ID() || !got.Layout().IsContiguous() {
		t.Errorf("a frame became %v", got)
	}
	raw, _ := to(t, pixels, d, exchange.Options{Copy: exchange.Always})
	local, within := to(t, raw, d, exchange.Options{Convert: &toPlanes})
	same(t, "a frame of the device", d, local, planes)
	returned, back := to(t, got, host(t), exchange.Options{Convert: &fromPlanes})
	same(t, "planes of the device", host(t), returned, bytes)
	for what, r := range map[string]exchange.Report{"there": there, "within": within, "back": back} {
		text := r.String()
		if r.Converted == (core.DeviceID{}) || r.BytesCopied <= 0 || r.Mechanism == 0 || len(r.Steps()) == 0 || !strings.Contains(text, "converts") {
			t.Errorf("%s: the report says %s", what, text)
		}
		if r.Converted == core.CPU && !d.ID().Type.HostAccessible() && what != "there" && len(r.Refused()) == 0 {
			t.Errorf("%s: the report does not say why %v did not convert: %s", what, d.ID(), text)
		}
	}
	route, err := exchange.Plan(raw, d, exchange.Options{Convert: &toPlanes})
	if err != nil {
		t.Fatal(err)
	}
	if route.String() != within.String() {
		t.Errorf("the plan is %s, and the report says %s", route, within)
	}
	again, _, err := route.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the route of a frame", d, coretest.Keep(t)(again, nil), planes)
	s := newStream(t, d)
	ordered, _ := to(t, pixels, d, exchange.Options{Convert: &toPlanes, Stream: s})
	same(t, "a frame for a stream", d, ordered, planes)
	list, reports, err := exchange.ToAll(t.Context(), []*core.Tensor{pixels, raw}, d, exchange.Options{Convert: &toPlanes})
	if err != nil || len(list) != 2 || len(reports) != 2 {
		t.Fatalf("ToAll gives %v, %v, %v", list, reports, err)
	}
	for i, x := range list {
		same(t, fmt.Sprintf("frame %d of several", i), d, coretest.Keep(t)(x, nil), planes)
	}
	return there, within, back
}

func TestConversionOnEveryDevice(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, d := range openAll(t, 1) {
		t.Run(d.ID().String(), func(t *testing.T) {
			there, within, _ := converting(t, d)
			t.Log(there)
			k, ok := core.As[core.Converter](d)
			if !ok || k.PrefersHost() {
				return
			}
			s := core.Scaling{Scale: toPlanes.Scale, Offset: toPlanes.Offset, Axis: toPlanes.Axis}
			if err := k.CanConvert(toPlanes.DType, core.TypeUint8, s); err != nil {
				t.Errorf("a card does not convert frames: %v", err)
			} else if within.Converted != d.ID() {
				t.Errorf("%v converted, want %v", within.Converted, d.ID())
			}
		})
	}
}

// The device converts if it can: behind the upload of fewer bytes, and before the download of fewer.
func TestConversionOnSimulatedDevices(t *testing.T) {
	for name, o := range map[string]coretest.Options{
		"converts": {Converts: true}, "converts, with handles": {Converts: true, Opaque: true}, "converts, and the host waits": {Converts: true, HostWaits: true},
		"does not convert": {}, "does not convert, with handles": {Opaque: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := slowDevice(t, o)
			by, copied := core.CPU, int64(36*67*3*4)
			if o.Converts {
				by, copied = d.ID(), 36*67*3*5
			}
			there, within, back := converting(t, d)
			if there.Converted != by || within.Converted != by || back.Converted != by {
				t.Errorf("converted by %v, %v and %v, want %v", there.Converted, within.Converted, back.Converted, by)
			}
			if there.BytesCopied != copied {
				t.Errorf("%d bytes were copied, want %d: %s", there.BytesCopied, copied, there)
			}
		})
	}
}

func TestConversionIsRefused(t *testing.T) {
	_, d := slowDevice(t, coretest.Options{Converts: true})
	pixels := frame(t, 3, 5)
	for name, c := range map[string]struct {
		o    exchange.Options
		want error
	}{
		"never copies":      {exchange.Options{Copy: exchange.Never, Convert: &toPlanes}, core.ErrNotSupported},
		"only one way":      {exchange.Options{Only: exchange.Direct, Convert: &toPlanes}, core.ErrInvalid},
		"order of two axes": {exchange.Options{Convert: &exchange.Conversion{Order: []int{1, 0}}}, core.ErrLayout},
		"flips axis 3":      {exchange.Options{Convert: &exchange.Conversion{Flip: []int{3}}}, core.ErrInvalid},
		"flips axis -1":     {exchange.Options{Convert: &exchange.Conversion{Flip: []int{0, -1}}}, core.ErrInvalid},
		"two factors":       {exchange.Options{Convert: &exchange.Conversion{Scale: []float32{1, 2}, Axis: 2}}, core.ErrInvalid},
		"complex numbers":   {exchange.Options{Convert: &exchange.Conversion{DType: core.TypeComplex64, Scale: []float32{1}}}, core.ErrDType},
	} {
		if x, _, err := exchange.To(t.Context(), pixels, d, c.o); !errors.Is(err, c.want) || x != nil {
			t.Errorf("%s: %v, %v, want %v", name, x, err, c.want)
		}
		if x, _, err := exchange.ToAll(t.Context(), []*core.Tensor{pixels}, d, c.o); !errors.Is(err, c.want) || x != nil {
			t.Errorf("%s, several: %v, %v, want %v", name, x, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if x, _, err := exchange.To(ended, pixels, d, exchange.Options{Convert: &toPlanes}); !errors.Is(err, context.Canceled) || x != nil {
		t.Errorf("the context has ended: %v, %v", x, err)
	}
}

// Whatever fails, nothing stays open, and the error is the result.
func TestConversionFails(t *testing.T) {
	for _, converts := range []bool{true, false} {
		for _, call := range []string{"Alloc", "Copy", "ConvertOn", "work", "NewStream"} {
			fired := true
			for n := 1; fired && n < 20; n++ {
				t.Run(fmt.Sprintf("%v %s %d", converts, call, n), func(t *testing.T) {
					coretest.CheckNoLeaks(t)
					b, d := slowDevice(t, coretest.Options{Converts: converts})
					pixels := frame(t, 8, 9)
					failed := b.Fail(call, n, core.ErrDeviceLost)
					x, _, err := exchange.To(t.Context(), pixels, d, exchange.Options{Convert: &toPlanes})
					if err == nil {
						err = x.WaitReady(t.Context())
						x.Close()
					}
					if fired = failed(); fired != (err != nil) {
						t.Errorf("the call failed: %v; the error is %v", fired, err)
					}
				})
			}
		}
	}
}

// What a device has no memory for as a whole, or does not support after all, core converts: the device in parts, or the
// host. The report says so.
func TestConversionFallsBack(t *testing.T) {
	pixels := frame(t, 36, 67)
	planes := expected(t, pixels, toPlanes)
	bytes := expected(t, planes, fromPlanes)
	small, large := bytes.NumBytes(), planes.NumBytes()
	for _, c := range []struct {
		what   string
		to     bool // moves to the device, instead of back
		from   bool // moves from the device
		call   string
		times  int // how many of the first calls fail
		err    error
		by     bool // the device converts parts
		copied int64
	}{
		{"no memory for the source", true, false, "Alloc", 1, core.ErrOutOfMemory, true, small + large},
		{"no memory for the source, nor for a part", true, false, "ConvertOn", 2, core.ErrOutOfMemory, false, large},
		{"no memory for the result", false, true, "Alloc", 1, core.ErrOutOfMemory, true, small + large},
		{"not supported, to the device", true, false, "ConvertOn", 2, core.ErrNotSupported, false, large},
		{"not supported, from the device", false, true, "ConvertOn", 2, core.ErrNotSupported, false, small},
		{"not supported, within the device", true, true, "ConvertOn", 2, core.ErrNotSupported, false, small + large},
		{"a copy to the device is not supported", true, false, "Copy", 1, core.ErrNotSupported, true, small + large},
	} {
		t.Run(c.what, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			b, d := slowDevice(t, coretest.Options{Converts: true})
			src, want, how := pixels, planes, &toPlanes
			if !c.to {
				src, want, how = planes, bytes, &fromPlanes
			}
			if c.from {
				src, _ = to(t, src, d, exchange.Options{Copy: exchange.Always})
			}
			on := host(t)
			if c.to {
				on = d
			}
			var failed []func() bool
			for range c.times {
				failed = append(failed, b.Fail(c.call, 1, c.err))
			}
			got, r := to(t, src, on, exchange.Options{Convert: how})
			for n, f := range failed {
				if !f() {
					t.Errorf("%s was not called %d times", c.call, n+1)
				}
			}
			same(t, c.what, on, got, want)
			by := core.CPU
			if c.by {
				by = d.ID()
			}
			if r.Converted != by || r.BytesCopied != c.copied || len(r.Steps()) != 1 {
				t.Errorf("%v converted and %d bytes were copied, want %v and %d: %s", r.Converted, r.BytesCopied, by, c.copied, r)
			}
			if list := r.Refused(); len(list) != 1 || !strings.Contains(list[0].Reason, c.err.Error()) {
				t.Errorf("the report does not say why the device did not convert at once: %s", r)
			}
		})
	}
}
