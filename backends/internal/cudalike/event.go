package cudalike

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// event is an event of the driver and, once that is known to be passed, its result.
type event struct {
	device  *device
	queue   *queue       // that recorded it
	reached stream.Event // what the host knows
	after   []*event     // of other devices: what the stream waited for since the event before; their errors are its, too
	turns   []*turn      // work of the host since the event before, whose errors are its, too

	mu      sync.Mutex
	raw     uintptr // 0 once the event was passed
	refused int     // how often in a row the driver gave no answer
}

var _ core.Event = (*event)(nil)

// MaxRefused is how often the driver may fail to tell of an event.
const MaxRefused = 100

// Done asks the driver, unless it has answered before.
func (e *event) Done() (bool, error) {
	if done, err := e.reached.Done(); done {
		return true, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw != 0 {
		switch s := e.device.context.Query(e.raw); s.Kind {
		case Success:
			if done, err := overWithError(e.after); done {
				e.settle(err)
			}
		case NotReady:
			e.refused = 0
		case DeviceLost:
			e.fail(e.device.check(s, "the work before an event failed, or other work of the device"))
		default:
			// No answer does not mean that the work is done. A driver that never has one is lost.
			if e.refused++; e.refused >= MaxRefused {
				e.fail(e.device.lose(e.device.backend.statusf(core.ErrDeviceLost, s, "the driver does not tell of an event any more")))
			}
		}
	}
	return e.reached.Done()
}

// fail is the end of an event whose device is lost, but not while the host is at work in
// a stream: it uses memory that is freed when the work is over. e.mu is held.
func (e *event) fail(err error) {
	if !e.device.context.RunsTurn() {
		e.settle(err)
	}
}

// settle is the end of the event. e.mu is held.
func (e *event) settle(err error) {
	e.device.backend.hostWork.See()
	for i := 0; i < len(e.turns) && err == nil; i++ {
		err = e.turns[i].err
	}
	e.reached.Complete(err)
	e.device.events.put(e.raw)
	e.raw, e.after, e.turns = 0, nil, nil
}

// turnsLeft are the turns of the host before the event, unless that has told already.
func (e *event) turnsLeft() []*turn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.turns)
}

// wentWell reports whether an event is over, without an error.
func wentWell(e *event) bool {
	done, err := e.Done()
	return done && err == nil
}

// overWithError reports whether all of the events are over, and the first error of one.
func overWithError(events []*event) (bool, error) {
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

// The driver's own wait cannot be ended, and holds a thread: Wait asks again and
// again instead, after an eighth of the time that it has waited, and at
// most after maxNap.
const (
	minNap = 2 * time.Microsecond
	maxNap = 200 * time.Microsecond
)

// Wait blocks no thread.
func (e *event) Wait(ctx context.Context) error {
	start := time.Now()
	for {
		if done, err := e.Done(); done {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if nap := time.Since(start) / 8; nap > minNap {
			time.Sleep(min(nap, maxNap))
		}
	}
}

// holdBack makes later work of a stream wait for e, whether that fails or not.
func (e *event) holdBack(q *queue) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return nil
	}
	return q.device.check(q.device.context.WaitEvent(q.raw, e.raw), "on a stream of %v", q.device.ID())
}

// eventList keeps the driver's events of a device for their next use.
type eventList struct {
	context Context
	mu      sync.Mutex
	unused  []uintptr
}

// take returns an event, which put takes back.
func (l *eventList) take() (uintptr, Status) {
	l.mu.Lock()
	if n := len(l.unused); n > 0 {
		defer l.mu.Unlock()
		raw := l.unused[n-1]
		l.unused = l.unused[:n-1]
		return raw, Status{}
	}
	l.mu.Unlock()
	return l.context.NewEvent(false)
}

func (l *eventList) put(raw uintptr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unused = append(l.unused, raw)
}

// destroy gives all events back to the driver. None is in use.
func (l *eventList) destroy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range l.unused {
		l.context.DestroyEvent(raw)
	}
	l.unused = nil
}
