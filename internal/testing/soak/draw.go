package soak

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

const (
	pageBytes   = 32 << 10 // of Go's memory that tensors of a program have parts of
	mostThreads = 4
	mostSteps   = 40 // of a thread
	mostOpen    = 10 // tensors of a thread
)

// program is what a seed draws: steps that run first, and threads of steps that then
// run at the same time. Steps name what they use by number; a step that was taken out
// is nil, and what it would have made is missing.
type program struct {
	seed                           uint64
	prelude                        []step
	threads                        [][]step
	vars, streams, events, devices int
	links                          int
	gifts                          []int // the threads that give them
	giftVars                       []int // what they are where they are received
}

// all lists where every step stands.
func (p *program) all() []*step {
	var list []*step
	for i := range p.prelude {
		list = append(list, &p.prelude[i])
	}
	for _, steps := range p.threads {
		for i := range steps {
			list = append(list, &steps[i])
		}
	}
	return list
}

// sym is what is known of a tensor before the program runs.
type sym struct {
	id       int
	kind     Kind
	dtype    core.DType
	padded   bool
	readOnly bool
	shape    []int64
	dev      int // -1 if it is of no device
	host     bool
	shared   bool
	closed   bool
	family   int // tensors that may share bytes have the same
}

// drawer draws the steps of a thread.
type drawer struct {
	*rand.Rand
	p       *program
	world   []*Device
	largest int64
	pageEnd *int64 // of what is taken of the program's page
	syms    []*sym
	streams []symStream
	events  []int
	devices []symDevice // of the program
	links   []symLink
	thread  int
	last    bool // of the threads
	prelude bool // what all threads have is drawn
	offers  *[]offer
	steps   []step
}

type symStream struct{ id, dev int }
type symDevice struct {
	id, of   int
	renderer bool
}

// draw draws a program for the devices of a world, whose tensors have so many bytes at most.
func draw(seed uint64, world []*Device, largest int64) *program {
	p := &program{seed: seed}
	rng := rand.New(rand.NewPCG(seed, 0x646c78))
	pageEnd := int64(0)
	first := &drawer{Rand: rng, prelude: true, last: true, offers: new([]offer), p: p, largest: largest, world: world, pageEnd: &pageEnd}
	for range 1 + rng.IntN(3) {
		first.make(first.kind())
	}
	p.prelude = first.steps
	for _, s := range first.syms {
		s.shared = true
	}
	threads := 1
	if rng.IntN(2) == 0 {
		threads = 2 + rng.IntN(mostThreads-1)
	}
	for i := range threads {
		d := &drawer{Rand: rng, thread: i, last: i == threads-1, offers: first.offers, p: p, largest: largest, world: world, pageEnd: &pageEnd, syms: slices.Clone(first.syms)}
		for range 4 + rng.IntN(mostSteps) {
			d.step()
		}
		p.threads = append(p.threads, d.steps)
	}
	p.unclaimed()
	return p
}

// choices are the kinds of steps, with how often each is drawn.
var choices = []struct {
	weight int
	draw   func(*drawer)
}{
	{12, func(d *drawer) { d.make(d.kind()) }},
	{3, (*drawer).overlap},
	{4, (*drawer).neighbours},
	{4, (*drawer).imported},
	{2, (*drawer).crowd},
	{5, (*drawer).tour},
	{10, (*drawer).view},
	{16, (*drawer).move},
	{5, (*drawer).moveAll},
	{4, (*drawer).join},
	{18, (*drawer).copyBetween},
	{8, (*drawer).fill},
	{6, (*drawer).hostWrite},
	{5, (*drawer).kernel},
	{3, (*drawer).reader},
	{3, (*drawer).reexport},
	{4, (*drawer).share},
	{12, (*drawer).compare},
	{10, (*drawer).closeTensor},
	{3, (*drawer).openStream},
	{1, (*drawer).closeStream},
	{2, (*drawer).synchronize},
	{3, (*drawer).record},
	{4, (*drawer).waitEvent},
	{2, (*drawer).handoff},
	{2, (*drawer).link},
	{2, (*drawer).give},
	{2, (*drawer).receive},
	{2, (*drawer).alias},
	{4, (*drawer).over},
	{2, (*drawer).openDevice},
	{3, (*drawer).closeDevice},
	{1, func(d *drawer) { d.add(collect{}) }},
}

