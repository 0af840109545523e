package otel_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/interop/otel"
	"github.com/dlx-go/dlx/remote"
)

// A transfer is a span with what its report says. This build has no UCX: the tests of package remote compare what tracers are told.
func TestRemoteTracer(t *testing.T) {
	provider, spans := recorded(t)
	x := otel.NewRemoteTracer(provider)
	ctx, parent := provider.Tracer("test").Start(t.Context(), "parent")
	inside, end := x.Start(ctx, remote.TransferStart{Call: "Fetch", Peer: "10.0.0.7:7470", Device: core.DeviceID{Type: core.DeviceVulkan}, Bytes: 400})
	span := oteltrace.SpanFromContext(inside)
	end(remote.TransferEnd{Report: remote.Report{
		Mechanism: exchange.Staged, Reason: "UCX uses memory of the host", Bytes: 400, BytesCopied: 400, Transports: []string{"tcp", "rc"}, Duration: time.Second,
	}})
	s := only(t, spans)
	if s.SpanContext.SpanID() != span.SpanContext().SpanID() || s.Parent.SpanID() != parent.SpanContext().SpanID() || s.Name != "remote.Fetch" || s.Status.Code != codes.Unset {
		t.Errorf("span %+v", s)
	}
	want := map[string]any{
		"dlx.device": "vulkan:0", "dlx.peer": "10.0.0.7:7470", "dlx.bytes": int64(400), "dlx.bytes_copied": int64(400), "dlx.mechanism": "staged",
		"dlx.reason": "UCX uses memory of the host", "dlx.transports": []string{"tcp", "rc"},
	}
	if have := attributes(s); !reflect.DeepEqual(have, want) {
		t.Errorf("attributes %v, want %v", have, want)
	}

	_, end = x.Start(ctx, remote.TransferStart{Call: "Gather", Device: core.CPU})
	end(remote.TransferEnd{Report: remote.Report{Mechanism: exchange.Direct, Bytes: 8}, Sources: []remote.SourceReport{{Peer: "a:1", Bytes: 8}, {Peer: "b:1"}}})
	want = map[string]any{
		"dlx.device": "cpu", "dlx.bytes": int64(8), "dlx.bytes_copied": int64(0), "dlx.mechanism": "direct", "dlx.transports": []string{}, "dlx.sources": []string{"a:1"},
	}
	if have := attributes(only(t, spans)); !reflect.DeepEqual(have, want) {
		t.Errorf("attributes of Gather %v, want %v", have, want)
	}

	_, end = x.Start(ctx, remote.TransferStart{Call: "Send"})
	end(remote.TransferEnd{Err: errors.New("no such peer")})
	if s := only(t, spans); len(s.Attributes) != 0 || s.Status.Code != codes.Error || s.Status.Description != "no such peer" || len(s.Events) != 1 {
		t.Errorf("span of a transfer that failed: %+v", s)
	}
}
