//go:build ucx && linux && cgo

package remote

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

func offer(t testing.TB, c *Conn, x *core.Tensor, o OfferOptions) *Offer {
	t.Helper()
	f, err := c.Offer(x, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestFetch(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	a, b := connect(t, Options{})
	matrix := keep(row(t, 200*50_000, 1).Reshape(200, 50_000)) // three pieces
	for _, x := range []*core.Tensor{
		matrix, keep(matrix.Transpose()), row(t, 10, 1), keep(row(t, 1, 1).Reshape()), keep(matrix.Slice(0, 5, 5, 1)),
		keep(core.Wrap(hostBytes(t, d, 9), core.Spec{DType: core.TypeInt4, Shape: []int64{3, 6}})),
		keep(core.Wrap(hostBytes(t, d, 15), core.Spec{DType: core.TypeInt4, Shape: []int64{3, 5}, Flags: core.FlagSubBytePadded})),
	} {
		f := offer(t, a, x, OfferOptions{})
		y, r, err := b.Fetch(t.Context(), f.Descriptor(), d)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, x, y)
		y.Close()
		if r.Bytes != x.NumBytes() || r.Mechanism != exchange.Direct || r.BytesCopied != 0 {
			t.Errorf("report\n%v", r)
		}
	}
	f := offer(t, a, matrix, OfferOptions{})
	before := b.Stats().BytesReceived
	want := int64(0)
	for _, rows := range [][2]int64{{0, 1}, {3, 7}, {0, 200}, {199, 200}, {200, 200}, {5, 5}, {10, 190}} {
		y, _, err := b.FetchRows(t.Context(), f.Descriptor(), rows[0], rows[1], d)
		if err != nil {
			t.Fatal(err)
		}
		x := keep(matrix.Slice(0, rows[0], rows[1], 1))
		wantEqual(t, x, y)
		want += x.NumBytes()
		y.Close()
	}
	if got := b.Stats().BytesReceived - before; got != want { // only the rows were read
		t.Errorf("%d bytes were received, want %d", got, want)
	}
	for a.Stats().Served < 14 { // counted after the answer
		time.Sleep(time.Millisecond)
	}
	if s := a.Stats(); s.Refused != 0 || s.BytesSent != b.Stats().BytesReceived {
		t.Errorf("stats %+v", s)
	}
}

func TestPut(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	a, b := connect(t, Options{})
	for _, n := range []int64{0, 10, 4 * 50_000 * 20} {
		x := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{20, n / 20, 1}, core.AllocOptions{}))
		f := offer(t, a, x, OfferOptions{Writable: true})
		y := keep(row(t, int(n/20*20), 7).Reshape(20, n/20, 1))
		if _, err := b.Put(t.Context(), f.Descriptor(), y); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, x, y)
		part := keep(row(t, int(3*(n/20)), 8).Reshape(3, n/20, 1))
		if _, err := b.PutRows(t.Context(), f.Descriptor(), 5, part); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, keep(x.Slice(0, 5, 8, 1)), part)
		wantEqual(t, keep(x.Slice(0, 8, 20, 1)), keep(y.Slice(0, 8, 20, 1)))
		z, _, err := b.Fetch(t.Context(), f.Descriptor(), d)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, x, z)
		z.Close()
	}
	if s := b.Stats(); s.Refused != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestOffersOfDevices(t *testing.T) {
	keep := coretest.Keep(t)
	d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true})
	a, b := connect(t, Options{})
	const n = 3*pieceBytes + 100
	x := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{n}, core.AllocOptions{}))
	coretest.Put(t, d, x, coretest.Pattern(n, 1))
	f := offer(t, a, x, OfferOptions{Writable: true})
	y, r, err := b.FetchRows(t.Context(), f.Descriptor(), 100, n, d)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(coretest.Get(t, d, y), coretest.Pattern(n, 1)[100:]) || r.Mechanism != exchange.Staged {
		t.Errorf("report\n%v", r)
	}
	y.Close()
	if _, err := b.PutRows(t.Context(), f.Descriptor(), 0, row(t, n-50, 2)); err != nil {
		t.Fatal(err)
	}
	want := append(coretest.Pattern(n-50, 2), coretest.Pattern(n, 1)[n-50:]...)
	if !bytes.Equal(coretest.Get(t, d, x), want) {
		t.Error("the elements differ")
	}
}

