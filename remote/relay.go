package remote

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Fanout describes how the elements of one offer go to many processes: each of them offers its rows to others while they
// arrive, so that the source sends each byte once or twice. All processes use the same description.
type Fanout struct {
	// Descriptor is that of an offer of a listener, the source.
	Descriptor []byte `json:"descriptor"`
	// Peers are the addresses of the listeners of the processes that get the tensor, in one order. Each process listens
	// before the first one calls Relay.
	Peers []string `json:"peers"`
	// Width is the number of processes to which the source and each peer send: 1 makes a chain, 2 a tree. 0 selects the
	// one that ends earlier by the formula in docs/remote.md.
	Width int `json:"width,omitempty"`
}

const maxPeers = 1 << 16

// hopBytes is what a link carries while a request and its answer travel, such as 10 Gbit/s for 200 µs.
const hopBytes = 256 << 10

// fanoutWidth returns the width for n peers and a tensor of the given number of bytes.
func fanoutWidth(n int, bytes int64) int {
	if fanoutCost(n, bytes, 1) <= fanoutCost(n, bytes, 2) {
		return 1
	}
	return 2
}

// fanoutCost returns how many bytes a link carries from the beginning until the last peer has the tensor. Each process sends
// the bytes width times, and a level of the tree has the first portion later than the one above it.
func fanoutCost(n int, bytes int64, width int) int64 {
	return int64(width)*bytes + int64(fanoutLevels(n, width)-1)*(int64(width)*min(bytes, portionBytes)+hopBytes)
}

// fanoutLevels returns the number of levels of n peers.
func fanoutLevels(n, width int) int {
	levels := 0
	for i := n - 1; i >= 0; i = i/width - 1 {
		levels++
	}
	return levels
}

// check completes the description, and returns what its descriptor says and the number of bytes.
func (f *Fanout) check(self int) (d description, bytes int64, err error) {
	if d, bytes, err = readDescription(f.Descriptor); err != nil {
		return d, 0, err
	}
	switch {
	case d.Address == "":
		return d, 0, invalid("Relay", "the descriptor has no address: it is of an offer of a connection, and only offers of listeners can be relayed")
	case len(f.Peers) > maxPeers:
		return d, 0, invalid("Relay", "there are %d peers; %d are possible", len(f.Peers), maxPeers)
	case self < 0 || self >= len(f.Peers):
		return d, 0, invalid("Relay", "this process is peer %d, and there are %d peers", self, len(f.Peers))
	case f.Width < 0:
		return d, 0, invalid("Relay", "the width is %d, and cannot be negative", f.Width)
	}
	for i, a := range f.Peers {
		if a == "" || len(a) > maxAddress {
			return d, 0, invalid("Relay", "the address of peer %d has %d bytes; 1 to %d are possible", i, len(a), maxAddress)
		}
	}
	if f.Width == 0 {
		f.Width = fanoutWidth(len(f.Peers), bytes)
	}
	return d, bytes, nil
}

// sources returns from where peer self gets the tensor: from the peer above it, or, if that fails, from the next one above,
// and at last from the source. Each of them offers it by the same key.
func (f *Fanout) sources(d *description, self int) []Part {
	var s []Part
	for i := self/f.Width - 1; i >= 0; i = i/f.Width - 1 {
		above := *d
		above.Address = f.Peers[i]
		s = append(s, Part{Descriptor: appendDescription(nil, &above)})
	}
	return append(s, Part{Descriptor: f.Descriptor})
}

// Relay fetches the tensor of f, and offers its rows to the peers below this one while they arrive. This process is peer self,
// whose address must be that of l. The program accepts connections of the listener at the same time; see [Listener.Serve].
// The options of the listener also apply to the connections to other processes, so Options.TLS needs RootCAs and ClientCAs.
//
// Relay returns when the tensor is complete. The caller closes the tensor, and the offer when no peer needs it any more; peers
// that come later get the tensor from the process above. The offer ends at the latest with the lease of the source, by the
// clock of this machine. On failure there is neither.
//
// If the process above fails, or does not offer the tensor within Options.KeepAlive, the next one above it takes its place,
// and at last the source. Relay returns the errors of [Gather], and core.ErrInvalid if f or self is wrong, or the listener
// offers the tensor already.
func (l *Listener) Relay(ctx context.Context, f Fanout, self int, device core.Device) (*core.Tensor, *Offer, GatherReport, error) {
	if l == nil || l.socket == nil {
		return nil, nil, GatherReport{}, invalid("Relay", "the listener is nil or was not made by Listen")
	}
	if x := l.options.Tracer; x != nil {
		return l.traceRelay(ctx, x, f, self, device)
	}
	return l.relay(ctx, f, self, device)
}

func (l *Listener) relay(ctx context.Context, f Fanout, self int, device core.Device) (*core.Tensor, *Offer, GatherReport, error) {
	began := time.Now()
	d, _, err := f.check(self)
	if err != nil {
		return nil, nil, GatherReport{}, err
	}
	g, err := newGathering(ctx, f.sources(&d, self), device, l.options)
	if err != nil {
		return nil, nil, GatherReport{}, err
	}
	g.inOrder = true
	g.divide()
	offered, err := g.offer(l, d, f.Peers[self])
	if err != nil {
		_ = g.dst.Close()
		return nil, nil, GatherReport{}, err
	}
	t, r, err := g.run(ctx)
	r.Duration = time.Since(began)
	if err != nil {
		_ = offered.Close()
		return nil, nil, r, err
	}
	return t, offered, r, nil
}

// offer offers the rows of the result by the key of the source. The caller closes the offer.
func (g *gathering) offer(l *Listener, d description, address string) (*Offer, error) {
	x, err := g.dst.AsReadOnly()
	if err != nil {
		return nil, err
	}
	d.Address, d.Writable = address, false
	return l.offers.open(&Offer{tensor: x, arriving: g}, &d)
}

// wait waits until rows have arrived; with count -1, until all have.
func (g *gathering) wait(ctx context.Context, first, count int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, end := 0, len(g.portions)
	if g.divided && count >= 0 {
		i = sort.Search(end, func(k int) bool { p := &g.portions[k]; return p.first+p.count > first })
		end = sort.Search(end, func(k int) bool { return g.portions[k].first >= first+count })
	}
	for i < end {
		switch {
		case g.portions[i].state == there:
			i++
			continue
		case g.err != nil:
			return core.Errorf(core.ErrClosed, "remote", "request", "the process that relays the tensor has not got it: %v", g.err)
		}
		changed := g.watch()
		g.mu.Unlock()
		select {
		case <-changed:
			g.mu.Lock()
		case <-ctx.Done():
			g.mu.Lock()
			return ctx.Err()
		}
	}
	return nil
}

// early reports whether a source has refused a request because it does not offer the tensor yet: a process that relays it,
// and has sent nothing, has some time to begin.
func (g *gathering) early(s *supplier, err error) bool {
	if !g.inOrder || s == g.suppliers[len(g.suppliers)-1] || !errors.Is(err, core.ErrClosed) || errors.As(err, new(*ConnError)) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err == nil && s.report.Bytes == 0 && time.Since(g.began) < g.options.KeepAlive
}

// Serve accepts connections for a program that only offers tensors: it closes each of them when its peer has ended it.
// Serve returns when ctx ends or the listener is closed, with the error of [Listener.Accept], and all connections are closed
// then.
func (l *Listener) Serve(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	for {
		c, err := l.Accept(within)
		if err != nil {
			return err
		}
		conns.Go(func() {
			select {
			case <-c.Done():
			case <-within.Done():
			}
			_ = c.Close()
		})
	}
}
