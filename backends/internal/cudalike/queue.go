package cudalike

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// queue is a stream of the driver.
type queue struct {
	device   *device
	opened   backendkit.OpenItem
	raw      uintptr
	owned    bool         // Close destroys the driver's stream
	thread   uint64       // the ID of a thread's stream, else 0: see lockThread
	finished stream.Event // done when Close is

	mu     sync.Mutex
	closed bool
	events []*event // recorded and not known to be done, oldest first
	many   int      // so many events are kept before prune asks the driver again
	behind uintptr  // the driver's event that was recorded behind the newest work; 0 if there is none
	passed bool     // the stream waits for something that was enqueued after that work
	newest *event   // recorded last, if no work was enqueued since
	shown  bool     // Native was called: other code may enqueue work

	// What the next event reports besides: see event.
	waitedFor []*event
	hostTasks []*hostTask
}

var _ core.Stream = (*queue)(nil)

// newQueue makes a stream of the driver.
func (d *device) newQueue() (*queue, error) {
	raw, s := d.context.NewStream()
	if err := d.check(s, "a stream of %v", d.ID()); err != nil {
		return nil, err
	}
	return &queue{device: d, raw: raw, owned: true}, nil
}

// streamOf returns s as a stream of this device.
func (d *device) streamOf(call string, s core.Stream) (*queue, error) {
	return devicebase.StreamOf[*queue](&d.Device, call, s)
}

func (q *queue) Device() core.Device { return q.device }

// Native is the driver's stream.
func (q *queue) Native() uintptr {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shown, q.newest = true, nil
	return q.raw
}

// lock locks q.mu. It fails if the stream was closed, or belongs to another thread. unlock is the reverse.
func (q *queue) lock(call string) error {
	if err := q.lockThread(call); err != nil {
		return err
	}
	q.mu.Lock()
	if q.closed {
		q.unlock()
		return q.device.Errorf(core.ErrClosed, call, "the stream was closed")
	}
	return nil
}

func (q *queue) unlock() {
	q.mu.Unlock()
	q.unlockThread()
}

// enqueue calls f, which enqueues work. It fails as begin does.
func (q *queue) enqueue(call string, f func() error) error {
	if err := q.begin(call, true); err != nil {
		return err
	}
	defer q.unlock()
	return f()
}

// begin locks q.mu, for work to be enqueued. It fails if the stream was closed, its device is lost, or, with check, the
// stream is being captured into a graph. Without check, the calls of the work fail then. unlock is the reverse.
func (q *queue) begin(call string, check bool) error {
	if err := q.lock(call); err != nil {
		return err
	}
	d := q.device
	err := d.lostError()
	if err == nil {
		q.forget()
		if check {
			err = d.check(d.context.CheckCapture(q.raw), notCaptured)
		}
	}
	if err != nil {
		q.unlock()
	}
	return err
}

const notCaptured = "work of dlx cannot be captured into a graph"

// forget gives back the event behind the work that was the newest. q.mu is held.
func (q *queue) forget() {
	q.newest = nil
	if q.behind != 0 {
		q.device.events.put(q.behind)
		q.behind = 0
	}
}

// withEvent calls f, which enqueues work and records an event behind it in one call of the driver, if it can. q.mu is
// held.
func (q *queue) withEvent(f func(event uintptr) (recorded bool, s Status)) Status {
	raw, s := q.device.events.take()
	if !s.OK() { // RecordSubmitted finds out why
		raw = 0
	}
	recorded, s := f(raw)
	switch {
	case recorded:
		q.forget()
		q.behind, q.passed = raw, false
	case raw != 0:
		q.device.events.put(raw)
	}
	return s
}

// RecordSubmitted is Record for stream.Submit, which needs an event for the work that it has enqueued, and not for
// what other code enqueues on the driver's stream meanwhile.
func (q *queue) RecordSubmitted() (core.Event, error) { return q.recordEvent(true, true) }

// Record fails with ErrNotSupported for a stream that is being captured into a graph: its work does not run,
// and an event of it cannot be waited for.
func (q *queue) Record() (core.Event, error) { return q.recordEvent(true, false) }

// recordForOrder records an event that is used to order streams only. The next event of Record reports the same
// errors again.
func (q *queue) recordForOrder() (core.Event, error) { return q.recordEvent(false, false) }

// recordEvent records an event, or takes the one behind the newest work if that is enough.
func (q *queue) recordEvent(reported, submitted bool) (core.Event, error) {
	if err := q.lock("Record"); err != nil {
		return nil, err
	}
	defer q.unlock()
	e, newest := q.newest, true
	if submitted && q.behind != 0 {
		e, newest = q.recorded(q.behind), !q.passed
		q.behind = 0
	}
	if err := q.device.lostError(); err != nil {
		return nil, err
	}
	if e == nil {
		var err error
		if e, err = q.record(); err != nil { // not a nil *event in an interface
			return nil, err
		}
	}
	q.newest = nil
	if newest && q.owned && !q.shown { // as long as only this package enqueues work, e stands for all of it
		q.newest = e
	}
	if reported {
		q.waitedFor, q.hostTasks = nil, nil
	}
	return e, nil
}

