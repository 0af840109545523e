package fake

import (
	"runtime"
	"time"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

// commandBuffer is what a command buffer does. Driver.mu guards it until it is committed.
type commandBuffer struct {
	object    *object // nil after it was deallocated
	queue     *object
	steps     []*step
	encoder   *object // the open one
	retains   []driver.ID
	committed bool
	failure   *driver.Error // it does not run to its end
	started   chan struct{}
	over      chan struct{} // its handler has returned
	done      func(*driver.Error)
}

// step is a part of a command buffer. One of wait, signal and pass is set.
type step struct {
	wait, signal *object
	value        uint64
	pass         *encoder

	before []*step // of earlier command buffers, which hazard tracking orders
	over   chan struct{}
}

// encoder is a pass.
type encoder struct {
	commands *commandBuffer
	ended    bool
	works    []func()           // carried out without Driver.mu
	uses     map[driver.ID]bool // buffers, and whether they are written

	// of a compute encoder
	pipeline *object
	buffers  [2]binding
	bytes    []byte
}

type binding struct {
	object *object
	offset uint64
}

func newCommandBuffer() *commandBuffer {
	return &commandBuffer{started: make(chan struct{}), over: make(chan struct{})}
}

// CommandBuffer implements driver.Driver.
func (d *Driver) CommandBuffer(id driver.ID) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.get(id, queue)
	if d.called("CommandBuffer") != nil {
		return 0
	}
	for q.open >= q.room {
		d.blocked++
		d.changed.Wait()
	}
	q.open++
	o := d.make(commands, q.device, id)
	o.commandBuffer = newCommandBuffer()
	o.commandBuffer.object, o.commandBuffer.queue = o, q
	return d.autorelease(o)
}

// recording returns a command buffer to which something can be added, without an open encoder. d.mu is held.
func (d *Driver) recording(id driver.ID) *commandBuffer {
	c := d.get(id, commands).commandBuffer
	if c.committed {
		d.report("%v is encoded after commit", c.object)
	}
	if c.encoder != nil {
		d.report("%v has an open encoder", c.object)
	}
	return c
}

// keep makes the command buffer an owner of an object, as Metal does for resources. d.mu is held.
func (c *commandBuffer) keep(d *Driver, id driver.ID) {
	if d.objects[id] != nil {
		d.objects[id].refs++
		c.retains = append(c.retains, id)
	}
}

// EncodeWait implements driver.Driver. The event is not retained: Metal's documentation promises that for resources.
func (d *Driver) EncodeWait(id, of driver.ID, value uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, e := d.recording(id), d.get(of, event)
	c.steps = append(c.steps, &step{wait: e, value: value, over: make(chan struct{})})
}

// EncodeSignal implements driver.Driver.
func (d *Driver) EncodeSignal(id, of driver.ID, value uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, e := d.recording(id), d.get(of, event)
	c.steps = append(c.steps, &step{signal: e, value: value, over: make(chan struct{})})
}

// BlitEncoder implements driver.Driver.
func (d *Driver) BlitEncoder(id driver.ID) driver.ID { return d.encode("BlitEncoder", blit, id) }

// ComputeEncoder implements driver.Driver.
func (d *Driver) ComputeEncoder(id driver.ID) driver.ID {
	return d.encode("ComputeEncoder", compute, id)
}

func (d *Driver) encode(method string, k kind, id driver.ID) driver.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.recording(id)
	if d.called(method) != nil || c.queue == nil {
		return 0
	}
	o := d.make(k, c.queue.device)
	o.encoder = &encoder{commands: c, uses: make(map[driver.ID]bool)}
	o.refs++ // the command buffer's, until endEncoding
	c.encoder = o
	c.steps = append(c.steps, &step{pass: o.encoder, over: make(chan struct{})})
	return d.autorelease(o)
}

// encoding returns an open encoder. d.mu is held.
func (d *Driver) encoding(id driver.ID, kinds ...kind) *encoder {
	o := d.get(id, kinds...)
	if o.encoder.ended {
		d.report("%v is used after endEncoding", o)
	}
	return o.encoder
}

// EndEncoding implements driver.Driver.
func (d *Driver) EndEncoding(id driver.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.encoding(id, blit, compute)
	if e.ended || e.commands == nil {
		return
	}
	e.ended = true
	e.commands.encoder = nil
	d.release(id)
}

// abandon ends a command buffer that is deallocated. d.mu is held.
func (d *Driver) abandon(o *object) {
	c := o.commandBuffer
	c.object = nil
	if c.encoder != nil {
		d.report("%v is deallocated with an open encoder", o)
	}
	if !c.committed {
		d.finish(c)
	}
}

