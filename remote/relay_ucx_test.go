//go:build ucx && linux && cgo

package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// fleet is a source and peers that get its tensor, each with a listener of its own.
type fleet struct {
	t      testing.TB
	x      *core.Tensor
	source *Offer
	plan   Fanout
	peers  []*Listener
	stop   []func() // ends a peer's listener and the connections that it has accepted
}

func newFleet(t testing.TB, n, width int, x *core.Tensor, o Options) *fleet {
	t.Helper()
	l, _ := serving(t, o)
	f := &fleet{t: t, x: x, source: offerOf(t, l, x)}
	f.plan = Fanout{Descriptor: f.source.Descriptor(), Width: width}
	for range n {
		l, stop := serving(t, o)
		f.peers, f.stop = append(f.peers, l), append(f.stop, stop)
		f.plan.Peers = append(f.plan.Peers, l.Addr().String())
	}
	return f
}

type relayed struct {
	offer *Offer
	r     GatherReport
	err   error
}

// relay calls Relay for peer i, and compares the elements.
func (f *fleet) relay(ctx context.Context, i int, d core.Device) relayed {
	y, o, r, err := f.peers[i].Relay(ctx, f.plan, i, d)
	if err == nil {
		if equal, differ := core.EqualBits(context.Background(), f.x, y); !equal || differ != nil {
			f.t.Errorf("peer %d has other elements: %v", i, differ)
		}
		_ = y.Close()
		f.t.Cleanup(func() { _ = o.Close() })
	}
	return relayed{o, r, err}
}

// relayAll calls Relay for all peers, the last one first.
func (f *fleet) relayAll(d core.Device) []relayed {
	got := make([]relayed, len(f.peers))
	var group sync.WaitGroup
	for i := len(f.peers) - 1; i >= 0; i-- {
		group.Go(func() { got[i] = f.relay(context.Background(), i, d) })
	}
	group.Wait()
	return got
}

// passed returns the bytes that peer i has passed on, or the source, with -1.
func (f *fleet) passed(i int) int64 {
	if i < 0 {
		return f.source.BytesRead()
	}
	if o := f.peers[i].offers.find(f.source.key); o != nil {
		return o.BytesRead()
	}
	return 0
}

// Peers get a tensor, eight of them or, in a quick run, five. Each process sends each byte once in a chain, and at most twice in
// a tree.
func TestRelay(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	n, large, some := coretest.Times(5, 8, 8), coretest.Times(10, 16, 16), coretest.Times(6, 10, 10) // peers, and rows of 1 MiB of two tensors
	for _, c := range []struct {
		name  string
		x     *core.Tensor
		width int
		want  int // the width that is used
	}{
		{"large", keep(row(t, large<<20, 1).Reshape(int64(large), 1<<20)), 0, 1},
		{"small", keep(row(t, 1000, 1).Reshape(10, 100)), 0, 2},
		{"chain", keep(row(t, some<<20, 1).Reshape(int64(some), 1<<20)), 1, 1},
		{"tree", keep(row(t, some<<20, 1).Reshape(int64(some), 1<<20)), 2, 2},
		{"scalar", keep(row(t, 1, 1).Reshape()), 1, 1},
		{"strided", keep(keep(row(t, 600*100, 1).Reshape(600, 100)).Transpose()), 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, n, c.width, c.x, Options{})
			want := make([]int64, n+1) // by process, the source last
			for i := range n {
				above := i/c.want - 1
				want[(above+n+1)%(n+1)] += c.x.NumBytes()
			}
			for i, got := range f.relayAll(d) {
				if got.err != nil {
					t.Fatalf("peer %d: %v", i, got.err)
				}
				if got.r.Bytes != c.x.NumBytes() || got.r.Sources[0].Bytes != got.r.Bytes {
					t.Errorf("peer %d: %+v", i, got.r)
				}
			}
			for i := -1; i < n; i++ {
				until(func() bool { return f.passed(i) >= want[(i+n+1)%(n+1)] })
				if got := f.passed(i); got != want[(i+n+1)%(n+1)] {
					t.Errorf("process %d has sent %d bytes, want %d", i, got, want[(i+n+1)%(n+1)])
				}
			}
		})
	}
}

