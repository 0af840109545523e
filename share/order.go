package share

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// orderer is what a connection keeps of the semaphores by which the peer waits for unfinished
// work. The connection's mutex guards its fields.
type orderer struct {
	lanes     []*lane
	results   []result       // of work, that the peer is to be told of
	openLanes sync.WaitGroup // lanes that are not closed; none is added after the connection has ended
}

// maxLanes bounds the semaphores of one device, and thereby its sent tensors that wait on the
// device.
const maxLanes = 8

// defaultPatience bounds how long the end of a connection waits for work on devices.
const defaultPatience = time.Second

// lane is a semaphore that the peer can open, with the stream that signals it. At most one
// signal of a lane is unfinished, so that no tensor waits for the work of another one.
type lane struct {
	id       uint32 // of the semaphore
	device   core.Device
	stream   core.Stream
	made     core.Semaphore // of the device that exports it
	signal   core.Semaphore // of the device whose streams signal: made, or an import of it
	external core.ExternalSemaphore
	binary   bool // it serves one tensor
	value    uint64
	busy     bool
	passed   bool // the peer has it
}

// turn is the use of a lane for one tensor, or one frame of a ring.
type turn struct {
	conn      *Conn
	lane      *lane
	value     uint64
	write     core.Event // of the tensor
	signalled core.Event
	missing   bool // the semaphore does not reach the value; set when the turn is over
}

// result says how the work ended that a tensor of the peer waits for.
type result struct {
	tensor  uint64
	status  resultStatus
	missing bool // the semaphore does not reach the tensor's value
	text    string
}

// orderOnDevice makes a semaphore follow e, the last write of t, for the peer. If that is not
// possible, it returns nil and notes why: the host then waits for e.
func (c *Conn) orderOnDevice(ctx context.Context, p *parcel, t *core.Tensor, e core.Event) *turn {
	d := t.Device()
	if d == nil {
		p.waits(core.Errorf(core.ErrNotSupported, "", "", "no opened device has the tensor"))
		return nil
	}
	l, err := c.lane(ctx, d)
	if err == nil {
		var x *turn
		if x, err = c.follow(l, e); err == nil {
			return x
		}
	}
	p.waits(err)
	return nil
}

// follow makes a lane, which the caller has for itself, follow e. On failure it gives the lane back.
func (c *Conn) follow(l *lane, e core.Event) (*turn, error) {
	x, usable, err := l.follow(e)
	if err != nil {
		c.giveBackLane(l, usable)
		return nil, err
	}
	x.conn = c
	return x, nil
}

// giveBackLane makes a lane free for others, or closes it unless it is usable and the connection is open.
func (c *Conn) giveBackLane(l *lane, usable bool) {
	c.mu.Lock()
	keep := c.idle(l, usable)
	c.mu.Unlock()
	if !keep {
		c.drop(l)
	}
}

// idle makes a lane free for other tensors, if it is usable. It reports false if it is not, or if the connection has
// ended: the lane then stays busy, so that nobody takes it, and the caller drops it. c.mu is held.
func (c *Conn) idle(l *lane, usable bool) bool {
	keep := usable && c.err == nil
	l.busy = !keep
	c.notify()
	return keep
}

// lane returns a lane of a device, which the caller has for itself. It makes one if none is idle.
func (c *Conn) lane(ctx context.Context, d core.Device) (*lane, error) {
	c.mu.Lock()
	features, n := c.features, 0
	for _, l := range c.lanes {
		if l.device != d {
			continue
		}
		if !l.busy {
			l.busy = true
			c.mu.Unlock()
			return l, nil
		}
		n++
	}
	c.mu.Unlock()
	switch {
	case features&featureOrder == 0:
		return nil, core.Errorf(core.ErrNotSupported, "", "", "the peer's version of dlx does not wait for semaphores")
	case n >= maxLanes:
		return nil, core.Errorf(core.ErrNotSupported, "", "", "all %d semaphores of %v are in use", n, d.ID())
	}
	l, err := c.newLane(ctx, d)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		defer l.close()
		return nil, c.err
	}
	c.lastMemory++
	l.id, l.busy = c.lastMemory, true
	c.lanes = append(c.lanes, l)
	c.openLanes.Add(1)
	return l, nil
}

