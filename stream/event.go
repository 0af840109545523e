package stream

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// Event is a [core.Event] that the host completes, with an error or without. The zero value
// is an event that is not done. An Event is safe for concurrent use and must not be copied.
type Event struct {
	queue   *Queue      // that recorded the event, nil if none did
	started atomic.Bool // all work before the event is started: see privateStream.Start
	reached atomic.Bool // set last: err is final once it is true

	mu     sync.Mutex
	err    error
	waiter chan struct{} // closed with the event; made by the first Wait
}

var _ core.Event = (*Event)(nil)

// NewEvent returns an event that is not done.
func NewEvent() *Event { return new(Event) }

// Complete makes the event done. err is the error of its work, or nil. Only the first call
// has an effect.
func (e *Event) Complete(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reached.Load() {
		return
	}
	e.err = err
	e.reached.Store(true)
	if e.waiter != nil {
		close(e.waiter)
	}
}

// Done reports, without blocking, whether the event is done, and returns the error of its
// work.
func (e *Event) Done() (bool, error) {
	if !e.reached.Load() {
		return false, nil
	}
	return true, e.err
}

// Wait blocks until the event is done, and returns the error of its work. If ctx ends
// first, Wait returns ctx's error.
func (e *Event) Wait(ctx context.Context) error {
	if !e.reached.Load() {
		select {
		case <-e.channel():
		case <-ctx.Done():
			if !e.reached.Load() {
				return ctx.Err()
			}
		}
	}
	return e.err
}

// channel returns a channel that is closed when the event is reached.
func (e *Event) channel() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiter == nil {
		e.waiter = make(chan struct{})
		if e.reached.Load() {
			close(e.waiter)
		}
	}
	return e.waiter
}
