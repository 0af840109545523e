package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveStreams = backendkit.NewLiveCounter(name + ".Stream")

// queue is a stream: an MTLCommandQueue, and a shared event whose value says how much of the work is done. Items of work
// are numbered. Each item of the device is a command buffer. It waits for the number before its own and signals its own,
// because Metal orders command buffers of one queue only as far as they use the same tracked buffers. Its handler tells
// the host that it is done.
//
// Items of the host, and all items after them, wait in a goroutine: a command buffer is committed only when everything
// that it waits for is committed. Otherwise it could wait longer than the system lets it.
type queue struct {
	device   *device
	opened   backendkit.OpenItem
	raw      driver.ID   // owned
	timeline *timeline   // one user is the queue
	native   atomic.Bool // other code has the MTLCommandQueue, and may use it
	progress progress
	failures failures

	mu        sync.Mutex
	changed   sync.Cond // running or finished has changed
	closed    bool
	gone      bool    // what belongs to the stream is released
	finished  bool    // gone, and not counted any more
	next      uint64  // number of the newest item
	submitted uint64  // items up to here are committed or done
	before    []point // which the next item waits for
	later     []item
	running   bool   // a goroutine works on later
	last      *event // recorded last
}

var _ core.Stream = (*queue)(nil)

// point is a value of a shared event whose signal is committed. If it is of a queue, event is set.
type point struct {
	timeline *timeline
	value    uint64
	event    *event
}

// over reports whether the point is known to be reached.
func (p point) over() bool {
	return p.event != nil && p.event.queue.progress.has(p.event.number)
}

// item is a piece of work: encode is set for work of the device, else host.
type item struct {
	number uint64
	encode func(*encoding) error // q.mu is held
	// host is work of the host. It runs when everything before it is done. An early item
	// runs when the item numbered after is done, and has no number of its own. The caller
	// runs quick work itself, if everything before it is done already.
	host   func() error
	quick  bool
	early  bool
	after  uint64
	before []point
	around func(submit func() error) error   // called, if set, to encode and commit the item
	over   func(number uint64, failed error) // called, if set, when the item is over, before anybody sees that it is done
}

const (
	// roomInQueue is for how many uncompleted command buffers a queue is made, and most is how many of them a stream
	// has: more would block in commandBuffer, also in a queue of other code, which has room for 64.
	roomInQueue = 64
	most        = 32
)

// newQueue makes a queue.
func newQueue(d *device) (*queue, error) {
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
		q.native.Store(true)
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
	q.changed.L = &q.mu
	q.last = &event{queue: q}
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
	q.native.Store(true)
	return uintptr(q.raw)
}

// lock locks q.mu. It fails if the stream was closed or the device is lost.
func (q *queue) lock(call string) error {
	q.mu.Lock()
	err := q.device.lostError()
	if q.closed {
		err = errorf(core.ErrClosed, call, "the stream was closed")
	}
	if err != nil {
		q.mu.Unlock()
	}
	return err
}

// add adds an item after the others. If it fails, the item is not added. q.mu is held.
func (q *queue) add(i item) error {
	if i.encode == nil && !i.early && q.native.Load() {
		if err := q.append(item{encode: mark}); err != nil { // stands for the work of others
			return err
		}
	}
	return q.append(i)
}

// append is add, without regard to work of others.
func (q *queue) append(i item) error {
	i.number = q.next + 1
	if i.early {
		i.number = q.next
	}
	switch {
	case i.encode != nil && !q.running && q.hasRoom(i.number):
		i.before = q.before
		if err := q.place(i); err != nil {
			return err
		}
		q.submitted = i.number
		q.forgetBefore()
	case i.quick && !q.running && q.isIdle():
		q.next = i.number
		q.complete(i, nil)
		q.submitted = i.number
	default:
		if i.early {
			i.before = slices.Clone(q.before)
			for _, p := range i.before {
				p.timeline.keep()
			}
		} else { // later items wait for this one
			i.before, q.before = q.before, nil
		}
		q.later = append(q.later, i)
		if !q.running {
			q.running = true
			go q.catchUp()
		}
	}
	q.next = i.number
	return nil
}

// place encodes and commits an item. q.mu is held.
func (q *queue) place(i item) error {
	if i.around == nil {
		return q.submit(i)
	}
	return i.around(func() error { return q.submit(i) })
}

// hasRoom reports whether a command buffer for an item can be had without waiting.
func (q *queue) hasRoom(number uint64) bool { return number <= most || q.progress.has(number-most) }

// wait makes the next item wait for a point. q.mu is held.
func (q *queue) wait(p point) {
	p.timeline.keep()
	q.before = append(q.before, p)
}

func (q *queue) forgetBefore() {
	for _, p := range q.before {
		p.timeline.drop()
	}
	clear(q.before)
	q.before = q.before[:0]
}

// isIdle reports whether everything that a new item waits for is done. q.mu is held.
func (q *queue) isIdle() bool {
	for _, p := range q.before {
		if !p.over() {
			return false
		}
	}
	return q.progress.has(q.next)
}

// mark is an item that only waits and signals.
func mark(*encoding) error { return nil }

// catchUp works on the items of later until there are none.
func (q *queue) catchUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.later) > 0 {
		i := q.later[0]
		q.later[0] = item{}
		q.later = q.later[1:]
		if i.encode != nil && !q.hasRoom(i.number) {
			q.mu.Unlock()
			<-q.progress.until(i.number - most)
			q.mu.Lock()
		}
		var err error
		if i.encode != nil {
			err = q.place(i)
		}
		if i.encode == nil || err != nil {
			q.mu.Unlock()
			if i.early {
				q.runEarly(i)
			} else {
				q.runInOrder(i, err)
			}
			q.mu.Lock()
		}
		for _, p := range i.before {
			p.timeline.drop()
		}
		q.submitted = max(q.submitted, i.number)
	}
	q.running = false
	q.changed.Broadcast()
}

