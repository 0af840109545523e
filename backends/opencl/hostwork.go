//go:build opencl && linux && cgo

package opencl

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// turn is work of the host that has its turn in a queue, and how it ended. The
// next event that is recorded carries the error.
type turn struct{ err error }

// gate is what the queue waits for meanwhile: a user event. It is never made to
// fail, which would fail all that is behind it, and which PoCL 3.1 does not survive.
type gate struct {
	*turn
	device *device
	raw    driver.Event
}

// hostWork enqueues work that the host does when its turn has come: all that was
// enqueued before is done, and all that is enqueued later waits. It is told what
// the driver says has failed before it. q.mu is held.
//
// It stands between a marker and a user event, and is not enqueued by
// clEnqueueNativeKernel, which few drivers have and which would run Go on the
// driver's threads.
func (q *queue) hostWork(work func(failed error) error) error {
	before, err := q.marker()
	if err != nil {
		return err
	}
	after, err := q.gate()
	if err == nil {
		err = q.host.Enqueue(func() error {
			after.open(work(before.block()))
			return nil
		})
	}
	if err != nil {
		go func() { _ = before.block() }() // gives the marker back, once it was passed
	}
	return err
}

// holdUntil makes later work wait for an event of the host. q.mu is held.
func (q *queue) holdUntil(e core.Event) error {
	g, err := q.gate()
	if err == nil {
		go func() { g.open(e.Wait(context.Background())) }()
	}
	return err
}

// gate closes the queue for later work until the gate is opened. q.mu is held.
func (q *queue) gate() (*gate, error) {
	raw, s := driver.CreateUserEvent(q.device.context)
	if err := check(s, "clCreateUserEvent", "work of the host on a stream"); err != nil {
		return nil, err
	}
	g := &gate{new(turn), q.device, raw}
	s = driver.Barrier(q.raw, raw)
	if err := check(s, "clEnqueueBarrierWithWaitList", "work of the host on a stream"); err != nil {
		g.open(nil)
		return nil, err
	}
	q.turns = append(q.turns, g.turn)
	return g, nil
}

// open lets the queue go on.
func (g *gate) open(failed error) {
	g.err = failed
	g.device.hostWork.Pass()
	// A queue that is never let go would hang all that waits for it. A gate that
	// is open already answers CL_INVALID_OPERATION.
	for range patience {
		if s := driver.CompleteUserEvent(g.raw); s == driver.Success || s == driver.InvalidOperation {
			break
		}
		time.Sleep(time.Millisecond)
	}
	driver.ReleaseEvent(g.raw)
}
