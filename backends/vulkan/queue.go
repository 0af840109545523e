//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveStreams = backendkit.NewLiveCounter("vulkan.Stream")

// queue is a stream: a timeline semaphore whose value says how much of its work is done. Items of work are
// numbered; the timeline gets the value n when item n and all before it are done.
//
// Items of the device are submitted at once if possible. Items of the host, and all items after them, wait
// for a goroutine. All streams share the first VkQueue, so nothing that waits for the host may be in it. Work in
// a VkQueue runs in order, since each command begins with a barrier. An item of the device therefore waits
// for submitted work in the first VkQueue by its place there. What must wait for more goes into a private queue
// (private.go), or waits on the host if none is free.
type queue struct {
	device    *device
	opened    backendkit.OpenItem
	resources *resources
	reached   atomic.Uint64 // items up to here are known to be done
	failures  failures
	asking    sync.RWMutex // held while an event asks the driver, which it no longer does after settle
	hosting   atomic.Int32 // host work that is running

	mu        sync.Mutex
	changed   sync.Cond // running or closed has changed
	closed    bool
	finished  bool     // closed, and without work
	next      uint64   // number of the newest item
	submitted uint64   // items up to here are submitted or done
	before    []*event // of other queues, which the next item waits for
	later     []item
	running   bool          // a goroutine works on later
	last      *event        // recorded last
	private   *privateQueue // nil if the stream has none; it may have lost it
	on        int           // the VkQueue of what was submitted last
	onSince   uint64        // the first item of the stream there
}

var _ core.Stream = (*queue)(nil)

// item is a piece of work. submit or host is set, or both: host then does the same if submit fails.
type item struct {
	number uint64
	// submit submits work by place and send. q.mu is held.
	submit func(item) error
	// host is work of the host. It runs when everything before it is done. An early item
	// runs when the item numbered after is done, and has no number of its own. The caller
	// runs quick work itself, if everything before it is done already.
	host   func() error
	quick  bool
	early  bool
	after  uint64
	before []*event // of other queues, which host also waits for
	over   func()   // called, if set, when submit has gone well, or when host is over or will never run
}

// newQueue makes a queue. d.Mu is held.
func newQueue(d *device) (*queue, error) {
	l, err := d.takeResources()
	if err != nil {
		return nil, err
	}
	q := &queue{device: d, resources: l, next: l.value, submitted: l.value}
	q.reached.Store(l.value)
	q.changed.L = &q.mu
	q.last = &event{q, l.value, l.value}
	return q, nil
}

func (q *queue) Device() core.Device { return q.device }

// Native is 0, since the VkQueue does not belong to the stream. [Buffer] has it.
func (q *queue) Native() uintptr { return 0 }

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
	i.number = q.next + 1
	if i.early {
		i.number = q.next
	}
	if i.submit != nil && !q.running {
		i.before = q.before
		err := q.submit(i)
		if err == nil {
			q.next, q.submitted = i.number, i.number
			q.forgetBefore() // what is submitted after them runs after them
			return nil
		}
		q.unreserve()
		if !errors.Is(err, errNoQueue) {
			return err
		}
		i.submit = nil // host does it
	}
	switch {
	case i.quick && !q.running && q.isIdle():
		q.next = i.number
		q.complete(i, nil)
		q.submitted = i.number
	default:
		i.before = slices.Clone(q.before)
		if !i.early { // later items wait for this one
			q.forgetBefore()
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

// errNoQueue is the error of a submit that must leave its work to host.
var errNoQueue = errors.New("no VkQueue is free")

// submit submits an item. q.mu is held.
func (q *queue) submit(i item) error {
	if lost := q.device.lostError(); lost != nil { // earlier work may not have been submitted
		return lost
	}
	if err := i.submit(i); err != nil {
		return q.device.noteLoss(err)
	}
	if i.over != nil {
		i.over()
	}
	return nil
}

func (q *queue) forgetBefore() {
	clear(q.before)
	q.before = q.before[:0]
}

// isIdle reports whether everything that a new item waits for is done. q.mu is held.
func (q *queue) isIdle() bool {
	q.before = slices.DeleteFunc(q.before, func(e *event) bool { return e.queue.hasReached(e.number) })
	return len(q.before) == 0 && q.hasReached(q.next)
}

// catchUp runs the items of later until there are none.
func (q *queue) catchUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.later) > 0 {
		i := q.later[0]
		q.later[0] = item{}
		q.later = q.later[1:]
		var err error
		if i.submit != nil {
			err = q.submit(i)
		}
		if i.submit == nil || err != nil {
			if i.host != nil && q.device.lostError() == nil {
				err = nil
			}
			q.mu.Unlock()
			if i.early {
				q.runEarly(i)
			} else {
				q.runInOrder(i, err)
			}
			q.mu.Lock()
		}
		q.submitted = max(q.submitted, i.number)
	}
	q.running = false
	q.changed.Broadcast()
}