var weights = func() (sum int) {
	for _, c := range choices {
		sum += c.weight
	}
	return sum
}()

func (d *drawer) step() {
	n := d.IntN(weights)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			c.draw(d)
			return
		}
	}
}

func (d *drawer) add(s step) { d.steps = append(d.steps, s) }

// pick is one of the tensors; nil if there is none. Seldom it is one that was closed.
func (d *drawer) pick(fit func(*sym) bool) *sym {
	var list []*sym
	late := d.IntN(40) == 0
	for _, s := range d.syms {
		if (late || !s.closed) && (fit == nil || fit(s)) {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[d.IntN(len(list))]
}

func (d *drawer) kind() Kind { return Kind(d.IntN(int(kinds))) }

// anyDevice is a device by its number.
func (d *drawer) anyDevice() int {
	if len(d.devices) > 0 && d.IntN(3) == 0 {
		return d.devices[d.IntN(len(d.devices))].id
	}
	return d.IntN(len(d.world))
}

// idOf is the device that a number stands for.
func (d *drawer) idOf(dev int) core.DeviceID {
	for _, x := range d.devices {
		if x.id == dev {
			return d.world[x.of].ID()
		}
	}
	return d.world[dev].ID()
}

// streamOf is a stream of a device, -1 for none.
func (d *drawer) streamOf(dev int) int {
	if d.IntN(3) == 0 {
		return -1
	}
	for _, i := range d.Perm(len(d.streams)) {
		if d.streams[i].dev == dev {
			return d.streams[i].id
		}
	}
	if d.IntN(3) == 0 && dev >= 0 {
		return d.newStream(dev)
	}
	return -1
}

// deadline is 0, or when the context of a call ends: seldom.
func (d *drawer) deadline() int {
	switch d.IntN(24) {
	case 0:
		return -1
	case 1:
		return 1 + d.IntN(300)
	}
	return 0
}

func (d *drawer) move() {
	of := d.pick(nil)
	if of == nil || d.full() {
		return
	}
	s := &move{v: d.p.vars, of: of.id, dev: d.anyDevice(), from: -1, deadline: d.deadline()}
	s.copy = exchange.Copy(d.IntN(3))
	if d.IntN(6) == 0 {
		s.only = exchange.Mechanism(1 + d.IntN(5))
	}
	s.stream = d.streamOf(s.dev)
	if of.dev >= 0 && d.IntN(4) == 0 {
		s.from = d.streamOf(of.dev)
	}
	if d.IntN(4) == 0 {
		s.kind = []Kind{Visible, Exportable, Pinned}[d.IntN(3)]
	}
	s.plan = d.IntN(6) == 0
	d.p.vars++
	d.addMove(s, of)
}

// addMove adds a move, and what it makes of a tensor.
func (d *drawer) addMove(s *move, of *sym) *sym {
	d.add(s)
	return d.addMoved(s, of)
}

// addMoved adds what a move makes of a tensor.
func (d *drawer) addMoved(s *move, of *sym) *sym {
	v := *of
	v.id, v.closed, v.shared, v.dev = s.v, false, false, s.dev
	v.host = d.idOf(s.dev).Type.HostAccessible()
	v.kind = Plain
	if s.copy == exchange.Always {
		v.family = v.id
	}
	d.syms = append(d.syms, &v)
	return &v
}

// moveAll draws moves of one to four tensors by one call. A tensor may be drawn twice.
func (d *drawer) moveAll() {
	if d.full() {
		return
	}
	dev, c, deadline := d.anyDevice(), exchange.Copy(d.IntN(3)), d.deadline()
	stream := d.streamOf(dev)
	s := new(moveAll)
	var sources []*sym
	for range 1 + d.IntN(4) {
		of := d.pick(nil)
		if of == nil {
			return
		}
		s.moves = append(s.moves, &move{v: d.p.vars, of: of.id, dev: dev, copy: c, stream: stream, from: -1, deadline: deadline, together: true})
		sources = append(sources, of)
		d.p.vars++
	}
	d.add(s)
	for i, m := range s.moves {
		d.addMoved(m, sources[i])
	}
}

// full closes a tensor where many are open.
func (d *drawer) full() bool {
	n := 0
	for _, s := range d.syms {
		if !s.closed && !s.shared {
			n++
		}
	}
	if n > mostOpen {
		d.closeTensor()
	}
	return n > mostOpen+4
}

func alike(a, b *sym) bool {
	return a.dtype == b.dtype && a.padded == b.padded && len(a.shape) == len(b.shape)
}

func (d *drawer) copyBetween() {
	src := d.pick(nil)
	if src == nil {
		return
	}
	s := &copyTensor{src: src.id, deadline: d.deadline()}
	var dst *sym
	switch d.IntN(9) {
	case 0, 1, 2: // another one like it, or parts of both
		if dst = d.pick(func(x *sym) bool { return x != src && !x.shared && alike(x, src) }); dst != nil {
			s.to, s.from = d.windows(dst.shape, src.shape)
		}
	case 3, 4, 5: // itself, or what may share its bytes: turned round, moved, or the same
		if dst = d.pick(func(x *sym) bool { return !x.shared && x.family == src.family && alike(x, src) }); dst == nil {
			dst = d.viewOf(src, viewShare)
		}
		switch {
		case !slices.Equal(dst.shape, src.shape):
			s.to, s.from = d.windows(dst.shape, src.shape)
		case len(src.shape) > 0 && d.IntN(4) > 0:
			s.to, s.from = d.moved(src.shape)
		}
	case 6: // whatever comes
		dst = d.pick(func(x *sym) bool { return !x.shared })
	}
	if dst == nil {
		dst = d.makeLike(d.kind(), src.dtype, src.padded && src.dtype.SubByte(), slices.Clone(src.shape))
	}
	s.dst = dst.id
	dev := dst.dev
	if dst.host {
		dev = src.dev
		if src.host {
			dev = 0
		}
	}
	s.stream = d.streamOf(dev)
	d.add(s)
}

// windows are parts of two shapes that have the same extents.
func (d *drawer) windows(a, b []int64) (to, from window) {
	if slices.Equal(a, b) && d.IntN(2) == 0 {
		return nil, nil
	}
	to, from = make(window, len(a)), make(window, len(a))
	for i := range a {
		most := min(a[i], b[i])
		if most == 0 {
			to[i], from[i] = cut{0, 0, 1}, cut{0, 0, 1}
			continue
		}
		n := 1 + d.Int64N(most)
		to[i], from[i] = d.within(a[i], n), d.within(b[i], n)
	}
	return to, from
}

// within places n elements somewhere in an axis.
func (d *drawer) within(extent, n int64) cut {
	step := int64(1)
	if n > 1 {
		step = 1 + d.Int64N(min((extent-1)/(n-1), 3))
	}
	start := d.Int64N(extent - (n-1)*step)
	last := start + (n-1)*step
	if d.IntN(3) == 0 {
		return cut{last, start - 1, -step}
	}
	return cut{start, last + 1, step}
}

// moved are windows of one shape that share most of their elements, in other places.
func (d *drawer) moved(shape []int64) (to, from window) {
	to, from = make(window, len(shape)), make(window, len(shape))
	i := d.IntN(len(shape))
	n := shape[i]
	switch {
	case n > 1 && d.IntN(2) == 0:
		by := 1 + d.Int64N(min(n-1, 3))
		to[i], from[i] = cut{by, n, 1}, cut{0, n - by, 1}
		if d.IntN(2) == 0 {
			to, from = from, to
		}
	case n > 0:
		from[i] = cut{n - 1, -1, -1}
	}
	return to, from
}

func (d *drawer) fill() {
	if v := d.pick(func(s *sym) bool { return !s.readOnly && !s.shared }); v != nil {
		dev := v.dev
		if v.host {
			dev = 0
		}
		d.add(&fill{dst: v.id, skip: d.Int64N(40), seed: d.Uint64() >> 40, stream: d.streamOf(dev)})
	}
}

func (d *drawer) onHost(s *sym) bool { return s.host && !s.shared }

func (d *drawer) hostWrite() {
	if v := d.pick(d.onHost); v != nil {
		d.hostWriteOf(v)
	}
}

func (d *drawer) hostWriteOf(v *sym) {
	d.add(&hostWrite{dst: v.id, seed: d.Uint64() >> 40, door: d.IntN(2) == 0})
}

func (d *drawer) kernel() {
	if v := d.pick(d.onHost); v != nil {
		d.kernelOn(v)
	}
}

func (d *drawer) kernelOn(v *sym) {
	d.add(&kernel{dst: v.id, seed: d.Uint64() >> 40, after: time.Duration(d.IntN(500)) * time.Microsecond, fails: d.IntN(10) == 0, queued: d.IntN(3) == 0})
}

func (d *drawer) reader() {
	if v := d.pick(func(s *sym) bool { return s.host }); v != nil {
		d.readerOf(v)
	}
}

func (d *drawer) readerOf(v *sym) {
	d.add(&reader{of: v.id, after: time.Duration(d.IntN(500)) * time.Microsecond})
}

func (d *drawer) reexport() {
	if of := d.pick(func(s *sym) bool { return !s.shared }); of != nil && !d.full() {
		d.reexportOf(of)
	}
}

func (d *drawer) reexportOf(of *sym) {
	v := *of
	v.id, v.closed = d.p.vars, false
	if !v.host {
		v.dev = -1
	}
	d.p.vars++
	d.add(&reexport{v: v.id, of: of.id, legacy: d.IntN(3) == 0})
	d.syms = append(d.syms, &v)
}

func (d *drawer) share() {
	of := d.pick(func(s *sym) bool { return s.kind == Exportable && !s.shared })
	if of == nil {
		of = d.make(Exportable)
	}
	v := *of
	v.id, v.closed, v.dev = d.p.vars, false, d.anyDevice()
	if d.IntN(2) == 0 && of.dev >= 0 {
		v.dev = of.dev
	}
	v.host = d.idOf(v.dev).Type.HostAccessible()
	d.p.vars++
	d.add(&share{v: v.id, of: of.id, handle: d.IntN(4), dev: v.dev, open: d.IntN(2) == 0})
	d.syms = append(d.syms, &v)
}

func (d *drawer) compare() {
	if v := d.pick(nil); v != nil {
		d.add(&compare{of: v.id, how: d.IntN(hows), stream: d.streamOf(v.dev)})
	}
}

func (d *drawer) closeTensor() {
	if v := d.pick(func(s *sym) bool { return !s.shared }); v != nil {
		v.closed = true
		d.add(&closeTensor{of: v.id, twice: d.IntN(4) == 0})
	}
}

func (d *drawer) openStream() { d.newStream(d.anyDevice()) }

func (d *drawer) newStream(dev int) int {
	if len(d.streams) > 6 {
		return -1
	}
	id := d.p.streams
	d.p.streams++
	d.add(&openStream{v: id, dev: dev})
	d.streams = append(d.streams, symStream{id, dev})
	return id
}

// anyStream is a stream by its number, -1 if there is none.
func (d *drawer) anyStream() int {
	if len(d.streams) == 0 {
		return -1
	}
	return d.streams[d.IntN(len(d.streams))].id
}

func (d *drawer) closeStream() {
	if len(d.streams) > 0 {
		i := d.IntN(len(d.streams))
		d.add(&closeStream{of: d.streams[i].id})
		d.streams = slices.Delete(d.streams, i, i+1)
	}
}

func (d *drawer) synchronize() {
	if s := d.anyStream(); s >= 0 {
		d.add(&synchronize{of: s, deadline: d.deadline()})
	}
}

func (d *drawer) record() {
	if s := d.anyStream(); s >= 0 {
		d.add(&record{v: d.p.events, of: s})
		d.events = append(d.events, d.p.events)
		d.p.events++
	}
}

func (d *drawer) waitEvent() {
	if len(d.events) == 0 {
		d.record()
	}
	if len(d.events) > 0 {
		s := -1
		if d.IntN(3) > 0 {
			s = d.streamFor(d.anyDevice())
		}
		d.add(&waitEvent{event: d.events[d.IntN(len(d.events))], stream: s})
	}
}

func (d *drawer) handoff() {
	if v, s := d.pick(nil), d.anyStream(); v != nil && s >= 0 {
		from := -1
		if d.IntN(2) == 0 {
			from = d.anyStream()
		}
		d.add(&handoff{of: v.id, from: from, to: s})
	}
}

func (d *drawer) openDevice() {
	if d.IntN(6) == 0 && d.renderer() >= 0 {
		return
	}
	if len(d.devices) < 2 {
		x := symDevice{id: len(d.world) + d.p.devices, of: d.IntN(len(d.world))}
		d.p.devices++
		d.add(&openDevice{v: x.id, of: x.of})
		d.devices = append(d.devices, x)
	}
}

func (d *drawer) closeDevice() {
	if len(d.devices) > 0 {
		d.add(&closeDevice{dev: d.devices[d.IntN(len(d.devices))].id})
	}
}
