package remote

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// Tracer is told of transfers. Set it as [Options.Tracer]. The module interop/otel makes one that records spans of
// OpenTelemetry. Implementations must be safe for concurrent use.
type Tracer interface {
	// Start is called when a transfer begins. The transfer uses the context that Start returns, which is ctx or made
	// from it. end is called once, when the call of this package is about to return.
	Start(ctx context.Context, s TransferStart) (moving context.Context, end func(TransferEnd))
}

// TransferStart is what is known when a transfer begins.
type TransferStart struct {
	Call   string        // the function: "Send", "Receive", "Fetch", "Put", "Gather" or "Relay"
	Peer   string        // the address of the peer; "" for Gather and Relay, which may use several
	Device core.DeviceID // where the tensor lies, or is to lie; the zero value if it is nil
	Bytes  int64         // of the elements; 0 if the call does not know yet: Receive, Gather and Relay, or a wrong descriptor
}

// TransferEnd is how a transfer has ended: what the call returns. The report has the bytes, the mechanism, the transports and the
// duration. It may be incomplete if the call was refused.
type TransferEnd struct {
	Report  Report
	Sources []SourceReport // of Gather and Relay
	Err     error
}

// tracer returns the tracer of the connection, nil if there is none.
func (c *Conn) tracer() Tracer {
	if c == nil {
		return nil
	}
	return c.options.Tracer
}

// start describes a transfer on the connection that begins.
func (c *Conn) start(call string, id core.DeviceID, bytes int64) TransferStart {
	s := TransferStart{Call: call, Device: id, Bytes: bytes}
	if peer := c.Peer(); peer != nil {
		s.Peer = peer.String()
	}
	return s
}

// idOf returns the device's identity; the zero value if it is nil.
func idOf(d core.Device) (id core.DeviceID) {
	if d != nil {
		id = d.ID()
	}
	return id
}

// traceSend is sendLabeled, and tells the tracer of it. The calls have no closures of their own, which would allocate.
func (c *Conn) traceSend(ctx context.Context, x Tracer, t *core.Tensor, label string) (Report, error) {
	ctx, end := x.Start(ctx, c.start("Send", t.DeviceID(), t.NumBytes()))
	r, err := c.sendLabeled(ctx, t, label)
	end(TransferEnd{Report: r, Err: err})
	return r, err
}

// traceReceive is receiveNext, and tells the tracer of it.
func (c *Conn) traceReceive(ctx context.Context, x Tracer, device core.Device) (*core.Tensor, Report, error) {
	ctx, end := x.Start(ctx, c.start("Receive", idOf(device), 0))
	t, r, err := c.receiveNext(ctx, device)
	end(TransferEnd{Report: r, Err: err})
	return t, r, err
}

// traceFetch is fetchRows, and tells the tracer of it.
func (c *Conn) traceFetch(ctx context.Context, x Tracer, descriptor []byte, start, stop int64, device core.Device) (*core.Tensor, Report, error) {
	q, _, _ := askRows(descriptor, start, stop) // fetchRows reports the error
	ctx, end := x.Start(ctx, c.start("Fetch", idOf(device), q.bytes))
	t, r, err := c.fetchRows(ctx, descriptor, start, stop, device)
	end(TransferEnd{Report: r, Err: err})
	return t, r, err
}

// tracePut is put, and tells the tracer of it.
func (c *Conn) tracePut(ctx context.Context, x Tracer, descriptor []byte, start int64, t *core.Tensor) (Report, error) {
	ctx, end := x.Start(ctx, c.start("Put", t.DeviceID(), t.NumBytes()))
	r, err := c.put(ctx, descriptor, start, t)
	end(TransferEnd{Report: r, Err: err})
	return r, err
}

// traceGather is gather, and tells the tracer of it.
func traceGather(ctx context.Context, x Tracer, sources []Part, device core.Device, o Options) (*core.Tensor, GatherReport, error) {
	ctx, end := x.Start(ctx, TransferStart{Call: "Gather", Device: idOf(device)})
	t, r, err := gather(ctx, sources, device, o)
	end(TransferEnd{r.Report, r.Sources, err})
	return t, r, err
}

// traceRelay is relay, and tells the tracer of it.
func (l *Listener) traceRelay(ctx context.Context, x Tracer, f Fanout, self int, device core.Device) (*core.Tensor, *Offer, GatherReport, error) {
	ctx, end := x.Start(ctx, TransferStart{Call: "Relay", Device: idOf(device)})
	t, o, r, err := l.relay(ctx, f, self, device)
	end(TransferEnd{r.Report, r.Sources, err})
	return t, o, r, err
}
