package stream

import (
	"time"

	"github.com/dlx-go/dlx/internal/private"
)

// privateStream is what this package does for backends of this module alone.
type privateStream struct{}

func init() { private.Stream = privateStream{} }

// Start is like [Queue.Enqueue] for work that goes on by itself after start has returned,
// such as commands that were submitted to a device. The queue calls poll, the result of
// start, until it reports true, and then with the error of the work. poll may block, for a
// short time. If start fails, the work is done, and poll is not called. If the queue has no
// work, the caller runs start.
//
// The queue starts work before earlier work is done, if that was started, too, by this
// queue or another one of the same device. The device must carry out such work in the order
// in which it was started. Work that was enqueued otherwise, and events, wait until the
// started work before them is done.
func (privateStream) Start(q *Queue, start func() (poll func() (bool, error), err error)) error {
	q.mu.Lock()
	switch {
	case q.drained != nil:
		q.mu.Unlock()
		return closedQueue("Enqueue")
	case q.running:
		q.mark = nil
		q.add(task{start: start})
		q.mu.Unlock()
		return nil
	}
	q.mark, q.running = nil, true
	q.mu.Unlock()
	// The device has work before the goroutine of the queue runs.
	defer func() { go q.run() }()
	q.start(start)
	return nil
}

// poll reports whether started work is done, and then its error.
type poll = func() (bool, error)

const (
	// maxStarted is the room for work that was started, and for what comes after it. Each piece of
	// work usually has an event.
	maxStarted = 32
	// pause is how long an event of another queue is waited for before the queue looks for new tasks.
	pause = 100 * time.Microsecond
)

// pending is work that was started, or a task that comes after such work.
type pending struct {
	poll poll // nil for a task
	task task
}

// take begins a task: it is done at once if everything before it is done.
func (q *Queue) take(t task) {
	for !q.fits(t) {
		q.ask()
	}
	switch {
	case t.start != nil:
		q.start(t.start)
	case len(q.started) > 0 || q.follows(t):
		if t.mark != nil {
			t.mark.started.Store(true)
		}
		q.started = append(q.started, pending{task: t})
	default:
		q.do(t)
	}
}

// fits reports whether t can begin, or go into started, although what is in started goes on.
func (q *Queue) fits(t task) bool {
	n := len(q.started)
	return n == 0 || n < maxStarted && (t.work == nil && t.wait == nil || q.follows(t))
}

// follows reports whether t waits for an event whose work runs before all work that is started from now on.
func (q *Queue) follows(t task) bool {
	e := t.event()
	switch {
	case e == nil || e.queue == nil:
		return false
	case e.queue == q: // its work is done if nothing goes on
		return len(q.started) > 0
	}
	// Only backends of this module start work, and their devices are pointers: the comparison never panics.
	return e.started.Load() && e.queue.device == q.device
}

// event returns the event that t waits for if it is one of this package, and nil otherwise.
func (t task) event() *Event {
	e := t.wait
	if s, ok := e.(settled); ok {
		e = s.Event
	}
	own, _ := e.(*Event)
	return own
}

// start starts work. If that fails, it is an error of the work, after those of the work before.
func (q *Queue) start(start func() (poll, error)) {
	var p poll
	call(func() (err error) {
		p, err = start()
		return err
	}, func(err error) {
		if err != nil {
			p = func() (bool, error) { return true, err }
		}
		q.started = append(q.started, pending{poll: p})
	})
}

// ask ends the first of the tasks in started if it is done. It blocks for a short time.
func (q *Queue) ask() {
	p := q.started[0]
	switch e := p.task.event(); {
	case p.poll != nil:
		done, err := p.poll()
		if !done {
			return
		}
		q.worked(err)
	case e != nil && !e.within(pause):
		return
	default:
		q.do(p.task)
	}
	n := copy(q.started, q.started[1:])
	q.started[n] = pending{} // what is done keeps nothing alive
	q.started = q.started[:n]
}

// within waits for the event for a time, and reports whether it is done.
func (e *Event) within(limit time.Duration) bool {
	if e.reached.Load() {
		return true
	}
	select {
	case <-e.channel():
		return true
	case <-time.After(limit):
		return false
	}
}
