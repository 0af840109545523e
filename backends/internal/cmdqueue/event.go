package cmdqueue

import (
	"context"
	"sync"
	"sync/atomic"
)

// Event is done when an item of a queue is. It reports the first error of the items since the event before.
type Event[Q any] struct {
	queue         *Queue[Q]
	after, number uint64
}

// Queue returns the stream of the event.
func (e *Event[Q]) Queue() Q { return e.queue.self }

// Number returns the number of the item: the value of the timeline when it is done.
func (e *Event[Q]) Number() uint64 { return e.number }

// Done asks the driver whether the item is done.
func (e *Event[Q]) Done() (bool, error) {
	if e.Over() {
		return true, e.queue.failures.first(e.after, e.number)
	}
	if err := e.queue.driver.Ended(); err != nil {
		return true, err
	}
	return false, nil
}

// Wait waits for the item, or until ctx ends.
func (e *Event[Q]) Wait(ctx context.Context) error {
	for {
		if done, err := e.Done(); done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e.queue.driver.Ask(ctx, e.number)
	}
}

// Over reports whether the item is done.
func (e *Event[Q]) Over() bool { return e.queue.driver.Has(e.number) }

// Await waits for the item. It fails if the item need not be done any more, since the device is lost.
func (e *Event[Q]) Await() error {
	if err := e.Wait(context.Background()); err != nil && !e.Over() {
		return err
	}
	return nil
}

// Keep keeps the timeline of the stream until Drop.
func (e *Event[Q]) Keep() { e.queue.driver.Keep() }

// Drop ends what Keep began.
func (e *Event[Q]) Drop() { e.queue.driver.Drop() }

// failures are the items of a queue that failed.
type failures struct {
	any    atomic.Bool
	mu     sync.Mutex
	list   []failure
	untold error // the first one since the last Synchronize
}

type failure struct {
	first, last uint64
	err         error
}

func (f *failures) add(first, last uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, failure{first, last, err})
	f.any.Store(true)
	if f.untold == nil {
		f.untold = err
	}
}

// note records an error that belongs to no item.
func (f *failures) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.untold == nil {
		f.untold = err
	}
}

// take returns the first error that was not reported yet.
func (f *failures) take() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.untold
	f.untold = nil
	return err
}

// first returns the first error of the items after the one numbered after, up to number.
func (f *failures) first(after, number uint64) error {
	if !f.any.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.list {
		if x.last > after && x.first <= number {
			return x.err
		}
	}
	return nil
}
