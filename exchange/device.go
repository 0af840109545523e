package exchange

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// maxLanes is how many streams of a device are opened before copies queue up
// behind each other.
const maxLanes = 8

// deviceState is what is kept for a device until it closes. The cache's mutex guards it.
type deviceState struct {
	cancel func()
	lanes  int    // open
	idle   []lane // those that no move is using now, the one used longest ago first
	links  []*link
	pinned []pinned // for staging, at most stages
}

// lane is a stream for copies.
type lane struct {
	stream core.Stream
	last   core.Event   // its latest work
	state  *deviceState // that counts it; nil if the device was closed meanwhile
}

// done reports whether the lane has nothing to do.
func (l lane) done() bool {
	if l.last == nil {
		return true
	}
	done, _ := l.last.Done()
	return done
}

// watch has the cache told before d closes. It reports whether d can do that.
func (c *cache) watch(d core.Device) bool {
	c.mu.Lock()
	known := c.devices[d] != nil
	c.mu.Unlock()
	if known {
		return true
	}
	n, ok := d.(core.CloseNotifier)
	if !ok {
		return false
	}
	cancel := n.BeforeClose(func() { c.closing(d) })
	c.mu.Lock()
	known = c.devices[d] != nil
	if !known {
		c.devices[d] = &deviceState{cancel: cancel}
	}
	c.mu.Unlock()
	if known {
		cancel()
	}
	return true
}

// closing gives back what is open on d, or for it, and is not used any more. Like
// the device itself it waits for work on what was closed already.
func (c *cache) closing(d core.Device) {
	c.mu.Lock()
	var lanes []lane
	state := c.devices[d]
	if state != nil {
		lanes, state.idle = state.idle, nil
		state.lanes -= len(lanes)
	}
	var unused []*entry
	for k, e := range c.entries {
		if k.device == d && e.open && e.kept && e.users == 1 {
			unused = append(unused, e)
		}
	}
	c.mu.Unlock()

	for _, l := range lanes {
		_ = l.stream.Close() // the errors of its work are the events'
	}
	c.closeLinks(d)
	c.settle(d)
	for _, e := range unused {
		c.evict(e)
	}
	c.settle(d) // with those that their roots free meanwhile

	c.unwatch(d)
}

// unwatch ends the watch over d, unless something of it is open still: then the device
// cannot close, and will tell again.
func (c *cache) unwatch(d core.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.entries {
		if k.device == d {
			return
		}
	}
	for _, state := range c.devices {
		if slices.ContainsFunc(state.links, func(l *link) bool { return l.to == d }) {
			return
		}
	}
	if state := c.devices[d]; state != nil && c.owed[d] == 0 && state.lanes == 0 && len(state.links) == 0 {
		delete(c.devices, d)
		state.cancel()
	}
}

// owe returns an owner that does what o does. Until then the devices do not close:
// nobody but this package knows of the memory, and could wait for the work on it.
func (c *cache) owe(o core.Owner, devices ...core.Device) core.Owner {
	c.mu.Lock()
	for _, d := range devices {
		c.owed[d]++
	}
	c.mu.Unlock()
	for _, d := range devices {
		c.watch(d)
	}
	return core.FreeFunc(func() {
		o.Free()
		c.paid(devices...)
	})
}

// paid takes back what owe, or an entry that is freed, has counted.
func (c *cache) paid(devices ...core.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range devices {
		if c.owed[d]--; c.owed[d] == 0 {
			delete(c.owed, d)
		}
	}
	c.settled.Broadcast()
}

// settle waits until nothing is owed to d, and closes what is kept for staging.
func (c *cache) settle(d core.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.owed[d] > 0 {
		state := c.devices[d]
		if state == nil || len(state.pinned) == 0 {
			c.settled.Wait()
			continue
		}
		staging := state.pinned
		state.pinned = nil
		c.mu.Unlock()
		for _, p := range staging {
			p.close()
		}
		c.mu.Lock()
	}
}

// evict closes an entry that only its root uses.
func (c *cache) evict(e *entry) {
	c.mu.Lock()
	pending := slices.Clone(e.pending)
	c.mu.Unlock()
	for _, v := range pending {
		_ = v.Wait(context.Background()) // over is over, and its error is not ours
	}
	c.mu.Lock()
	if e.users > 1 || c.entries[e.key] != e { // used again, or gone
		c.mu.Unlock()
		return
	}
	delete(c.entries, e.key)
	c.mu.Unlock()
	if e.detach() {
		e.release()
	} else {
		<-e.gone // the root frees it just now
	}
}

// lane takes a stream of d for copies. The caller gives it back by calling done,
// once, when it has enqueued its work; for a device that does not tell when it
// closes, done waits for the work and returns its error.
func (c *cache) lane(ctx context.Context, d core.Device) (s core.Stream, done func() error, err error) {
	if !c.watch(d) {
		s, err := d.NewStream(ctx)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	l, err := c.takeLane(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	return l.stream, func() error { return c.giveLane(d, l) }, nil
}

// takeLane returns a lane without work: the one used longest ago, if that is done,
// or a new one. Beyond maxLanes it may have work.
func (c *cache) takeLane(ctx context.Context, d core.Device) (lane, error) {
	var l lane
	c.mu.Lock()
	state := c.devices[d]
	full := state != nil && state.lanes >= maxLanes
	if state != nil && len(state.idle) > 0 {
		l, state.idle = state.idle[0], state.idle[1:]
	}
	c.mu.Unlock()
	if l.stream != nil {
		if full || l.done() {
			return l, nil
		}
		c.keepLane(d, l)
	}

	c.mu.Lock()
	if state = c.devices[d]; state != nil {
		state.lanes++
	}
	c.mu.Unlock()
	s, err := d.NewStream(ctx)
	l = lane{stream: s, state: state}
	if err != nil {
		c.dropLane(l)
	}
	return l, err
}

// giveLane takes a lane back.
func (c *cache) giveLane(d core.Device, l lane) error {
	e, err := l.stream.Record()
	if err != nil { // the stream is of no more use
		c.dropLane(l)
		return l.stream.Close()
	}
	l.last = e
	c.keepLane(d, l)
	return nil
}

// keepLane makes a lane idle, or closes it if the device was closed meanwhile.
func (c *cache) keepLane(d core.Device, l lane) {
	c.mu.Lock()
	keep := l.state != nil && c.devices[d] == l.state
	if keep {
		l.state.idle = append(l.state.idle, l)
	}
	c.mu.Unlock()
	if !keep {
		_ = l.stream.Close()
	}
}

// dropLane counts a lane no more.
func (c *cache) dropLane(l lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.state != nil {
		l.state.lanes--
	}
}
