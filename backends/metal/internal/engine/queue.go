package engine

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// queue is a stream: an MTLCommandQueue, and a shared event whose value says how much of the work is done. Each item of the
// device is a command buffer. It waits for the number before its own and signals its own, because Metal orders command
// buffers of one queue only as far as they use the same tracked buffers. Its handler tells the host that it is done.
type queue struct {
	cmdqueue.Queue[*queue]
	device   *device
	raw      driver.ID // owned
	timeline *timeline // one user is the queue
	progress progress
	gone     bool // what belongs to the stream is released; guarded by Mu
}

type (
	event = cmdqueue.Event[*queue]
	item  = cmdqueue.Item[*queue]
)

var (
	_ core.Stream     = (*queue)(nil)
	_ cmdqueue.Driver = (*queue)(nil)
)

const (
	// roomInQueue is for how many uncompleted command buffers a queue is made, and most is how many of them a stream
	// has: more would block in commandBuffer, also in a queue of other code, which has room for 64.
	roomInQueue = 64
	most        = 32
)

// NewQueue makes a queue.
func (d *device) NewQueue() (*queue, error) {
	raw := d.driver.NewCommandQueue(d.id, roomInQueue)
	if raw == 0 {
		return nil, noObject("newCommandQueueWithMaxCommandBufferCount:")
	}
	return ownQueue(d, raw)
}

// importQueue makes a stream over a queue of other code, and takes a reference to it.
func importQueue(d *device, raw driver.ID) (*queue, error) {
	d.driver.Retain(raw)
	q, err := ownQueue(d, raw)
	if err == nil {
		q.Show()
	}
	return q, err
}

// ownQueue makes a stream that owns a reference to raw. It releases that if it fails.
func ownQueue(d *device, raw driver.ID) (*queue, error) {
	t, err := newTimeline(d)
	if err != nil {
		d.driver.Release(raw)
		return nil, err
	}
	q := &queue{device: d, raw: raw, timeline: t}
	q.Init(q, q, &d.Base, mark{}, 0, most)
	return q, nil
}

// release gives back what belongs to a queue without work.
func (q *queue) release() {
	q.timeline.drop()
	q.device.driver.Release(q.raw)
}

func (q *queue) Device() core.Device { return q.device }

// Native is the id<MTLCommandQueue>. From now on, events of the stream also stand for command buffers that other code
// committed before.
func (q *queue) Native() uintptr {
	q.Show()
	return uintptr(q.raw)
}

// Wait waits for events of streams of Metal, also of other devices: shared events order the work of several GPUs. If the
// work of e is committed, later items of the device wait for the shared event of its stream. Otherwise all later items
// are held on the host. For other events Wait fails with ErrNotSupported.
func (q *queue) Wait(e core.Event) error {
	if e == nil {
		return nil
	}
	own, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok || own.Queue().device.driver != q.device.driver {
		return errorf(core.ErrNotSupported, "Wait", "%T is not an event of Metal: the host must wait", e)
	}
	done, failed := own.Queue() == q, error(nil)
	if !done {
		done, failed = own.Done()
	}
	committed := !done && own.Queue().holdCommitted(own.Number())
	if committed {
		defer own.Drop()
	}
	if err := q.Enter("Wait"); err != nil {
		return err
	}
	defer q.Mu.Unlock()
	switch {
	case done:
		return failed
	case committed:
		q.Follow(own)
		return nil
	}
	return q.Add(item{Host: own.Await})
}

// holdCommitted reports whether an item is committed. If it is, and the stream is not closed, the caller drops the
// timeline.
func (q *queue) holdCommitted(number uint64) bool {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if !q.Submitted(number) || q.gone {
		return false
	}
	q.timeline.keep()
	return true
}

// Has asks no driver: handlers of command buffers have said what is done.
func (q *queue) Has(number uint64) bool { return q.progress.has(number) }

// Ask waits for the handler of the command buffer.
func (q *queue) Ask(ctx context.Context, number uint64) {
	select {
	case <-q.progress.until(number):
	case <-ctx.Done():
	}
}

// Await waits for the handler of the command buffer.
func (q *queue) Await(number uint64) error {
	<-q.progress.until(number)
	return nil
}

// Finish records that an item is done, of the host or a command buffer.
func (q *queue) Finish(number uint64) error {
	q.timeline.keep() // the stream may be closed as soon as the item is done
	defer q.timeline.drop()
	// The value can be missing after an item of the host and after a command buffer that failed. What waits for it
	// goes on: the events report the error. The host sets it before anybody sees that the item is done, because the next
	// command buffer then waits for nothing, and may signal a larger value at once.
	q.progress.finish(number, q.timeline.raise)
	return nil
}

// Ended returns nil: Metal also calls the handlers of a lost device.
func (q *queue) Ended() error { return nil }

// Refused does nothing.
func (q *queue) Refused() {}

// Keep keeps the shared event until Drop.
func (q *queue) Keep() { q.timeline.keep() }

// Drop ends what Keep began.
func (q *queue) Drop() { q.timeline.drop() }

// Leave releases what belongs to the stream.
func (q *queue) Leave(uint64, error) {
	q.Mu.Lock()
	q.gone = true
	q.Mu.Unlock()
	q.release()
}

// mark is commands that only wait and signal.
type mark struct{}

func (m mark) Submit(q *queue, i item) error { return q.submit(i, m) }
func (mark) encode(*encoding) error          { return nil }
