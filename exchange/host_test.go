package exchange_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/exchange"
)

// slice makes a tensor of a Go slice, which the test closes at its end.
func slice[T core.Element](t testing.TB, s []T, shape ...int64) *core.Tensor {
	t.Helper()
	x, err := core.FromSlice(s, shape...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// to moves a tensor, which the test closes at its end.
func to(t testing.TB, src *core.Tensor, dst core.Device, o exchange.Options) (*core.Tensor, exchange.Report) {
	t.Helper()
	x, report, err := exchange.To(t.Context(), src, dst, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.WaitReady(t.Context())
		_ = x.Close()
	})
	return x, report
}

func TestToAndFromTheHost(t *testing.T) {
	for _, c := range []struct {
		name    string
		caps    core.Capabilities
		visible bool
		upload  bool
		want    way
	}{
		{name: "host memory is mapped", caps: mapHost, upload: true, want: way{exchange.Map, 0, "map the host memory into ext_dev:0", "it is memory of cpu"}},
		{name: "host memory is copied", upload: true, want: way{exchange.Direct, 1, "ext_dev:0 copies from cpu", "ext_dev:0 cannot map host memory"}},
		{name: "device memory is viewed", caps: hostView, visible: true, want: way{exchange.Map, 0, "the host uses memory of ext_dev:0 in place", "it is memory of ext_dev:0"}},
		{name: "device memory that the host cannot reach", caps: hostView, want: way{exchange.Direct, 1, "ext_dev:0 copies to the host", "allocate it with HostVisible"}},
		{name: "device memory is copied", want: way{exchange.Direct, 1, "ext_dev:0 copies to the host", "the host cannot use memory of ext_dev:0 in place"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := host(t)
			a, _ := newFakes(t, c.caps, 0)
			from, dst := h, core.Device(a)
			if !c.upload {
				from, dst = a, h
			}
			src := numbered(t, from, core.AllocOptions{HostVisible: c.visible && !c.upload}, 4, 16)
			defer src.Close()
			got, report := to(t, src, dst, exchange.Options{})
			check(t, report, src.NumBytes(), c.want)
			if have := read(t, dst, got); !slices.Equal(have, read(t, from, src)) || got.Device() != dst {
				t.Errorf("the result holds %v on %v", have, got.Device())
			}
			fresh, report := to(t, src, dst, exchange.Options{Copy: exchange.Always})
			if report.BytesCopied != src.NumBytes() || !slices.Equal(read(t, dst, fresh), read(t, from, src)) {
				t.Errorf("a copy: %+v", report)
			}
			write(t, from, src, make([]int32, 64))
			if have := read(t, dst, fresh); have[63] != 63 {
				t.Error("a fresh copy shares memory with the source")
			}
			shared, _, err := exchange.To(t.Context(), src, dst, exchange.Options{Copy: exchange.Never})
			if shares := c.want.mechanism == exchange.Map; shares != (err == nil) {
				t.Errorf("Copy: Never gives %v", err)
			} else if shares {
				_ = shared.Close()
			} else {
				wantNoWay(t, err, "Options.Copy is never")
			}
		})
	}
}

func TestHostMemoryIsOneMemoryForAllDevicesOfTheHost(t *testing.T) {
	one, two := host(t), host(t)
	values := []int32{1, 2, 3, 4}
	foreign := slice(t, values, 2, 2)
	adopted, report := to(t, foreign, one, exchange.Options{Copy: exchange.Never})
	check(t, report, 16, way{mechanism: exchange.Alias, step: "cpu imports the memory by its address"})
	other, report := to(t, adopted, two, exchange.Options{})
	check(t, report, 16, way{mechanism: exchange.Alias})
	same, report := to(t, other, two, exchange.Options{})
	check(t, report, 16, way{mechanism: exchange.Alias})
	values[3] = 40
	for i, x := range []*core.Tensor{adopted, other, same} {
		if got := read(t, one, x); !slices.Equal(got, values) {
			t.Errorf("tensor %d holds %v", i, got)
		}
	}
	if adopted.Device() != one || other.Device() != two || same.Device() != two {
		t.Error("a result belongs to another device than it was moved to")
	}
	if p, q := address(t, foreign), address(t, same); p != q {
		t.Errorf("the memory lies at %#x and %#x", p, q)
	}
}

func address(t *testing.T, x *core.Tensor) uintptr {
	t.Helper()
	p, err := x.Address()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A tensor that is mapped into a device, viewed again, or moved on is planned by
// where its memory came from.
func TestMovesStartFromTheOriginOfTheMemory(t *testing.T) {
	h := host(t)
	a, b := newFakes(t, mapHost, mapHost)
	src := numbered(t, h, core.AllocOptions{}, 64)
	defer src.Close()
	onA, _ := to(t, src, a, exchange.Options{})
	for _, o := range []exchange.Options{{}, {Only: exchange.Alias}} { // where it lies already, it stays
		_, report := to(t, onA, a, o)
		check(t, report, 256, way{mechanism: exchange.Alias})
	}
	onB, report := to(t, onA, b, exchange.Options{Copy: exchange.Never})
	check(t, report, 256, way{mechanism: exchange.Map, step: "map the host memory into ext_dev:1"})
	if report.From != core.CPU {
		t.Errorf("the memory came from %v", report.From)
	}
	back, report := to(t, onB, h, exchange.Options{Copy: exchange.Never})
	check(t, report, 256, way{mechanism: exchange.Alias})
	if back.Device() != h || address(t, back) != address(t, src) {
		t.Errorf("the tensor came back to %v on %v", back, back.Device())
	}
	again, report := to(t, back, a, exchange.Options{})
	check(t, report, 256, way{mechanism: exchange.Map})
	if report.Opened || a.called("MapHost") != 1 {
		t.Error("memory that is mapped already was mapped again")
	}
	write(t, b, onB, make([]int32, 64))
	if got := read(t, a, again); got[63] != 0 {
		t.Errorf("a write on one device is not seen on the other: %v", got)
	}
}

// Memory that came without a size, as through DLPack, is shared as far as the tensor reaches.
func TestMemoryOfUnknownSize(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, mapHost, 0)
	values := numbered(t, h, core.AllocOptions{}, 64)
	defer values.Close()
	wrap := func(s core.Spec) *core.Tensor {
		s.DType = core.TypeInt32
		x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: address(t, values), Size: core.UnknownSize}, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = x.Close() })
		return x
	}
	forward := wrap(core.Spec{Shape: []int64{16, 2}, Strides: []int64{4, 1}, Offset: 8})
	got, report := to(t, forward, a, exchange.Options{})
	check(t, report, 128, way{mechanism: exchange.Map})
	if have := read(t, a, got); have[0] != 2 || have[31] != 63 {
		t.Errorf("the result holds %v", have)
	}
	back, report := to(t, got, h, exchange.Options{Copy: exchange.Never})
	check(t, report, 128, way{mechanism: exchange.Alias})
	if address(t, back) != address(t, forward) {
		t.Error("the way back ended elsewhere")
	}
	backward := wrap(core.Spec{Shape: []int64{2}, Strides: []int64{-1}})
	_, report, err := exchange.To(t.Context(), backward, a, exchange.Options{Copy: exchange.Never})
	wantNoWay(t, err, "elements lie before its start")
	if report.Mechanism != 0 {
		t.Errorf("a failed move reports %v", report.Mechanism)
	}

	// That memory is open already as far as the tensor reaches behind its start does not
	// make what lies before the start a part of it.
	middle, err := core.Wrap(core.Memory{ID: core.CPU, Handle: address(t, values) + 64, Size: core.UnknownSize}, core.Spec{DType: core.TypeInt32, Shape: []int64{16}})
	if err != nil {
		t.Fatal(err)
	}
	defer middle.Close()
	_, report = to(t, middle, a, exchange.Options{})
	check(t, report, 64, way{mechanism: exchange.Map})
	b, err := middle.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	around, err := core.NewTensor(b, core.Spec{DType: core.TypeInt32, Shape: []int64{17}, Strides: []int64{-1}, Offset: 60})
	if err != nil {
		t.Fatal(err)
	}
	defer around.Close()
	got, report = to(t, around, a, exchange.Options{})
	check(t, report, 68, way{mechanism: exchange.Direct, copies: 1, refused: "elements lie before its start"})
	if have := read(t, a, got); have[0] != 31 || have[16] != 15 {
		t.Errorf("the result holds %v", have)
	}
}

