package remote

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Part is an offer that has rows of the tensor that [Gather] makes.
type Part struct {
	// Descriptor is that of the offer.
	Descriptor []byte
	// Conn is the connection to ask on, which stays open. If it is nil, Gather connects to the listener that the
	// descriptor names, once for all sources with that address.
	Conn *Conn
	// Start and Stop are the rows of the offered tensor to use, without Stop. If both are 0, all are used.
	Start, Stop int64
	// At is the row of the result that row Start becomes.
	At int64
}

// GatherReport describes how [Gather] or [Listener.Relay] has made a tensor.
type GatherReport struct {
	Report
	Sources []SourceReport `json:"sources"` // one for each source, in their order
}

// SourceReport is what came from one source.
type SourceReport struct {
	Peer  string `json:"peer"`  // the address of the source; "" if it was not asked
	Bytes int64  `json:"bytes"` // of the elements that came from it
	Err   error  `json:"-"`     // why it was not used to the end; nil if it was
}

// Gather makes a tensor of rows that several processes offer. The rows of the result are those that the sources have, from
// row 0 on, without a gap. Rows that several sources have come from all of them at the same time, in portions of some
// megabytes. So one list describes copies of one tensor, parts of a tensor, and copies of parts. If a source fails, its rows
// come from the others that have them. The caller closes the result, and still owns the connections in sources.
//
// A tensor that cannot be divided into rows, because it has no axes or its rows share bytes, comes from one source at a time.
// Options are for the connections that Gather makes, and closes; if each source has a Conn, only the Tracer is used. Gather returns
//
//   - core.ErrInvalid if there is no source, the device is nil, or an option or descriptor is wrong;
//   - core.ErrDType or core.ErrLayout if the sources do not fit together, rows do not exist, or a row of the result is in none;
//   - core.ErrOutOfMemory if there are more bytes than this process permits (see [Limits]), or no memory;
//   - core.ErrClosed, with the errors of the sources, if rows are missing and no source that has them is left;
//   - ctx's error, and other errors of the device.
//
// A source counts as failed if Gather cannot connect to it within Options.KeepAlive, or if its connection ends, as it does when the source
// shows no sign of life. A source that is alive and does not send what it was asked for does not count as failed, since a slow one looks
// the same: Gather waits for it until ctx ends. The memory of the whole result is allocated before a source is asked.
func Gather(ctx context.Context, sources []Part, device core.Device, o Options) (*core.Tensor, GatherReport, error) {
	if o.Tracer != nil {
		return traceGather(ctx, o.Tracer, sources, device, o)
	}
	return gather(ctx, sources, device, o)
}

func gather(ctx context.Context, sources []Part, device core.Device, o Options) (*core.Tensor, GatherReport, error) {
	began := time.Now()
	g, err := newGathering(ctx, sources, device, o)
	if err != nil {
		return nil, GatherReport{}, err
	}
	g.divide()
	t, r, err := g.run(ctx)
	r.Duration = time.Since(began)
	return t, r, err
}

// portion is a run of rows of the result that one request fetches.
type portion struct {
	first, count int64 // count is -1 for a tensor that is not divided
	sources      int   // that have the rows and have not failed
	state        portionState
}

type portionState uint8

const (
	missing portionState = iota
	asking               // a source was asked
	there
)

// supplier is a source while a tensor is gathered. The gathering's mutex guards next, failed and report.
type supplier struct {
	Part
	d      description
	link   *link
	mine   []int // the portions that it has, in the order in which they are asked for
	next   int   // index into mine at which to look first
	failed bool
	report SourceReport
}

// link is a connection, which the sources with one address share, or those with one Conn.
type link struct {
	once sync.Once
	own  bool // the gathering makes it, and closes it
	conn *Conn
	err  error
	turn chan struct{} // has one element for each request: each message of the peer would wake all that wait in ask
}

// gathering is a tensor whose rows come from several sources.
type gathering struct {
	options   Options
	dst       *core.Tensor // the result
	meta      meta
	bytes     int64
	divided   bool // the portions are rows
	inOrder   bool // a source is asked only if all before it have failed
	began     time.Time
	suppliers []*supplier

	mu       sync.Mutex
	moved    Report // of the portions that are there: bytes that were copied, mechanism and reason
	portions []portion
	left     int           // portions that are not there
	err      error         // why it has failed
	changed  chan struct{} // closed when something above changes; nil if nobody waits for that
}

const (
	// portionBytes is the size of a portion, if rows are smaller. It is one piece of a transfer: smaller ones need more
	// requests, larger ones pass later through a chain of processes.
	portionBytes = pieceBytes
	// requestsAtOnce is how many portions a source is asked for at the same time, so that it always has one to send.
	requestsAtOnce = 4
)