// runInOrder runs the host work of an item when everything before it is done. failed is an error of the item so far; its
// work does not run then.
func (q *queue) runInOrder(i item, failed error) {
	<-q.progress.until(i.number - 1)
	awaitAll(i.before)
	q.complete(i, failed)
}

// awaitAll waits for points of other queues and of semaphores. The tensors that their work wrote report its errors.
func awaitAll(before []point) {
	for _, p := range before {
		if p.event != nil {
			p.event.settle()
			continue
		}
		for reached := false; !reached; {
			reached = p.timeline.driver.WaitValue(p.timeline.id, p.value, patience)
		}
	}
}

// complete runs the host work of an item, unless failed is set, and ends the item.
func (q *queue) complete(i item, failed error) {
	if failed == nil && i.host != nil {
		failed = q.doHostWork(i)
	}
	q.end(i, failed)
}

// end records that an item is done. failed is its error.
func (q *queue) end(i item, failed error) {
	if i.over != nil {
		i.over(i.number, failed)
	}
	if failed != nil {
		q.failures.add(i.number, failed) // before anybody sees that it is done
	}
	q.timeline.keep() // the stream may be closed as soon as the item is done
	defer q.timeline.drop()
	// The value can be missing after an item of the host and after a command buffer that failed. What waits for it
	// goes on: the events report the error. The host sets it before anybody sees that the item is done, because the next
	// command buffer then waits for nothing, and may signal a larger value at once.
	q.progress.finish(i.number, q.timeline.raise)
}

// runEarly runs the host work of an early item. An error of the work is reported by the next item, which belongs to the
// same copy.
func (q *queue) runEarly(i item) {
	<-q.progress.until(i.after)
	awaitAll(i.before)
	if err := q.doHostWork(i); err != nil {
		q.failures.add(i.number+1, err)
	}
}

// doHostWork runs the work of an item, unless the device is lost.
func (q *queue) doHostWork(i item) error {
	if lost := q.device.lostError(); lost != nil {
		return lost
	}
	return i.host()
}

// rest waits until no goroutine works on items of the queue.
func (q *queue) rest() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.running {
		q.changed.Wait()
	}
}

// Wait waits for events of streams of Metal, also of other devices: shared events order the work of several GPUs. If the
// work of e is committed, later items of the device wait for the shared event of its stream. Otherwise all later items
// are held on the host. For other events Wait fails with ErrNotSupported.
func (q *queue) Wait(e core.Event) error {
	if e == nil {
		return nil
	}
	own, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok || own.queue.device.driver != q.device.driver {
		return errorf(core.ErrNotSupported, "Wait", "%T is not an event of Metal: the host must wait", e)
	}
	done, failed := own.queue == q, error(nil)
	if !done {
		done, failed = own.Done()
	}
	committed := !done && own.queue.holdCommitted(own.number)
	if committed {
		defer own.queue.timeline.drop()
	}
	if err := q.lock("Wait"); err != nil {
		return err
	}
	defer q.mu.Unlock()
	switch {
	case done:
		return failed
	case committed:
		q.wait(point{own.queue.timeline, own.number, own})
		return nil
	}
	return q.add(item{host: func() error { own.settle(); return nil }})
}

// holdCommitted reports whether an item is committed. If it is, and the stream is not closed, the caller drops the
// timeline.
func (q *queue) holdCommitted(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.submitted < number || q.gone {
		return false
	}
	q.timeline.keep()
	return true
}

// Record returns an event for the newest item.
func (q *queue) Record() (core.Event, error) {
	if err := q.lock("Record"); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	return q.record()
}

// record is Record with q.mu held.
func (q *queue) record() (core.Event, error) {
	if len(q.before) > 0 || q.native.Load() { // waits are work, too, and so is what others have committed
		if err := q.add(item{encode: mark}); err != nil {
			return nil, err
		}
	}
	if q.last.number != q.next {
		q.last = &event{q, q.last.number, q.next}
	}
	return q.last, nil
}

// Synchronize waits for all items.
func (q *queue) Synchronize(ctx context.Context) error {
	e, err := q.Record()
	if err != nil {
		return err
	}
	if err := e.Wait(ctx); err != nil {
		if done, _ := e.Done(); !done {
			return err
		}
	}
	err = q.failures.take()
	if lost := q.device.lostError(); lost != nil {
		err = lost
	}
	return err
}

// Close waits for the items, and returns the first error that no Synchronize returned. A second Close also
// waits, and returns nil.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		for !q.finished {
			q.changed.Wait()
		}
		return nil
	}
	if len(q.before) > 0 || q.native.Load() {
		_ = q.add(item{encode: mark}) // if it fails, the host waits for what is left
	}
	q.closed = true
	for q.running {
		q.changed.Wait()
	}
	q.mu.Unlock()
	<-q.progress.until(q.next) // nothing is added any more
	awaitAll(q.before)
	q.mu.Lock()
	q.gone = true
	q.forgetBefore()
	q.mu.Unlock()
	q.release()
	liveStreams.Add(-1)
	q.opened.Close()
	q.mu.Lock()
	q.finished = true
	q.changed.Broadcast()
	return q.failures.take()
}
