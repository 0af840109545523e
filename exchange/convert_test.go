package exchange_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// lanes is a type with so many lanes, which makes few elements of many bytes: simulated devices copy elements one by one.
func lanes(d core.DType, n uint16) core.DType {
	return core.DType{Code: d.Code, Bits: d.Bits, Lanes: n}
}

// conversions are those of small tensors, and of some with a little more than the host holds at a time.
var conversions = []struct {
	name     string
	from, to core.DType
	shape    []int64
	view     func(*core.Tensor) (*core.Tensor, error) // nil for the tensor itself
	subByte  bool                                     // packed elements must be copied by a device that can
}{
	{name: "one row", from: core.TypeFloat32, to: core.TypeBFloat16, shape: []int64{1, 1100000}},
	{name: "larger than before", from: core.TypeUint8, to: core.TypeFloat64, shape: []int64{600, 1000}},
	{name: "transposed", from: lanes(core.TypeInt16, 1000), to: lanes(core.TypeFloat64, 1000), shape: []int64{4, 150}, view: (*core.Tensor).Transpose},
	{name: "backwards", from: core.TypeInt32, to: core.TypeFloat32, shape: []int64{40}, view: func(x *core.Tensor) (*core.Tensor, error) { return x.Slice(0, 39, -1, -1) }},
	{name: "repeated", from: lanes(core.TypeInt16, 1000), to: lanes(core.TypeInt64, 1000), shape: []int64{1, 2}, view: func(x *core.Tensor) (*core.Tensor, error) { return x.Broadcast(300, 2) }},
	{name: "from packed rows that begin within a byte", from: lanes(core.TypeInt4, 2003), to: lanes(core.TypeInt16, 2003), shape: []int64{1051}},
	{name: "to packed rows that begin within a byte", from: lanes(core.TypeInt8, 2801), to: lanes(core.TypeInt4, 2801), shape: []int64{1501, 1}},
	{name: "packed columns", from: core.TypeInt4, to: core.TypeInt8, shape: []int64{4, 8}, view: (*core.Tensor).Transpose, subByte: true},
	{name: "no axes", from: core.TypeComplex64, to: core.TypeComplex128, shape: []int64{}},
	{name: "no elements", from: core.TypeInt8, to: core.TypeInt16, shape: []int64{3, 0}},
	{name: "the same bits", from: core.TypeInt32, to: core.TypeUint32, shape: []int64{11, 10}, view: (*core.Tensor).Transpose},
	{name: "the same type", from: core.TypeFloat32, to: core.TypeFloat32, shape: []int64{5, 7}},
}

// random makes a tensor of the host with random bytes.
func random(t *testing.T, d core.DType, shape []int64) *core.Tensor {
	t.Helper()
	x := coretest.Keep(t)(core.Wrap(core.Memory{ID: core.CPU, Size: core.UnknownSize, Handle: 64}, core.Spec{DType: d, Shape: shape}))
	bytes := coretest.Keep(t)(core.FromSlice(coretest.Pattern(int(x.NumBytes())+16, 5)))
	b, err := bytes.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return coretest.Keep(t)(core.NewTensor(b, core.Spec{DType: d, Shape: shape}))
}

// convertOn converts tensors on d, and compares with the host.
func convertOn(t *testing.T, d core.Device) {
	ctx, keep := t.Context(), coretest.Keep(t)
	for _, c := range conversions {
		if c.subByte && !d.Properties().Capabilities.Has(core.CapSubByte) {
			continue
		}
		x := random(t, c.from, c.shape)
		there, _ := to(t, x, d, exchange.Options{Copy: exchange.Always}) // unfinished work, which is waited for
		if c.view != nil {
			x, there = keep(c.view(x)), keep(c.view(there))
		}
		want := keep(x.AsType(ctx, c.to))
		what := fmt.Sprintf("%s, %v as %v", c.name, there, c.to)
		got, err := there.AsType(ctx, c.to)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		keep(got, nil)
		if got.DeviceID() != d.ID() || !d.ID().Type.HostAccessible() && got.Device() != d || !got.Layout().IsContiguous() {
			t.Errorf("%s gives %v", what, got)
		}
		same(t, what, d, got, want)
		back := keep(core.FromSlice(make([]uint64, want.NumBytes()/8+1)))
		b, err := back.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		back = keep(core.NewTensor(b, core.Spec{DType: c.to, Shape: x.Shape()}))
		if err := core.Convert(ctx, back, there); err != nil {
			t.Errorf("%s, to the host: %v", what, err)
		}
		same(t, what+", to the host", d, back, want)
		if c.view != nil {
			continue // the source is the host's, whose views the other tests have
		}
		fresh := keep(core.Empty(ctx, d, c.to, x.Shape(), core.AllocOptions{}))
		if err := core.Convert(ctx, fresh, x); err != nil {
			t.Errorf("%s, from the host: %v", what, err)
		}
		same(t, what+", from the host", d, fresh, want)
	}
}

