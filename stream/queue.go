package stream

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveQueues = live.NewCounter("stream.Queue")

// Queue is a [core.Stream] of the host. Its work is Go functions, which run one after the
// other in the order in which they were enqueued. They run in a goroutine, which exists
// only while there is work. The caller of [NewQueue] closes the queue.
//
// If work fails, later work still runs. The next event that is recorded reports the error.
// Synchronize returns the first error since the last Synchronize, and Close returns an
// error that no Synchronize returned. If work panics or calls runtime.Goexit, it fails with
// core.ErrInvalid; after a panic the error contains the stack.
//
// Work must not wait for later work on the same queue, and must not synchronize or close
// the queue, because it would never end. core.Values and similar functions wait for the
// work on a tensor. Work that was enqueued by [Submit] must therefore call
// core.ValuesWithoutWaiting instead for its own tensors.
type Queue struct {
	device core.Device

	submitting sync.Mutex // see submission; taken before mu

	mu      sync.Mutex
	tasks   []task
	running bool   // a goroutine is there
	mark    *Event // the last event, if no work came after it
	drained *Event // reached when a closed queue is empty; nil while it is open
	err     error  // the first error that Synchronize has not returned

	// The goroutine's own: mu passes them from one that ends to the next.
	batch   []task    // what it took over from tasks
	next    int       // the task of batch that comes next
	started []pending // work that goes on by itself, and what comes after it: see start.go
	failed  error     // the first error since the last event, for the next one
	passed  bool      // no work was done since the last event
}

// maxRoom is how many tasks an idle queue keeps room for.
const maxRoom = 1024

var _ core.Stream = (*Queue)(nil)

// task is one of: work to do, work to start, an event to wait for, an event to complete, a
// caller of Synchronize to wake.
type task struct {
	work  func() error
	start func() (poll, error)
	wait  core.Event
	mark  *Event
	sync  *barrier
}

// settled is an event whose failure is not one of the queue that waits for it.
type settled struct{ core.Event }

func (s settled) Wait(ctx context.Context) error {
	_ = s.Event.Wait(ctx)
	return nil
}

// barrier is a caller of Synchronize. The queue's mutex guards it, so that an
// error is either given to the caller or kept for the next one.
type barrier struct {
	reached   Event
	abandoned bool // the caller's context has ended
}

// NewQueue returns an empty queue. d is the device that the queue belongs to, or nil if it
// belongs to none.
func NewQueue(d core.Device) *Queue {
	liveQueues.Add(1)
	return &Queue{device: d}
}

// Device returns the device that was passed to NewQueue.
func (q *Queue) Device() core.Device { return q.device }

// Native returns 0, because a queue has no handle.
func (q *Queue) Native() uintptr { return 0 }

// Enqueue adds work after all work that was enqueued before, and does not wait for it. It
// returns core.ErrInvalid if work is nil, and core.ErrClosed if the queue was closed.
func (q *Queue) Enqueue(work func() error) error {
	if work == nil {
		return core.Errorf(core.ErrInvalid, "stream", "Enqueue", "work is nil")
	}
	return q.push("Enqueue", task{work: work})
}

// Wait makes work that is enqueued later wait for e, which may be an event of any device.
// If e fails, this counts as failed work of the queue. If e is never done, later work never
// runs: Synchronize then returns when its context ends, and Close never returns. Wait
// returns no error but core.ErrClosed.
func (q *Queue) Wait(e core.Event) error {
	if e == nil { // passed, by the rules of core.Event
		return nil
	}
	return q.push("Wait", task{wait: e})
}

// WaitSettled is like [Queue.Wait], but a failure of e does not count as failed work of the
// queue. For an event that this queue recorded it does nothing, because earlier work is
// always done first.
func (q *Queue) WaitSettled(e core.Event) error {
	if e == nil {
		return nil
	}
	if own, ok := e.(*Event); ok && own.queue == q {
		return nil
	}
	return q.push("Wait", task{wait: settled{e}})
}

// push adds work or a wait and sees to it that somebody runs it.
func (q *Queue) push(call string, t task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.drained != nil {
		return closedQueue(call)
	}
	q.mark = nil
	q.add(t)
	return nil
}

// add appends a task and starts the goroutine if there is none. q.mu is held.
func (q *Queue) add(t task) {
	q.tasks = append(q.tasks, t)
	if !q.running {
		q.running = true
		go q.run()
	}
}

