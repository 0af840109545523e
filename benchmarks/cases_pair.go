package benchmarks

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// sharedMove is the longest that a move without a copy may take, and maxHandoff the longest that handing unfinished memory
// from one API to another may take, in nanoseconds.
const (
	sharedMove = 20e3
	maxHandoff = 25e3
)

// pairCases are those from one device to another.
func (l *lister) pairCases(from, to core.DeviceID) {
	ends := from.String() + "/" + to.String()
	extra := l.extraPair(from, to)
	add := func(c Case, more bool, setup func(pair) (trial, error)) {
		c.Name, c.From, c.To = c.Family+"/"+ends+c.Name, Ends{from}, Ends{to}
		c.setup = pairCase(from, to, setup)
		l.add(c, extra || more)
	}
	onHost := from == core.CPU || to == core.CPU
	if !onHost {
		for _, way := range []string{reading, writing} {
			for _, size := range l.buffer(from, to) {
				add(Case{
					Name: size.name, Family: "device_to_device_memcpy_" + way + "_ce", Kind: Bandwidth, Size: size.bytes,
					Description: "copies by the device that " + way + "s, in memory of the other one that it has opened, or by the means of their API",
				}, false, func(p pair) (trial, error) { return p.deviceCopy(way, false, p.bytes(size.bytes)) })
				add(Case{
					Name: size.name, Family: "device_to_device_bidirectional_memcpy_" + way + "_ce", Kind: Bandwidth, Size: size.bytes, Streams: 2,
					Description: "the same, while the other device does so in the other direction; the bytes of one direction count",
				}, true, func(p pair) (trial, error) { return p.deviceCopy(way, true, p.bytes(size.bytes)) })
			}
		}
	}
	for _, size := range l.buffer(from, to) {
		add(Case{
			Name: size.name, Family: "exchange/copy", Kind: Bandwidth, Size: size.bytes,
			Description: "exchange.To by the best way that copies, into new memory, until it may be read",
		}, onHost, func(p pair) (trial, error) {
			return p.copied(exchange.Options{Copy: exchange.Always}, p.bytes(size.bytes))
		})
		if onHost {
			continue // one copy is enough
		}
		add(Case{
			Name: size.name, Family: "exchange/staged", Kind: Bandwidth, Size: size.bytes,
			Description: "a move by two copies through the host, into new memory, as where nothing better works",
			Target:      Target{Measure: Speed, Limit: 0.9, Baseline: ownCopy},
		}, true, func(p pair) (trial, error) { return p.staged(p.bytes(size.bytes)) })
	}
	for i, size := range l.sizes(4<<10, 1<<20, 64<<20) {
		add(Case{
			Name: size.name, Family: "exchange/warm", Kind: Overhead, Size: size.bytes,
			Description: "a move without a copy, of memory that is open there, and its close",
			Target:      Target{Measure: Time, Limit: sharedMove},
		}, i != 1, func(p pair) (trial, error) { return p.warm(size.bytes) })
		add(Case{
			Name: size.name, Family: "exchange/cold", Kind: Overhead, Size: size.bytes,
			Description: "the same of new memory, whose allocation and release are off the clock",
		}, i != 1, func(p pair) (trial, error) { return p.cold(size.bytes) })
	}
	add(Case{
		Family: "exchange/plan", Kind: Overhead, Description: "exchange.Plan of a tensor of 1 MiB, which opens and copies nothing",
	}, true, pair.plan)
	add(Case{
		Family: "latency/exchange", Kind: Latency, Size: 4 << 10, Description: "exchange.To of 4 KiB by the best way that copies, until it may be read, and its close",
	}, true, func(p pair) (trial, error) { return p.copied(exchange.Options{Copy: exchange.Always}, 4<<10) })
	add(Case{
		Family: "handoff", Kind: Latency, Size: 1 << 20,
		Description: "exchange.To, without a copy, of memory whose last write on a stream is unfinished, to a stream there; the write and the wait for it are off the clock",
		Target:      Target{Measure: Time, Limit: maxHandoff},
	}, false, pair.handoff)
	add(Case{
		Family: "signal_to_wait", Kind: Latency, Description: "a stream there waits for one here, which waits for the host: from the host's signal until the host knows that the stream there has passed",
	}, true, pair.signal)
}

// Who makes a copy between two devices.
const (
	reading = "read"
	writing = "write"
)

// pair is a way between two opened devices.
type pair struct {
	*env
	from, to core.Device
	stream   core.Stream // of to
}

