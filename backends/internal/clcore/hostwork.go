//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

// hostTask is work of the host in a queue, and its result. The next event that is recorded reports the error.
type hostTask struct{ err error }

// userEvent is the user event that a queue waits for while the host works. It is never made to fail: all
// later commands would fail too, and PoCL 3.1 does not survive that.
type userEvent struct {
	*hostTask
	device *device
	raw    driver.Event
}

// hostWork enqueues work for the host. It runs when everything enqueued before is done, and everything
// enqueued later waits for it. failed is the error that the driver reports for earlier commands. q.mu is
// held.
//
// The work runs between a marker and a user event. clEnqueueNativeKernel would do this, but few drivers have
// it, and it would run Go on the driver's threads.
func (q *queue) hostWork(work func(failed error) error) error {
	before, err := q.marker()
	if err != nil {
		return err
	}
	after, err := q.userEvent()
	if err == nil {
		if err = q.host.Enqueue(func() error {
			after.complete(work(before.block()))
			return nil
		}); err != nil {
			after.complete(err)
		}
	}
	if err != nil {
		go func() { _ = before.block() }() // releases the marker when it is complete
	}
	return err
}

// waitForHost makes later work wait for an event on the host. q.mu is held.
func (q *queue) waitForHost(e core.Event) error {
	g, err := q.userEvent()
	if err == nil {
		go func() { g.complete(e.Wait(context.Background())) }()
	}
	return err
}

// userEvent makes later work wait until the user event is completed. q.mu is held.
func (q *queue) userEvent() (*userEvent, error) {
	raw, s := driver.CreateUserEvent(q.device.context)
	if err := q.device.check(s, "clCreateUserEvent", "work of the host on a stream"); err != nil {
		return nil, err
	}
	g := &userEvent{new(hostTask), q.device, raw}
	s = driver.Barrier(q.raw, raw)
	if err := q.device.check(s, "clEnqueueBarrierWithWaitList", "work of the host on a stream"); err != nil {
		g.complete(nil)
		return nil, err
	}
	q.hostTasks = append(q.hostTasks, g.hostTask)
	return g, nil
}

// complete lets the queue go on. failed is the result of the host's work.
func (g *userEvent) complete(failed error) {
	g.err = failed
	g.device.hostWork.Pass()
	// If a user event were never completed, everything that waits for the queue would hang. An event
	// that is complete already returns CL_INVALID_OPERATION.
	for range patience {
		if s := driver.CompleteUserEvent(g.raw); s == driver.Success || s == driver.InvalidOperation {
			break
		}
		time.Sleep(time.Millisecond)
	}
	driver.ReleaseEvent(g.raw)
}