func TestConvertOnEveryDevice(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, d := range openAll(t, 1) {
		t.Run(d.ID().String(), func(t *testing.T) { convertOn(t, d) })
	}
}

func TestConvertOnSimulatedDevices(t *testing.T) {
	for name, o := range map[string]coretest.Options{
		"addresses": {}, "handles": {Opaque: true}, "the host waits": {HostWaits: true}, "the device converts": {Converts: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, d := slowDevice(t, o)
			convertOn(t, d)
		})
	}
}

// Each device copies its own tensor, also if they are two. Tensors that share memory are refused.
func TestConvertBetweenDevices(t *testing.T) {
	ctx, keep := t.Context(), coretest.Keep(t)
	backend, a := slowDevice(t, coretest.Options{})
	b, err := backend.Open(ctx, core.DeviceID{Type: core.DeviceExt, Index: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	src := keep(numbered(t, a, core.AllocOptions{}, 3, 4), nil)
	back, _ := to(t, src, host(t), exchange.Options{})
	for _, dtype := range []core.DType{core.TypeInt64, core.TypeInt32} {
		dst := keep(core.Empty(ctx, b, dtype, []int64{3, 4}, core.AllocOptions{}))
		if err := core.Convert(ctx, dst, src); err != nil {
			t.Fatal(err)
		}
		same(t, "Convert between devices", b, dst, keep(back.AsType(ctx, dtype)))
	}
	buffer, err := src.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	for _, dtype := range []core.DType{core.TypeFloat32, core.TypeUint32} {
		over := keep(core.NewTensor(buffer, core.Spec{DType: dtype, Shape: []int64{3, 4}}))
		if err := core.Convert(ctx, over, src); !errors.Is(err, core.ErrLayout) {
			t.Errorf("Convert within memory of a device: %v, want ErrLayout", err)
		}
	}
	if got, err := src.AsType(ctx, core.DType{Code: 99, Bits: 32, Lanes: 1}); !errors.Is(err, core.ErrDType) || got != nil {
		t.Errorf("AsType to an unknown type: %v, %v", got, err)
	}
}

// Whatever fails, nothing stays open.
func TestAsTypeFails(t *testing.T) {
	for call, want := range map[string]int{"Alloc": 1, "Copy": 4, "Synchronize": 4, "work": 4} {
		times := 0
		for n := 1; asTypeFailsAt(t, core.TypeBFloat16, call, n); n++ {
			times++
		}
		if times != want {
			t.Errorf("%s failed at %d calls, want %d", call, times, want)
		}
	}
	// The bits of these are copied by the device, at once.
	if asTypeFailsAt(t, core.TypeFloat32, "CopyBatch", 1) || !asTypeFailsAt(t, core.TypeFloat32, "Copy", 1) || asTypeFailsAt(t, core.TypeFloat32, "Copy", 2) {
		t.Error("a conversion that keeps all bits is not one copy")
	}
}

// asTypeFailsAt converts a tensor in two pieces while the nth call fails, and reports whether there was such a call.
func asTypeFailsAt(t *testing.T, dtype core.DType, call string, n int) (fired bool) {
	t.Run(fmt.Sprintf("%s %d", call, n), func(t *testing.T) {
		coretest.CheckNoLeaks(t)
		b, d := slowDevice(t, coretest.Options{})
		x := random(t, core.TypeFloat32, []int64{3, pieceBytes / 8})
		there := coretest.Keep(t)(core.Empty(t.Context(), d, x.DType(), x.Shape(), core.AllocOptions{}))
		if err := d.Copy(t.Context(), nil, there, x); err != nil {
			t.Fatal(err)
		}
		failed := b.Fail(call, n, core.ErrDeviceLost)
		got, err := there.AsType(t.Context(), dtype)
		fired = failed()
		if fired != errors.Is(err, core.ErrDeviceLost) || !fired && err != nil || (got == nil) != (err != nil) {
			t.Errorf("the call failed: %v; AsType gives %v, %v", fired, got, err)
		}
		got.Close()
	})
	return fired
}