// runInOrder runs the host work of an item when everything before it is done, and advances the timeline.
// failed is an error of the item so far; its work does not run then.
func (q *queue) runInOrder(i item, failed error) {
	d := q.device
	err := d.await(driver.Point{Timeline: q.resources.timeline, Value: i.number - 1})
	if err == nil {
		err = awaitAll(i.before)
	}
	if failed == nil {
		failed = err
	}
	q.complete(i, failed)
}

// awaitAll waits for events of other queues. The tensors that their work wrote report its errors.
func awaitAll(before []*event) error {
	for _, e := range before {
		if err := e.Wait(context.Background()); err != nil && !e.queue.hasReached(e.number) {
			return err
		}
	}
	return nil
}

// complete runs the host work of an item, unless failed is set, and advances the timeline.
func (q *queue) complete(i item, failed error) {
	d := q.device
	if failed == nil {
		failed = q.doHostWork(i)
	}
	if i.over != nil {
		i.over()
	}
	if failed != nil {
		q.failures.add(i.number, i.number, failed) // before anybody sees that it is done
	}
	if d.lostError() != nil { // work before it may not be done, and all events are over
		return
	}
	d.hostWork.Pass()
	if err := d.driver.Signal(q.resources.timeline, i.number); err != nil {
		// All later items would wait for ever.
		q.failures.note(d.noteLoss(errorf(core.ErrDeviceLost, "vkSignalSemaphore", "a stream cannot go on: %v", err)))
		return
	}
	q.advance(i.number)
}

// runEarly runs the host work of an early item, unless the device is lost, which the items after it report.
// An error of the work is reported by the next item, which belongs to the same copy.
func (q *queue) runEarly(i item) {
	if q.device.await(driver.Point{Timeline: q.resources.timeline, Value: i.after}) != nil || awaitAll(i.before) != nil {
		return
	}
	if err := q.doHostWork(i); err != nil && q.device.lostError() == nil {
		q.failures.add(i.number+1, i.number+1, err)
	}
}

// doHostWork runs the work of an item, unless the device is lost: the device's events are then done as soon
// as no host work is running.
func (q *queue) doHostWork(i item) error {
	q.hosting.Add(1)
	defer q.hosting.Add(-1)
	if lost := q.device.lostError(); lost != nil { // asked when hosting is set: see event.Done
		return lost
	}
	return i.host()
}

// rest waits until no goroutine runs items of the queue.
func (q *queue) rest() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.running {
		q.changed.Wait()
	}
}