// newLane makes a semaphore that streams of d signal and that a device of the peer opens. It is
// made by d or by another device on the same hardware, such as one of Vulkan for d of CUDA.
func (c *Conn) newLane(ctx context.Context, d core.Device) (*lane, error) {
	c.mu.Lock()
	peer := c.peer.Devices
	c.mu.Unlock()
	self := c.describe(d)
	var reasons []error
	for i, maker := range append([]core.Device{d}, c.options.Devices...) {
		e, ok := core.As[core.SemaphoreExporter](maker)
		if !ok || i > 0 && maker == d {
			continue
		}
		from := c.describe(maker)
		for _, t := range e.SemaphoreExportTypes() {
			if maker != d {
				if err := self.opens("this process", &from, t, semaphores); err != nil {
					if from.UUID == self.UUID { // else it is another card
						reasons = append(reasons, err)
					}
					continue
				}
			}
			if err := opener(peer, &from, t, semaphores); err != nil {
				reasons = append(reasons, err)
				continue
			}
			l, err := makeLane(ctx, d, e, maker, t)
			if err == nil {
				if err = c.checkSemaphore(l.external); err == nil {
					return l, nil
				}
				l.close()
			}
			reasons = append(reasons, err)
		}
	}
	if len(reasons) == 0 {
		return nil, core.Errorf(core.ErrNotSupported, "", "", "no semaphore in common: no device of this process exports semaphores that streams of %v signal; one of Vulkan on the same card does", d.ID())
	}
	return nil, core.Errorf(core.ErrNotSupported, "", "", "no semaphore in common: %v", joinReasons(reasons))
}

// makeLane makes a lane of a device with a semaphore of maker, which exports it as t.
func makeLane(ctx context.Context, d core.Device, e core.SemaphoreExporter, maker core.Device, t core.HandleType) (l *lane, err error) {
	creator, ok := core.As[core.SemaphoreCreator](maker)
	if !ok {
		return nil, core.Errorf(core.ErrNotSupported, "", "", "%v makes no semaphores", maker.ID())
	}
	l = &lane{device: d}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.made, err = creator.NewSemaphore(ctx, t); err != nil {
		return nil, err
	}
	_, l.binary = l.made.(core.BinarySemaphore)
	l.signal = l.made
	if l.external, err = e.ExportSemaphore(l.made, t); err != nil {
		return nil, err
	}
	if maker != d {
		i, _ := core.As[core.SemaphoreImporter](d) // the caller has found its types
		x, err := l.external.Duplicate()
		if err != nil {
			return nil, err
		}
		defer x.Close()
		if l.signal, err = i.ImportSemaphore(ctx, x); err != nil {
			l.signal = l.made
			return nil, err
		}
	}
	l.stream, err = d.NewStream(ctx)
	return l, err
}

// follow makes the stream of the lane wait for e, and signal. After an error it reports whether the
// lane can be used again.
func (l *lane) follow(e core.Event) (x *turn, usable bool, err error) {
	if err := l.stream.Wait(e); err != nil {
		return nil, true, err
	}
	l.value++
	if err := l.signal.Signal(l.stream, l.value); err != nil {
		return nil, errors.Is(err, core.ErrNotSupported), err
	}
	after, err := l.stream.Record()
	if err != nil {
		return nil, false, err
	}
	return &turn{lane: l, value: l.value, write: e, signalled: after}, true, nil
}

// close closes what the lane has. It waits for the work of its stream.
func (l *lane) close() {
	if l.stream != nil {
		_ = l.stream.Close() // the event of the work has its error
	}
	if l.signal != nil && l.signal != l.made {
		_ = l.signal.Close()
	}
	if l.made != nil {
		_ = l.made.Close()
	}
	_ = l.external.Close()
}

// drop closes a lane that nobody else uses. It does nothing if the lane was dropped before.
func (c *Conn) drop(l *lane) {
	c.mu.Lock()
	for i, x := range c.lanes {
		if x == l {
			c.lanes = append(c.lanes[:i], c.lanes[i+1:]...)
			c.notify() // Close may wait until no lane is busy
			c.mu.Unlock()
			l.close()
			c.openLanes.Done()
			return
		}
	}
	c.mu.Unlock()
}

// passLane makes sure that the peer has the semaphore. The caller holds sending.
func (c *Conn) passLane(ctx context.Context, l *lane) error {
	if l.passed {
		return nil
	}
	data, fds, err := l.external.MarshalWithFDs()
	if err != nil {
		return err
	}
	if err := c.lock(ctx, c.writing); err != nil {
		return err
	}
	defer func() { <-c.writing }()
	c.begin(kindOrder, len(fds))
	c.scratch = appendObject(c.scratch, l.id, objectSemaphore, data)
	if err := c.put(ctx, fds[0]); err != nil {
		return err
	}
	_ = l.external.Close() // the peer has its own descriptor
	c.mu.Lock()
	defer c.mu.Unlock()
	l.passed = true
	return nil
}

