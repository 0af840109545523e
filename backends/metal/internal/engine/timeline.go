package engine

import (
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
)

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

// point is a value of a shared event whose signal is committed.
type point struct {
	*timeline
	value uint64
}

var _ cmdqueue.Point = point{}

// Over reports false: Metal is not asked.
func (p point) Over() bool { return false }

// Await waits for the value.
func (p point) Await() error {
	for {
		if p.driver.WaitValue(p.id, p.value, cmdqueue.Patience) {
			return nil
		}
	}
}

// Keep keeps the event until Drop.
func (p point) Keep() { p.keep() }

// Drop ends what Keep began.
func (p point) Drop() { p.drop() }