// Peers in the middle die when a half of the tensor has passed: those below them get the rest from above.
func TestRelayWherePeersDie(t *testing.T) {
	needForcedClose(t)
	d := host(t)
	keep := coretest.Keep(t)
	rows := coretest.Times(10, 12, 12) // more than are asked for at once in each half
	x := keep(row(t, rows*pieceBytes, 1).Reshape(int64(rows), pieceBytes))
	for _, width := range []int{1, 2} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			n := coretest.Times(2+2*width, 8, 8) // some peers are below those that die
			f := newFleet(t, n, width, x, Options{})
			half := &gathering{divided: true} // the source has only a half at first
			for i := range rows {
				p := portion{first: int64(i), count: 1}
				if i < rows/2 {
					p.state = there
				}
				half.portions = append(half.portions, p)
			}
			f.source.arriving = half
			dies := map[int]bool{1: true, 2: true}
			got := make([]relayed, n)
			var all, dead sync.WaitGroup
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			for i := range n {
				if dies[i] {
					dead.Go(func() { got[i] = f.relay(ctx, i, d) })
				} else {
					all.Go(func() { got[i] = f.relay(t.Context(), i, d) })
				}
			}
			for i := range n { // each one has passed on the half
				above := i/width - 1
				below := int64(0)
				for k := range n {
					if k/width-1 == above {
						below++
					}
				}
				until(func() bool { return f.passed(above) == below*x.NumBytes()/2 })
			}
			kill()
			dead.Wait()
			for i := range dies {
				f.stop[i]()
			}
			half.mu.Lock()
			for i := range half.portions {
				half.portions[i].state = there
			}
			half.notify()
			half.mu.Unlock()
			all.Wait()
			moved := 0
			for i := range n {
				switch {
				case dies[i]:
					if !errors.Is(got[i].err, context.Canceled) {
						t.Errorf("peer %d, which died: %v", i, got[i].err)
					}
				case got[i].err != nil:
					t.Errorf("peer %d: %v", i, got[i].err)
				case dies[i/width-1]:
					moved++
					var typed *ConnError
					s := got[i].r.Sources
					if s[0].Bytes == 0 || s[0].Bytes > x.NumBytes()/2 || got[i].r.Bytes != x.NumBytes() ||
						!errors.As(s[0].Err, &typed) && !errors.Is(s[0].Err, core.ErrClosed) {
						t.Errorf("peer %d below one that died: %+v", i, s)
					}
				}
			}
			if moved == 0 {
				t.Error("no peer was below one that died")
			}
		})
	}
}

// A peer that listens, and does not call Relay within the keep-alive time, is passed over. One that calls it late is waited for.
func TestRelayThatBeginsLate(t *testing.T) {
	d := host(t)
	x := row(t, 1000, 1)
	f := newFleet(t, 2, 1, x, Options{KeepAlive: 200 * time.Millisecond})
	got := f.relay(t.Context(), 1, d)
	if s := got.r.Sources; got.err != nil || !errors.Is(s[0].Err, core.ErrClosed) || s[1].Bytes != 1000 {
		t.Errorf("peer 0 does not relay: %v, %+v", got.err, got.r)
	}
	f = newFleet(t, 2, 1, x, Options{KeepAlive: maxAlive})
	late := make(chan relayed, 1)
	go func() { late <- f.relay(context.Background(), 1, d) }()
	time.Sleep(20 * time.Millisecond)
	if got := f.relay(t.Context(), 0, d); got.err != nil {
		t.Error(got.err)
	}
	if got := <-late; got.err != nil || got.r.Sources[0].Bytes != 1000 {
		t.Errorf("peer 0 relays late: %v, %+v", got.err, got.r)
	}
}

// A source that is gone ends Relay with a typed error, and those that wait below. Nothing is offered then.
func TestRelayWithoutASource(t *testing.T) {
	d := host(t)
	x := row(t, 1000, 1)
	f := newFleet(t, 3, 1, x, Options{KeepAlive: 200 * time.Millisecond})
	_ = f.source.Close()
	for i, got := range f.relayAll(d) {
		if !errors.Is(got.err, core.ErrClosed) || f.peers[i].offers.find(f.source.key) != nil {
			t.Errorf("peer %d: %v", i, got.err)
		}
	}
}

