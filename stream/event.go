package stream

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// Event is a point that the host reaches once, with an error or without. Its zero
// value is an event that was not reached. It is safe for concurrent use and must
// not be copied.
type Event struct {
	queue   *Queue      // that recorded the event, nil if none did
	reached atomic.Bool // set last: err is final once it is true

	mu     sync.Mutex
	err    error
	waiter chan struct{} // closed with the event; made by the first Wait
}

var _ core.Event = (*Event)(nil)

// NewEvent returns an event that was not reached.
func NewEvent() *Event { return new(Event) }

// Complete reaches the event; err is what its work failed with, or nil. Only the
// first call counts.
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

// Done reports, without blocking, whether the event was reached, and its error.
func (e *Event) Done() (bool, error) {
	if !e.reached.Load() {
		return false, nil
	}
	return true, e.err
}

// Wait blocks until the event is reached, and returns its error, or until ctx
// ends, and returns ctx's. An event that was reached wins over an ended ctx.
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