func pairCase(from, to core.DeviceID, setup func(pair) (trial, error)) func(*env) (trial, error) {
	return func(e *env) (trial, error) {
		src, err := e.open(from)
		if err != nil {
			return trial{}, err
		}
		dst, err := e.open(to)
		if err != nil {
			return trial{}, err
		}
		s, err := e.stream(dst)
		if err != nil {
			return trial{}, err
		}
		return setup(pair{e, src, dst, s})
	}
}

// move takes t to the other device, in order with the stream there. Where that
// cannot be by the mechanisms that are allowed, the case is unsupported.
func (p pair) move(t *core.Tensor, allowed exchange.Options) (*core.Tensor, exchange.Report, error) {
	allowed.Stream = p.stream
	return p.env.move(t, p.to, allowed)
}

// whyNot gives the reasons against the mechanisms that were allowed, without those
// that say no more than that the others were not.
func whyNot(none *exchange.NoWayError, allowed exchange.Options) string {
	asked := cmp.Or(allowed.Only, exchange.Map)
	var reasons []string
	for _, r := range none.Refused() {
		if r.Mechanism == asked {
			reasons = append(reasons, r.Reason)
		}
	}
	return strings.Join(reasons, "; ")
}

// share is move without a copy.
func (p pair) share(t *core.Tensor) (*core.Tensor, exchange.Report, error) {
	return p.move(t, exchange.Options{Copy: exchange.Never})
}

// reversed is the way back.
func (p pair) reversed() (pair, error) {
	s, err := p.env.stream(p.from)
	return pair{p.env, p.to, p.from, s}, err
}

// deviceCopy copies between memory of the two devices that is there before.
func (p pair) deviceCopy(way string, bothWays bool, size int64) (trial, error) {
	one, err := p.deviceLane(way, size, sentSeed)
	if err != nil {
		return trial{}, err
	}
	lanes := []lane{one}
	if bothWays {
		back, err := p.reversed()
		if err != nil {
			return trial{}, err
		}
		load, err := back.deviceLane(way, size, sentSeed+1)
		if err != nil {
			return trial{}, err
		}
		load.load = true
		lanes = append(lanes, load)
	}
	t, err := p.copies(lanes...)
	t.way = one.way
	return t, err
}

// deviceLane is a lane from one device to the other, whose copies one of the two makes.
func (p pair) deviceLane(way string, size int64, seed uint64) (lane, error) {
	copier, other := p.to, p.from
	if way == writing {
		copier, other = p.from, p.to
	}
	if peer, ok := core.As[core.PeerCopier](copier); ok && way == reading && peer.CanPeer(other) == nil {
		src, err := p.onDevice(other, core.AllocOptions{}, size, seed)
		if err != nil {
			return lane{}, err
		}
		dst, err := p.onDevice(copier, core.AllocOptions{}, size, seed+beforeSeed)
		if err != nil {
			return lane{}, err
		}
		one, err := p.lane(copier, dst, src, seed)
		one.way = exchange.Peer.String()
		one.copy = func() error { return peer.CopyPeer(p.ctx, one.stream, dst.tensor, src.tensor, other) }
		return one, err
	}
	// The copier opens memory of the other device.
	sharing := pair{p.env, other, copier, nil}
	kind, mechanism, err := sharing.shareable(size)
	if err != nil {
		return lane{}, err
	}
	foreign := seed // the seed of the memory that is opened
	if way == writing {
		foreign += beforeSeed
	}
	far, err := p.onDevice(other, kind, size, foreign)
	if err != nil {
		return lane{}, err
	}
	opened, _, err := sharing.share(far.tensor)
	if _, err := p.keep(opened, err); err != nil {
		return lane{}, err
	}
	near, err := p.onDevice(copier, core.AllocOptions{}, size, 2*seed+beforeSeed-foreign)
	if err != nil {
		return lane{}, err
	}
	through := place{device: copier, tensor: opened}
	dst, src := near, through
	if way == writing {
		dst, src = through, near
	}
	one, err := p.lane(copier, dst, src, seed)
	one.way = mechanism
	return one, err
}

