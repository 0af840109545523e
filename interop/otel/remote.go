package otel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
)

// NewRemoteTracer returns a tracer that records the transfers of package remote as spans by the provider. A nil provider means
// the same as for [NewTracer]. The caller still owns the provider. The tracer is safe for concurrent use.
//
// Each call of Send, Receive, Fetch, Put, Gather and Relay is one span, with the name of the function, such as "remote.Fetch".
// It begins and ends with the call; that of Receive begins when the program waits for a tensor. The spans have these
// attributes:
//
//	dlx.device       where the tensor lies, such as "cpu"
//	dlx.peer         the address of the other process; none if there may be several
//	dlx.bytes        the number of bytes of the elements
//	dlx.mechanism    "direct" if UCX used the memory itself, "staged" if the elements went through other memory
//	dlx.bytes_copied the number of bytes that this side copied beside UCX
//	dlx.transports   the transports that UCX has chosen, such as "tcp"
//	dlx.reason       why the elements were staged or gathered; none if they were not
//	dlx.sources      of Gather and Relay, the addresses of the processes that elements came from
//
// A span of a call that failed has the status Error and the error as an event. It has the attributes that the call had found
// out until then.
func NewRemoteTracer(provider trace.TracerProvider) remote.Tracer {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return remoteTracer{provider.Tracer(scope)}
}

type remoteTracer struct{ spans trace.Tracer }

var _ remote.Tracer = remoteTracer{}

// Start begins a span. The function that it returns ends it.
func (t remoteTracer) Start(ctx context.Context, s remote.TransferStart) (context.Context, func(remote.TransferEnd)) {
	var known []attribute.KeyValue
	if s.Device != (core.DeviceID{}) { // the caller passed one
		known = append(known, attribute.Stringer("dlx.device", s.Device))
	}
	if s.Peer != "" {
		known = append(known, attribute.String("dlx.peer", s.Peer))
	}
	if s.Bytes > 0 {
		known = append(known, attribute.Int64("dlx.bytes", s.Bytes))
	}
	ctx, span := t.spans.Start(ctx, "remote."+s.Call, trace.WithAttributes(known...))
	return ctx, func(e remote.TransferEnd) {
		defer span.End()
		if !span.IsRecording() {
			return
		}
		if e.Err != nil {
			span.RecordError(e.Err)
			span.SetStatus(codes.Error, e.Err.Error())
		}
		span.SetAttributes(describeTransfer(e)...)
	}
}

// describeTransfer returns the attributes of what a transfer has come to.
func describeTransfer(e remote.TransferEnd) []attribute.KeyValue {
	var list []attribute.KeyValue
	if r := e.Report; r.Mechanism != 0 {
		list = append(list, attribute.Int64("dlx.bytes", r.Bytes), attribute.Stringer("dlx.mechanism", r.Mechanism),
			attribute.Int64("dlx.bytes_copied", r.BytesCopied), attribute.StringSlice("dlx.transports", r.Transports))
		if r.Reason != "" {
			list = append(list, attribute.String("dlx.reason", r.Reason))
		}
	}
	var sources []string
	for _, s := range e.Sources {
		if s.Bytes > 0 {
			sources = append(sources, s.Peer)
		}
	}
	if sources != nil {
		list = append(list, attribute.StringSlice("dlx.sources", sources))
	}
	return list
}