// counting is a device that counts the allocations.
type counting struct {
	core.Device
	allocations int
}

func (d *counting) Alloc(ctx context.Context, bytes int64, o core.AllocOptions) (core.Memory, error) {
	d.allocations++
	return d.Device.Alloc(ctx, bytes, o)
}

// A descriptor allocates no memory if the peer refuses the request.
func TestAForgedDescriptorAllocatesNothing(t *testing.T) {
	d := &counting{Device: host(t)}
	a, b := connect(t, Options{})
	forged := description{Description: Description{DType: core.TypeUint8, Shape: []int64{8 << 30}}}
	if _, _, err := b.Fetch(t.Context(), appendDescription(nil, &forged), d); !errors.Is(err, core.ErrClosed) || b.Err() != nil {
		t.Errorf("Fetch of a forged descriptor: %v", err)
	}
	if d.allocations != 0 {
		t.Errorf("it has made %d allocations", d.allocations)
	}
	x := row(t, 100_000, 1)
	y, _, err := b.Fetch(t.Context(), offer(t, a, x, OfferOptions{}).Descriptor(), d)
	if err != nil || d.allocations != 1 {
		t.Fatalf("%d allocations for a good descriptor: %v", d.allocations, err)
	}
	defer y.Close()
	wantEqual(t, x, y)
}

