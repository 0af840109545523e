package exchange_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

func TestBadArguments(t *testing.T) {
	h := host(t)
	a, b := newFakes(t, 0, 0)
	x := slice(t, []int32{1})
	closed := slice(t, []int32{1})
	_ = closed.Close()
	foreign := newStream(t, b)
	for _, c := range []struct {
		name string
		src  *core.Tensor
		dst  core.Device
		o    exchange.Options
		want error
	}{
		{"a nil tensor", nil, h, exchange.Options{}, core.ErrInvalid},
		{"a nil device", x, nil, exchange.Options{}, core.ErrInvalid},
		{"a device that cannot be compared", x, incomparable{h, nil}, exchange.Options{}, core.ErrInvalid},
		{"an unknown policy", x, h, exchange.Options{Copy: 7}, core.ErrInvalid},
		{"an unknown mechanism", x, h, exchange.Options{Only: 7}, core.ErrInvalid},
		{"a closed tensor", closed, h, exchange.Options{}, core.ErrClosed},
		{"a stream of another device", x, a, exchange.Options{Stream: foreign}, core.ErrDevice},
		{"a mechanism that cannot be", x, h, exchange.Options{Only: exchange.Peer}, core.ErrNotSupported},
	} {
		if _, _, err := exchange.To(t.Context(), c.src, c.dst, c.o); !errors.Is(err, c.want) {
			t.Errorf("To with %s gives %v, want %v", c.name, err, c.want)
		}
		if _, err := exchange.Plan(c.src, c.dst, c.o); !errors.Is(err, c.want) {
			t.Errorf("Plan with %s gives %v, want %v", c.name, err, c.want)
		}
	}
}

type incomparable struct {
	core.Device
	_ []int
}

func TestNoWayErrorKeepsEveryReason(t *testing.T) {
	a, b := newFakes(t, exports, imports)
	x := numbered(t, a, core.AllocOptions{}, 4)
	defer x.Close()
	_, _, err := exchange.To(t.Context(), x, b, exchange.Options{Copy: exchange.Never})
	var no *exchange.NoWayError
	if !errors.As(err, &no) || no.From != a.ID() || no.To != b.ID() || !errors.Is(err, core.ErrInvalid) {
		t.Fatalf("the error is %v", err)
	}
	if reasons := no.Error(); !strings.Contains(reasons, "not allocated for export") || !strings.Contains(reasons, "staged: ") {
		t.Errorf("the reasons are %s", reasons)
	}
	b.fail("ImportMemory", core.ErrOutOfMemory)
	b.backend.Fail("Alloc", 1, core.ErrOutOfMemory)
	if _, _, err := exchange.To(t.Context(), x, b, exchange.Options{}); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("a destination without memory gives %v", err)
	}
}

func TestARouteTellsItself(t *testing.T) {
	a, b := newFakes(t, exports, peer)
	x := numbered(t, a, core.AllocOptions{}, 4)
	defer x.Close()
	route, err := exchange.Plan(x, b, exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `ext_dev:0 -> ext_dev:1: peer, 16 bytes copied
  1. ext_dev:1 copies from its peer ext_dev:0 (16 bytes)
  not alias: use the memory as it is: it is memory of ext_dev:0
  not map: export memory of ext_dev:0, import it into ext_dev:1: ext_dev:1 cannot import memory
  not map: the host views memory of ext_dev:0, and that view is mapped into ext_dev:1: the host cannot use memory of ext_dev:0 in place
`
	if got := route.String(); got != want {
		t.Errorf("String gives\n%swant\n%s", got, want)
	}
	encoded, err := json.Marshal(route)
	if want := `{"from":"ext_dev:0","to":"ext_dev:1","mechanism":"peer","steps":[{"what":"ext_dev:1 copies from its peer ext_dev:0","bytes":16}],"refused":[{"mechanism":"alias",`; err != nil || !strings.HasPrefix(string(encoded), want) {
		t.Errorf("in JSON: %s, %v", encoded, err)
	}
	for range 2 { // a route may be taken as often as one likes
		got, report, err := route.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(report)
		if want := `"bytes_copied":16,"opened":false,"wait":"none","duration_ns":`; err != nil || !strings.Contains(string(encoded), want) || report.Duration <= 0 {
			t.Errorf("the report in JSON: %s, %v", encoded, err)
		}
		if text := report.String(); text != want {
			t.Errorf("the report prints as\n%swant\n%s", text, want)
		}
		if have := read(t, b, got); !slices.Equal(have, []int32{0, 1, 2, 3}) {
			t.Errorf("the result holds %v", have)
		}
		_ = got.Close()
	}
}

// Words take longer than the decision: they are made when someone asks.
func TestPlanningMakesNoText(t *testing.T) {
	a, b := newFakes(t, exports|hostView, imports|mapHost|peer)
	x := numbered(t, a, core.AllocOptions{}, 4)
	defer x.Close()
	var route *exchange.Route
	planning := testing.AllocsPerRun(100, func() {
		var err error
		if route, err = exchange.Plan(x, b, exchange.Options{Only: exchange.Staged}); err != nil {
			t.Fatal(err)
		}
	})
	if texts := len(route.Refused()); texts < 7 || planning >= float64(texts) {
		t.Errorf("a plan with %d refused ways makes %v allocations", texts, planning)
	}
}

func TestNamesOfTheEnumerations(t *testing.T) {
	for got, want := range map[string]string{
		exchange.IfNeeded.String(): "if_needed", exchange.Never.String(): "never", exchange.Always.String(): "always", exchange.Copy(9).String(): "unknown",
		exchange.Alias.String(): "alias", exchange.Staged.String(): "staged", exchange.Mechanism(0).String(): "none", exchange.Mechanism(99).String(): "unknown",
	} {
		if got != want {
			t.Errorf("%q is printed for %q", got, want)
		}
	}
	for m := exchange.Mechanism(0); m <= exchange.Staged; m++ {
		var back exchange.Mechanism
		if text, err := m.MarshalText(); err != nil || back.UnmarshalText(text) != nil || back != m {
			t.Errorf("%s is read as %v", text, back)
		}
	}
	if err := new(exchange.Mechanism).UnmarshalText([]byte("unknown")); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a name that is none gives %v", err)
	}
	if text, err := exchange.Never.MarshalText(); string(text) != "never" || err != nil {
		t.Errorf("MarshalText gives %s, %v", text, err)
	}
}

