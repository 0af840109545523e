// Package otel records the moves of package exchange as spans of OpenTelemetry, and by [NewRemoteTracer] the transfers of
// package remote.
//
//	tracer := otel.NewTracer(provider) // for example of go.opentelemetry.io/otel/sdk/trace
//	y, report, err := exchange.To(ctx, x, device, exchange.Options{Tracer: tracer})
//
// Each call of To, ToAll and Route.Run is one span, with the name of the function, such as "exchange.To". It is a child
// of the span in the context of the call, if there is one, and begins and ends with the call: a copy may go on after that.
// The spans have these attributes:
//
//	dlx.from         where the memory of the source lies, such as "cpu"; for several tensors that of the first one
//	dlx.to           the destination, such as "cuda:0"
//	dlx.tensors      the number of tensors
//	dlx.bytes        the number of bytes of the tensors
//	dlx.mechanism    how they were moved, such as "map"; "mixed" if not all by the same mechanism
//	dlx.bytes_copied the number of bytes that were copied; a byte that was copied twice counts twice
//	dlx.opened       whether memory was opened for the move; later moves find it open
//	dlx.wait         how the stream or the caller waits for the data, such as "stream_wait"
//	dlx.refused      better ways that were not taken, and the reason for each; not more than MaxRefused of them
//	dlx.moves.NAME   the number of tensors that were moved by the mechanism NAME, of a span that is "mixed"
//
// A span of a call that failed has the status Error and the error as an event. It has no mechanism, and its
// dlx.refused has all ways if no way was possible.
package otel

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// scope is the name of this package, by which a provider knows where spans come from.
const scope = "github.com/dlx-go/dlx/interop/otel"

// MaxRefused is how many different refusals a span lists at most.
const MaxRefused = 32

// NewTracer returns a tracer that records spans by the provider. A nil provider means the one that is set by
// otel.SetTracerProvider when NewTracer is called or, as long as none is set, later. The caller still owns the provider. The tracer is safe for
// concurrent use, and a program may use several.
func NewTracer(provider trace.TracerProvider) exchange.Tracer {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return tracer{provider.Tracer(scope)}
}

type tracer struct{ spans trace.Tracer }

var _ exchange.Tracer = tracer{}

// Start begins a span. The function that it returns ends it.
func (t tracer) Start(ctx context.Context, m exchange.MoveStart) (context.Context, func([]exchange.Report, error)) {
	known := []attribute.KeyValue{attribute.Int("dlx.tensors", m.Tensors), attribute.Int64("dlx.bytes", m.Bytes)}
	for name, id := range map[string]core.DeviceID{"dlx.from": m.From, "dlx.to": m.To} {
		if id != (core.DeviceID{}) { // the caller passed one
			known = append(known, attribute.Stringer(name, id))
		}
	}
	ctx, span := t.spans.Start(ctx, "exchange."+m.Call, trace.WithAttributes(known...))
	return ctx, func(reports []exchange.Report, err error) {
		defer span.End()
		if !span.IsRecording() { // putting reasons into words takes time
			return
		}
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
			span.SetAttributes(refused(ofError(reports, err)))
			return
		}
		span.SetAttributes(describe(reports)...)
	}
}

// describe returns the attributes of moves that succeeded.
func describe(reports []exchange.Report) []attribute.KeyValue {
	var copied int64
	var opened bool
	var wait stream.Wait
	var ways []exchange.Refusal
	count := make(map[exchange.Mechanism]int)
	for _, r := range reports {
		copied += r.BytesCopied
		opened = opened || r.Opened
		wait = max(wait, r.Wait)
		ways = append(ways, r.Refused()...)
		count[r.Mechanism]++
	}
	list := []attribute.KeyValue{
		attribute.Int64("dlx.bytes_copied", copied), attribute.Bool("dlx.opened", opened), attribute.Stringer("dlx.wait", wait), refused(ways),
	}
	switch len(count) {
	case 0: // no tensors
		return list
	case 1:
		return append(list, attribute.Stringer("dlx.mechanism", reports[0].Mechanism))
	}
	for m, n := range count {
		list = append(list, attribute.Int("dlx.moves."+m.String(), n))
	}
	return append(list, attribute.String("dlx.mechanism", "mixed"))
}

// ofError returns the refusals that the error or a report of a call that failed has.
func ofError(reports []exchange.Report, err error) []exchange.Refusal {
	var no *exchange.NoWayError
	if errors.As(err, &no) {
		return no.Refused()
	}
	var ways []exchange.Refusal
	for _, r := range reports {
		ways = append(ways, r.Refused()...)
	}
	return ways
}

// refused returns the attribute with the different refusals of a list.
func refused(ways []exchange.Refusal) attribute.KeyValue {
	texts := []string{}
	for _, w := range ways {
		text := w.Mechanism.String() + ": " + w.What + ": " + w.Reason
		if len(texts) < MaxRefused && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return attribute.StringSlice("dlx.refused", texts)
}