// record records an event. q.mu is held.
func (q *queue) record() (*event, error) {
	d := q.device
	if err := d.lostError(); err != nil {
		return nil, err
	}
	q.forget() // q.events has the order in which the driver has recorded them
	raw, s := d.events.take()
	if err := d.check(s, "an event of a stream"); err != nil {
		return nil, err
	}
	if err := d.check(d.context.RecordEvent(raw, q.raw), "an event of a stream"); err != nil {
		d.events.put(raw)
		return nil, err
	}
	return q.recorded(raw), nil
}

// recorded makes an event of one that the driver has recorded. q.mu is held.
func (q *queue) recorded(raw uintptr) *event {
	e := &event{device: q.device, queue: q, raw: raw, waitedFor: slices.Clone(q.waitedFor), hostTasks: slices.Clone(q.hostTasks)}
	if len(q.events) >= max(q.many, minEvents) {
		q.prune()
		q.many = 2 * len(q.events)
	}
	q.events = append(q.events, e)
	return e
}

// minEvents is how many events a stream keeps without asking the driver whether they are done.
const minEvents = 16

// prune drops the events that are done, so that the driver's events are used again. If an event is done, those before
// it are; so it asks the driver about few of them. q.mu is held.
func (q *queue) prune() {
	q.pruneKnown()
	sort.Search(len(q.events), func(i int) bool {
		done, _ := q.events[i].Done()
		return !done
	})
	q.pruneKnown()
}

// pruneKnown is prune without asking the driver whether an event is done. q.mu is held.
func (q *queue) pruneKnown() {
	known := func(e *event) bool {
		done, _ := e.result.Done()
		return done
	}
	for i := len(q.events) - 1; i > 0; i-- {
		if known(q.events[i]) {
			for _, e := range q.events[:i] {
				e.completeBefore(q.events[i])
			}
			break
		}
	}
	q.events = slices.DeleteFunc(q.events, known)
}

// Wait takes events of all devices of this backend. If e fails and belongs to another device, the next event
// of q reports the error, but q's device goes on.
func (q *queue) Wait(e core.Event) error { return q.wait(e, true) }

// WaitSettled is Wait, but the error of e is not reported.
func (q *queue) WaitSettled(e core.Event) error { return q.wait(e, false) }

func (q *queue) wait(e core.Event, reported bool) error {
	if err := q.lock("Wait"); err != nil {
		return err
	}
	defer q.unlock()
	if e == nil {
		return nil
	}
	other, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok || other.device.backend != q.device.backend {
		return q.device.Errorf(core.ErrNotSupported, "Wait", "%T is not an event of %s: the host must wait", e, q.device.backend.API)
	}
	if other.queue == q {
		return nil
	}
	q.newest, q.passed = nil, true
	if err := other.waitOn(q); err != nil || !reported {
		return err
	}
	if done, failed := other.result.Done(); done {
		return failed
	}
	if other.device != q.device {
		q.waitedFor = append(slices.DeleteFunc(q.waitedFor, succeeded), other)
	}
	return nil
}

// waitForAll makes the stream wait for all of pending, and reports whether it can. The pool calls it.
func (q *queue) waitForAll(pending []core.Event) bool {
	for _, e := range pending {
		if q.WaitSettled(e) != nil {
			return false
		}
	}
	return true
}

// Synchronize waits for an event, or until ctx ends. If no event can be recorded, it waits in the driver and
// ignores ctx, since callers free memory when it returns. After work has failed, the device is lost, and
// every call returns the error.
func (q *queue) Synchronize(ctx context.Context) error {
	e, err := q.recordOrDrain()
	if e == nil {
		return err
	}
	if err := e.Wait(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pruneKnown()
	return nil
}

// recordOrDrain returns an event. If it returns none, the work is done or cannot be waited for.
func (q *queue) recordOrDrain() (*event, error) {
	const call = "Synchronize"
	if err := q.lock(call); err != nil {
		return nil, err
	}
	defer q.unlock()
	e, err := q.record()
	switch {
	case errors.Is(err, core.ErrDeviceLost), errors.Is(err, core.ErrNotSupported):
		return nil, err
	case err != nil:
		d := q.device
		if err := d.check(d.context.Synchronize(q.raw), "the work of a stream, since no event could be recorded: %v", err); err != nil {
			return nil, err
		}
		_, err = allDone(q.waitedFor)
	}
	q.waitedFor = nil
	return e, err
}

// Close waits for the work, however long that takes. It returns an error if the device is lost. A second
// Close also waits, and returns nil.
func (q *queue) Close() error {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	if !first {
		return q.finished.Wait(context.Background())
	}
	err := q.finish()
	q.opened.Close()
	q.finished.Complete(nil)
	return err
}

// finish waits for the work and destroys the stream. No more work is enqueued.
func (q *queue) finish() error {
	d := q.device
	err := d.check(q.drain(), "the end of a stream")
	q.mu.Lock()
	q.forget()
	q.prune()
	events := q.events
	q.mu.Unlock()
	for _, e := range events { // done, unless drain failed
		_ = e.Wait(context.Background())
	}
	if q.owned {
		_ = d.check(d.context.DestroyStream(q.raw), "a stream without work")
	}
	return err
}

// drain waits for the work in the driver, if that is possible. It is not for the stream of another thread, and
// for a stream that is being captured: dlx has no work in the graph, and earlier work has its events.
func (q *queue) drain() Status {
	if q.lockThread("Close") != nil {
		return Status{}
	}
	defer q.unlockThread()
	s := q.device.context.Synchronize(q.raw)
	if s.Kind == Captured {
		return Status{}
	}
	return s
}