// A fresh copy may be written to, and one without elements is a fresh copy too.
func TestReadOnlyTensors(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, mapHost, 0)
	for _, n := range []int{0, 16} {
		whole, err := core.Empty(t.Context(), h, core.TypeInt32, []int64{int64(n)}, core.AllocOptions{}) // aligned, so that it can be mapped
		if err != nil {
			t.Fatal(err)
		}
		defer whole.Close()
		x, err := whole.AsReadOnly()
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		for _, d := range []core.Device{h, a} {
			for _, c := range []exchange.Copy{exchange.IfNeeded, exchange.Never, exchange.Always} {
				got, _ := to(t, x, d, exchange.Options{Copy: c})
				if want := c != exchange.Always; got.ReadOnly() != want || got.NumElements() != int64(n) {
					t.Errorf("%d elements to %v, copy %v: %v; want it to be read-only: %v", n, d.ID(), c, got, want)
				}
			}
		}
	}
}

func TestHostMemoryThatCannotBeMappedIsCopied(t *testing.T) {
	a, _ := newFakes(t, mapHost, 0)
	odd := slice(t, []int32{7, 8, 9}) // no multiple of 64 bytes
	got, report := to(t, odd, a, exchange.Options{})
	check(t, report, 12, way{exchange.Direct, 1, "ext_dev:0 copies from cpu", "ext_dev: MapHost: invalid argument"})
	if have := read(t, a, got); !slices.Equal(have, []int32{7, 8, 9}) {
		t.Errorf("the result holds %v", have)
	}
}

