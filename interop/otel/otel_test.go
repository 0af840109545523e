package otel_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/interop/otel"
	"github.com/dlx-go/dlx/stream"
)

// recorded is a provider that keeps its spans.
func recorded(t *testing.T, o ...trace.TracerProviderOption) (*trace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	p := trace.NewTracerProvider(append(o, trace.WithSyncer(spans))...)
	t.Cleanup(func() {
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p, spans
}

// only returns the only span, and forgets it.
func only(t *testing.T, spans *tracetest.InMemoryExporter) tracetest.SpanStub {
	t.Helper()
	list := spans.GetSpans()
	spans.Reset()
	if len(list) != 1 {
		t.Fatalf("%d spans were recorded, want 1: %+v", len(list), list)
	}
	return list[0]
}

// attributes are those of a span, by name.
func attributes(s tracetest.SpanStub) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func wantAttributes(t *testing.T, s tracetest.SpanStub, want map[string]any) {
	t.Helper()
	have := attributes(s)
	for name, value := range want {
		if have[name] != value {
			t.Errorf("%s: %s is %v, want %v", s.Name, name, have[name], value)
		}
	}
}

// refusedOf is the attribute dlx.refused.
func refusedOf(s tracetest.SpanStub) []string {
	list, _ := attributes(s)["dlx.refused"].([]string)
	return list
}

// devices opens the CPU and a simulated device.
func devices(t *testing.T) (host, simulated core.Device, backend *coretest.Backend) {
	t.Helper()
	backend = coretest.NewBackend(coretest.Options{Submit: stream.Submit, Log: t.Logf})
	for d, open := range map[*core.Device]func() (core.Device, error){
		&host:      func() (core.Device, error) { return cpu.New().Open(t.Context(), core.CPU) },
		&simulated: func() (core.Device, error) { return backend.Open(t.Context(), core.DeviceID{Type: core.DeviceExt}) },
	} {
		var err error
		if *d, err = open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := (*d).Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return host, simulated, backend
}

func floats(t *testing.T, n int) *core.Tensor {
	t.Helper()
	x, err := core.FromSlice(make([]float32, n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func TestSpansOfMoves(t *testing.T) {
	_, simulated, _ := devices(t)
	provider, spans := recorded(t)
	o := exchange.Options{Tracer: otel.NewTracer(provider)}
	x := floats(t, 4)

	ctx, parent := provider.Tracer("test").Start(t.Context(), "parent")
	y, report, err := exchange.To(ctx, x, simulated, o)
	if err != nil {
		t.Fatal(err)
	}
	s := only(t, spans)
	wantAttributes(t, s, map[string]any{
		"dlx.from": "cpu", "dlx.to": "ext_dev:0", "dlx.tensors": int64(1), "dlx.bytes": int64(16), "dlx.mechanism": report.Mechanism.String(),
		"dlx.bytes_copied": report.BytesCopied, "dlx.opened": report.Opened, "dlx.wait": "none",
	})
	if s.Name != "exchange.To" || s.Parent.SpanID() != parent.SpanContext().SpanID() || s.Status.Code != codes.Unset || s.InstrumentationScope.Name == "" {
		t.Errorf("the span is %+v", s)
	}
	if have := refusedOf(s); len(have) != len(report.Refused()) {
		t.Errorf("refused are %q, want %v", have, report.Refused())
	}
	if err := errors.Join(y.WaitReady(t.Context()), y.Close()); err != nil {
		t.Error(err)
	}
	parent.End()
	spans.Reset()

	direct := o
	direct.Only = exchange.Direct
	route, err := exchange.Plan(x, simulated, direct)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("a plan records %d spans", n)
	}
	z, _, err := route.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.WaitReady(t.Context()), z.Close()); err != nil {
		t.Error(err)
	}
	s = only(t, spans)
	wantAttributes(t, s, map[string]any{"dlx.mechanism": "direct", "dlx.bytes_copied": int64(16), "dlx.opened": false})
	if s.Name != "exchange.Run" || s.Parent.IsValid() {
		t.Errorf("the span is %+v", s)
	}
	if have := refusedOf(s); len(have) == 0 || !strings.HasPrefix(have[0], "alias: ") {
		t.Errorf("refused are %q", have)
	}
}

func TestSpanOfManyTensors(t *testing.T) {
	host, simulated, _ := devices(t)
	provider, spans := recorded(t)
	o := exchange.Options{Tracer: otel.NewTracer(provider)}
	own, err := core.Empty(t.Context(), simulated, core.TypeFloat32, []int64{4}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	list, reports, err := exchange.ToAll(t.Context(), []*core.Tensor{own, floats(t, 4), floats(t, 2)}, simulated, exchange.Options{Tracer: o.Tracer})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if err := errors.Join(x.WaitReady(t.Context()), x.Close()); err != nil {
			t.Error(err)
		}
	}
	s := only(t, spans)
	var copied int64
	for _, r := range reports {
		copied += r.BytesCopied
	}
	if reports[1].Mechanism == exchange.Alias || reports[1].Mechanism != reports[2].Mechanism {
		t.Fatal("the mechanisms are", reports[1].Mechanism, reports[2].Mechanism)
	}
	wantAttributes(t, s, map[string]any{
		"dlx.tensors": int64(3), "dlx.bytes": int64(40), "dlx.mechanism": "mixed", "dlx.bytes_copied": copied,
		"dlx.moves.alias": int64(1), "dlx.moves." + reports[1].Mechanism.String(): int64(2),
	})
	if s.Name != "exchange.ToAll" {
		t.Error(s.Name)
	}
	if _, _, err := exchange.ToAll(t.Context(), nil, host, o); err != nil {
		t.Fatal(err)
	}
	s = only(t, spans)
	wantAttributes(t, s, map[string]any{"dlx.tensors": int64(0), "dlx.bytes_copied": int64(0)})
	if m, ok := attributes(s)["dlx.mechanism"]; ok {
		t.Errorf("no tensors were moved by %v", m)
	}
}

func TestSpansOfMovesThatFail(t *testing.T) {
	_, simulated, backend := devices(t)
	provider, spans := recorded(t)
	o := exchange.Options{Tracer: otel.NewTracer(provider)}
	check := func(what string, err, want error) tracetest.SpanStub {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
		s := only(t, spans)
		if s.Status.Code != codes.Error || s.Status.Description != err.Error() || len(s.Events) != 1 || s.Events[0].Name != "exception" {
			t.Errorf("%s: the span is %+v", what, s)
		}
		if m, ok := attributes(s)["dlx.mechanism"]; ok {
			t.Errorf("%s: moved by %v", what, m)
		}
		return s
	}
	x := floats(t, 4)
	never := o
	never.Only = exchange.Peer
	_, _, err := exchange.To(t.Context(), x, simulated, never)
	if s := check("no way", err, core.ErrNotSupported); len(refusedOf(s)) == 0 {
		t.Error("no way is refused")
	}
	_, _, err = exchange.ToAll(t.Context(), []*core.Tensor{x}, simulated, never)
	if s := check("no way for many", err, core.ErrNotSupported); len(refusedOf(s)) == 0 {
		t.Error("no way is refused")
	}
	_, _, err = exchange.To(t.Context(), nil, simulated, o)
	check("a nil tensor", err, core.ErrInvalid)
	_, _, err = exchange.To(t.Context(), x, nil, o)
	if s := check("a nil device", err, core.ErrInvalid); attributes(s)["dlx.to"] != nil {
		t.Errorf("no device is %v", attributes(s)["dlx.to"])
	}
	backend.Fail("Alloc", 1, core.ErrOutOfMemory)
	_, _, err = exchange.To(t.Context(), x, simulated, exchange.Options{Tracer: o.Tracer, Only: exchange.Direct})
	check("no memory", err, core.ErrOutOfMemory)
}

// Two programs in a process use tracers of their own at the same time.
func TestTracersDoNotMix(t *testing.T) {
	host, _, _ := devices(t)
	x := floats(t, 4)
	var programs sync.WaitGroup
	for range 4 {
		provider, spans := recorded(t)
		tracer := otel.NewTracer(provider)
		programs.Go(func() {
			for range 50 {
				y, _, err := exchange.To(t.Context(), x, host, exchange.Options{Tracer: tracer})
				if err != nil {
					t.Error(err)
					return
				}
				_ = y.Close()
			}
			if n := len(spans.GetSpans()); n != 50 {
				t.Errorf("%d spans, want 50", n)
			}
		})
	}
	programs.Wait()
}

func TestProviders(t *testing.T) {
	host, _, _ := devices(t)
	x := floats(t, 4)
	move := func(tracer exchange.Tracer) {
		t.Helper()
		y, _, err := exchange.To(t.Context(), x, host, exchange.Options{Tracer: tracer})
		if err != nil {
			t.Fatal(err)
		}
		_ = y.Close()
	}
	move(otel.NewTracer(noop.NewTracerProvider()))
	unsampled, none := recorded(t, trace.WithSampler(trace.NeverSample()))
	move(otel.NewTracer(unsampled))
	if n := len(none.GetSpans()); n != 0 {
		t.Errorf("%d spans of a provider that samples none", n)
	}
	provider, spans := recorded(t)
	global.SetTracerProvider(provider)
	defer global.SetTracerProvider(noop.NewTracerProvider())
	move(otel.NewTracer(nil))
	if s := only(t, spans); !hasAttribute(s, "dlx.mechanism", "alias") {
		t.Errorf("the span is %+v", s)
	}
}

func hasAttribute(s tracetest.SpanStub, name, value string) bool {
	for _, a := range s.Attributes {
		if a == attribute.String(name, value) {
			return true
		}
	}
	return false
}
