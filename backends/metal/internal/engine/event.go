package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// event is done when an item of a queue is. It reports the first error of the items since the event before.
type event struct {
	queue         *queue
	after, number uint64
}

var _ core.Event = (*event)(nil)

// Done asks no driver: handlers of command buffers have said what is done.
func (e *event) Done() (bool, error) {
	if !e.queue.progress.has(e.number) {
		return false, nil
	}
	return true, e.queue.failures.first(e.after, e.number)
}

// Wait waits for the handler of the command buffer.
func (e *event) Wait(ctx context.Context) error {
	if done, err := e.Done(); done {
		return err
	}
	select {
	case <-e.queue.progress.until(e.number):
		_, err := e.Done()
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until the event is done, and leaves its error to those who read what the work wrote.
func (e *event) settle() { <-e.queue.progress.until(e.number) }

// timeline is a shared event of Metal, whose value only grows. It is released with the last of its users, since a
// command buffer retains resources (MTLCommandBuffer, retainedReferences) and Apple does not say that events are such.
type timeline struct {
	driver driver.Driver
	id     driver.ID
	users  atomic.Int64

	mu sync.Mutex // held while the host sets the value
}

// newTimeline makes an event with value 0, and one user.
func newTimeline(d *device) (*timeline, error) {
	id := d.driver.NewSharedEvent(d.id)
	if id == 0 {
		return nil, noObject("newSharedEvent")
	}
	return ownTimeline(d.driver, id), nil
}

// ownTimeline takes over a reference to id, for one user.
func ownTimeline(v driver.Driver, id driver.ID) *timeline {
	t := &timeline{driver: v, id: id}
	t.users.Store(1)
	return t
}

// keep counts a user.
func (t *timeline) keep() { t.users.Add(1) }

// drop ends what keep, or the maker, began.
func (t *timeline) drop() {
	if t.users.Add(-1) == 0 {
		t.driver.Release(t.id)
	}
}

// raise sets the value, unless it is as large already. Nothing that is submitted may set a value up to this one.
func (t *timeline) raise(value uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.driver.Value(t.id) < value {
		t.driver.SetValue(t.id, value)
	}
}

// failures are the items of a queue that failed.
type failures struct {
	any    atomic.Bool
	mu     sync.Mutex
	list   []failure
	untold error // the first one since the last Synchronize
}

type failure struct {
	number uint64
	err    error
}

func (f *failures) add(number uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, failure{number, err})
	f.any.Store(true)
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
		if x.number > after && x.number <= number {
			return x.err
		}
	}
	return nil
}