// Memory of strangers on a device belongs to no opened device, which could copy it.
func TestDeviceMemoryOfStrangers(t *testing.T) {
	h := host(t)
	a, b := newFakes(t, 0, 0)
	own := numbered(t, a, core.AllocOptions{}, 16)
	defer own.Close()
	stranger, err := core.Wrap(core.Memory{ID: a.ID(), Handle: address(t, own), Size: 64}, core.Spec{DType: core.TypeInt32, Shape: []int64{16}})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	for _, d := range []core.Device{h, b} {
		_, _, err := exchange.To(t.Context(), stranger, d, exchange.Options{})
		wantNoWay(t, err, "import it through a device of ext_dev:0 first")
	}
	adopted, report := to(t, stranger, a, exchange.Options{})
	check(t, report, 64, way{mechanism: exchange.Alias, step: "ext_dev:0 imports the memory by its address"})
	// Now a device owns it, and can copy.
	got, report := to(t, adopted, h, exchange.Options{})
	check(t, report, 64, way{mechanism: exchange.Direct, copies: 1})
	if have := read(t, h, got); have[15] != 15 {
		t.Errorf("the result holds %v", have)
	}
	fresh, report := to(t, stranger, a, exchange.Options{Copy: exchange.Always})
	check(t, report, 64, way{exchange.Direct, 1, "ext_dev:0 copies from there", ""})
	if have := read(t, a, fresh); have[15] != 15 {
		t.Errorf("the copy holds %v", have)
	}
}

