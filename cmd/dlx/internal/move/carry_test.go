package move_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/cmd/dlx/internal/move"
	"github.com/dlx-go/dlx/cmd/dlx/internal/wraptest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

func TestMain(m *testing.M) { coretest.Main(m) }

var (
	ext0 = core.DeviceID{Type: core.DeviceExt}
	ext1 = core.DeviceID{Type: core.DeviceExt, Index: 1}
	web0 = core.DeviceID{Type: core.DeviceWebGPU} // whose memory the host can see where that was asked for
)

// simulated makes a backend of devices whose memory the host cannot reach and
// whose work runs as late as it may.
func simulated(t *testing.T) *coretest.Backend {
	return coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
}

func open(t *testing.T, other core.Backend, via ...core.DeviceID) *move.Route {
	t.Helper()
	var registry core.Registry
	viewable := coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf, Opaque: true})
	for _, b := range []core.Backend{cpu.New(), other, viewable} {
		if err := registry.Register(b); err != nil {
			t.Fatal(err)
		}
	}
	route, err := move.Open(t.Context(), &registry, via)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := route.Close(); err != nil {
			t.Errorf("closing the route: %v", err)
		}
	})
	return route
}

// numbers returns a read-only float32 tensor of a shape with the values 1, 2, ...
func numbers(t *testing.T, shape ...int64) *core.Tensor {
	t.Helper()
	l, err := core.NewLayout(shape...)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, l.NumElements())
	for i := range values {
		values[i] = float32(i + 1)
	}
	x, err := core.FromSlice(values, append([]int64{}, shape...)...)
	return keep(t, x, err)
}

