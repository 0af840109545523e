//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// queue is a stream: a cl_command_queue. What dlx enqueues on it runs in order, by barriers if the queue
// itself is out of order.
type queue struct {
	device     *device
	opened     backendkit.OpenItem
	raw        driver.Queue // owned: one reference
	outOfOrder bool
	timed      bool          // the driver notes the times of commands
	host       *stream.Queue // runs the host's work in this queue
	finished   stream.Event  // done when Close is

	mu        sync.Mutex
	closed    bool
	events    []*event    // recorded and not known to be done, oldest first
	watched   int         // how many of those are waited for
	watching  bool        // a goroutine waits for them
	hostTasks []*hostTask // work of the host since the last event was recorded
	err       error       // of the work, first since the last Synchronize
}

var _ core.Stream = (*queue)(nil)

// newQueue makes a stream, which owns a reference to raw, a queue with these properties.
func newQueue(d *device, raw driver.Queue, properties uint64) *queue {
	return &queue{device: d, raw: raw, outOfOrder: properties&driver.QueueOutOfOrder != 0,
		timed: properties&driver.QueueTimed != 0, host: stream.NewQueue(nil)}
}

func (q *queue) Device() core.Device { return q.device }

// Native is the cl_command_queue.
func (q *queue) Native() uintptr { return uintptr(q.raw) }

// lock locks q.mu, and fails if the stream was closed.
func (q *queue) lock(call string) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return q.device.errorf(core.ErrClosed, call, "the stream was closed")
	}
	return nil
}

// Record enqueues a marker. Its event is done when everything enqueued before is done, whoever enqueued it.
// The event reports an error if the driver does.
func (q *queue) Record() (core.Event, error) {
	if err := q.lock("Record"); err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	e, err := q.record()
	if err != nil { // not a nil *event in an interface
		return nil, err
	}
	return e, nil
}

// record enqueues a marker. It also flushes, since other queues and threads wait for the event (OpenCL 3.0
// API, Flush and Finish). q.mu is held.
func (q *queue) record() (*event, error) {
	e, err := q.marker()
	if err != nil {
		return nil, err
	}
	e.hostTasks, q.hostTasks = q.hostTasks, nil
	q.prune()
	q.events = append(q.events, e)
	return e, q.device.check(driver.Flush(q.raw), "clFlush", "after a marker")
}

// marker enqueues a marker, whose event is not waited for. q.mu is held.
func (q *queue) marker() (*event, error) {
	raw, s := driver.Marker(q.raw)
	if err := q.device.check(s, "clEnqueueMarkerWithWaitList", "an event of a stream"); err != nil {
		return nil, err
	}
	return newEvent(q.device, q, raw), nil
}

// prune drops the events that are done, and keeps their first error. q.mu is held.
func (q *queue) prune() {
	for len(q.events) > 0 {
		e := q.events[0]
		done, err := e.Done()
		if !done {
			return
		}
		if q.err == nil {
			q.err = err
		}
		if e.watched {
			q.watched--
		}
		q.events[0] = nil
		q.events = q.events[1:]
	}
}

// watch lets a goroutine wait for e, which q recorded.
func (q *queue) watch(e *event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done, _ := e.result.Done(); done || e.watched {
		return // pruned, or about to be
	}
	e.watched = true
	q.watched++
	if !q.watching {
		q.watching = true
		go q.keepWatch()
	}
}

// keepWatch waits for the events in their order while one of them is watched. A thread that waits in the
// driver for each event could be thousands of threads.
func (q *queue) keepWatch() {
	for {
		q.mu.Lock()
		q.prune()
		if q.watched == 0 {
			q.watching = false
			q.mu.Unlock()
			return
		}
		oldest := q.events[0]
		q.mu.Unlock()
		_ = oldest.block() // the error stays with the event
	}
}

// Wait enqueues a barrier. It takes events of streams and semaphores of this device's context, and those of
// [ImportEvent]; for others it fails with ErrNotSupported. If the work of e fails, the work that waits for it
// fails too.
func (q *queue) Wait(e core.Event) error {
	if err := q.lock("Wait"); err != nil {
		return err
	}
	defer q.mu.Unlock()
	e = backendkit.UnwrapEvent(e)
	if e == nil {
		return nil
	}
	own, ok := e.(*event)
	if !ok || own.device.context != q.device.context {
		return q.device.errorf(core.ErrNotSupported, "Wait", "%T is not an event of this cl_context: the host must wait", e)
	}
	if own.queue == q && !q.outOfOrder {
		return nil
	}
	return own.waitOn(q.raw)
}

// Synchronize waits for a marker.
func (q *queue) Synchronize(ctx context.Context) error {
	if err := q.lock("Synchronize"); err != nil {
		return err
	}
	e, err := q.record()
	q.mu.Unlock()
	if e == nil {
		return err
	}
	if err := e.Wait(ctx); err != nil {
		if done, _ := e.Done(); !done {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.prune()
	err, q.err = q.err, nil
	return err
}

// Close waits for the work, however long that takes, and returns the first error that no Synchronize
// returned. A second Close also waits, and returns nil.
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

// finish waits for the work and releases the queue. No work is enqueued any more.
func (q *queue) finish() error {
	failed := q.device.check(driver.Finish(q.raw), "clFinish", "the end of a stream")
	_ = q.host.Close() // its work has no errors
	q.mu.Lock()
	events := slices.Clone(q.events)
	q.mu.Unlock()
	for _, e := range events { // done, unless clFinish failed
		_ = e.block()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.prune()
	driver.ReleaseQueue(q.raw)
	return errors.Join(q.err, failed)
}

// inOrder is called after each command, and adds a barrier if the queue is out of order. q.mu is held.
func (q *queue) inOrder() error {
	if !q.outOfOrder {
		return nil
	}
	return q.device.check(driver.Barrier(q.raw, 0), "clEnqueueBarrierWithWaitList", "the order of an out-of-order queue")
}

// ImportStream takes a cl_command_queue of this device's context, in-order or out-of-order, and retains it
// until the stream is closed. A value that is not a handle of this platform is detected if its driver
// supports the ICD loader; see [Wrap].
func (d *device) ImportStream(ctx context.Context, native uintptr) (core.Stream, error) {
	const call = "ImportStream"
	if err := d.Gate.Enter(ctx); err != nil {
		return nil, err
	}
	if err := d.Hold(call); err != nil {
		return nil, err
	}
	defer d.Drop()
	if err := d.checkObject(call, native); err != nil {
		return nil, err
	}
	raw := driver.Queue(native)
	owner, s := driver.Number(raw, driver.QueueContext)
	if err := d.check(s, "clGetCommandQueueInfo", "the context of %#x", native); err != nil {
		return nil, err
	}
	made, s := driver.Number(raw, driver.QueueDevice)
	if err := d.check(s, "clGetCommandQueueInfo", "the device of %#x", native); err != nil {
		return nil, err
	}
	if driver.Context(owner) != d.context || driver.Device(made) != d.handle {
		return nil, d.errorf(core.ErrInvalid, call, "the queue belongs to another cl_context or cl_device_id: open the device by Wrap over the queue's context")
	}
	properties, s := driver.Number(raw, driver.QueueProperties)
	if err := d.check(s, "clGetCommandQueueInfo", "the properties of %#x", native); err != nil {
		return nil, err
	}
	return d.addStream(call, func() (*queue, error) {
		if err := d.check(driver.RetainQueue(raw), "clRetainCommandQueue", "%#x", native); err != nil {
			return nil, err
		}
		return newQueue(d, raw, properties), nil
	})
}