// copied moves a tensor into new memory.
func (p pair) copied(o exchange.Options, size int64) (trial, error) {
	src, err := p.onDevice(p.from, core.AllocOptions{}, size, sentSeed)
	if err != nil {
		return trial{}, err
	}
	first, report, err := p.move(src.tensor, o)
	if err != nil {
		return trial{}, err
	}
	if err := p.arrived(first); err != nil {
		return trial{}, err
	}
	t := trial{bytes: size, way: report.Mechanism.String(), refused: report.Refused(), own: repeat(func() error {
		moved, _, err := p.move(src.tensor, o)
		if err != nil {
			return err
		}
		return p.arrived(moved)
	})}
	t.verify = p.verifyMove(src.tensor, o)
	return t, nil
}

// verifyMove moves src once more and compares what arrives with the content of sentSeed.
func (p pair) verifyMove(src *core.Tensor, o exchange.Options) func() (*Mismatch, error) {
	return func() (*Mismatch, error) {
		moved, _, err := p.move(src, o)
		if err != nil {
			return nil, err
		}
		defer moved.Close()
		if err := moved.WaitReady(p.ctx); err != nil {
			return nil, err
		}
		return p.check(arrivedAt(p.to, moved), sentSeed, sentSeed+beforeSeed)
	}
}

// plan plans a move of plain memory.
func (p pair) plan() (trial, error) {
	src, err := p.source(p.bytes(1<<20), core.AllocOptions{})
	if _, err := p.keep(src, err); err != nil {
		return trial{}, err
	}
	return trial{own: repeat(func() error {
		_, err := exchange.Plan(src, p.to, exchange.Options{})
		return err
	})}, nil
}