// finish lets go of what a command buffer has. d.mu is held.
func (d *Driver) finish(c *commandBuffer) {
	for _, id := range c.retains {
		d.release(id)
	}
	c.retains = nil
	c.queue.open--
	d.changed.Broadcast()
}

// Commit implements driver.Driver.
func (d *Driver) Commit(id driver.ID, done func(*driver.Error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.recording(id)
	if c.committed || c.queue == nil {
		if c.committed {
			d.report("%v is committed twice", c.object)
		}
		return
	}
	c.committed, c.done, c.failure = true, done, d.called("Commit")
	d.retain(id, queue) // until it is completed
	for _, s := range c.steps {
		switch {
		case s.wait != nil && s.wait.promised < s.value:
			d.report("%v waits for value %d of %v, and only %d is signalled by what is committed: it may wait longer than the system allows", c.object, s.value, s.wait, s.wait.promised)
		case s.signal != nil:
			s.signal.promised = max(s.signal.promised, s.value)
		case s.pass != nil:
			s.before = hazards(c.queue, s.pass)
		}
	}
	var previous *commandBuffer
	if n := len(c.queue.committed); n > 0 {
		previous = c.queue.committed[n-1]
	}
	c.queue.committed = append(c.queue.committed, c)
	d.handlers++
	go d.run(c, previous)
}

// hazards returns the passes of committed command buffers of the queue that a pass must follow, because both use a
// buffer and one of them writes it.
func hazards(q *object, e *encoder) (before []*step) {
	for _, c := range q.committed {
		for _, s := range c.steps {
			if s.pass == nil {
				continue
			}
			for id, writes := range e.uses {
				if wrote, both := s.pass.uses[id]; both && (writes || wrote) {
					before = append(before, s)
					break
				}
			}
		}
	}
	return before
}

// run is the GPU. A command buffer starts after the one before has started, and nothing else of theirs is in order but
// what hazard tracking and events order.
func (d *Driver) run(c, previous *commandBuffer) {
	if previous != nil {
		<-previous.started
	}
	d.pause()
	close(c.started)
	failed := d.carryOut(c)
	for _, s := range c.steps {
		select {
		case <-s.over:
		default:
			close(s.over)
		}
	}
	d.pause()
	if previous != nil && d.config.InOrder {
		<-previous.over
	}
	d.handle(func() { c.done(failed) })
	close(c.over)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, x := range c.queue.committed {
		if x == c {
			c.queue.committed = append(c.queue.committed[:i:i], c.queue.committed[i+1:]...)
			break
		}
	}
	d.finish(c)
	d.release(c.object.id)
	d.handlers--
	d.changed.Broadcast()
}

// handle runs a handler. In half of the machines one thread runs all handlers, so that one that waits holds up the others.
func (d *Driver) handle(handler func()) {
	if d.serial {
		d.handling.Lock()
		defer d.handling.Unlock()
	}
	handler()
}

// carryOut runs the steps. A command buffer that fails has done some of its work, and none of its signals.
func (d *Driver) carryOut(c *commandBuffer) *driver.Error {
	for _, s := range c.steps {
		d.pause()
		switch {
		case s.wait != nil:
			if !d.waitOnGPU(s) {
				return &driver.Error{Domain: driver.CommandBufferDomain, Code: driver.ErrTimeout, Text: "Caused GPU Timeout Error"}
			}
		case s.signal != nil:
			if c.failure != nil {
				return c.failure
			}
			d.SetValue(s.signal.id, s.value)
		default:
			for _, earlier := range s.before {
				<-earlier.over
			}
			works := s.pass.works
			if c.failure != nil {
				works = works[:len(works)/2]
			}
			for _, work := range works {
				work()
			}
		}
		close(s.over)
	}
	return c.failure
}

// waitOnGPU waits for an event, and reports whether its value came in time.
func (d *Driver) waitOnGPU(s *step) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.objects[s.wait.id] == nil {
		d.report("a command buffer waits for %v, which is deallocated", s.wait)
	}
	return d.await(d.config.Watchdog, func() bool { return s.wait.value >= s.value })
}

// pause lets other work overtake.
func (d *Driver) pause() {
	d.mu.Lock()
	n, sleeps := d.rng.Int64N(int64(d.config.Delay)), d.rng.IntN(4) == 0
	d.mu.Unlock()
	if sleeps {
		time.Sleep(time.Duration(n))
		return
	}
	for range n % 8 {
		runtime.Gosched()
	}
}