// What nobody has offered, has offered no longer or otherwise is refused and counted, and the connection goes on.
func TestRefusedRequests(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	a, b := connect(t, Options{})
	_, other := connect(t, Options{})
	x := keep(row(t, 100, 1).Reshape(10, 10))
	f := offer(t, a, x, OfferOptions{})
	good := f.Descriptor()
	parsed, _, err := readDescription(good)
	if err != nil {
		t.Fatal(err)
	}
	forge := func(change func(*description)) []byte {
		x := parsed
		x.Shape = append([]int64(nil), x.Shape...)
		change(&x)
		return appendDescription(nil, &x)
	}
	closed := offer(t, a, x, OfferOptions{})
	_ = closed.Close()
	leased := offer(t, a, x, OfferOptions{Lease: time.Millisecond})
	<-leased.Done()
	fetch := func(c *Conn, descriptor []byte) error {
		y, _, err := c.Fetch(t.Context(), descriptor, d)
		if err == nil {
			y.Close()
		}
		return err
	}
	rows := func(descriptor []byte, i, j int64) error {
		_, _, err := b.FetchRows(t.Context(), descriptor, i, j, d)
		return err
	}
	put := func(descriptor []byte) error {
		_, err := b.Put(t.Context(), descriptor, x)
		return err
	}
	ask := func(k control, q request) error { // what an honest peer does not send
		q.key = f.key
		g, err := b.ask(t.Context(), &q, nil)
		if err != nil {
			return err
		}
		defer b.forget(&q)
		if err := b.tell(t.Context(), k, func(p []byte) []byte { return appendRequest(p, &q) }); err != nil {
			return err
		}
		return b.answered(t.Context(), g, func() bool { return false })
	}
	refused := int64(0)
	for name, c := range map[string]struct {
		err, want error
	}{
		"forged key":       {fetch(b, forge(func(d *description) { d.key[3]++ })), core.ErrClosed},
		"closed offer":     {fetch(b, closed.Descriptor()), core.ErrClosed},
		"lease over":       {fetch(b, leased.Descriptor()), core.ErrClosed},
		"more rows":        {fetch(b, forge(func(d *description) { d.Shape[0]++ })), core.ErrInvalid},
		"another type":     {fetch(b, forge(func(d *description) { d.DType = core.TypeFloat64 })), core.ErrInvalid},
		"not writable":     {put(forge(func(d *description) { d.Writable = true })), core.ErrReadOnly},
		"rows outside":     {rows(forge(func(d *description) { d.Shape[0] = 1 << 20 }), 5, 11), core.ErrLayout},
		"negative row":     {ask(controlFetch, request{first: -1, count: 2, bytes: 20}), core.ErrLayout},
		"negative count":   {ask(controlFetch, request{first: 1, count: -2, bytes: 20}), core.ErrLayout},
		"overflow":         {ask(controlFetch, request{first: 5, count: 1<<63 - 1, bytes: 20}), core.ErrLayout},
		"whole from row 1": {ask(controlFetch, request{first: 1, count: -1, bytes: 100}), core.ErrLayout},
		"bytes":            {ask(controlFetch, request{first: 1, count: 1, bytes: 11}), core.ErrInvalid},
		"put not writable": {ask(controlPut, request{first: 1, count: 1, bytes: 10}), core.ErrReadOnly},
	} {
		refused++
		if !errors.Is(c.err, c.want) || errors.As(c.err, new(*ConnError)) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if s := a.Stats(); s.Refused != refused {
		t.Errorf("%d requests were refused, want %d", s.Refused, refused)
	}
	if err := fetch(other, good); !errors.Is(err, core.ErrClosed) {
		t.Errorf("an offer of another connection: %v", err)
	}
	if err := fetch(b, good); err != nil { // the connection goes on
		t.Error(err)
	}
	for name, c := range map[string]struct{ err, want error }{
		"no descriptor":  {fetch(b, good[1:]), core.ErrInvalid},
		"cut descriptor": {fetch(b, good[:len(good)-1]), core.ErrInvalid},
		"wrong version":  {fetch(b, append([]byte("DLXO\x02\x00"), good[6:]...)), core.ErrVersion},
		"own rows":       {rows(good, 5, 11), core.ErrLayout},
		"rows backwards": {rows(good, 5, 4), core.ErrLayout},
		"wrong put type": {func() error {
			_, err := b.Put(t.Context(), good, keep(core.FromSlice(make([]float32, 100), 10, 10)))
			return err
		}(), core.ErrDType},
		"wrong put shape": {func() error { _, err := b.Put(t.Context(), good, row(t, 100, 1)); return err }(), core.ErrLayout},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if s := a.Stats(); s.Refused != refused {
		t.Errorf("what this side refuses was sent: %+v", s)
	}
}

func TestWrongOffers(t *testing.T) {
	a, _ := connect(t, Options{})
	keep := coretest.Keep(t)
	x := keep(row(t, 100, 1).Reshape(10, 10))
	closed := row(t, 1, 1)
	closed.Close()
	try := func(x *core.Tensor, o OfferOptions) error {
		f, err := a.Offer(x, o)
		_ = f.Close()
		return err
	}
	for name, c := range map[string]struct{ err, want error }{
		"nil":            {try(nil, OfferOptions{}), core.ErrInvalid},
		"closed":         {try(closed, OfferOptions{}), core.ErrClosed},
		"lease":          {try(x, OfferOptions{Lease: -1}), core.ErrInvalid},
		"address":        {try(x, OfferOptions{Address: string(bytes.Repeat([]byte{'x'}, 256))}), core.ErrInvalid},
		"read-only":      {try(keep(x.AsReadOnly()), OfferOptions{Writable: true}), core.ErrReadOnly},
		"not contiguous": {try(keep(x.Transpose()), OfferOptions{Writable: true}), core.ErrLayout},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	_ = a.Close()
	if err := try(x, OfferOptions{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed connection: %v", err)
	}
}

// An offer of a listener is for all its peers, and its descriptor is enough to find it. It keeps the memory after its owner
// has closed the tensor.
func TestOffersOfListeners(t *testing.T) {
	d := host(t)
	o := Options{Token: bytes.Repeat([]byte{9}, 16)}
	l, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serving := make(chan struct{})
	go func() { // the program that offers only accepts
		defer close(serving)
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	x, err := core.FromSlice(coretest.Pattern(100_000, 3))
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.Offer(x, OfferOptions{Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if about, err := Describe(f.Descriptor()); err != nil || about.Address != l.Addr().String() || about.DType != core.TypeUint8 || about.Expires.IsZero() {
		t.Errorf("the descriptor says %+v: %v", about, err)
	}
	for range 2 {
		y, _, err := Fetch(t.Context(), f.Descriptor(), d, o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := core.Values[uint8](y); err != nil || !bytes.Equal(got, coretest.Pattern(100_000, 3)) {
			t.Errorf("the elements differ: %v", err)
		}
		y.Close()
	}
	_ = l.Close()
	<-f.Done()
	<-serving
	if _, err := l.Offer(row(t, 1, 1), OfferOptions{}); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}

// A Fetch or Put that ends with its context leaves the connection usable, and nothing in use.
func TestRequestsEndWithTheirContext(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{Limits: Limits{Requests: 2}})
	x, y := row(t, 3*pieceBytes, 1), row(t, 3*pieceBytes, 2)
	f := offer(t, a, x, OfferOptions{Writable: true})
	buffer, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	use := &transfer{over: make(chan struct{})}
	buffer.Wrote(use) // the offer waits for this write
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, _, err := b.Fetch(ctx, f.Descriptor(), d); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, core.ErrOutOfMemory) {
			t.Errorf("Fetch returned %v", err)
		}
		if _, err := b.Put(ctx, f.Descriptor(), y); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, core.ErrOutOfMemory) {
			t.Errorf("Put returned %v", err)
		}
		cancel()
	}
	close(use.over)
	for {
		_, err := b.Put(t.Context(), f.Descriptor(), y)
		if errors.Is(err, core.ErrOutOfMemory) { // earlier requests are still served
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	for a.Stats().Served+a.Stats().Refused < b.requested() { // earlier Puts may be given up late
		time.Sleep(time.Millisecond)
	}
	if _, err := b.Put(t.Context(), f.Descriptor(), y); err != nil {
		t.Fatal(err)
	}
	z, _, err := b.Fetch(t.Context(), f.Descriptor(), d)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, z, y)
	z.Close()
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Error(err)
	}
}

// More calls than the peer serves wait, and none is refused: the peer learns that a request is fulfilled later than the caller,
// who then makes the next one.
func TestMoreCallsThanThePeerServes(t *testing.T) {
	d := host(t)
	a, b := connect(t, Options{Limits: Limits{Requests: 2}})
	x := row(t, 16<<10, 1)
	f := offer(t, a, x, OfferOptions{})
	var calls sync.WaitGroup
	for range 16 {
		calls.Go(func() {
			for range 100 {
				y, _, err := b.Fetch(t.Context(), f.Descriptor(), d)
				if err != nil {
					t.Errorf("Fetch returned %v", err)
					return
				}
				y.Close()
			}
		})
	}
	calls.Wait()
}

// requested returns how many requests c has made.
func (c *Conn) requested() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.requests)
}

// A Put reads memory of the offer that it writes, in one process: some rows of it, all of it, and another view of the same memory.
func TestPutOfTheOfferedMemory(t *testing.T) {
	for name, d := range map[string]core.Device{
		"host": host(t), "device": coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true}),
	} {
		t.Run(name, func(t *testing.T) {
			keep := coretest.Keep(t)
			ctx, enough := context.WithTimeout(t.Context(), time.Minute)
			defer enough()
			a, b := connect(t, Options{})
			x := keep(on(t, d, 4<<16, 1).Reshape(4, 1<<16))
			f := offer(t, a, x, OfferOptions{Writable: true})
			onHost := func(y *core.Tensor) *core.Tensor {
				h := keep(core.Empty(ctx, host(t), y.DType(), y.Shape(), core.AllocOptions{}))
				if err := d.Copy(ctx, nil, h, keep(y.Clone(ctx))); err != nil {
					t.Fatal(err)
				}
				return h
			}
			front, back := keep(x.Slice(0, 0, 2, 1)), keep(x.Slice(0, 2, 4, 1))
			want := onHost(front)
			r, err := b.PutRows(ctx, f.Descriptor(), 2, front)
			if err != nil || r.BytesCopied < r.Bytes || r.Reason == "" {
				t.Fatalf("PutRows returned %v\n%v", err, r)
			}
			wantEqual(t, want, onHost(back))
			for _, y := range []*core.Tensor{x, keep(x.Slice(0, 3, -1, -1))} {
				want := onHost(y)
				if _, err := b.Put(ctx, f.Descriptor(), y); err != nil {
					t.Fatal(err)
				}
				wantEqual(t, want, onHost(x))
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			until(func() bool { return !mayBeOverwritten(x) }) // when the last request is served
			if _, err := b.Put(ctx, f.Descriptor(), x); !errors.Is(err, core.ErrClosed) {
				t.Errorf("Put to an offer that has ended returned %v", err)
			}
		})
	}
}

// A Put that fails half-way is the failed last write of the tensor.
func TestPutThatFails(t *testing.T) {
	t.Run("direct", func(t *testing.T) {
		testPutThatFails(t, host(t))
	})
	t.Run("staged", func(t *testing.T) {
		testPutThatFails(t, coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Opaque: true}))
	})
}