func TestSharedTensorsKeepWhatTheSourceIs(t *testing.T) {
	h := host(t)
	a, _ := newFakes(t, mapHost, 0)
	base := numbered(t, h, core.AllocOptions{}, 4, 16)
	defer base.Close()
	views := map[string]func() (*core.Tensor, error){
		"transposed": base.Transpose,
		"read-only":  base.AsReadOnly,
		"reversed":   func() (*core.Tensor, error) { return base.Slice(1, 15, 0, -3) },
		"0-d":        func() (*core.Tensor, error) { return base.Reshape(64) },
		"repeated":   func() (*core.Tensor, error) { return base.Slice(0, 2, 3, 1) },
		"empty":      func() (*core.Tensor, error) { return base.Slice(0, 2, 2, 1) },
	}
	for name, view := range views {
		t.Run(name, func(t *testing.T) {
			src, err := view()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = src.Close() }()
			switch name {
			case "0-d":
				x, err := src.Index(0, 17)
				_ = src.Close()
				if src = x; err != nil {
					t.Fatal(err)
				}
			case "repeated":
				x, err := src.Broadcast(5, 16)
				_ = src.Close()
				if src = x; err != nil {
					t.Fatal(err)
				}
			}
			want := read(t, h, src)
			for _, o := range []exchange.Options{{}, {Copy: exchange.Always}, {Copy: exchange.Never}, {Only: exchange.Direct}} {
				if name == "empty" && o.Only != 0 {
					continue
				}
				got, report := to(t, src, a, o)
				copied := report.BytesCopied > 0
				if have := read(t, a, got); !slices.Equal(have, want) || copied != (o.Copy == exchange.Always || o.Only != 0) && name != "empty" {
					t.Errorf("%+v: holds %v, want %v; %+v", o, have, want, report)
				}
				if !copied && !got.Layout().Equal(src.Layout()) || copied && !got.Layout().IsContiguous() {
					t.Errorf("%+v: layout %v of %v", o, got.Layout(), src.Layout())
				}
				if got.ReadOnly() != (src.ReadOnly() && o.Copy != exchange.Always) {
					t.Errorf("%+v: read-only: %v", o, got.ReadOnly())
				}
			}
		})
	}
}

// Tensors larger than a staging buffer go in pieces, cut along the first axes.
func TestStagedInPieces(t *testing.T) {
	a, b := newFakes(t, 0, 0)
	h := host(t)
	for _, shape := range [][]int64{{3, 1, 1500000}, {1, 4300000}, {1500000, 3}} {
		n := int64(1)
		for _, extent := range shape {
			n *= extent
		}
		values := make([]uint8, n)
		for i := range values {
			values[i] = uint8(i * 11)
		}
		onA, _ := to(t, slice(t, values, shape...), a, exchange.Options{})
		onB, report := to(t, onA, b, exchange.Options{})
		check(t, report, n, way{mechanism: exchange.Staged, copies: 2})
		back, _ := to(t, onB, h, exchange.Options{})
		if err := back.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := core.Values[uint8](back); err != nil || !slices.Equal(got, values) {
			t.Errorf("%v came with other elements, %v", shape, err)
		}
	}
}

// Packed elements go as the bytes that they lie in.
func TestPackedElements(t *testing.T) {
	h := host(t)
	a, b := newFakes(t, 0, 0)
	int4 := core.DType{Code: typecode.Int, Bits: 4, Lanes: 1}
	bytes := []uint8{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}
	raw := slice(t, bytes)
	for _, s := range []core.Spec{
		{DType: int4, Shape: []int64{16}},
		{DType: int4, Shape: []int64{7}, Offset: 1},
		{DType: int4, Shape: []int64{4}, Strides: []int64{-3}, Offset: 6},
		{DType: int4, Shape: []int64{3, 3}, Strides: []int64{0, 5}, Offset: 2},
		{DType: int4, Shape: []int64{2, 4}, Flags: core.FlagSubBytePadded},
		{DType: core.DType{Code: typecode.Int, Bits: 12, Lanes: 1}, Shape: []int64{3}},
		{DType: core.DType{Code: typecode.Int, Bits: 4, Lanes: 2}, Shape: []int64{3}, Strides: []int64{2}},
	} {
		rb, err := raw.Buffer()
		if err != nil {
			t.Fatal(err)
		}
		src, err := core.NewTensor(rb, s)
		if err != nil {
			t.Fatal(err)
		}
		onA, _ := to(t, src, a, exchange.Options{})
		onB, report := to(t, onA, b, exchange.Options{})
		if report.Mechanism != exchange.Staged {
			t.Errorf("%v: %+v", src, report)
		}
		back, _ := to(t, onB, h, exchange.Options{})
		if err := back.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !sameElements(t, back, src) {
			t.Errorf("%v came back changed", src)
		}
		_ = src.Close()
	}
}

func wantNoWay(t *testing.T, err error, reason string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("the error is %v, want one that tells %q", err, reason)
	}
}
