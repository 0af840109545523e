//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// tracer notes what it is told of.
type tracer struct {
	mu     sync.Mutex
	starts []TransferStart
	ends   []TransferEnd
	mark   context.Context // of the last transfer
}

type tracerKey struct{}

func (x *tracer) Start(ctx context.Context, s TransferStart) (context.Context, func(TransferEnd)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.starts = append(x.starts, s)
	x.mark = context.WithValue(ctx, tracerKey{}, len(x.starts))
	return x.mark, func(e TransferEnd) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ends = append(x.ends, e)
	}
}

// take returns the only transfer that was traced, and forgets it.
func (x *tracer) take(t *testing.T) (TransferStart, TransferEnd) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.starts) != 1 || len(x.ends) != 1 {
		t.Fatalf("%d transfers have begun and %d have ended, want 1", len(x.starts), len(x.ends))
	}
	s, e := x.starts[0], x.ends[0]
	x.starts, x.ends = nil, nil
	return s, e
}

// want compares the only transfer with what the call has returned.
func (x *tracer) want(t *testing.T, want TransferStart, r Report, sources []SourceReport, err error) {
	t.Helper()
	s, e := x.take(t)
	if s != want || !reflect.DeepEqual(e, TransferEnd{r, sources, err}) {
		t.Errorf("the tracer was told of %+v and %+v, want %+v and %+v, %v", s, e, want, r, err)
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

// Each transfer is told once, with what the call returns, and uses the tracer's context. The other side traces its own calls.
func TestTracer(t *testing.T) {
	var here, there tracer
	ctx, keep := t.Context(), coretest.Keep(t)
	d := &contextual{Device: host(t)}
	simulated := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
	l, _ := serving(t, Options{Tracer: &there})
	o := Options{Insecure: true, Tracer: &here}
	c, err := Dial(ctx, l.Addr().String(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer := c.Peer().String()
	x := keep(row(t, 1000, 1).Reshape(10, 100))
	f, err := l.Offer(x, OfferOptions{Writable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	y, r, err := c.FetchRows(ctx, f.Descriptor(), 2, 5, d)
	keep(y, err)
	here.want(t, TransferStart{"Fetch", peer, core.CPU, 300}, r, nil, nil)
	if d.seen != 1 || r.Mechanism != exchange.Direct || len(r.Transports) == 0 || r.Duration == 0 {
		t.Errorf("the context has the mark %v, and the report is %+v", d.seen, r)
	}
	y, r, err = c.Fetch(ctx, f.Descriptor(), simulated)
	keep(y, err)
	here.want(t, TransferStart{"Fetch", peer, simulated.ID(), 1000}, r, nil, nil)
	if r.Mechanism != exchange.Staged || r.Reason == "" {
		t.Errorf("onto a device: %+v", r)
	}
	z := keep(row(t, 1000, 2).Reshape(10, 100)) // not x, whose elements Put would wait for
	r, err = c.Put(ctx, f.Descriptor(), z)
	here.want(t, TransferStart{"Put", peer, core.CPU, 1000}, r, nil, err)
	rows := keep(z.Slice(0, 0, 2, 1))
	r, err = c.PutRows(ctx, f.Descriptor(), 8, rows)
	here.want(t, TransferStart{"Put", peer, core.CPU, 200}, r, nil, err)
	y, g, err := Gather(ctx, []Part{{Descriptor: f.Descriptor(), Conn: c}}, d, Options{Tracer: &here})
	keep(y, err)
	here.want(t, TransferStart{Call: "Gather", Device: core.CPU}, g.Report, g.Sources, nil)
	if s := there.starts; len(s) != 0 {
		t.Errorf("the side that offers was told of %+v", s)
	}

	second, _ := serving(t, Options{Tracer: &there})
	y, relayed, g, err := second.Relay(ctx, Fanout{Descriptor: f.Descriptor(), Peers: []string{second.Addr().String()}}, 0, d)
	keep(y, err)
	defer relayed.Close()
	there.want(t, TransferStart{Call: "Relay", Device: core.CPU}, g.Report, g.Sources, nil)

	a, b := connect(t, o)
	r, err = a.SendLabeled(ctx, x, "label")
	here.want(t, TransferStart{"Send", a.Peer().String(), core.CPU, 1000}, r, nil, err)
	y, r, err = b.Receive(ctx, d)
	keep(y, err)
	here.want(t, TransferStart{"Receive", b.Peer().String(), core.CPU, 0}, r, nil, nil)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	for call, try := range map[string]func() (Report, error){
		"Receive": func() (Report, error) { _, r, err := b.Receive(ended, d); return r, err },
		"Fetch":   func() (Report, error) { _, r, err := b.Fetch(ended, nil, nil); return r, err },
		"Send":    func() (Report, error) { return b.Send(ended, nil) },
		"Put":     func() (Report, error) { return b.Put(ended, nil, nil) },
		"Gather":  func() (Report, error) { _, r, err := Gather(ended, nil, nil, o); return r.Report, err },
		"Relay": func() (Report, error) {
			l, _ := serving(t, o)
			_, _, r, err := l.Relay(ended, Fanout{}, 0, nil)
			return r.Report, err
		},
	} {
		r, err := try()
		if s, e := here.take(t); err == nil || s.Call != call || !errors.Is(e.Err, err) || !reflect.DeepEqual(e.Report, r) {
			t.Errorf("%s that fails with %v: %+v and %+v", call, err, s, e)
		}
	}
}

// Without a tracer, calls allocate nothing for tracing.
func TestNoTracer(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("a sanitizer makes allocations of its own")
	}
	a, _ := connect(t, Options{})
	ctx, x := t.Context(), row(t, 8, 1)
	_ = x.Close()
	send := testing.AllocsPerRun(100, func() { _, _ = a.SendLabeled(ctx, x, "") })
	bare := testing.AllocsPerRun(100, func() { _, _ = a.sendLabeled(ctx, x, "") })
	if send != bare {
		t.Errorf("Send of a closed tensor allocates %v times, and %v times without the place of the tracer", send, bare)
	}
}
