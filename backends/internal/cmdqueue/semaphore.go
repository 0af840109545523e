package cmdqueue

import (
	"context"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// Patience limits one wait in a driver, so that ended contexts, closed semaphores and lost devices are noticed.
const Patience = 10 * time.Millisecond

// Semaphore is what a backend's semaphore embeds. Its values only grow.
type Semaphore struct {
	Mu sync.Mutex // guards the fields below opened, and fields of the semaphore that embeds this one

	device *Base
	value  Counter
	opened backendkit.OpenItem

	idle     sync.Cond // signalled when users becomes 0
	closed   bool
	users    int    // calls in the driver, and items of queues
	promised uint64 // the largest value that Signal was called with
}

// Counter is what a driver does for a semaphore.
type Counter interface {
	// Now returns the value.
	Now() (uint64, error)
	// WaitValue waits until the semaphore has at least a value, for a time of about Patience at most. It reports whether it
	// has.
	WaitValue(value uint64) (reached bool, err error)
}

// Init initialises s as a part of an open semaphore of a device.
func (s *Semaphore) Init(d *Base, value Counter, opened backendkit.OpenItem) {
	s.device, s.value, s.opened = d, value, opened
	s.idle.L = &s.Mu
}

// Use counts a user, until Drop. It fails if the semaphore is closed.
func (s *Semaphore) Use(call string) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.closed {
		return s.device.Errorf(core.ErrClosed, call, "the semaphore was closed")
	}
	s.users++
	return nil
}

// Drop ends what Use began.
func (s *Semaphore) Drop() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.users--; s.users == 0 {
		s.idle.Broadcast()
	}
}

// AddSignal adds an item to q that sets a value, which must be larger than all before. newItem makes the item, with q.Mu held.
// The item is a user of s until it calls Drop. If it cannot set the value, it calls TakeBack with before, the largest value
// before.
func AddSignal[Q any](s *Semaphore, q *Queue[Q], value uint64, newItem func(before uint64) Item[Q]) error {
	const call = "Signal"
	if err := s.Use(call); err != nil {
		return err
	}
	before, err := s.promise(value)
	if err == nil {
		if err = q.Enter(call); err == nil {
			err = q.Add(newItem(before))
			q.Mu.Unlock()
		}
		if err != nil {
			s.TakeBack(value, before)
		}
	}
	if err != nil {
		s.Drop()
	}
	return err
}

// promise records that value will be set, if it is larger than all before. It returns the largest value before.
func (s *Semaphore) promise(value uint64) (before uint64, err error) {
	now, err := s.value.Now()
	if err != nil {
		return 0, s.device.NoteLoss(err)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if least := max(now, s.promised); value <= least {
		return 0, s.device.Errorf(core.ErrInvalid, "Signal", "value %d is not larger than %d, which was signalled before", value, least)
	}
	before, s.promised = s.promised, value
	return before, nil
}

// Follows fails if a value is not larger than pending, the largest one whose signal is submitted.
func (s *Semaphore) Follows(value, pending uint64) error {
	if value <= pending {
		return s.device.Errorf(core.ErrInvalid, "Signal", "value %d is not larger than %d, which another stream has signalled meanwhile", value, pending)
	}
	return nil
}

// TakeBack withdraws the promise of a value that could not be enqueued, unless a larger one was promised since.
func (s *Semaphore) TakeBack(value, before uint64) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.promised == value {
		s.promised = before
	}
}

// Await waits until the value is reached, ctx ends, the semaphore is closed or the device is lost. The caller has called Use.
func (s *Semaphore) Await(ctx context.Context, value uint64) error {
	for {
		reached, err := s.value.WaitValue(value)
		_ = s.device.NoteLoss(err)
		if reached {
			return nil
		}
		if err != nil { // for want of memory, say: tried again
			time.Sleep(time.Millisecond)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.device.LostError(); err != nil {
			return err
		}
		s.Mu.Lock()
		closed := s.closed && s.promised < value
		s.Mu.Unlock()
		if closed {
			return s.ClosedBefore(value)
		}
	}
}

// ClosedBefore is the error of a wait for a value that nobody will set.
func (s *Semaphore) ClosedBefore(value uint64) error {
	return s.device.Errorf(core.ErrClosed, "Wait", "the semaphore was closed before it reached %d", value)
}

// Value returns the value.
func (s *Semaphore) Value() (uint64, error) {
	if err := s.Use("Value"); err != nil {
		return 0, err
	}
	defer s.Drop()
	v, err := s.value.Now()
	return v, s.device.NoteLoss(err)
}

// Wait waits on the host.
func (s *Semaphore) Wait(ctx context.Context, value uint64) error {
	if err := s.Use("Wait"); err != nil {
		return err
	}
	defer s.Drop()
	return s.Await(ctx, value)
}

// CloseBy closes the semaphore. It ends waits on the host for values that will not be set, waits until nobody uses the
// semaphore, and calls destroy with Mu held. A second call does nothing.
func (s *Semaphore) CloseBy(destroy func()) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for s.users > 0 {
		s.idle.Wait()
	}
	destroy()
	s.opened.Close()
	return nil
}
