package cudalike

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

// semaphore is a timeline semaphore of another API. This one makes none, cannot read the
// value, and takes no work back that waits for one.
type semaphore struct {
	device   *device
	timeline uintptr

	mu     sync.Mutex // held while work is enqueued, so that values come in order
	closed bool
	least  uint64 // the largest value that was signalled or seen here
	last   *use   // the signal of it, nil if there was none
	users  []*use // one for each stream whose work may be unfinished
}

var _ core.Semaphore = (*semaphore)(nil)

// use is the latest work of a stream with a semaphore.
type use struct {
	queue *queue
	event core.Event // nil if none could be recorded yet: see end
}

// end is an event behind the work, nil if that is over.
func (u *use) end() (core.Event, error) {
	if u.event != nil {
		return u.event, nil
	}
	e, err := u.queue.mark()
	if errors.Is(err, core.ErrClosed) { // Close of the stream has waited for the work
		return nil, nil
	}
	u.event = e
	return e, err
}

// over reports whether the work is known to be.
func (u *use) over() bool { return u.event != nil && reaper.Over([]core.Event{u.event}) }

// SemaphoreImportTypes are the opaque descriptors of Vulkan's timeline semaphores,
// where the driver takes them.
func (d *device) SemaphoreImportTypes() []core.HandleType {
	if !d.Info.Capabilities.Has(core.CapImportSemaphores) {
		return nil
	}
	return []core.HandleType{core.HandleOpaqueFD}
}

// ImportSemaphore opens a timeline semaphore of the same card. The API has no
// UUID of its driver, so that only the device's is compared.
func (d *device) ImportSemaphore(ctx context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
	const call = "ImportSemaphore"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.Info.Require(core.CapImportSemaphores, call); err != nil {
		return nil, err
	}
	i := d.importer()
	if err := i.CheckSemaphore(x); err != nil {
		return nil, err
	}
	sem := &semaphore{device: d}
	err := d.open(call, func() error {
		return i.Give(call, x.Handle, func(fd int) (taken bool, err error) {
			if err := i.CheckFD(call, x.Handle.Type(), fd, 0); err != nil {
				return false, err
			}
			var s Status
			sem.timeline, s = d.context.ImportTimeline(fd)
			return true, d.check(s, "the descriptor is no timeline semaphore of this device")
		})
	})
	if err != nil {
		return nil, err
	}
	d.backend.semaphores.Add(1)
	return sem, nil
}

// Signal enqueues that the value is set. Values must grow, of all that were signalled
// through this import and that [semaphore.Wait] has seen; which others have signalled
// the driver does not tell. A stream waits for the signal of another one before its own.
func (s *semaphore) Signal(on core.Stream, value uint64) error {
	const call = "Signal"
	q, err := s.lock(call, on)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if value <= s.least {
		return s.device.Errorf(core.ErrInvalid, call, "value %d is not larger than %d, which was reached or signalled before", value, s.least)
	}
	if s.last != nil && s.last.queue != q {
		before, err := s.last.end()
		if err != nil {
			return err
		}
		if err := q.WaitSettled(before); err != nil {
			return err
		}
	}
	u, err := s.enqueue(call, q, func() error {
		return s.device.check(s.device.context.SignalTimeline(s.timeline, value, q.raw), "value %d", value)
	})
	if err == nil {
		s.least, s.last = value, u
	}
	return err
}

// WaitOn has the stream wait for the value on the device.
func (s *semaphore) WaitOn(on core.Stream, value uint64) error {
	_, err := s.waitOn("WaitOn", on, value)
	return err
}

func (s *semaphore) waitOn(call string, on core.Stream, value uint64) (*use, error) {
	q, err := s.lock(call, on)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.enqueue(call, q, func() error {
		return s.device.check(s.device.context.WaitTimeline(s.timeline, value, q.raw), "value %d", value)
	})
}

// lock takes s.mu for a call with a stream of the device, unless the semaphore was closed.
func (s *semaphore) lock(call string, on core.Stream) (*queue, error) {
	q, err := s.device.streamOf(call, on)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, s.device.closed(call, "semaphore")
	}
	return q, nil
}

// enqueue enqueues work and notes that it uses the semaphore. s.mu is held.
func (s *semaphore) enqueue(call string, q *queue, f func() error) (*use, error) {
	if err := q.enqueue(call, f); err != nil {
		return nil, err
	}
	u := &use{queue: q}
	_, _ = u.end() // what fails now is asked for again when it is needed
	s.users = append(slices.DeleteFunc(s.users, func(old *use) bool { return old.queue == q || old.over() }), u)
	return u, nil
}

// Value fails with ErrNotSupported: the API has no call for it.
func (s *semaphore) Value() (uint64, error) {
	const call = "Value"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, s.device.closed(call, "semaphore")
	}
	return 0, s.device.Errorf(core.ErrNotSupported, call, "%s cannot read the value of a semaphore: wait for one, or ask whoever made it", s.device.backend.API)
}

// Wait has a stream of its own wait, which the API cannot take back: where ctx ends
// first, that stream counts as open on the device until the value is there.
func (s *semaphore) Wait(ctx context.Context, value uint64) error {
	own, err := s.device.NewStream(ctx)
	if err != nil {
		return err
	}
	u, err := s.waitOn("Wait", own, value)
	if err != nil {
		return errors.Join(err, own.Close())
	}
	s.mu.Lock()
	e, err := u.end()
	s.mu.Unlock()
	if err == nil {
		err = e.Wait(ctx)
	}
	unfinished := e == nil || !reaper.Over([]core.Event{e}) || s.device.lostError() != nil
	if unfinished && !s.device.dead.Load() {
		go func() { _ = own.Close() }() // waits, and nobody is there to be told
		return err
	}
	if err == nil {
		s.mu.Lock()
		s.least = max(s.least, value)
		s.mu.Unlock()
	}
	return errors.Join(err, own.Close())
}

// Close gives the semaphore back when the work that uses it is over.
func (s *semaphore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var pending []core.Event
	for _, u := range s.users {
		e, err := u.end()
		if err != nil { // no event can be had: what remains is to wait here
			_ = u.queue.Synchronize(context.Background())
		}
		pending = append(pending, e)
	}
	free := func() {
		_ = s.device.check(s.device.context.CloseTimeline(s.timeline), "a semaphore without work")
	}
	if reaper.Over(pending) {
		free()
	} else {
		s.device.Reaper.After(pending, free) // before drop: Close of the device waits for it
	}
	s.device.backend.semaphores.Add(-1)
	s.device.Drop()
	return nil
}
