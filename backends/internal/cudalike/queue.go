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
	device *device
	raw    uintptr
	own    bool         // destroyed with the stream
	thread uint64       // of the stream of a thread: see pin
	end    stream.Event // reached when Close is done

	mu     sync.Mutex
	closed bool
	events []*event // recorded and not known to be passed, oldest first
	after  []*event // of other devices, since the last event that was told of: see event.after
	turns  []*turn  // of the host, since then: see event.turns
}

var _ core.Stream = (*queue)(nil)

// newQueue makes a stream of the driver.
func (d *device) newQueue() (*queue, error) {
	raw, s := d.context.NewStream()
	if err := d.check(s, "a stream of %v", d.ID()); err != nil {
		return nil, err
	}
	return &queue{device: d, raw: raw, own: true}, nil
}

// streamOf is s as a stream of this device.
func (d *device) streamOf(call string, s core.Stream) (*queue, error) {
	return shell.StreamOf[*queue](&d.Device, call, s)
}

func (q *queue) Device() core.Device { return q.device }

// Native is the driver's stream.
func (q *queue) Native() uintptr { return q.raw }

// lock takes q.mu, unless the stream was closed or is another thread's; unlock undoes that.
func (q *queue) lock(call string) error {
	if err := q.pin(call); err != nil {
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
	q.unpin()
}

// enqueue calls f, which enqueues work, unless the stream was closed, its device is
// lost, or it is being captured into a graph.
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

// Record fails with ErrNotSupported for a stream that is being captured into a graph:
// its work is not run, and an event of it cannot be waited for.
func (q *queue) Record() (core.Event, error) { return q.recordAs(true) }

// mark is Record for an event that only orders streams: what errors it carries, the next
// one that is told of carries, too.
func (q *queue) mark() (core.Event, error) { return q.recordAs(false) }

func (q *queue) recordAs(told bool) (core.Event, error) {
	if err := q.lock("Record"); err != nil {
		return nil, err
	}
	defer q.unlock()
	e, err := q.record()
	if err != nil { // not a nil *event in an interface
		return nil, err
	}
	if told {
		q.after, q.turns = nil, nil
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
	e := &event{device: d, queue: q, raw: raw, after: slices.Clone(q.after), turns: slices.Clone(q.turns)}
	q.prune()
	q.events = append(q.events, e)
	return e, nil
}

// prune forgets the events that were passed, so that the driver's are used again. q.mu is held.
func (q *queue) prune() {
	passed := 0
	for _, e := range q.events {
		if done, _ := e.Done(); !done {
			break
		}
		passed++
	}
	q.events = slices.Delete(q.events, 0, passed)
}

// Wait takes the events of every device of this backend. The next event of the stream
// has failed if e fails and is another device's: the stream's own device goes on then.
func (q *queue) Wait(e core.Event) error { return q.wait(e, true) }

// WaitSettled is Wait where it does not matter whether e fails.
func (q *queue) WaitSettled(e core.Event) error { return q.wait(e, false) }

func (q *queue) wait(e core.Event, matters bool) error {
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
	if err := other.holdBack(q); err != nil || !matters {
		return err
	}
	if done, failed := other.reached.Done(); done {
		return failed
	}
	if other.device != q.device {
		q.after = append(slices.DeleteFunc(q.after, wentWell), other)
	}
	return nil
}

// waitForAll reports whether the stream waits on the device for all of pending. It is
// called by the pool.
func (q *queue) waitForAll(pending []core.Event) bool {
	for _, e := range pending {
		if q.WaitSettled(e) != nil {
			return false
		}
	}
	return true
}

// Synchronize waits for an event, or, where the driver has none to give, for as long as
// the work takes: memory may be freed when it returns. Work that fails takes
// its device with it: the error is that, from then on.
func (q *queue) Synchronize(ctx context.Context) error {
	e, err := q.recordOrDrain()
	if e == nil {
		return err
	}
	return e.Wait(ctx)
}

// recordOrDrain returns an event, or none when the work is done or cannot be waited for.
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
		_, err = overWithError(q.after)
	}
	q.after = nil
	return e, err
}

// Close waits for the work, however long that takes, and returns the error of the
// device if that was lost. Another Close waits too, and returns nil.
func (q *queue) Close() error {
	q.mu.Lock()
	first := !q.closed
	q.closed = true
	q.mu.Unlock()
	if !first {
		return q.end.Wait(context.Background())
	}
	err := q.finish()
	q.device.backend.streams.Add(-1)
	q.device.Drop()
	q.end.Complete(nil)
	return err
}

// finish waits for the work and gives the stream back. Nobody enqueues any more.
func (q *queue) finish() error {
	d := q.device
	err := d.check(q.drain(), "the end of a stream")
	q.mu.Lock()
	events := q.events
	q.mu.Unlock()
	for _, e := range events { // passed, unless the call failed
		_ = e.Wait(context.Background())
	}
	q.destroy()
	return err
}

// drain waits for the work, as far as it can: the stream of another thread it cannot, nor
// one that is captured. No work of ours is in the graph, and what came before has its events.
func (q *queue) drain() Status {
	if q.pin("Close") != nil {
		return Status{}
	}
	defer q.unpin()
	s := q.device.context.Synchronize(q.raw)
	if s.Kind == Captured {
		return Status{}
	}
	return s
}

// destroy gives the driver's stream back, if it is ours.
func (q *queue) destroy() {
	if q.own {
		_ = q.device.check(q.device.context.DestroyStream(q.raw), "a stream without work")
	}
}
