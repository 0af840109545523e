package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveSemaphores = backendkit.NewLiveCounter(name + ".Semaphore")

// patience limits one wait for a shared event, so that ended contexts and closed semaphores are noticed.
const patience = 10 * time.Millisecond

// semaphore is a shared event of Metal.
type semaphore struct {
	device   *device
	opened   backendkit.OpenItem
	timeline *timeline

	// order is held while a signal is committed, which may block until a command buffer is completed. So handlers
	// of command buffers never lock it.
	order   sync.Mutex
	pending atomic.Uint64 // the largest value whose signal is committed; stored with order held

	mu       sync.Mutex
	idle     sync.Cond // signalled when users becomes 0
	closed   bool
	users    int    // calls, and items of queues
	promised uint64 // the largest value that Signal was called with
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
	s.idle.L = &s.mu
	opened, err := d.Open(call, "semaphore", func() (err error) {
		if err = d.lostError(); err == nil {
			s.timeline, err = open()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.opened = opened
	liveSemaphores.Add(1)
	return s, nil
}

// SharedEventOf returns the id<MTLSharedEvent> of a semaphore of Metal. It belongs to the semaphore.
func SharedEventOf(c core.Semaphore) (uintptr, error) {
	s, ok := c.(*semaphore)
	if !ok {
		return 0, errorf(core.ErrDevice, "SharedEventOf", "%T is not a semaphore of Metal", c)
	}
	if err := s.use("SharedEventOf"); err != nil {
		return 0, err
	}
	defer s.drop()
	return uintptr(s.timeline.id), nil
}

// use counts a user, unless the semaphore is closed.
func (s *semaphore) use(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errorf(core.ErrClosed, call, "the semaphore was closed")
	}
	s.users++
	return nil
}

func (s *semaphore) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.idle.Broadcast()
	}
}

// now returns the value of the event.
func (s *semaphore) now() uint64 { return s.device.driver.Value(s.timeline.id) }

// Signal enqueues setting the value. Each value must be larger than all before, and the event must not have reached it
// already.
func (s *semaphore) Signal(on core.Stream, value uint64) error {
	const call = "Signal"
	q, err := shell.StreamOf[*queue](&s.device.Device, call, on)
	if err != nil {
		return err
	}
	if err := s.use(call); err != nil {
		return err
	}
	before, err := s.promise(value)
	if err == nil {
		if err = q.lock(call); err == nil {
			n := &signal{semaphore: s, queue: q, value: value}
			err = q.add(item{encode: n.encode, around: n.submit, over: n.over})
			q.mu.Unlock()
		}
		if err != nil {
			s.takeBack(value, before)
		}
	}
	if err != nil {
		s.drop()
	}
	return err
}

// signal is an item that sets a value. It is a user of the semaphore.
type signal struct {
	*semaphore
	queue     *queue
	value     uint64
	committed bool // set with order held
}

// submit calls f, which encodes and commits the item. Signals are committed one after the other, since values must be set
// in order.
func (n *signal) submit(f func() error) error {
	n.order.Lock()
	defer n.order.Unlock()
	if before := n.pending.Load(); n.value <= before {
		return errorf(core.ErrInvalid, "Signal", "value %d is not larger than %d, which another stream has signalled meanwhile", n.value, before)
	}
	if err := f(); err != nil {
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
		n.drop()
		return
	}
	go func() {
		<-n.queue.progress.until(number)
		n.replace()
		n.drop()
	}()
}

// replace sets the value of a signal that failed, unless another one sets a larger value without waiting for this one.
func (n *signal) replace() {
	n.order.Lock()
	defer n.order.Unlock()
	for before := n.pending.Load(); !n.committed && before < n.value && n.now() < before; before = n.pending.Load() {
		n.order.Unlock()
		n.device.driver.WaitValue(n.timeline.id, before, patience)
		n.order.Lock()
	}
	if before := n.pending.Load(); n.committed || before < n.value {
		n.timeline.raise(n.value)
		n.pending.Store(max(before, n.value))
	}
}

// promise records that value will be set, if it is larger than all before. It returns the largest value
// before.
func (s *semaphore) promise(value uint64) (before uint64, err error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if least := max(now, s.promised); value <= least {
		return 0, errorf(core.ErrInvalid, "Signal", "value %d is not larger than %d, which was signalled before", value, least)
	}
	before, s.promised = s.promised, value
	return before, nil
}

// takeBack withdraws the promise of a value that could not be enqueued, unless a larger one was promised
// since.
func (s *semaphore) takeBack(value, before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.promised == value {
		s.promised = before
	}
}

// WaitOn makes later work wait on the device if the signal of the value is committed. Otherwise later work is held on the
// host until the value is reached.
func (s *semaphore) WaitOn(on core.Stream, value uint64) error {
	const call = "WaitOn"
	q, err := shell.StreamOf[*queue](&s.device.Device, call, on)
	if err != nil {
		return err
	}
	if err := s.use(call); err != nil {
		return err
	}
	if s.now() >= value {
		s.drop()
		return nil
	}
	if err := q.lock(call); err != nil {
		s.drop()
		return err
	}
	defer q.mu.Unlock()
	if s.pending.Load() >= value {
		q.wait(point{timeline: s.timeline, value: value})
		s.drop()
		return nil
	}
	err = q.add(item{
		host: func() error { return s.await(context.Background(), value) },
		over: func(uint64, error) { s.drop() },
	})
	if err != nil {
		s.drop()
	}
	return err
}

// await waits until the value is reached, ctx ends, the semaphore is closed or the device is lost. The caller
// has called use.
func (s *semaphore) await(ctx context.Context, value uint64) error {
	for {
		if s.device.driver.WaitValue(s.timeline.id, value, patience) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.device.lostError(); err != nil {
			return err
		}
		s.mu.Lock()
		closed := s.closed && s.promised < value
		s.mu.Unlock()
		if closed {
			return errorf(core.ErrClosed, "Wait", "the semaphore was closed before it reached %d", value)
		}
	}
}

func (s *semaphore) Value() (uint64, error) {
	if err := s.use("Value"); err != nil {
		return 0, err
	}
	defer s.drop()
	return s.now(), nil
}

func (s *semaphore) Wait(ctx context.Context, value uint64) error {
	if err := s.use("Wait"); err != nil {
		return err
	}
	defer s.drop()
	return s.await(ctx, value)
}

// Close ends waits for values that will not be set, and waits until no work uses the semaphore.
func (s *semaphore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for s.users > 0 {
		s.idle.Wait()
	}
	s.timeline.drop()
	liveSemaphores.Add(-1)
	s.opened.Close()
	return nil
}
