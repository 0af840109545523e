package exchange_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// transfers are the copies of a simulated device between its memory and the host's.
type transfers struct {
	host    []core.Layout // of the host's side
	largest int64         // allocation on the device's side, in bytes
}

// converter opens a simulated device that converts, and notes its transfers.
func converter(t *testing.T) (core.Device, *transfers) {
	t.Helper()
	seen := &transfers{}
	d := coretest.OpenSimulated(t, coretest.Options{Converts: true, Log: t.Logf, Submit: func(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error {
		host, device := writes[0], reads[0]
		if reads[0].DeviceID() == core.CPU {
			host, device = device, host
		}
		if host.DeviceID() == core.CPU {
			b, err := device.Buffer()
			if err != nil {
				return err
			}
			seen.host, seen.largest = append(seen.host, host.Layout()), max(seen.largest, b.Memory().Size)
		}
		return stream.Submit(ctx, s, writes, reads, enqueue)
	}})
	return d, seen
}

// What a device has no memory for, or does not support after all, the host converts. Other errors are returned.
func TestConvertWhereTheDeviceCannot(t *testing.T) {
	numbers := random(t, core.TypeUint8, []int64{4, 30})
	small, large := core.TypeUint8, core.TypeFloat32
	for _, c := range []struct {
		what     string
		dst, src bool // lies on the device
		to, from core.DType
		call     string
		err      error
		want     error
	}{
		{"no memory for the source", true, false, large, small, "Alloc", core.ErrOutOfMemory, nil},
		{"no memory for the result", false, true, small, large, "Alloc", core.ErrOutOfMemory, nil},
		{"a kernel without memory", true, true, large, small, "ConvertOn", core.ErrOutOfMemory, nil},
		{"not supported, to the device", true, false, large, small, "ConvertOn", core.ErrNotSupported, nil},
		{"not supported, from the device", false, true, small, large, "ConvertOn", core.ErrNotSupported, nil},
		{"not supported, within the device", true, true, large, small, "ConvertOn", core.ErrNotSupported, nil},
		{"a lost device", true, false, large, small, "ConvertOn", core.ErrDeviceLost, core.ErrDeviceLost},
		{"an allocation of a lost device", true, false, large, small, "Alloc", core.ErrDeviceLost, core.ErrDeviceLost},
	} {
		t.Run(c.what, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			keep := coretest.Keep(t)
			b, d := slowDevice(t, coretest.Options{Converts: true})
			src := keep(numbers.AsType(t.Context(), c.from))
			want := keep(src.AsType(t.Context(), c.to))
			if c.src {
				src, _ = to(t, src, d, exchange.Options{})
			}
			on := host(t)
			if c.dst {
				on = d
			}
			dst := keep(core.Empty(t.Context(), on, c.to, want.Shape(), core.AllocOptions{}))
			failed := b.Fail(c.call, 1, c.err)
			if err := core.Convert(t.Context(), dst, src); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			} else if err == nil {
				same(t, c.what, d, dst, want)
			}
			if !failed() {
				t.Errorf("%s was not called", c.call)
			}
		})
	}
}

// A conversion behind an upload, or before a download, takes only a part of the tensor's size on the device.
func TestConvertTakesLittleMemoryOfADevice(t *testing.T) {
	const most, columns = 32 << 20, 4096 // bytes, and elements of a row
	keep := coretest.Keep(t)
	d, seen := converter(t)
	small, large := lanes(core.TypeInt32, columns), lanes(core.TypeInt64, columns)
	src := random(t, small, []int64{most/(4*columns) + 1})
	want := keep(src.AsType(t.Context(), large))
	there := keep(core.Empty(t.Context(), d, large, src.Shape(), core.AllocOptions{}))
	if err := core.Convert(t.Context(), there, src); err != nil {
		t.Fatal(err)
	}
	back := keep(src.Clone(t.Context()))
	if err := core.Convert(t.Context(), back, there); err != nil {
		t.Fatal(err)
	}
	if len(seen.host) != 4 || seen.largest > most {
		t.Errorf("%d copies, with up to %d bytes on the device; want 4 with at most %d", len(seen.host), seen.largest, most)
	}
	same(t, "the source after both conversions", host(t), back, src)
	same(t, "the result on the device", d, there, want)
}

// The host's side of an upload or a download is copied as it lies, without a pass that brings it into another order, and
// what a view repeats is copied once.
func TestConvertCopiesMemoryAsItLies(t *testing.T) {
	const height, width = 4, 5
	d, seen := converter(t)
	type view = func(*core.Tensor) (*core.Tensor, error)
	flip := func(axis int, n int64) view {
		return func(x *core.Tensor) (*core.Tensor, error) { return x.Slice(axis, n-1, -1, -1) }
	}
	toPlanes := func(x *core.Tensor) (*core.Tensor, error) { return x.Permute(2, 0, 1) }
	repeat := func(x *core.Tensor) (*core.Tensor, error) { return x.Broadcast(height, width, 3) }
	for _, c := range []struct {
		what     string
		channels int64
		views    []view
		axis     int // of the channels
	}{
		{"pixels", 3, nil, 2},
		{"planes", 3, []view{toPlanes}, 0},
		{"mirrored planes", 3, []view{flip(1, width), toPlanes}, 0},
		{"planes from the last to the first", 3, []view{flip(2, 3), toPlanes}, 0},
		{"pixels that are turned around", 3, []view{flip(0, height), flip(1, width)}, 2},
		{"one plane three times", 1, []view{repeat, toPlanes}, 0},
	} {
		keep := coretest.Keep(t)
		viewed := func(whole *core.Tensor) *core.Tensor {
			for _, f := range c.views {
				whole = keep(f(whole))
			}
			return whole
		}
		scaling := core.Scaling{Scale: []float32{0.5, 2, 4}, Offset: []float32{1, -2, 3}, Axis: c.axis}
		// converted converts src to dst, and to memory of the host, and compares.
		converted := func(what string, dst, src, onHost *core.Tensor) (want *core.Tensor) {
			t.Helper()
			want = keep(core.Empty(t.Context(), host(t), dst.DType(), dst.Shape(), core.AllocOptions{}))
			if err := core.ConvertScaled(t.Context(), want, onHost, scaling); err != nil {
				t.Fatal(err)
			}
			seen.host = nil
			if err := core.ConvertScaled(t.Context(), dst, src, scaling); err != nil {
				t.Fatalf("%s, %s: %v", c.what, what, err)
			}
			if n := c.channels * height * width; len(seen.host) != 1 || !seen.host[0].IsContiguous() || seen.host[0].NumElements() != n {
				t.Errorf("%s, %s: the host's side of the copies was %v, want one of %d elements as they lie", c.what, what, seen.host, n)
			}
			same(t, c.what+", "+what, d, dst, want)
			return want
		}
		src := viewed(random(t, core.TypeUint8, []int64{height, width, c.channels}))
		there := keep(core.Empty(t.Context(), d, core.TypeFloat32, src.Shape(), core.AllocOptions{}))
		floats := converted("to the device", there, src, src)
		if back := viewed(random(t, core.TypeUint8, []int64{height, width, c.channels})); !back.ReadOnly() {
			converted("from the device", back, there, floats)
		}
	}
}
