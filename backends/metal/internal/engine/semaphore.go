package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// semaphore is a shared event of Metal.
type semaphore struct {
	cmdqueue.Semaphore
	device   *device
	timeline *timeline

	// order is held while a signal is committed, which may block until a command buffer is completed. So handlers
	// of command buffers never lock it.
	order   sync.Mutex
	pending atomic.Uint64 // the largest value whose signal is committed; stored with order held
}

var _ core.Semaphore = (*semaphore)(nil)

// NewSemaphore makes a shared event.
func (d *device) NewSemaphore(ctx context.Context, t core.HandleType) (core.Semaphore, error) {
	const call = "NewSemaphore"
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	if t != 0 {
		return nil, errorf(core.ErrNotSupported, call, "an MTLSharedEvent is not exported as %v: its handle travels only in an XPC message", t)
	}
	return d.openSemaphore(call, func() (*timeline, error) { return newTimeline(d) })
}

// ImportSharedEvent makes a semaphore of an id<MTLSharedEvent> of other code, and retains it.
func ImportSharedEvent(c core.Device, event uintptr) (core.Semaphore, error) {
	const call = "ImportSharedEvent"
	d, err := deviceOf(call, c)
	if err != nil {
		return nil, err
	}
	id := driver.ID(event)
	if id == 0 || !d.driver.Conforms(id, driver.ProtocolSharedEvent) {
		return nil, errorf(core.ErrInvalid, call, "%#x is not an id<MTLSharedEvent>", event)
	}
	return d.openSemaphore(call, func() (*timeline, error) {
		d.driver.Retain(id)
		return ownTimeline(d.driver, id), nil
	})
}

// openSemaphore counts a semaphore over the event that open returns.
func (d *device) openSemaphore(call string, open func() (*timeline, error)) (core.Semaphore, error) {
	s := &semaphore{device: d}
	opened, err := d.Open(call, "semaphore", func() (err error) {
		if err = d.LostError(); err == nil {
			s.timeline, err = open()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.Init(&d.Base, s, opened)
	return s, nil
}

// SharedEventOf returns the id<MTLSharedEvent> of a semaphore of Metal. It belongs to the semaphore.
func SharedEventOf(c core.Semaphore) (uintptr, error) {
	s, ok := c.(*semaphore)
	if !ok {
		return 0, errorf(core.ErrDevice, "SharedEventOf", "%T is not a semaphore of Metal", c)
	}
	if err := s.Use("SharedEventOf"); err != nil {
		return 0, err
	}
	defer s.Drop()
	return uintptr(s.timeline.id), nil
}

// now returns the value of the event.
func (s *semaphore) now() uint64 { return s.device.driver.Value(s.timeline.id) }

// Now is now for the package cmdqueue.
func (s *semaphore) Now() (uint64, error) { return s.now(), nil }

// WaitValue waits in the driver.
func (s *semaphore) WaitValue(value uint64) (bool, error) {
	return s.device.driver.WaitValue(s.timeline.id, value, cmdqueue.Patience), nil
}

// Signal enqueues setting the value. Each value must be larger than all before, and the event must not have reached it
// already.
func (s *semaphore) Signal(on core.Stream, value uint64) error {
	q, err := s.device.StreamOf("Signal", on)
	if err != nil {
		return err
	}
	return cmdqueue.AddSignal(&s.Semaphore, q.Common(), value, func(uint64) item {
		n := &signal{semaphore: s, queue: q, value: value}
		return item{Commands: n, Over: n.over}
	})
}

// signal is an item that sets a value. It is a user of the semaphore.
type signal struct {
	*semaphore
	queue     *queue
	value     uint64
	committed bool // set with order held
}

// Submit commits the signal. Signals are committed one after the other, since values must be set in order.
func (n *signal) Submit(q *queue, i item) error {
	n.order.Lock()
	defer n.order.Unlock()
	if err := n.Follows(n.value, n.pending.Load()); err != nil {
		return err
	}
	if err := q.submit(i, n); err != nil {
		return err
	}
	n.pending.Store(n.value)
	n.committed = true
	return nil
}

// encode encodes the signal, after the one before, which may be of another stream.
func (n *signal) encode(e *encoding) error {
	if before := n.pending.Load(); before > 0 {
		e.wait(n.timeline, before)
	}
	e.signal(n.timeline, n.value)
	return nil
}

// over ends the item. If it failed, its value may be missing: the host sets it when all work before is over, so that
// nothing waits for ever. The events report the error.
func (n *signal) over(number uint64, failed error) {
	if failed == nil {
		n.Drop()
		return
	}
	go func() {
		<-n.queue.progress.until(number)
		n.replace()
		n.Drop()
	}()
}

// replace sets the value of a signal that failed, unless another one sets a larger value without waiting for this one.
func (n *signal) replace() {
	n.order.Lock()
	defer n.order.Unlock()
	for before := n.pending.Load(); !n.committed && before < n.value && n.now() < before; before = n.pending.Load() {
		n.order.Unlock()
		n.device.driver.WaitValue(n.timeline.id, before, cmdqueue.Patience)
		n.order.Lock()
	}
	if before := n.pending.Load(); n.committed || before < n.value {
		n.timeline.raise(n.value)
		n.pending.Store(max(before, n.value))
	}
}

// WaitOn makes later work wait on the device if the signal of the value is committed. Otherwise later work is held on the
// host until the value is reached.
func (s *semaphore) WaitOn(on core.Stream, value uint64) error {
	const call = "WaitOn"
	q, err := s.device.StreamOf(call, on)
	if err != nil {
		return err
	}
	if err := s.Use(call); err != nil {
		return err
	}
	if s.now() >= value {
		s.Drop()
		return nil
	}
	if err := q.Enter(call); err != nil {
		s.Drop()
		return err
	}
	defer q.Mu.Unlock()
	if s.pending.Load() >= value {
		q.Follow(point{s.timeline, value})
		s.Drop()
		return nil
	}
	err = q.Add(item{
		Host: func() error { return s.Await(context.Background(), value) },
		Over: func(uint64, error) { s.Drop() },
	})
	if err != nil {
		s.Drop()
	}
	return err
}

// Close ends waits for values that will not be set, and waits until no work uses the semaphore.
func (s *semaphore) Close() error { return s.CloseBy(s.timeline.drop) }