// signal measures how long a signal takes from one device's stream to the other's.
func (p pair) signal() (trial, error) {
	from, err := p.from.NewStream(p.ctx)
	if err != nil {
		return trial{}, err
	}
	p.cleanup(func() { _ = from.Close() })
	timeline := stream.NewTimeline()
	p.cleanup(func() { _ = timeline.Close() })
	src, err := p.onDevice(p.from, core.AllocOptions{}, p.bytes(4<<10), sentSeed)
	if err != nil {
		return trial{}, err
	}
	other, err := p.onDevice(p.from, core.AllocOptions{}, p.bytes(4<<10), sentSeed)
	if err != nil {
		return trial{}, err
	}
	value := uint64(0)
	how := stream.Wait(0)
	one := func() (spent time.Duration, err error) {
		value++
		if err := from.Wait(timeline.At(value)); err != nil {
			return 0, err
		}
		released := make(chan time.Time, 1)
		time.AfterFunc(200*time.Microsecond, func() { // so that the host is in its wait when the signal comes
			released <- time.Now()
			_ = timeline.Set(value) // it fails only if the timeline is closed
		})
		err = p.from.Copy(p.ctx, from, src.tensor, other.tensor)
		if err == nil {
			how, err = stream.Handoff(p.ctx, src.tensor, from, p.stream)
		}
		if err == nil {
			err = p.stream.Synchronize(p.ctx)
		}
		ended := time.Now()
		spent = ended.Sub(<-released)
		return spent, err
	}
	if _, err := one(); err != nil {
		return trial{}, err
	}
	return trial{notes: []string{fmt.Sprintf("the stream waits by %v", how)}, own: func(n int) (spent time.Duration, err error) {
		for range n {
			d, err := one()
			spent += d
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}}, nil
}

// shareable finds memory that the other device can use in place: plain memory, or
// such as is visible to the host or exported. It also returns the mechanism.
func (p pair) shareable(size int64) (core.AllocOptions, string, error) {
	kinds := []core.AllocOptions{{}, {HostVisible: true}}
	if e, ok := core.As[core.MemoryExporter](p.from); ok {
		for _, t := range e.ExportTypes() {
			kinds = append(kinds, core.AllocOptions{Export: t})
		}
	}
	var plain error // why plain memory does not do
	for _, kind := range kinds {
		src, err := p.source(size, kind)
		if err == nil {
			var t *core.Tensor
			var report exchange.Report
			t, report, err = p.share(src)
			_ = src.Close()
			if err == nil {
				return kind, report.Mechanism.String(), t.Close()
			}
		}
		plain = cmp.Or(plain, err)
	}
	return core.AllocOptions{}, "", plain
}

// source allocates memory of one kind.
func (p pair) source(size int64, kind core.AllocOptions) (*core.Tensor, error) {
	return core.Empty(p.ctx, p.from, core.TypeUint8, []int64{size}, kind)
}

func (p pair) warm(size int64) (trial, error) {
	size = p.bytes(size)
	kind, way, err := p.shareable(size)
	if err != nil {
		return trial{}, err
	}
	src, err := p.filled(p.from, core.TypeUint8, kind, size)
	if err != nil {
		return trial{}, err
	}
	first, _, err := p.share(src) // it is open from here on
	if _, err := p.keep(first, err); err != nil {
		return trial{}, err
	}
	return trial{way: way, own: repeat(func() error {
		t, _, err := p.share(src)
		if err != nil {
			return err
		}
		return t.Close()
	})}, nil
}

// cold moves memory that nobody has written to: to fill it, off the clock, would
// take far longer than what is measured.
func (p pair) cold(size int64) (trial, error) {
	size = p.bytes(size)
	kind, way, err := p.shareable(size)
	if err != nil {
		return trial{}, err
	}
	return trial{way: way, own: func(n int) (spent time.Duration, err error) {
		for range n {
			src, err := p.source(size, kind)
			if err != nil {
				return spent, err
			}
			start := time.Now()
			t, _, err := p.share(src)
			spent += time.Since(start)
			if err == nil {
				err = t.Close()
			}
			_ = src.Close()
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}}, nil
}

// What copies through the host are compared with, all into memory that is as new.
const (
	ownCopy   = "its plain copy"        // of memory that the destination has
	twoCopies = "download, then upload" // the same two copies, whole and one after the other
)

func (p pair) staged(size int64) (trial, error) {
	src, err := p.filled(p.from, core.TypeUint8, core.AllocOptions{}, size)
	if err != nil {
		return trial{}, err
	}
	local, err := p.filled(p.to, core.TypeUint8, core.AllocOptions{}, size)
	if err != nil {
		return trial{}, err
	}
	host, err := p.device()
	if err != nil {
		return trial{}, err
	}
	between, err := p.tensor(host, core.TypeUint8, size)
	if err != nil {
		return trial{}, err
	}
	staged := exchange.Options{Only: exchange.Staged}
	return trial{
		bytes:  size,
		way:    exchange.Staged.String(),
		verify: p.verifyMove(src, staged),
		own: repeat(func() error {
			t, _, err := p.move(src, staged)
			if err != nil {
				return err
			}
			return p.arrived(t)
		}),
		baselines: []baseline{
			{name: ownCopy, sample: repeat(func() error { return p.copyAnew(local) })},
			{name: twoCopies, sample: repeat(func() error {
				if err := p.from.Copy(p.ctx, nil, between, src); err != nil {
					return err
				}
				return p.copyAnew(between)
			})},
		},
	}, nil
}

// copyAnew has the destination copy src into memory that it allocates and frees.
func (p pair) copyAnew(src *core.Tensor) error {
	t, err := core.Empty(p.ctx, p.to, src.DType(), src.Shape(), core.AllocOptions{})
	if err != nil {
		return err
	}
	if err := p.to.Copy(p.ctx, p.stream, t, src); err != nil {
		_ = t.Close()
		return err
	}
	return p.arrived(t)
}

// arrived closes t after its elements have arrived.
func (p pair) arrived(t *core.Tensor) error { return errors.Join(t.WaitReady(p.ctx), t.Close()) }

// handoff writes to memory on a stream of its device, and has the other device's stream wait for that.
func (p pair) handoff() (trial, error) {
	kind, way, err := p.shareable(p.bytes(1 << 20))
	if err != nil {
		return trial{}, err
	}
	from, err := p.env.stream(p.from)
	if err != nil {
		return trial{}, err
	}
	src, err := p.filled(p.from, core.TypeUint8, kind, p.bytes(1<<20))
	if err != nil {
		return trial{}, err
	}
	content, err := p.filled(p.from, core.TypeUint8, core.AllocOptions{}, p.bytes(1<<20))
	if err != nil {
		return trial{}, err
	}
	move := func() (spent time.Duration, err error) {
		if err := p.from.Copy(p.ctx, from, src, content); err != nil {
			return 0, err
		}
		start := time.Now()
		t, _, err := p.move(src, exchange.Options{Copy: exchange.Never, SourceStream: from})
		spent = time.Since(start)
		if err == nil {
			err = t.Close()
		}
		if err == nil {
			err = p.stream.Synchronize(p.ctx)
		}
		return spent, err
	}
	if _, err := move(); err != nil { // the first one opens the memory and the semaphore
		return trial{}, err
	}
	return trial{way: way, own: func(n int) (spent time.Duration, err error) {
		for range n {
			one, err := move()
			spent += one
			if err != nil {
				return spent, err
			}
		}
		return spent, nil
	}}, nil
}
