package cudalike

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// queue is a stream of the driver.
type queue struct {
	device   *device
	opened   core.OpenItem
	raw      uintptr
	owned    bool         // Close destroys the driver's stream
	thread   uint64       // the ID of a thread's stream, else 0: see lockThread
	finished stream.Event // done when Close is

	mu     sync.Mutex
	closed bool
	events []*event // recorded and not known to be done, oldest first

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
	return shell.StreamOf[*queue](&d.Device, call, s)
}

func (q *queue) Device() core.Device { return q.device }

// Native is the driver's stream.
func (q *queue) Native() uintptr { return q.raw }

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

// enqueue calls f, which enqueues work. It fails if the stream was closed, its device is lost, or the stream
// is being captured into a graph.
func (q *queue) enqueue(call string, f func() error) error {
	if err := q.lock(call); err != nil {
		return err
	}
	defer q.unlock()
	d := q.device
	if err := d.lostError(); err != nil {
		return err
	}
	if err := d.check(d.context.CheckCapture(q.raw), "work of dlx cannot be captured into a graph"); err != nil {
		return err
	}
	return f()
}

// Record fails with ErrNotSupported for a stream that is being captured into a graph: its work does not run,
// and an event of it cannot be waited for.
func (q *queue) Record() (core.Event, error) { return q.recordEvent(true) }

// recordForOrder records an event that is used to order streams only. The next event of Record reports the same
// errors again.
func (q *queue) recordForOrder() (core.Event, error) { return q.recordEvent(false) }

func (q *queue) recordEvent(reported bool) (core.Event, error) {
	if err := q.lock("Record"); err != nil {
		return nil, err
	}
	defer q.unlock()
	e, err := q.record()
	if err != nil { // not a nil *event in an interface
		return nil, err
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
	raw, s := d.events.take()
	if err := d.check(s, "an event of a stream"); err != nil {
		return nil, err
	}
	if err := d.check(d.context.RecordEvent(raw, q.raw), "an event of a stream"); err != nil {
		d.events.put(raw)
		return nil, err
	}
	e := &event{device: d, queue: q, raw: raw, waitedFor: slices.Clone(q.waitedFor), hostTasks: slices.Clone(q.hostTasks)}
	q.prune()
	q.events = append(q.events, e)
	return e, nil
}

// prune drops the events that are done, so that the driver's events are used again. q.mu is held.
func (q *queue) prune() {
	n := 0
	for _, e := range q.events {
		if done, _ := e.Done(); !done {
			break
		}
		n++
	}
	q.events = slices.Delete(q.events, 0, n)
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
	other, ok := core.UnwrapEvent(e).(*event)
	if !ok || other.device.backend != q.device.backend {
		return q.device.Errorf(core.ErrNotSupported, "Wait", "%T is not an event of %s: the host must wait", e, q.device.backend.API)
	}
	if other.queue == q {
		return nil
	}
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
	return e.Wait(ctx)
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
	q.device.backend.streams.Add(-1)
	q.opened.Close()
	q.finished.Complete(nil)
	return err
}

// finish waits for the work and destroys the stream. No more work is enqueued.
func (q *queue) finish() error {
	d := q.device
	err := d.check(q.drain(), "the end of a stream")
	q.mu.Lock()
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