func TestAnEndedContextEndsTheMove(t *testing.T) {
	a, b := newFakes(t, exports, imports|peer)
	x := numbered(t, a, core.AllocOptions{Export: handleType}, 4)
	defer x.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // once cold, once where the memory is open
		if _, _, err := exchange.To(ended, x, b, exchange.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("To gives %v", err)
		}
		to(t, x, b, exchange.Options{})
	}
}

// The host waits between the pieces of a staged copy, no longer than its context allows.
func TestAStagedCopyEndsWithItsContext(t *testing.T) {
	a, b := newFakes(t, 0, 0)
	x := numbered(t, a, core.AllocOptions{}, 64)
	defer x.Close()
	buffer, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	never := stream.NewEvent()
	buffer.Wrote(never)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, _, err := exchange.To(ctx, x, b, exchange.Options{})
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("To gives %v", err)
	}
	never.Complete(nil)
}

// The error of the work that wrote the source is no reason to try another way.
func TestFailedWorkIsNotTriedAnotherWay(t *testing.T) {
	a, b := newFakes(t, 0, peer)
	x := numbered(t, a, core.AllocOptions{}, 4)
	defer x.Close()
	buffer, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	broken, e := errors.New("broken"), stream.NewEvent()
	e.Complete(broken)
	buffer.Wrote(e)
	if _, _, err := exchange.To(t.Context(), x, b, exchange.Options{}); err != broken {
		t.Errorf("To gives %v", err)
	}
	if n := b.called("Copy"); n != 0 {
		t.Errorf("%d copies were tried after the peer's", n)
	}
	// A tensor that shares the memory has its order, failures too.
	h := host(t)
	y := slice(t, make([]int32, 16))
	yb, err := y.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	yb.Wrote(e)
	if got, _ := to(t, y, h, exchange.Options{}); got.WaitReady(t.Context()) != broken {
		t.Error("a shared tensor has lost the error of the last write")
	}
}

// Whichever call fails, the move goes another way or fails, and leaves nothing behind.
func TestEveryCallMayFail(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name     string
		from, to core.Capabilities
		visible  bool
		options  exchange.Options
	}{
		{name: "mapped", from: 0, to: mapHost},
		{name: "imported", from: exports, to: imports},
		{name: "viewed and mapped", from: hostView, to: mapHost, visible: true},
		{name: "peer", to: peer},
		{name: "copied from a view", from: hostView, visible: true},
		{name: "copied into a view", to: hostView, options: exchange.Options{Alloc: core.AllocOptions{HostVisible: true}}},
		{name: "copied into an import", from: imports, to: exports},
		{name: "staged"},
		{name: "staged in pinned memory", from: hostView},
	} {
		for _, call := range []string{"Alloc", "NewStream", "Record", "Enqueue", "MapHost", "Wait"} {
			for n := range 3 {
				t.Run(c.name+", "+call, func(t *testing.T) {
					coretest.CheckNoLeaks(t)
					a, b := newFakes(t, c.from, c.to)
					x := numbered(t, a, allocOptions(c.from, c.visible), 16)
					defer x.Close()
					a.backend.Fail(call, n+1, broken)
					moveAnyway(t, a, b, x, c.options, broken)
				})
			}
		}
		for _, call := range []string{"HostView", "ExportMemory", "ImportMemory", "Copy", "CopyPeer", "MapHost"} {
			t.Run(c.name+", "+call, func(t *testing.T) {
				coretest.CheckNoLeaks(t)
				a, b := newFakes(t, c.from, c.to)
				x := numbered(t, a, allocOptions(c.from, c.visible), 16)
				defer x.Close()
				a.fail(call, broken)
				b.fail(call, broken)
				defer a.fail(call, nil)
				defer b.fail(call, nil)
				moveAnyway(t, a, b, x, c.options, broken)
			})
		}
	}
}

// moveAnyway moves x from a to b, where a call may fail.
func moveAnyway(t *testing.T, a, b *fake, x *core.Tensor, o exchange.Options, allowed error) {
	t.Helper()
	got, _, err := exchange.To(t.Context(), x, b, o)
	if err != nil {
		if !errors.Is(err, allowed) {
			t.Errorf("To gives %v", err)
		}
		return
	}
	defer got.Close()
	if err := got.WaitReady(t.Context()); err != nil && !errors.Is(err, allowed) {
		t.Errorf("the copy gives %v", err)
	}
	for _, f := range []*fake{a, b} {
		for _, call := range []string{"Copy", "CopyPeer"} {
			f.fail(call, nil)
		}
	}
}

// allocOptions ask for what a device with the given capabilities can share.
func allocOptions(c core.Capabilities, visible bool) core.AllocOptions {
	o := core.AllocOptions{HostVisible: visible}
	if c.Has(exports) {
		o.Export = handleType
	}
	return o
}
