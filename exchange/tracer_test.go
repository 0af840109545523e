package exchange_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
)

// tracer notes what it is told of.
type tracer struct {
	starts  []exchange.MoveStart
	reports [][]exchange.Report
	errors  []error
}

type tracerKey struct{}

func (r *tracer) Start(ctx context.Context, m exchange.MoveStart) (context.Context, func([]exchange.Report, error)) {
	r.starts = append(r.starts, m)
	return context.WithValue(ctx, tracerKey{}, r), func(reports []exchange.Report, err error) {
		r.reports, r.errors = append(r.reports, reports), append(r.errors, err)
	}
}

// contextual is a device that sees the context of its allocations.
type contextual struct {
	core.Device
	seen any
}

func (d *contextual) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	d.seen = ctx.Value(tracerKey{})
	return d.Device.Alloc(ctx, size, o)
}

func TestTracer(t *testing.T) {
	var r tracer
	d := &contextual{Device: host(t)}
	x := slice(t, make([]int32, 8))
	o := exchange.Options{Copy: exchange.Always, Tracer: &r}
	y, report, err := exchange.To(t.Context(), x, d, o)
	if err != nil {
		t.Fatal(err)
	}
	_ = y.Close()
	if d.seen != &r {
		t.Error("the move does not use the tracer's context")
	}
	want := exchange.MoveStart{Call: "To", From: core.CPU, To: core.CPU, Tensors: 1, Bytes: 32}
	if len(r.starts) != 1 || r.starts[0] != want || len(r.reports) != 1 || len(r.reports[0]) != 1 || r.errors[0] != nil {
		t.Fatalf("%+v", r)
	}
	if fmt.Sprint(r.reports[0][0]) != fmt.Sprint(report) || r.reports[0][0].Duration != report.Duration {
		t.Errorf("the tracer got %v, the caller %v", r.reports[0][0], report)
	}

	route, err := exchange.Plan(x, d, o)
	if err != nil || len(r.starts) != 1 {
		t.Fatal(err, "or a plan is a move")
	}
	if y, _, err = route.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = y.Close()
	list, reports, err := exchange.ToAll(t.Context(), []*core.Tensor{x, x}, d, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, y := range list {
		_ = y.Close()
	}
	if len(reports) != 2 || len(r.reports) != 3 || len(r.reports[2]) != 2 {
		t.Fatalf("%+v", r.reports)
	}
	run, all := want, want
	run.Call = "Run"
	all.Call, all.Tensors, all.Bytes = "ToAll", 2, 64
	if !slices.Equal(r.starts, []exchange.MoveStart{want, run, all}) {
		t.Errorf("%+v", r.starts)
	}
}

func TestTracerOfMovesThatFail(t *testing.T) {
	var r tracer
	d := host(t)
	o := exchange.Options{Tracer: &r}
	_, _, first := exchange.To(t.Context(), nil, nil, o)
	_, _, second := exchange.ToAll(t.Context(), []*core.Tensor{nil}, d, o)
	_, _, third := exchange.ToAll(t.Context(), nil, nil, o)
	if !slices.Equal(r.errors, []error{first, second, third}) || first == nil || second == nil || third == nil {
		t.Errorf("the tracer got %v", r.errors)
	}
	want := []exchange.MoveStart{{Call: "To", Tensors: 1}, {Call: "ToAll", To: core.CPU, Tensors: 1}, {Call: "ToAll"}}
	if !slices.Equal(r.starts, want) || len(r.reports[1]) != 0 {
		t.Errorf("%+v", r)
	}
	// Repeated elements may have more bytes than an int64 counts.
	x := slice(t, make([]int32, 1))
	huge, err := x.Broadcast(math.MaxInt64 / 4)
	if err != nil {
		t.Fatal(err)
	}
	defer huge.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = exchange.ToAll(ended, []*core.Tensor{huge, huge}, d, o)
	if s := r.starts[len(r.starts)-1]; !errors.Is(err, context.Canceled) || s.Bytes != math.MaxInt64 {
		t.Error(err, s)
	}
}

// A move without a tracer allocates what it allocated before there were tracers: the views of the shape and of the tensor,
// and what the device needs.
func TestNoTracerAllocatesNothing(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("sanitizers allocate")
	}
	d := host(t)
	x, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{8}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	count := func(o exchange.Options) float64 {
		return testing.AllocsPerRun(1000, func() {
			y, _, err := exchange.To(t.Context(), x, d, o)
			if err != nil {
				t.Fatal(err)
			}
			_ = y.Close()
		})
	}
	without, with := count(exchange.Options{}), count(exchange.Options{Tracer: nothing{}})
	t.Logf("%v allocations without a tracer, %v with one that does nothing", without, with)
	if without > 1 || with <= without {
		t.Errorf("%v allocations without a tracer, want 1 or less; %v with one", without, with)
	}
}

// nothing is a tracer that does nothing.
type nothing struct{}

func (nothing) Start(ctx context.Context, _ exchange.MoveStart) (context.Context, func([]exchange.Report, error)) {
	return ctx, func([]exchange.Report, error) {}
}

// BenchmarkTracer measures a move that aliases, without a tracer and with one that does nothing.
func BenchmarkTracer(b *testing.B) {
	d := host(b)
	x, err := core.Empty(b.Context(), d, core.TypeInt32, []int64{8}, core.AllocOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	for _, c := range []struct {
		name string
		exchange.Tracer
	}{{"without", nil}, {"with", nothing{}}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				y, _, err := exchange.To(b.Context(), x, d, exchange.Options{Tracer: c.Tracer})
				if err != nil {
					b.Fatal(err)
				}
				_ = y.Close()
			}
		})
	}
}