func testPutThatFails(t *testing.T, d core.Device) {
	a, b := connect(t, Options{})
	x := on(t, d, 3*pieceBytes, 1)
	f := offer(t, a, x, OfferOptions{Writable: true})
	q := request{key: f.key, count: -1, bytes: 3 * pieceBytes}
	g, err := b.ask(t.Context(), &q, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.tell(t.Context(), controlPut, func(p []byte) []byte { return appendRequest(p, &q) }); err != nil {
		t.Fatal(err)
	}
	if err := b.answered(t.Context(), g, func() bool { return g.accepted }); err != nil {
		t.Fatal(err)
	}
	b.giveUp(q.id)
	if err := b.answered(t.Context(), g, func() bool { return g.done }); !errors.Is(err, core.ErrClosed) {
		t.Errorf("the answer is %v", err)
	}
	if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrClosed) {
		t.Errorf("the tensor reports %v", err)
	}
	if _, _, err := b.Fetch(t.Context(), f.Descriptor(), d); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Fetch returned %v", err)
	}
	if _, err := b.Put(t.Context(), f.Descriptor(), row(t, 3*pieceBytes, 2)); err != nil {
		t.Errorf("another Put: %v", err)
	}
	if err := x.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Put whose elements do not come keeps a writable offer for as long as its context permits, and no longer.