// newGathering checks what Gather gets, and allocates the result, which run owns.
func newGathering(ctx context.Context, sources []Part, device core.Device, o Options) (*gathering, error) {
	switch {
	case len(sources) == 0:
		return nil, invalid("Gather", "there is no source")
	case device == nil:
		return nil, invalid("Gather", "the device is nil")
	}
	g := &gathering{moved: Report{Mechanism: exchange.Direct}, began: time.Now()}
	limit, links, given, rows := int64(maxBytes), map[string]*link{}, map[*Conn]*link{}, int64(0)
	for i, s := range sources {
		d, _, err := readDescription(s.Descriptor)
		if err != nil {
			return nil, err
		}
		x := &supplier{Part: s, d: d}
		switch {
		case s.Conn != nil && s.Conn.raw == nil:
			return nil, noConn("Gather")
		case s.Conn != nil:
			if given[s.Conn] == nil {
				given[s.Conn] = &link{conn: s.Conn}
			}
			x.link = given[s.Conn]
			limit = min(limit, s.Conn.options.Limits.Bytes)
		case d.Address == "":
			return nil, invalid("Gather", "source %d has no address: it is an offer of a connection, so set Conn", i)
		default:
			if len(links) == 0 {
				if err := o.check(); err != nil {
					return nil, err
				}
				limit = min(limit, o.Limits.Bytes)
			}
			if links[d.Address] == nil {
				links[d.Address] = &link{own: true}
			}
			x.link = links[d.Address]
		}
		if i == 0 {
			g.meta = d.meta()
			_, err := rowsOf(d.DType, d.Shape, d.Padded, 0, 0)
			g.divided = err == nil
		}
		if err := x.check(g, i); err != nil {
			return nil, err
		}
		rows = max(rows, x.At+x.Stop-x.Start)
		g.suppliers = append(g.suppliers, x)
	}
	g.options = o
	if g.divided {
		g.meta.shape = append([]int64{rows}, g.meta.shape[1:]...)
	}
	var err error
	if g.bytes, err = g.meta.bytes(); err != nil {
		return nil, err
	}
	if g.bytes > limit {
		return nil, core.Errorf(core.ErrOutOfMemory, "remote", "Gather", "%d bytes were asked for, and the limits of this process permit %d", g.bytes, limit)
	}
	if err := g.covered(); err != nil {
		return nil, err
	}
	g.dst, err = allocate(ctx, device, &g.meta, g.bytes)
	return g, err
}

// check completes a source, and finds out whether it fits to the first one.
func (s *supplier) check(g *gathering, i int) error {
	first := &g.meta
	switch {
	case s.d.DType != first.dtype || s.d.Padded != (first.flags&core.FlagSubBytePadded != 0):
		return core.Errorf(core.ErrDType, "remote", "Gather", "source %d has the type %v, and source 0 has %v", i, s.d.DType, first.dtype)
	case !g.divided && !slices.Equal(s.d.Shape, first.shape):
		return core.Errorf(core.ErrLayout, "remote", "Gather", "source %d has the shape %v, and source 0 has %v", i, s.d.Shape, first.shape)
	case !g.divided && (s.Start != 0 || s.Stop != 0 || s.At != 0):
		return core.Errorf(core.ErrLayout, "remote", "Gather", "rows of source %d were asked for, and a tensor of the type %v and the shape %v has no rows that can be sent alone", i, first.dtype, first.shape)
	case !g.divided:
		return nil
	case len(s.d.Shape) != len(first.shape) || !slices.Equal(s.d.Shape[1:], first.shape[1:]):
		return core.Errorf(core.ErrLayout, "remote", "Gather", "source %d has the shape %v, and source 0 has %v: only the first axis may differ", i, s.d.Shape, first.shape)
	}
	if s.Start == 0 && s.Stop == 0 {
		s.Stop = s.d.Shape[0]
	}
	if s.Start < 0 || s.Stop < s.Start || s.Stop > s.d.Shape[0] {
		return core.Errorf(core.ErrLayout, "remote", "Gather", "rows %d to %d of source %d were asked for, which has the shape %v", s.Start, s.Stop, i, s.d.Shape)
	}
	if rows := s.Stop - s.Start; s.At < 0 || s.At > 1<<62-rows {
		return core.Errorf(core.ErrLayout, "remote", "Gather", "%d rows of source %d were asked for at row %d of the result", rows, i, s.At)
	}
	return nil
}