func TestWrongRelays(t *testing.T) {
	d := host(t)
	x := row(t, 1000, 1)
	f := newFleet(t, 2, 1, x, Options{})
	try := func(change func(*Fanout), self int, device core.Device) error {
		plan := f.plan
		plan.Peers = append([]string(nil), plan.Peers...)
		change(&plan)
		y, o, _, err := f.peers[0].Relay(t.Context(), plan, self, device)
		if err == nil {
			_ = y.Close()
			_ = o.Close()
		}
		return err
	}
	same := func(*Fanout) {}
	a, _ := connect(t, Options{})
	ofConn := offer(t, a, x, OfferOptions{}).Descriptor()
	for name, c := range map[string]struct{ err, want error }{
		"no device":      {try(same, 0, nil), core.ErrInvalid},
		"no descriptor":  {try(func(p *Fanout) { p.Descriptor = nil }, 0, d), core.ErrInvalid},
		"of a conn":      {try(func(p *Fanout) { p.Descriptor = ofConn }, 0, d), core.ErrInvalid},
		"no peers":       {try(func(p *Fanout) { p.Peers = nil }, 0, d), core.ErrInvalid},
		"negative self":  {try(same, -1, d), core.ErrInvalid},
		"self outside":   {try(same, 2, d), core.ErrInvalid},
		"negative width": {try(func(p *Fanout) { p.Width = -1 }, 0, d), core.ErrInvalid},
		"empty address":  {try(func(p *Fanout) { p.Peers[1] = "" }, 0, d), core.ErrInvalid},
		"right":          {try(same, 0, d), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if got := f.relay(t.Context(), 0, d); got.err != nil {
		t.Fatal(got.err)
	}
	if err := try(same, 0, d); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("the tensor is relayed already: %v", err)
	}
	f.stop[0]()
	if err := try(same, 0, d); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}

// A peer asks for other rows than portions, for all, and for rows that do not exist, of a tensor that is arriving.
func TestRequestsForArrivingRows(t *testing.T) {
	d := host(t)
	keep := coretest.Keep(t)
	const rows, row1 = 16, 1 << 20
	x := keep(row(t, rows*row1, 1).Reshape(rows, row1))
	l, _ := serving(t, Options{})
	f := offerOf(t, l, x)
	g := &gathering{divided: true, portions: []portion{{count: 4, state: there}, {first: 4, count: 4, state: there}, {first: 8, count: 8}}}
	f.arriving = g
	c, err := Dial(t.Context(), l.Addr().String(), insecure)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fetch := func(first, last int64) error {
		y, _, err := c.FetchRows(t.Context(), f.Descriptor(), first, last, d)
		if err != nil {
			return err
		}
		defer y.Close()
		if last < 0 {
			last = rows
		}
		part, err := x.Slice(0, first, last, 1)
		if err != nil {
			return err
		}
		defer part.Close()
		wantEqual(t, part, y)
		return nil
	}
	for _, r := range [][2]int64{{0, 8}, {3, 5}, {8, 8}, {0, 1}} {
		if err := fetch(r[0], r[1]); err != nil {
			t.Errorf("rows %v, which are there: %v", r, err)
		}
	}
	late := make(chan error, 3)
	for _, r := range [][2]int64{{0, -1}, {15, 16}, {7, 9}} {
		go func() { late <- fetch(r[0], r[1]) }()
	}
	g.mu.Lock()
	g.portions[2].state = there // before the requests come, or while they wait
	g.notify()
	g.mu.Unlock()
	for range 3 {
		if err := <-late; err != nil {
			t.Error(err)
		}
	}
	g.mu.Lock()
	g.portions[2].state, g.left = missing, 1
	g.mu.Unlock()
	go func() { late <- fetch(15, 16) }()
	g.fail(errors.New("no source"))
	if err := <-late; !errors.Is(err, core.ErrClosed) || errors.As(err, new(*ConnError)) {
		t.Errorf("rows that do not come: %v", err)
	}
}

// The width that ends earlier by the formula, and the levels of chains and trees.
func TestFanoutWidth(t *testing.T) {
	for _, c := range []struct {
		n     int
		bytes int64
		want  int
	}{{1, 1 << 30, 1}, {1, 0, 1}, {2, 1 << 30, 1}, {8, 1000, 2}, {8, 4 << 20, 2}, {8, 64 << 20, 1}, {1000, 64 << 20, 2}, {1000, 64 << 30, 1}} {
		if got := fanoutWidth(c.n, c.bytes); got != c.want {
			t.Errorf("%d peers and %d bytes: width %d, want %d", c.n, c.bytes, got, c.want)
		}
	}
	for _, c := range [][3]int{{1, 1, 1}, {8, 1, 8}, {1, 2, 1}, {2, 2, 1}, {3, 2, 2}, {6, 2, 2}, {7, 2, 3}, {14, 2, 3}, {15, 2, 4}, {4, 3, 2}, {0, 2, 0}} {
		if got := fanoutLevels(c[0], c[1]); got != c[2] {
			t.Errorf("%d peers of width %d have %d levels, want %d", c[0], c[1], got, c[2])
		}
	}
}
