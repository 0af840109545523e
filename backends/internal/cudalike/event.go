package cudalike

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/internal/microsleep"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// event is an event of the driver and, once it is known to be done, its result.
type event struct {
	device *device
	queue  *queue       // the stream that recorded it
	result stream.Event // what the host knows

	// The event also reports the errors of these:
	waitedFor []*event    // events of other devices that the stream waited for
	hostTasks []*hostTask // work of the host in the stream

	mu       sync.Mutex
	raw      uintptr     // 0 once the event is done
	timed    *timedEvent // what raw belongs to, if a mark has it, too
	failures int         // failed queries in a row
}

var _ core.Event = (*event)(nil)

// MaxQueryFailures is how often in a row the driver may fail to answer whether an event is done.
const MaxQueryFailures = 100

// Done asks the driver, unless the result is known already.
func (e *event) Done() (bool, error) {
	if done, err := e.result.Done(); done {
		return true, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw != 0 {
		switch s := e.device.context.Query(e.raw); s.Kind {
		case Success:
			if done, err := allDone(e.waitedFor); done {
				e.complete(err)
			}
		case NotReady:
			e.failures = 0
		case DeviceLost:
			e.completeLost(e.device.check(s, "the work before an event failed, or other work of the device"))
		default:
			// A failed query does not mean that the work is done. A driver that fails every query is lost.
			if e.failures++; e.failures >= MaxQueryFailures {
				e.completeLost(e.device.setLost(e.device.backend.statusf(core.ErrDeviceLost, s, "the driver does not say whether an event is done")))
			}
		}
	}
	return e.result.Done()
}

// completeBefore completes an event whose stream recorded later afterwards, if it is done. If the work before later has
// succeeded, it does not ask the driver.
func (e *event) completeBefore(later *event) {
	if done, err := later.result.Done(); !done || err != nil {
		_, _ = e.Done()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw != 0 {
		if done, err := allDone(e.waitedFor); done {
			e.complete(err)
		}
	}
}

// completeLost completes an event of a lost device. It does nothing while a host function runs: callers free
// memory when the event is done, and the function uses that memory. e.mu is held.
func (e *event) completeLost(err error) {
	if !e.device.context.RunsHostFunc() {
		e.complete(err)
	}
}

// complete sets the result, and returns the driver's event to the device. e.mu is held.
func (e *event) complete(err error) {
	e.device.backend.hostWork.See()
	for i := 0; i < len(e.hostTasks) && err == nil; i++ {
		err = e.hostTasks[i].err
	}
	e.result.Complete(err)
	if e.timed != nil {
		e.timed.drop()
	} else {
		e.device.events.put(e.raw)
	}
	e.raw, e.timed, e.waitedFor, e.hostTasks = 0, nil, nil, nil
}

// tasks returns the host tasks whose errors the event reports. It returns none if the event is done.
func (e *event) tasks() []*hostTask {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.hostTasks)
}

// succeeded reports whether an event is done, without an error.
func succeeded(e *event) bool {
	done, err := e.Done()
	return done && err == nil
}

// allDone reports whether all events are done, and returns their first error.
func allDone(events []*event) (bool, error) {
	var failed error
	for _, e := range events {
		done, err := e.Done()
		if !done {
			return false, nil
		}
		failed = cmp.Or(failed, err)
	}
	return true, failed
}

// A wait in the driver cannot be interrupted and holds a thread. Wait polls instead: without a pause at first, and
// then with pauses of a four-hundredth of the time that it has waited, so that it is little later than the driver.
const (
	busy     = 50 * time.Microsecond
	minPause = 10 * time.Microsecond
	maxPause = 200 * time.Microsecond
)

// Wait holds a thread for at most maxPause.
func (e *event) Wait(ctx context.Context) error {
	start := time.Now()
	for {
		if done, err := e.Done(); done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if waited := time.Since(start); waited > busy {
			microsleep.Sleep(min(max(waited/400, minPause), maxPause))
		}
	}
}

// waitOn makes later work of q wait for e, whether e fails or not.
func (e *event) waitOn(q *queue) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return nil
	}
	return q.device.check(q.device.context.WaitEvent(q.raw, e.raw), "a wait of a stream of %v for an event", q.device.ID())
}

// eventList keeps unused events of the driver, since making one is slow.
type eventList struct {
	context Context
	timed   bool // the events record the time
	mu      sync.Mutex
	unused  []uintptr
}

// take returns an event, which the caller returns by put.
func (l *eventList) take() (uintptr, Status) {
	l.mu.Lock()
	if n := len(l.unused); n > 0 {
		defer l.mu.Unlock()
		raw := l.unused[n-1]
		l.unused = l.unused[:n-1]
		return raw, Status{}
	}
	l.mu.Unlock()
	return l.context.NewEvent(l.timed)
}

func (l *eventList) put(raw uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = append(l.unused, raw)
}

// destroy destroys all events. None is in use.
func (l *eventList) destroy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range l.unused {
		l.context.DestroyEvent(raw)
	}
	l.unused = nil
}