// covered reports an error if a row of the result is in no source.
func (g *gathering) covered() error {
	if !g.divided {
		return nil
	}
	byStart := slices.SortedFunc(slices.Values(g.suppliers), func(a, b *supplier) int { return cmp.Compare(a.At, b.At) })
	end := int64(0)
	for _, s := range byStart {
		if s.At > end {
			return core.Errorf(core.ErrLayout, "remote", "Gather", "no source has the rows %d to %d of the result", end, s.At)
		}
		end = max(end, s.At+s.Stop-s.Start)
	}
	return nil
}

// divide makes the portions. None of them crosses the beginning or the end of a source.
func (g *gathering) divide() {
	if !g.divided {
		g.portions = []portion{{count: -1, sources: len(g.suppliers)}}
		for _, s := range g.suppliers {
			s.mine = []int{0}
		}
		g.left = 1
		return
	}
	var borders []int64
	for _, s := range g.suppliers {
		borders = append(borders, s.At, s.At+s.Stop-s.Start)
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	rows := g.meta.shape[0]
	step := max(rows, 1)
	if g.bytes > 0 {
		step = max(1, portionBytes/(g.bytes/rows))
	}
	for i := 1; i < len(borders); i++ {
		for first := borders[i-1]; first < borders[i]; first += step {
			g.portions = append(g.portions, portion{first: first, count: min(step, borders[i]-first)})
		}
	}
	g.left = len(g.portions)
	for _, s := range g.suppliers {
		i := sort.Search(len(g.portions), func(k int) bool { return g.portions[k].first >= s.At })
		for ; i < len(g.portions) && g.portions[i].first < s.At+s.Stop-s.Start; i++ {
			s.mine = append(s.mine, i)
			g.portions[i].sources++
		}
	}
	if g.inOrder {
		return
	}
	for k, s := range g.suppliers {
		// What few sources have comes first: others cannot help with it at the end. Sources with the same rows begin at
		// different places.
		slices.SortStableFunc(s.mine, func(i, j int) int { return cmp.Compare(g.portions[i].sources, g.portions[j].sources) })
		alone := 0
		for alone < len(s.mine) && g.portions[s.mine[alone]].sources == 1 {
			alone++
		}
		shared := s.mine[alone:]
		turn := len(shared) * k / len(g.suppliers)
		s.mine = slices.Concat(s.mine[:alone], shared[turn:], shared[:turn])
	}
}

// run fetches all portions, and returns the result, which the caller owns.
func (g *gathering) run(ctx context.Context) (*core.Tensor, GatherReport, error) {
	within, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(ctx, func() { g.fail(ctx.Err()) })
	var workers sync.WaitGroup
	ask := func(s *supplier) {
		var group sync.WaitGroup
		for range min(requestsAtOnce, len(s.mine)) {
			group.Go(func() { g.work(within, s) })
		}
		group.Wait()
	}
	if g.inOrder {
		workers.Go(func() {
			for _, s := range g.suppliers { // the next one is asked when this one has failed
				ask(s)
			}
		})
	} else {
		for _, s := range g.suppliers {
			workers.Go(func() { ask(s) })
		}
	}
	g.mu.Lock()
	for g.err == nil && g.left > 0 {
		changed := g.watch()
		g.mu.Unlock()
		<-changed
		g.mu.Lock()
	}
	err := g.err
	g.mu.Unlock()
	cancel()
	workers.Wait()
	release()
	r := GatherReport{Report: g.moved} // nobody changes it any more
	r.Device = g.dst.DeviceID()
	var closing sync.WaitGroup
	for _, s := range g.suppliers {
		r.Sources = append(r.Sources, s.report)
		r.Bytes += s.report.Bytes
		if c := s.link.conn; c != nil && s.link.own {
			closing.Go(func() { _ = c.Close() })
		}
		if c := s.link.conn; c != nil && s.report.Bytes > 0 {
			for _, name := range c.Transports() {
				if !slices.Contains(r.Transports, name) {
					r.Transports = append(r.Transports, name)
				}
			}
		}
	}
	closing.Wait()
	if err != nil {
		_ = g.dst.Close()
		return nil, r, err
	}
	return g.dst, r, nil
}

// work asks a source for portions until there is nothing to ask it for.
func (g *gathering) work(ctx context.Context, s *supplier) {
	for {
		i, ok := g.take(s)
		if !ok {
			return
		}
		r, err := g.fetch(ctx, s, i)
		g.settle(ctx, s, i, &r, err)
	}
}

// take waits for a portion to ask the source for. It reports false if there will be none.
func (g *gathering) take(s *supplier) (int, bool) {
	g.mu.Lock()
	for {
		if g.err != nil || g.left == 0 || s.failed {
			g.mu.Unlock()
			return 0, false
		}
		complete := true
		for k := range s.mine {
			at := (s.next + k) % len(s.mine)
			p := &g.portions[s.mine[at]]
			if p.state == missing {
				s.next = at + 1
				p.state = asking
				g.mu.Unlock()
				return s.mine[at], true
			}
			complete = complete && p.state == there
		}
		if complete { // what others ask for meanwhile need not wake this worker
			g.mu.Unlock()
			return 0, false
		}
		changed := g.watch()
		g.mu.Unlock()
		<-changed
		g.mu.Lock()
	}
}

// settle notes what has become of a portion. R is how it has come, if err is nil.
func (g *gathering) settle(ctx context.Context, s *supplier, i int, r *Report, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.portions[i]
	if err == nil {
		p.state = there
		g.left--
		s.report.Bytes += r.Bytes
		g.moved.BytesCopied += r.BytesCopied
		if r.Mechanism == exchange.Staged && g.moved.Mechanism != exchange.Staged { // the first reason stands for all
			g.moved.Mechanism, g.moved.Reason = r.Mechanism, r.Reason
		}
		g.notify()
		return
	}
	p.state = missing
	if g.err == nil {
		g.err = ctx.Err()
	}
	if g.err != nil {
		g.notify()
		return
	}
	if !s.failed {
		s.failed, s.report.Err = true, err
		for _, k := range s.mine {
			g.portions[k].sources--
		}
	}
	for _, k := range s.mine {
		if q := &g.portions[k]; q.sources == 0 && q.state == missing {
			g.err = g.none(q)
			break
		}
	}
	g.notify()
}

// none is the error that no source is left for a portion. g.mu is held.
func (g *gathering) none(p *portion) error {
	var failed []error
	for _, s := range g.suppliers {
		if s.report.Err != nil {
			failed = append(failed, s.report.Err)
		}
	}
	last := failed[len(failed)-1]
	return core.Errorf(sourcesError{failed}, "remote", "Gather", "no source is left for row %d of the result: %d of %d have failed, the last one with: %v", p.first, len(failed), len(g.suppliers), last)
}

// sourcesError is core.ErrClosed with the errors of sources, whose texts are in the reports.
type sourcesError struct{ sources []error }

func (e sourcesError) Error() string { return core.ErrClosed.Error() }

func (e sourcesError) Unwrap() []error { return append([]error{core.ErrClosed}, e.sources...) }

// fail ends the gathering, unless it has ended.
func (g *gathering) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil && g.left > 0 {
		g.err = err
	}
	g.notify()
}