// keep closes a tensor at the end of the test.
func keep(t *testing.T, x *core.Tensor, err error) *core.Tensor {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func TestHopsShareMemoryWhereTheyCanAndCopyWhereTheyMust(t *testing.T) {
	type hop struct {
		how    exchange.Mechanism
		copied int64
	}
	const size = 4 * 16 // what the simulated device can map must begin and end at multiples of 64
	mapped := simulated(t)
	alone := wraptest.Backend{Backend: mapped}
	for _, c := range []struct {
		name    string
		backend core.Backend
		policy  move.Policy
		via     []core.DeviceID
		want    []hop
	}{
		{"if needed shares host memory with the cpu", mapped, move.IfNeeded, []core.DeviceID{core.CPU, core.CPU},
			[]hop{{exchange.Alias, 0}, {exchange.Alias, 0}}},
		{"never shares too", mapped, move.Never, []core.DeviceID{core.CPU, core.CPU},
			[]hop{{exchange.Alias, 0}, {exchange.Alias, 0}}},
		{"never shares by mapping", mapped, move.Never, []core.DeviceID{ext0, ext1, core.CPU},
			[]hop{{exchange.Map, 0}, {exchange.Map, 0}, {exchange.Alias, 0}}},
		{"always copies within a device and between peers", mapped, move.Always, []core.DeviceID{core.CPU, ext0, ext0, ext1},
			[]hop{{exchange.Direct, size}, {exchange.Direct, size}, {exchange.Direct, size}, {exchange.Peer, size}}},
		{"if needed copies there and back", alone, move.IfNeeded, []core.DeviceID{ext0, core.CPU},
			[]hop{{exchange.Direct, size}, {exchange.Direct, size}}},
		{"if needed shares what is on the device already", alone, move.IfNeeded, []core.DeviceID{ext0, ext0},
			[]hop{{exchange.Direct, size}, {exchange.Alias, 0}}},
		{"if needed copies into memory that the next device can share", alone, move.IfNeeded, []core.DeviceID{ext0, web0, web0, core.CPU},
			[]hop{{exchange.Direct, size}, {exchange.Direct, size}, {exchange.Alias, 0}, {exchange.Map, 0}}},
		{"devices that cannot meet copy twice", alone, move.IfNeeded, []core.DeviceID{ext0, ext1},
			[]hop{{exchange.Direct, size}, {exchange.Staged, 2 * size}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			route := open(t, c.backend, c.via...)
			last, report, err := route.Carry(t.Context(), "x", aligned(t), move.Options{Policy: c.policy, Verify: true})
			if err != nil {
				t.Fatal(err)
			}
			keep(t, last, nil)
			var total int64
			for i, h := range report.Hops {
				if want := c.want[i]; h.Mechanism != want.how.String() || h.BytesCopied != want.copied || !*h.Verified {
					t.Errorf("hop %d: %+v; want %v of %d bytes", i+1, h, want.how, want.copied)
				}
				total += h.BytesCopied
			}
			if len(report.Hops) != len(c.via) || report.BytesCopied != total || !*report.Verified {
				t.Errorf("report %+v", report)
			}
			if want := c.via[len(c.via)-1]; last.DeviceID() != want {
				t.Errorf("the tensor arrived on %v, want %v", last.DeviceID(), want)
			}
		})
	}
}

// aligned returns 16 float32 at an address that devices can map.
func aligned(t *testing.T) *core.Tensor {
	t.Helper()
	host, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	x, err := core.Empty(t.Context(), host, core.TypeFloat32, []int64{4, 4}, core.AllocOptions{})
	keep(t, x, err)
	if err := host.Copy(t.Context(), nil, x, numbers(t, 4, 4)); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestMemoryIsOpenedOnTheFirstTripOnly(t *testing.T) {
	route := open(t, simulated(t), ext0, core.CPU)
	last, report, err := route.Carry(t.Context(), "x", aligned(t), move.Options{Trips: 5})
	keep(t, last, err)
	if report.Trips != 5 || report.Hops[0].Mechanism != exchange.Map.String() || report.Hops[0].Cold != 1 {
		t.Errorf("%+v", report.Hops)
	}
}

func TestNeverRefusesAHopThatNeedsACopy(t *testing.T) {
	route := open(t, wraptest.Backend{Backend: simulated(t)}, core.CPU, ext0)
	_, _, err := route.Carry(t.Context(), "x", numbers(t, 5), move.Options{Policy: move.Never})
	var none *exchange.NoWayError
	if !errors.Is(err, core.ErrNotSupported) || !errors.As(err, &none) {
		t.Errorf("%v is no *exchange.NoWayError around ErrNotSupported", err)
	}
}

func TestEveryLayoutArrivesAsItLeft(t *testing.T) {
	base := func(t *testing.T) *core.Tensor { return numbers(t, 3, 4, 5) }
	for name, make := range map[string]func(t *testing.T) *core.Tensor{
		"row-major": base,
		"0-d":       func(t *testing.T) *core.Tensor { return numbers(t) },
		"zero-size": func(t *testing.T) *core.Tensor { return numbers(t, 3, 0, 2) },
		"column-major": func(t *testing.T) *core.Tensor {
			x, err := base(t).Transpose()
			return keep(t, x, err)
		},
		"backwards with a step": func(t *testing.T) *core.Tensor {
			x, err := base(t).Slice(2, 4, -1, -2)
			return keep(t, x, err)
		},
		"repeated": func(t *testing.T) *core.Tensor {
			x, err := numbers(t, 3, 1).Broadcast(2, 3, 4)
			return keep(t, x, err)
		},
		"64 axes, strided": func(t *testing.T) *core.Tensor {
			shape := slices.Repeat([]int64{1}, core.MaxRank)
			shape[0], shape[63] = 2, 3
			x, err := numbers(t, shape...).Transpose()
			return keep(t, x, err)
		},
		"packed": func(t *testing.T) *core.Tensor {
			bytes, err := core.FromSlice([]uint8{0x21, 0x43, 0xF5})
			b, err2 := keep(t, bytes, err).Buffer()
			if err2 != nil {
				t.Fatal(err2)
			}
			x, err := core.NewTensor(b, core.Spec{DType: core.TypeInt4, Shape: []int64{5}})
			return keep(t, x, err)
		},
		"padded": func(t *testing.T) *core.Tensor {
			bytes, err := core.FromSlice([]uint8{1, 2, 3})
			b, err2 := keep(t, bytes, err).Buffer()
			if err2 != nil {
				t.Fatal(err2)
			}
			x, err := core.NewTensor(b, core.Spec{DType: core.TypeInt4, Shape: []int64{3}, Flags: core.FlagSubBytePadded})
			return keep(t, x, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := make(t)
			route := open(t, simulated(t), core.CPU, ext0, ext1, core.CPU)
			last, report, err := route.Carry(t.Context(), "x", x, move.Options{Policy: move.Always, Verify: true})
			if err != nil {
				t.Fatal(err)
			}
			keep(t, last, nil)
			if last.DType() != x.DType() || !last.Layout().SameShape(x.Layout()) || last.Padded() != x.Padded() {
				t.Errorf("%v arrived as %v", x, last)
			}
			if !last.Layout().IsContiguous() {
				t.Errorf("the copy has strides %v", last.Layout().Strides())
			}
			if want := 4 * x.NumBytes(); report.BytesCopied != want {
				t.Errorf("%d bytes copied, want %d", report.BytesCopied, want)
			}
		})
	}
}

func TestReadOnlyIsKeptByAliases(t *testing.T) {
	route := open(t, simulated(t), core.CPU)
	x, err := numbers(t, 2).AsReadOnly()
	last, _, err := route.Carry(t.Context(), "x", keep(t, x, err), move.Options{})
	if !keep(t, last, err).ReadOnly() {
		t.Error("an alias of a read-only tensor may be written to")
	}
}

func TestTripsAreCountedAndTimed(t *testing.T) {
	route := open(t, simulated(t), core.CPU, ext0)
	var moved int64
	last, report, err := route.Carry(t.Context(), "x", numbers(t, 1000), move.Options{
		Policy: move.Always, Trips: 7, Progress: func(n int64) { moved += n },
	})
	if err != nil {
		t.Fatal(err)
	}
	last.Close()
	if report.Trips != 7 || moved != 7*2*4000 || report.BytesCopied != 2*4000 {
		t.Errorf("%d trips, progress %d, copied %d in one trip", report.Trips, moved, report.BytesCopied)
	}
	for _, c := range []move.Cost{report.Cost, report.Hops[0].Cost, report.Hops[1].Cost} {
		if c.Min <= 0 || c.Min > c.Median || c.Median > c.Max || c.GBPerSecond <= 0 {
			t.Errorf("cost %+v", c)
		}
	}
	if report.Verified != nil || report.Hops[0].Verified != nil {
		t.Error("a verdict was given without verification")
	}
}

func TestEveryFaultIsReportedOrOvercome(t *testing.T) {
	broken := errors.New("broken")
	for _, call := range []string{"Alloc", "Copy", "CopyPeer", "work"} {
		t.Run(call, func(t *testing.T) {
			for n := 1; ; n++ {
				backend := simulated(t)
				route := open(t, backend, ext0, ext1, core.CPU)
				fired := backend.Fail(call, n, broken)
				last, report, err := route.Carry(t.Context(), "x", numbers(t, 100), move.Options{Policy: move.Always, Verify: true})
				if last != nil {
					last.Close()
				}
				if !fired() {
					if err != nil || n == 1 {
						t.Errorf("without a fault: %v; %d calls of %s in all", err, n-1, call)
					}
					return
				}
				if err == nil && !tells(report, broken) || err != nil && !errors.Is(err, broken) {
					t.Errorf("call %d failed, but the journey ended with %v and %+v", n, err, report.Hops)
				}
			}
		})
	}
}

// tells reports whether some way was refused with an error.
func tells(r move.Report, err error) bool {
	for _, h := range r.Hops {
		for _, f := range h.Refused {
			if strings.Contains(f.Reason, err.Error()) {
				return true
			}
		}
	}
	return false
}

func TestAnEndedContextEndsTheJourney(t *testing.T) {
	route := open(t, simulated(t), core.CPU)
	ctx, cancel := context.WithCancel(t.Context())
	hops := 0
	_, _, err := route.Carry(ctx, "x", numbers(t, 3), move.Options{Trips: 1 << 30, Progress: func(int64) {
		if hops++; hops == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || hops != 3 {
		t.Errorf("ended after %d hops with %v", hops, err)
	}
}

func TestOpenLeavesNothingOpenOnFailure(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for name, c := range map[string]struct {
		via  core.DeviceID
		call string
		want error
	}{
		"no such backend": {via: core.DeviceID{Type: core.DeviceHexagon}, want: core.ErrNotSupported},
		"no such device":  {via: core.DeviceID{Type: core.DeviceExt, Index: 9}, want: core.ErrDevice},
		"no stream":       {via: ext0, call: "NewStream", want: core.ErrOutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			backend := simulated(t)
			if c.call != "" {
				backend.Fail(c.call, 1, c.want)
			}
			var registry core.Registry
			for _, b := range []core.Backend{cpu.New(), backend} {
				if err := registry.Register(b); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := move.Open(t.Context(), &registry, []core.DeviceID{ext1, c.via}); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	t.Run("no host", func(t *testing.T) {
		if _, err := move.Open(t.Context(), new(core.Registry), nil); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%v", err)
		}
	})
}