func TestAStalledPutEnds(t *testing.T) {
	a, b := connect(t, Options{})
	x := row(t, 3*pieceBytes, 1)
	f := offer(t, a, x, OfferOptions{Writable: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	q := request{key: f.key, count: -1, bytes: 3 * pieceBytes}
	g, err := b.ask(ctx, &q, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.tell(t.Context(), controlPut, func(p []byte) []byte { return appendRequest(p, &q) }); err != nil {
		t.Fatal(err)
	}
	if err := b.answered(t.Context(), g, func() bool { return g.accepted }); err != nil && g.refused == nil {
		t.Fatal(err) // on a busy machine the time may be over before
	}
	want := row(t, 3*pieceBytes, 2)
	patience, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	if _, err := b.Put(patience, f.Descriptor(), want); err != nil {
		t.Fatalf("the offer is not free after a request that has stalled: %v", err)
	}
	wantEqual(t, want, x)
	if err := b.answered(t.Context(), g, func() bool { return g.done }); err == nil {
		t.Error("the request that has stalled was fulfilled")
	}
	until(func() bool { return a.Stats().Served == 1 }) // which is counted after the answer
	if s := a.Stats(); s.Refused != 1 || s.Served != 1 {
		t.Errorf("stats %+v", s)
	}
	if err := b.Err(); err != nil {
		t.Errorf("the connection has ended: %v", err)
	}
}

// A request that UCX does not end is ended with its connection.
func TestAStuckRequestEndsTheConnection(t *testing.T) {
	a, b := connect(t, Options{})
	ctx, over := a.bound(&request{within: time.Millisecond - afterwards - a.options.KeepAlive}) // its time is over by now
	defer over()
	<-ctx.Done()
	<-a.Done()
	if err := a.Err(); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "stalled") {
		t.Errorf("the connection ended with %v", err)
	}
	if got := endName(a.Err()); got != "stalled" {
		t.Errorf("the end counts as %q", got)
	}
	<-b.Done() // it is told
	if !errors.Is(b.Err(), os.ErrDeadlineExceeded) || !errors.Is(b.Err(), core.ErrClosed) || endName(b.Err()) != "stalled" {
		t.Errorf("the connection of the peer ended with %v", b.Err())
	}
	c, _ := connect(t, Options{})
	ctx, over = c.bound(&request{within: time.Hour})
	over()
	if ctx.Err() == nil || c.Err() != nil {
		t.Errorf("after a request: %v, %v", ctx.Err(), c.Err())
	}
}

func FuzzDescriptor(f *testing.F) {
	f.Add(appendDescription(nil, &description{Description: Description{DType: core.TypeFloat32, Shape: []int64{2, 3}, Address: "host:1"}}))
	f.Add(appendDescription(nil, &description{Description: Description{DType: core.TypeInt4, Padded: true, Writable: true, Expires: time.UnixMilli(1 << 40)}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, _, err := readDescription(b)
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrVersion) {
				t.Errorf("error %v", err)
			}
			return
		}
		if again := appendDescription(nil, &d); !bytes.Equal(again, b) && len(again) != len(b) {
			t.Errorf("%d bytes become %d", len(b), len(again))
		}
	})
}