// watch returns a channel that notify closes. g.mu is held.
func (g *gathering) watch() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

// notify wakes those that wait. g.mu is held.
func (g *gathering) notify() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// fetch asks a source for a portion. Nothing writes its rows any more when fetch returns, unless ctx has ended.
func (g *gathering) fetch(ctx context.Context, s *supplier, i int) (r Report, err error) {
	c, err := s.link.open(ctx, s.d.Address, g.options)
	if err != nil {
		return r, err
	}
	p := &g.portions[i]
	q, m := request{key: s.d.key, count: -1}, g.meta
	rows, err := g.dst.Share()
	if g.divided && err == nil {
		_ = rows.Close()
		q.first, q.count = s.Start+p.first-s.At, p.count
		m.shape = append([]int64{p.count}, g.meta.shape[1:]...)
		rows, err = g.dst.Slice(0, p.first, p.first+p.count, 1)
	}
	if err != nil {
		return r, err
	}
	defer rows.Close()
	if q.bytes, err = m.bytes(); err != nil {
		return r, err
	}
	g.mu.Lock()
	s.report.Peer = c.Peer().String()
	g.mu.Unlock()
	if err := c.explain(c.lock(ctx, s.link.turn)); err != nil {
		return r, err
	}
	defer func() { <-s.link.turn }()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := c.explain(c.fetchInto(ctx, &q, m, rows, &r))
		if err == nil || !g.early(s, err) {
			return r, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// open connects to the address, the first time, unless the program has connected, and returns the connection.
func (k *link) open(ctx context.Context, address string, o Options) (*Conn, error) {
	k.once.Do(func() {
		if k.own {
			within, cancel := context.WithTimeout(ctx, o.KeepAlive)
			defer cancel()
			k.conn, k.err = Dial(within, address, o)
			if k.err != nil && ctx.Err() == nil && within.Err() != nil {
				k.err = core.Errorf(causeError{core.ErrClosed, os.ErrDeadlineExceeded}, "remote", "Dial", "%s has not answered for %v: %v", address, o.KeepAlive, k.err)
			}
		}
		if k.err == nil {
			k.turn = make(chan struct{}, k.conn.mostRequests())
		}
	})
	return k.conn, k.err
}
