//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// event is done when an item of a queue is. It reports the first error of the items since the event before.
type event struct {
	queue         *queue
	after, number uint64
}

var _ core.Event = (*event)(nil)

// Done asks the driver for the timeline's value, unless a known value is large enough.
func (e *event) Done() (bool, error) {
	if e.queue.hasReached(e.number) {
		return true, e.queue.failures.first(e.after, e.number)
	}
	if lost := e.queue.device.lostError(); lost != nil && e.queue.hosting.Load() == 0 {
		return true, lost
	}
	return false, nil
}

// Wait waits in the driver, for a short time at once.
func (e *event) Wait(ctx context.Context) error {
	for {
		if done, err := e.Done(); done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.queue.ask(e.number); err != nil { // it is lost, or tries again
			_ = e.queue.device.noteLoss(err)
			time.Sleep(time.Millisecond)
		}
	}
}

// ask waits in the driver for an item, for a short time.
func (q *queue) ask(number uint64) error {
	q.asking.RLock()
	defer q.asking.RUnlock()
	if q.reached.Load() >= number {
		return nil
	}
	_, err := q.device.driver.Wait(q.resources.timeline, number, patience)
	return err
}

// hasReached reports whether an item is done.
func (q *queue) hasReached(number uint64) bool {
	if q.reached.Load() >= number {
		return true
	}
	q.asking.RLock()
	defer q.asking.RUnlock()
	if q.reached.Load() >= number { // the queue was closed
		return true
	}
	value, err := q.device.driver.Counter(q.resources.timeline)
	if err != nil {
		_ = q.device.noteLoss(err)
		return false
	}
	q.device.hostWork.See()
	q.advance(value)
	return value >= number
}

// advance records that items up to value are done.
func (q *queue) advance(value uint64) {
	for old := q.reached.Load(); old < value; old = q.reached.Load() {
		if q.reached.CompareAndSwap(old, value) {
			return
		}
	}
}

// settle makes the events of a closed queue independent of the driver. failed is
// nil, or why items may be unfinished.
func (q *queue) settle(failed error) {
	if failed != nil {
		q.failures.add(q.reached.Load()+1, math.MaxUint64, failed)
	}
	q.asking.Lock()
	defer q.asking.Unlock()
	q.reached.Store(math.MaxUint64)
}

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

// resources are the Vulkan objects of a queue. A closed queue leaves them to the next one, whose items are
// numbered from the timeline's value on. Other code may still wait for the timeline, so it is destroyed only
// with the device.
type resources struct {
	timeline uint64 // VkSemaphore
	value    uint64 // of timeline, while no queue uses the resources
	pool     uint64 // VkCommandPool
	commands []*command
}

// takeResources returns resources that no queue uses. d.Mu is held.
func (d *device) takeResources() (*resources, error) {
	if n := len(d.spare); n > 0 {
		l := d.spare[n-1]
		d.spare = d.spare[:n-1]
		return l, nil
	}
	l := new(resources)
	var err error
	if l.timeline, err = d.driver.NewTimeline(false); err != nil {
		return nil, err
	}
	if l.pool, err = d.driver.NewCommandPool(); err != nil {
		d.driver.DestroyTimeline(l.timeline)
		return nil, err
	}
	return l, nil
}

// destroy destroys resources without unfinished work.
func (l *resources) destroy(d *driver.Device) {
	for _, c := range l.commands {
		for _, s := range c.sets {
			d.DestroySet(s.pool)
		}
	}
	d.DestroyCommandPool(l.pool)
	d.DestroyTimeline(l.timeline)
}
