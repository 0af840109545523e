//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// queue is a stream: a timeline semaphore whose value says how much of its work is done.
//
// All streams share the first VkQueue, so nothing that waits for the host may be in it. Work in a VkQueue runs in order,
// since each command begins with a barrier. An item of the device therefore waits for submitted work in the first VkQueue
// by its place there. What must wait for more goes into a private queue (private.go), or waits on the host if none is free.
type queue struct {
	cmdqueue.Queue[*queue]
	device    *device
	resources *resources
	reached   atomic.Uint64 // items up to here are known to be done
	asking    sync.RWMutex  // held while an event asks the driver, which it no longer does after settle

	// guarded by Mu
	private *privateQueue // nil if the stream has none; it may have lost it
	on      int           // the VkQueue of what was submitted last
	onSince uint64        // the first item of the stream there
}

type (
	event = cmdqueue.Event[*queue]
	item  = cmdqueue.Item[*queue]
)

var (
	_ core.Stream     = (*queue)(nil)
	_ cmdqueue.Driver = (*queue)(nil)
)

// NewQueue makes a queue. d.Mu is held.
func (d *device) NewQueue() (*queue, error) {
	l, err := d.takeResources()
	if err != nil {
		return nil, err
	}
	q := &queue{device: d, resources: l}
	q.reached.Store(l.value)
	q.Init(q, q, &d.Base, mark{}, l.value, 0)
	return q, nil
}

func (q *queue) Device() core.Device { return q.device }

// Native is 0, since the VkQueue does not belong to the stream. [Buffer] has it.
func (q *queue) Native() uintptr { return 0 }

// Wait waits for events of streams of this device. If the work of e is submitted, later items of the device
// wait by their place in the VkQueue, or in a private queue, and items of the host wait for e. Otherwise all later
// items are held on the host. For other events Wait fails with ErrNotSupported.
func (q *queue) Wait(e core.Event) error {
	if e == nil {
		return nil
	}
	own, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok || own.Queue().device != q.device {
		return errorf(core.ErrNotSupported, "Wait", "%T is not an event of this VkDevice: the host must wait", e)
	}
	done, failed := own.Queue() == q, error(nil)
	if !done {
		done, failed = own.Done()
	}
	var submitted, inPrivate bool
	if !done {
		submitted, inPrivate = own.Queue().whereIs(own.Number())
	}
	if err := q.Enter("Wait"); err != nil {
		return err
	}
	defer q.Mu.Unlock()
	switch {
	case done:
		return failed
	case submitted && !inPrivate:
		q.Follow(own)
		return nil
	case submitted && q.reserve(q.Newest()+1):
		q.Follow(own)
		return q.Mark() // at once, or an idle stream would keep the private queue
	default:
		return q.Add(item{Host: own.Await})
	}
}

// whereIs reports whether an item that is not done is submitted, and to a private queue.
func (q *queue) whereIs(number uint64) (submitted, inPrivate bool) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.Submitted(number), q.on != 0 && number >= q.onSince
}

// Has reports whether an item is done. It asks the driver for the timeline's value, unless a known value is large enough.
func (q *queue) Has(number uint64) bool {
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
		_ = q.device.NoteLoss(err)
		return false
	}
	q.device.hostWork.See()
	q.advance(value)
	return value >= number
}

// Ask waits in the driver for an item, for a short time.
func (q *queue) Ask(_ context.Context, number uint64) {
	q.asking.RLock()
	defer q.asking.RUnlock()
	if q.reached.Load() >= number {
		return
	}
	if _, err := q.device.driver.Wait(q.resources.timeline, number, cmdqueue.Patience); err != nil { // it is lost, or tries again
		_ = q.device.NoteLoss(err)
		time.Sleep(time.Millisecond)
	}
}

// Await waits in the driver for an item.
func (q *queue) Await(number uint64) error {
	if q.reached.Load() >= number {
		return nil
	}
	return q.device.await(q.point(number))
}

// await blocks until a timeline has reached a value, or returns the error of a lost device. If the wait fails
// for another reason, such as a lack of memory, it is repeated: the work continues, and nothing that it uses
// may be touched before it is done.
func (d *device) await(p driver.Point) error {
	for {
		reached, err := d.driver.Wait(p.Timeline, p.Value, cmdqueue.Patience)
		_ = d.NoteLoss(err)
		if reached {
			d.hostWork.See()
			return nil
		}
		if lost := d.LostError(); lost != nil {
			return lost
		}
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// Finish sets the timeline, unless the device is lost: work before may not be done then, and all events are over.
func (q *queue) Finish(number uint64) error {
	d := q.device
	if d.IsLost() {
		return nil
	}
	d.hostWork.Pass()
	if err := d.driver.Signal(q.resources.timeline, number); err != nil {
		// All later items would wait for ever.
		return d.NoteLoss(errorf(core.ErrDeviceLost, "vkSignalSemaphore", "a stream cannot go on: %v", err))
	}
	q.advance(number)
	return nil
}

// advance records that items up to value are done.
func (q *queue) advance(value uint64) {
	for old := q.reached.Load(); old < value; old = q.reached.Load() {
		if q.reached.CompareAndSwap(old, value) {
			return
		}
	}
}

// Ended returns the error of a lost device as soon as the host does no work of the queue.
func (q *queue) Ended() error {
	if lost := q.device.LostError(); lost != nil && !q.Hosting() {
		return lost
	}
	return nil
}

// Keep does nothing: a timeline is destroyed only with the device.
func (q *queue) Keep() {}

// Drop does nothing.
func (q *queue) Drop() {}

// Leave leaves the resources to other queues.
func (q *queue) Leave(number uint64, failed error) {
	d := q.device
	if failed != nil { // the device is lost: its objects are destroyed with it
		d.drain()
	}
	q.leave()
	q.settle(failed)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	q.resources.value = number
	d.spare = append(d.spare, q.resources)
}

// settle makes the events of a closed queue independent of the driver. failed is
// nil, or why items may be unfinished.
func (q *queue) settle(failed error) {
	if failed != nil {
		q.Fail(q.reached.Load()+1, math.MaxUint64, failed)
	}
	q.asking.Lock()
	defer q.asking.Unlock()
	q.reached.Store(math.MaxUint64)
}

// point is what the driver waits for, to wait for an item.
func (q *queue) point(number uint64) driver.Point {
	return driver.Point{Timeline: q.resources.timeline, Value: number}
}

// point is what the driver waits for, to wait for the event.
func point(e *event) driver.Point { return e.Queue().point(e.Number()) }

// mark is commands that only set the timeline.
type mark struct{}

func (mark) Submit(q *queue, i item) error { return q.send(q.place(i)) }