// settle waits for the work of a turn, and tells the peer how it ended, unless tensor is 0 because
// nothing was sent.
func (c *Conn) settle(x *turn, tensor uint64) {
	l := x.lane
	failed := x.write.Wait(c.life)
	unsignalled := x.signalled.Wait(c.life)
	if c.life.Err() != nil {
		c.drop(l)
		return
	}
	r := resultOf(failed)
	r.tensor, r.missing = tensor, x.isMissing(unsignalled)
	once := l.binary || r.missing
	c.mu.Lock()
	switch s := c.inFlight[tensor]; {
	case s != nil:
		s.settled = true
		c.results = append(c.results, r)
		if once {
			s.semaphore = l.id // the peer forgets it after the tensor
		}
	case once && l.passed:
		c.forgotten = append(c.forgotten, l.id)
	}
	keep := c.idle(l, !once)
	c.mu.Unlock()
	c.awaken()
	if !keep {
		c.drop(l)
	}
}

// isMissing reports whether the semaphore does not reach the value, after the work of the lane's stream has ended with
// the error unsignalled.
func (x *turn) isMissing(unsignalled error) bool {
	if unsignalled == nil {
		return false
	}
	now, err := x.lane.made.Value()
	return err != nil || now < x.value
}

// resultOf returns how work ended, by its error.
func resultOf(failed error) (r result) {
	if failed != nil {
		r.status, r.text = statusOf(failed), failed.Error()
	}
	return r
}

// statusOf returns the status of work that failed with err.
func statusOf(err error) resultStatus {
	switch {
	case errors.Is(err, core.ErrDeviceLost):
		return resultLost
	case errors.Is(err, core.ErrOutOfMemory):
		return resultMemory
	}
	return resultFailed
}

// drain waits, for a moment, until no signal is unfinished, so that the peer need not signal itself, and
// until the work of this process has read what it reads of the peer's memory: the peer writes that again.
func (c *Conn) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), c.options.patience)
	defer cancel()
	err := c.await(ctx, "Close", func() bool {
		for _, l := range c.lanes {
			if l.busy {
				return false
			}
		}
		return !slices.ContainsFunc(c.frames.readers, (*reader).isWaiting)
	})
	if err != nil {
		return
	}
	pending, used := c.reads()
	c.mu.Unlock()
	for _, b := range used {
		pending = append(pending, b.Pending()...)
	}
	for _, e := range pending {
		_ = e.Wait(ctx) // whoever reads the result gets its error
	}
}

// reads returns the work that reads memory of the peer whose tensors are closed, and the memory of
// tensors that are open. Tensors whose elements the peer has not written yet are left out. c.mu is held.
func (c *Conn) reads() (pending []core.Event, used []*core.Buffer) {
	for _, x := range c.held {
		if x.owner.own != nil && (x.order == nil || x.told) {
			pending, used = append(pending, x.owner.pending...), append(used, x.owner.own)
		}
	}
	for _, s := range c.frames.subscriptions { // also those that were closed, and hold frames
		s.mu.Lock()
		for i := range s.slots {
			switch x := &s.slots[i]; {
			case x.work.isAwaited(): // like a tensor
			case x.after != nil:
				pending = append(pending, x.after.pending...)
			case x.frame != 0:
				used = append(used, x.buffer)
			}
		}
		s.mu.Unlock()
	}
	return pending, used
}

// endOrderer closes the lanes, when the connection has ended. Those whose work takes longer are
// closed when it is done.
func (c *Conn) endOrderer() {
	c.mu.Lock()
	var idle []*lane
	for _, l := range c.lanes {
		if !l.busy { // else settle closes it
			idle = append(idle, l)
		}
	}
	c.mu.Unlock()
	for _, l := range idle {
		c.drop(l)
	}
	closed := make(chan struct{})
	go func() {
		c.openLanes.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(c.options.patience):
	}
}

// waits notes why the host waits for the elements.
func (p *parcel) waits(why error) {
	p.report.refuse(p.report.Mechanism, why, "let the peer wait on its device for unfinished work")
}