// await blocks until a timeline has reached a value, or returns the error of a lost device. If the wait fails
// for another reason, such as a lack of memory, it is repeated: the work continues, and nothing that it uses
// may be touched before it is done.
func (d *device) await(p driver.Point) error {
	for {
		reached, err := d.driver.Wait(p.Timeline, p.Value, patience)
		_ = d.noteLoss(err)
		if reached {
			d.hostWork.See()
			return nil
		}
		if lost := d.lostError(); lost != nil {
			return lost
		}
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

// patience limits one wait in the driver, so that ended contexts and lost devices are noticed.
const patience = 10 * time.Millisecond

// Wait waits for events of streams of this device. If the work of e is submitted, later items of the device
// wait by their place in the VkQueue, or in a private queue, and items of the host wait for e. Otherwise all later
// items are held on the host. For other events Wait fails with ErrNotSupported.
func (q *queue) Wait(e core.Event) error {
	if e == nil {
		return nil
	}
	own, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok || own.queue.device != q.device {
		return errorf(core.ErrNotSupported, "Wait", "%T is not an event of this VkDevice: the host must wait", e)
	}
	done, failed := own.queue == q, error(nil)
	if !done {
		done, failed = own.Done()
	}
	var submitted, inPrivate bool
	if !done {
		submitted, inPrivate = own.queue.whereIs(own.number)
	}
	if err := q.lock("Wait"); err != nil {
		return err
	}
	defer q.mu.Unlock()
	switch {
	case done:
		return failed
	case submitted && !inPrivate:
		q.before = append(q.before, own)
		return nil
	case submitted && q.reserve(q.next+1):
		q.before = append(q.before, own)
		return q.add(item{submit: q.mark}) // at once, or an idle stream would keep the private queue
	default:
		return q.add(item{host: func() error { return awaitAll([]*event{own}) }})
	}
}

// whereIs reports whether an item that is not done is submitted, and to a private queue.
func (q *queue) whereIs(number uint64) (submitted, inPrivate bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.submitted >= number, q.on != 0 && number >= q.onSince
}

// Record returns an event for the newest item.
func (q *queue) Record() (core.Event, error) {
	if err := q.lock("Record"); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	if len(q.before) > 0 { // waits are work, too
		if err := q.add(item{submit: q.mark}); err != nil {
			return nil, err
		}
	}
	if q.last.number != q.next {
		q.last = &event{q, q.last.number, q.next}
	}
	return q.last, nil
}

// mark submits only a signal of the timeline.
func (q *queue) mark(i item) error { return q.send(q.place(i)) }

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
	q.mu.Lock()
	defer q.mu.Unlock()
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
	q.closed = true
	q.finish()
	return q.failures.take()
}

// finish waits for the items and leaves the resources to other queues. No items are added any more. q.mu is
// held.
func (q *queue) finish() {
	for q.running {
		q.changed.Wait()
	}
	d, number, before := q.device, q.next, q.before
	q.mu.Unlock()
	err := d.await(driver.Point{Timeline: q.resources.timeline, Value: number})
	if err == nil {
		err = awaitAll(before)
	}
	if err != nil { // the device is lost: its objects are destroyed with it
		d.drain()
	}
	q.leave()
	q.settle(err)
	d.dropStream(q.opened, q.resources, number)
	q.mu.Lock()
	q.finished = true
	q.changed.Broadcast()
}

// command is a command buffer of a queue, with its descriptor sets by pipeline.
type command struct {
	handle uint64
	busy   uint64 // the item that uses it
	sets   map[*driver.Pipeline]set
}

type set struct{ pool, handle uint64 }

// takeCommand returns a command buffer that is not in use. The caller sets busy. q.mu is held.
func (q *queue) takeCommand() (*command, error) {
	l := q.resources
	if len(l.commands) > 0 && q.hasReached(l.commands[0].busy) {
		c := l.commands[0]
		copy(l.commands, l.commands[1:]) // the one used longest ago stands first
		l.commands[len(l.commands)-1] = c
		return c, nil
	}
	handle, err := q.device.driver.NewCommand(l.pool)
	if err != nil {
		return nil, err
	}
	c := &command{handle: handle, sets: make(map[*driver.Pipeline]set)}
	l.commands = append(l.commands, c)
	return c, nil
}

// setFor returns the descriptor set of c for a pipeline.
func (c *command) setFor(d *device, p *driver.Pipeline) (uint64, error) {
	if s, ok := c.sets[p]; ok {
		return s.handle, nil
	}
	pool, handle, err := d.driver.NewSet(p)
	if err == nil {
		c.sets[p] = set{pool, handle}
	}
	return handle, err
}
