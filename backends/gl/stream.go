//go:build gl && linux && cgo

package gl

import (
	"context"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/relay"
	"github.com/dlx-go/dlx/core"
)

// queue is a stream of a device, which counts it as open until it is closed. Its work runs in a goroutine and
// calls OpenGL on the context's thread. It is done when OpenGL is done with it.
type queue struct {
	*devicebase.Queue
	device *device
}

var _ core.Stream = (*queue)(nil)

// NewStream returns an ordered queue. All streams share the OpenGL context, so only the host's part of their
// work overlaps.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	q, err := d.NewQueue(ctx)
	if err != nil {
		return nil, err
	}
	return &queue{q, d}, nil
}

// Record returns an event. On a context of the caller, the event also covers the commands that the caller has
// issued when the stream reaches it.
func (q *queue) Record() (core.Event, error) {
	if q.device.stop == nil {
		if err := q.Enqueue(func() error { return q.device.finish(context.Background()) }); err != nil {
			return nil, err
		}
	}
	e, err := q.Queue.Record()
	if err != nil {
		return nil, err
	}
	return q.device.served(e), nil
}

// WaitSettled unwraps an event of this device, so that the host queue recognises its own events.
func (q *queue) WaitSettled(e core.Event) error {
	if s, ok := e.(served); ok {
		e = s.Event
	}
	return q.Queue.WaitSettled(e)
}

// served is an event of a wrapped context. The context's own thread may wait for it, and runs the calls of
// others meanwhile.
type served struct {
	core.Event
	relay *relay.Relay
}

var _ backendkit.EventWrapper = served{}

func (s served) Wait(ctx context.Context) error { return s.relay.Await(ctx, s.Event) }
func (s served) Unwrap() core.Event             { return s.Event }

// served makes e an event for which the context's thread may wait.
func (d *device) served(e core.Event) core.Event {
	if d.relay == nil || e == nil {
		return e
	}
	return served{e, d.relay}
}

// Close fails, and leaves the stream open, if its work waits for a context of the caller whose thread takes
// no calls.
func (q *queue) Close() error {
	if q.device.relay != nil {
		ctx, stop := q.device.patient()
		defer stop()
		if e, err := q.Queue.Record(); err == nil { // else it was closed already
			if err := e.Wait(ctx); err != nil && ctx.Err() != nil {
				return q.device.relay.Untaken("Close")
			}
		}
	}
	return q.Queue.Close()
}

// command issues the commands of f, which use buffers.
func (d *device) command(ctx context.Context, call string, f func()) error {
	return d.do(ctx, call, func() { d.issue(f) })
}

// finish is [job.finish] without a job.
func (d *device) finish(ctx context.Context) error {
	return (&job{device: d, ctx: ctx}).finish()
}

// issue issues the commands of f, which may be nil, on the context's thread. They see what other shaders
// wrote, and the host sees what they wrote after a fence.
func (d *device) issue(f func()) {
	gl.MemoryBarrier(gl.ALL_BARRIER_BITS)
	if f != nil {
		f()
		d.issued.Add(1)
	}
}
