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

// take begins a task: it is done at once if everything before it is done.
func (q *Queue) take(t task) {
	most, follows := 0, q.follows(t)
	if follows || t.start != nil || t.mark != nil || t.sync != nil {
		most = maxStarted - 1
	}
	for len(q.started) > most {
		q.ask()
	}
	switch {
	case t.start != nil:
		q.start(t.start)
	case follows || len(q.started) > 0:
		if t.mark != nil {
			t.mark.started.Store(true)
		}
		q.started = append(q.started, t)
	default:
		q.do(t)
	}
}

// follows reports whether t waits for an event whose work runs before all work that is started from now on.
func (q *Queue) follows(t task) bool {
	e, ok := t.wait.(*Event)
	return ok && e.queue != nil && (e.queue == q || e.started.Load() && e.queue.device == q.device)
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
		q.started = append(q.started, task{poll: p})
	})
}

// ask ends the first of the tasks in started if it is done. It blocks for a short time.
func (q *Queue) ask() {
	t := q.started[0]
	switch e, _ := t.wait.(*Event); {
	case t.poll != nil:
		done, err := t.poll()
		if !done {
			return
		}
		q.worked(err)
	case e != nil && !e.within(pause):
		return
	default:
		q.do(t)
	}
	n := copy(q.started, q.started[1:])
	q.started[n] = task{} // what is done keeps nothing alive
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
