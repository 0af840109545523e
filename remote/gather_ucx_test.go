//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// serving returns a listener whose connections are accepted until the test ends, or stop is called.
func serving(t testing.TB, o Options) (l *Listener, stop func()) {
	t.Helper()
	if len(o.Token) == 0 && o.TLS == nil {
		o.Insecure = true
	}
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Serve(ctx)
	}()
	stop = func() {
		cancel()
		_ = l.Close()
		<-done
	}
	t.Cleanup(stop)
	return l, stop
}

// offerOf is an offer of a listener.
func offerOf(t testing.TB, l *Listener, x *core.Tensor) *Offer {
	t.Helper()
	f, err := l.Offer(x, OfferOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// hold makes readers of x wait until the result is called.
func hold(t testing.TB, x *core.Tensor) (release func()) {
	t.Helper()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	write := &transfer{over: make(chan struct{})}
	b.Wrote(write)
	return func() { close(write.over) }
}

var insecure = Options{Insecure: true}

// until waits for what another goroutine does.
func until(done func() bool) {
	for !done() {
		time.Sleep(time.Millisecond)
	}
}

// Several processes have the same tensor: it comes from all of them, and each row once.
func TestGatherCopies(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	const rows, row1 = 40, 1 << 20
	x := keep(row(t, rows*row1, 1).Reshape(rows, row1))
	var sources []Part
	var offers []*Offer
	for i := range 3 {
		l, _ := serving(t, Options{})
		offers = append(offers, offerOf(t, l, x))
		sources = append(sources, Part{Descriptor: offers[i].Descriptor()})
	}
	y, r, err := Gather(t.Context(), sources, d, insecure)
	if err != nil {
		t.Fatal(err)
	}
	keep(y, nil)
	wantEqual(t, x, y)
	sum := int64(0)
	for i, s := range r.Sources {
		until(func() bool { return offers[i].BytesRead() >= s.Bytes })
		sum += s.Bytes
		if s.Err != nil || offers[i].BytesRead() != s.Bytes || s.Bytes > 0 && s.Peer == "" {
			t.Errorf("source %d: %+v, and it has sent %d bytes", i, s, offers[i].BytesRead())
		}
	}
	if sum != x.NumBytes() || r.Bytes != sum || r.Mechanism != exchange.Direct || len(r.Transports) == 0 {
		t.Errorf("%d bytes came: %+v", sum, r)
	}
}

// The result is put together of parts of tensors, some of which two processes have.
func TestGatherParts(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	const rows, row1 = 30, 500_000
	x := keep(row(t, rows*row1, 1).Reshape(rows, row1))
	part := func(first, last int64) *core.Tensor { return keep(x.Slice(0, first, last, 1)) }
	// a is dialed, and all offers are for its end of a connection, or of listeners.
	a, b := connect(t, Options{})
	l, _ := serving(t, Options{})
	sources := []Part{
		{Descriptor: offerOf(t, l, part(20, 30)).Descriptor(), At: 20},
		{Descriptor: offer(t, b, part(0, 12), OfferOptions{}).Descriptor(), Conn: a},
		{Descriptor: offerOf(t, l, x).Descriptor(), Start: 10, Stop: 21, At: 10},
		{Descriptor: offerOf(t, l, part(5, 5)).Descriptor(), At: 7}, // no rows
	}
	y, r, err := Gather(t.Context(), sources, d, insecure)
	if err != nil {
		t.Fatal(err)
	}
	keep(y, nil)
	wantEqual(t, x, y)
	got := []int64{r.Sources[0].Bytes / row1, r.Sources[1].Bytes / row1, r.Sources[2].Bytes / row1}
	if got[0] < 9 || got[0] > 10 || got[1] < 10 || got[1] > 12 || got[2] < 8 || got[2] > 11 || got[0]+got[1]+got[2] != rows || r.Sources[3].Bytes != 0 {
		t.Errorf("rows came from the sources as %v: %+v", got, r)
	}
	if a.Err() != nil {
		t.Errorf("Gather has ended the caller's connection: %v", a.Err())
	}
}

// One connection has the rows of many parts, in another order.
func TestGatherManyParts(t *testing.T) {
	const n = 500 // more than the peer serves at the same time
	a, b := connect(t, Options{})
	f := offer(t, a, row(t, 2*n, 1), OfferOptions{})
	var parts []Part
	for i := range int64(n) {
		parts = append(parts, Part{Descriptor: f.Descriptor(), Conn: b, Start: 2 * i, Stop: 2*i + 2, At: 2 * (n - 1 - i)})
	}
	x, r, err := Gather(t.Context(), parts, host(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for i := range int64(n) {
		if r.Sources[i].Err != nil || r.Sources[i].Bytes == 0 {
			t.Errorf("source %d: %+v", i, r.Sources[i])
		}
		got, err := x.Slice(0, parts[i].At, parts[i].At+2, 1)
		if err != nil {
			t.Fatal(err)
		}
		want, err := f.tensor.Slice(0, parts[i].Start, parts[i].Stop, 1)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, got, want)
		got.Close()
		want.Close()
	}
}

func TestGatherKindsOfTensors(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	l, _ := serving(t, Options{})
	for _, x := range []*core.Tensor{
		keep(row(t, 1, 1).Reshape()),
		keep(row(t, 0, 1).Reshape(0, 7)),
		keep(row(t, 0, 1).Reshape(7, 0)),
		keep(keep(row(t, 600*100, 1).Reshape(600, 100)).Transpose()),
		keep(core.Wrap(hostBytes(t, d, 9), core.Spec{DType: core.TypeInt4, Shape: []int64{3, 6}})),
		keep(core.Wrap(hostBytes(t, d, 8), core.Spec{DType: core.TypeInt4, Shape: []int64{3, 5}})), // rows share bytes
		keep(core.Wrap(hostBytes(t, d, 15), core.Spec{DType: core.TypeInt4, Shape: []int64{3, 5}, Flags: core.FlagSubBytePadded})),
	} {
		one := Part{Descriptor: offerOf(t, l, x).Descriptor()}
		y, r, err := Gather(t.Context(), []Part{one, one}, d, insecure)
		if err != nil {
			t.Fatalf("%v: %v", x, err)
		}
		wantEqual(t, x, y)
		if r.Bytes != x.NumBytes() {
			t.Errorf("%v: %+v", x, r)
		}
		y.Close()
	}
	opaque := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
	x := keep(row(t, 20<<20, 3).Reshape(20, 1<<20))
	one := Part{Descriptor: offerOf(t, l, x).Descriptor()}
	y, r, err := Gather(t.Context(), []Part{one, one, one}, opaque, insecure)
	if err != nil {
		t.Fatal(err)
	}
	keep(y, nil)
	if !bytes.Equal(coretest.Get(t, opaque, keep(y.Reshape(20<<20))), coretest.Pattern(20<<20, 3)) || r.Mechanism != exchange.Staged || r.BytesCopied != 20<<20 {
		t.Errorf("report %+v", r)
	}
}

// A source ends half-way: its rows come from the other one. If there is no other one, the error says so.
func TestGatherFromSourcesThatFail(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	const rows, row1 = 40, 1 << 20
	good := keep(row(t, rows*row1, 1).Reshape(rows, row1))
	bad := keep(row(t, rows*row1, 1).Reshape(rows, row1))
	release := hold(t, bad)
	defer release()
	l, _ := serving(t, Options{})
	fails, stop := serving(t, Options{})
	whole := offerOf(t, l, good)
	sources := []Part{{Descriptor: offerOf(t, fails, bad).Descriptor()}, {Descriptor: whole.Descriptor()}}
	type result struct {
		y   *core.Tensor
		r   GatherReport
		err error
	}
	gather := func(s []Part) chan result {
		done := make(chan result, 1)
		go func() {
			y, r, err := Gather(t.Context(), s, d, insecure)
			done <- result{y, r, err}
		}()
		return done
	}
	both := gather(sources)
	const held = requestsAtOnce * portionBytes // at most
	until(func() bool { return whole.BytesRead() >= rows*row1-held })
	stop()
	got := <-both
	if got.err != nil {
		t.Fatal(got.err)
	}
	wantEqual(t, good, got.y)
	got.y.Close()
	if s := got.r.Sources; s[0].Bytes != 0 || s[1].Bytes != rows*row1 || s[1].Err != nil {
		t.Errorf("report %+v", got.r)
	}

	gone, _ := serving(t, Options{})
	ended := offerOf(t, gone, good)
	_ = ended.Close()
	alone := <-gather([]Part{sources[0], {Descriptor: ended.Descriptor()}})
	var typed *core.Error
	if !errors.Is(alone.err, core.ErrClosed) || !errors.As(alone.err, &typed) || alone.r.Sources[0].Err == nil || alone.r.Sources[1].Err == nil {
		t.Errorf("no source is left: %v, %+v", alone.err, alone.r)
	}
}

// The end of the context ends Gather, and the memory is free.
func TestGatherEndsWithItsContext(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	x := keep(row(t, 20<<20, 1).Reshape(20, 1<<20))
	release := hold(t, x)
	defer release()
	l, _ := serving(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	f := offerOf(t, l, x)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, r, err := Gather(ctx, []Part{{Descriptor: f.Descriptor()}}, d, insecure); !errors.Is(err, context.Canceled) || r.Bytes != 0 {
		t.Errorf("Gather returned %v, %+v", err, r)
	}
}

// A process that accepts connections and says nothing counts as failed after the keep-alive time.
func TestGatherFromASilentPeer(t *testing.T) {
	d := host(t)
	silent := listenTCP(t) // nobody accepts
	x := row(t, 100, 1)
	l, _ := serving(t, Options{})
	f := offerOf(t, l, x)
	there, _, err := readDescription(f.Descriptor())
	if err != nil {
		t.Fatal(err)
	}
	there.Address = silent
	_, r, err := Gather(t.Context(), []Part{{Descriptor: appendDescription(nil, &there)}}, d, Options{Insecure: true, KeepAlive: minAlive})
	if !errors.Is(err, core.ErrClosed) || !errors.Is(err, os.ErrDeadlineExceeded) || r.Sources[0].Err == nil {
		t.Errorf("Gather returned %v", err)
	}
}

func TestWrongSources(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	l, _ := serving(t, Options{})
	a, b := connect(t, Options{})
	pass(t, a, b, row(t, 1, 1), d) // UCX closes sockets that it does not need while it connects the sides
	pass(t, b, a, row(t, 1, 1), d)
	matrix := offerOf(t, l, keep(row(t, 100, 1).Reshape(10, 10))).Descriptor()
	wider := offerOf(t, l, keep(row(t, 200, 1).Reshape(10, 20))).Descriptor()
	floats := offerOf(t, l, keep(core.FromSlice(make([]float32, 100), 10, 10))).Descriptor()
	scalar := offerOf(t, l, keep(row(t, 1, 1).Reshape())).Descriptor()
	ofConn := offer(t, b, row(t, 1, 1), OfferOptions{}).Descriptor()
	one := func(s ...Part) error {
		before := coretest.Descriptors()
		y, _, err := Gather(t.Context(), s, d, Options{Insecure: true, Limits: Limits{Bytes: 1000}})
		if err == nil {
			y.Close()
		}
		coretest.WantDescriptors(t, before, "nothing is asked")
		return err
	}
	_, _, noDevice := Gather(t.Context(), []Part{{Descriptor: matrix}}, nil, insecure)
	_, _, noOptions := Gather(t.Context(), []Part{{Descriptor: matrix}}, d, Options{})
	for name, c := range map[string]struct{ err, want error }{
		"no source":       {one(), core.ErrInvalid},
		"no device":       {noDevice, core.ErrInvalid},
		"no options":      {noOptions, core.ErrInvalid},
		"no descriptor":   {one(Part{}), core.ErrInvalid},
		"no address":      {one(Part{Descriptor: ofConn}), core.ErrInvalid},
		"zero connection": {one(Part{Descriptor: ofConn, Conn: new(Conn)}), core.ErrInvalid},
		"another type":    {one(Part{Descriptor: matrix}, Part{Descriptor: floats}), core.ErrDType},
		"another shape":   {one(Part{Descriptor: matrix}, Part{Descriptor: wider}), core.ErrLayout},
		"another rank":    {one(Part{Descriptor: matrix}, Part{Descriptor: scalar}), core.ErrLayout},
		"rows of scalar":  {one(Part{Descriptor: scalar, Stop: 1}), core.ErrLayout},
		"rows outside":    {one(Part{Descriptor: matrix, Start: 5, Stop: 11}), core.ErrLayout},
		"rows backwards":  {one(Part{Descriptor: matrix, Start: 5, Stop: 4}), core.ErrLayout},
		"negative row":    {one(Part{Descriptor: matrix, Start: -1, Stop: 4}), core.ErrLayout},
		"negative place":  {one(Part{Descriptor: matrix, At: -1}), core.ErrLayout},
		"far place":       {one(Part{Descriptor: matrix, At: 1<<63 - 1}), core.ErrLayout},
		"a gap":           {one(Part{Descriptor: matrix}, Part{Descriptor: matrix, At: 11}), core.ErrLayout},
		"a late begin":    {one(Part{Descriptor: matrix, At: 1}), core.ErrLayout},
		"more rows": {func() error {
			var s []Part
			for i := range 11 {
				s = append(s, Part{Descriptor: matrix, At: int64(10 * i)})
			}
			return one(s...)
		}(), core.ErrOutOfMemory},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if a.Err() != nil || b.Stats().Refused != 0 {
		t.Errorf("the connection ended with %v, %+v", a.Err(), b.Stats())
	}
}

// listenTCP returns the address of a socket whose connections nobody accepts.
func listenTCP(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