// Record returns an event that is done when all work enqueued before is done. The event
// reports the first error of the work since the previous event. If no work was enqueued
// since the previous Record, both return the same event. Record returns no error but
// core.ErrClosed.
func (q *Queue) Record() (core.Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.drained != nil {
		return nil, closedQueue("Record")
	}
	if q.mark == nil {
		q.mark = &Event{queue: q}
		q.add(task{mark: q.mark})
	}
	return q.mark, nil
}

// submission is the mutex that Submit holds from the first wait until it has recorded the
// event, so that the event reports the errors of this work and not those of work that
// another goroutine enqueues meanwhile. It is this package's own: streams of devices do not
// need it, since their events report the errors of what the device did before. A queue
// can wait for any event without blocking, so the mutex is held for as long as enqueue
// takes, which may start work on an idle queue: see privateStream.Start.
func (q *Queue) submission() *sync.Mutex { return &q.submitting }

// Synchronize blocks until all work enqueued before is done, and returns the first error of
// the work that no Synchronize returned. If ctx ends first, it returns ctx's error, and the
// next call returns the error of the work. After Close it returns core.ErrClosed.
func (q *Queue) Synchronize(ctx context.Context) error {
	b := new(barrier)
	q.mu.Lock()
	if q.drained != nil {
		q.mu.Unlock()
		return closedQueue("Synchronize")
	}
	q.add(task{sync: b})
	q.mu.Unlock()

	err := b.reached.Wait(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if done, err := b.reached.Done(); done {
		return err
	}
	b.abandoned = true
	return err
}

// Close blocks until all work is done, however long that takes, and closes the queue. It
// returns the first error of the work that no Synchronize returned. A second Close also
// waits, and returns nil.
func (q *Queue) Close() error {
	q.mu.Lock()
	drained, first := q.drained, q.drained == nil
	if first {
		drained = NewEvent()
		q.drained = drained
		q.add(task{mark: drained})
	}
	q.mu.Unlock()

	_ = drained.Wait(context.Background()) // the errors of the work are in q.err
	if !first {
		return nil
	}
	liveQueues.Add(-1)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func closedQueue(call string) error {
	return core.Errorf(core.ErrClosed, "stream", call, "the queue was closed")
}

// run does the tasks until there are none, and all started work is done.
func (q *Queue) run() {
	idle := false
	defer func() {
		if !idle { // work ended the goroutine, as t.FailNow does: what is left needs another one
			go q.run()
		}
	}()
	for q.next < len(q.batch) || q.refill() {
		if q.next == len(q.batch) {
			q.ask() // until more was added
			continue
		}
		t := q.batch[q.next]
		q.batch[q.next] = task{} // what is done keeps nothing alive
		q.next++
		q.take(t)
	}
	idle = true
}

// refill takes over the tasks that were added, and reports whether there is anything to do.
func (q *Queue) refill() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.batch[:0]
	if cap(room) > maxRoom {
		room = nil
	}
	q.batch, q.tasks, q.next = q.tasks, room, 0
	q.running = len(q.batch) > 0 || len(q.started) > 0
	return q.running
}

// do does one task. All tasks before it are done.
func (q *Queue) do(t task) {
	switch {
	case t.work != nil:
		call(t.work, q.worked)
	case t.wait != nil:
		call(func() error { return t.wait.Wait(context.Background()) }, q.worked)
	case t.mark != nil:
		t.mark.Complete(q.failed)
		q.passed = true
	default:
		q.mu.Lock()
		defer q.mu.Unlock()
		if !t.sync.abandoned {
			t.sync.reached.Complete(q.err)
			q.err = nil
		}
	}
}

// worked notes that a piece of work is done, and its error.
func (q *Queue) worked(err error) {
	if q.passed {
		q.failed, q.passed = nil, false
	}
	if err == nil {
		return
	}
	if q.failed == nil {
		q.failed = err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
}

// call runs foreign code and passes its error on, whichever way the code ends.
func call(work func() error, ended func(error)) {
	var err error = errEnded
	defer func() {
		if r := recover(); r != nil {
			err = core.Errorf(core.ErrInvalid, "stream", "Enqueue", "the work panicked: %v\n%s", r, debug.Stack())
		}
		ended(err)
	}()
	err = work()
}

var errEnded = core.Errorf(core.ErrInvalid, "stream", "Enqueue", "the work ended its goroutine (runtime.Goexit) instead of returning")
