//go:build gl && linux && cgo

package gl

import (
	"context"
	"sync"
	"time"

	"github.com/go-gl/gl/v2.1/gl"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// queue is a stream of a device, which counts it until it is closed. Its work runs
// on a goroutine, calls OpenGL on the context's thread, and is done when OpenGL is
// done with it.
type queue struct {
	*stream.Queue
	device *device
	closed sync.Once
}

var _ core.Stream = (*queue)(nil)

// NewStream returns an ordered queue. Streams share the context, so that their work
// overlaps only with that of the host.
func (d *device) NewStream(ctx context.Context) (core.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, closedDevice("NewStream")
	}
	d.streams++
	return &queue{Queue: stream.NewQueue(d.outer), device: d}, nil
}

// Record returns an event that, on a context of the caller's, also waits for what
// the caller has drawn there by the time that the stream gets to it.
func (q *queue) Record() (core.Event, error) {
	if q.device.stop == nil {
		if err := q.Enqueue(q.device.finish); err != nil {
			return nil, err
		}
	}
	return q.Queue.Record()
}

func (q *queue) Close() error {
	err := q.Queue.Close()
	q.closed.Do(func() {
		q.device.mu.Lock()
		defer q.device.mu.Unlock()
		q.device.streams--
	})
	return err
}

// Pauses between two looks at a fence.
const (
	firstPause = 10 * time.Microsecond
	lastPause  = time.Millisecond
)

// finish waits until OpenGL is done with every command that was issued before, and
// both shaders and the host see what they wrote.
func (d *device) finish() error {
	if d.stop != nil && d.finished.Load() >= d.issued.Load() {
		return nil
	}
	return d.complete("glClientWaitSync", nil)
}

// command issues the commands of f, which work on buffers.
func (d *device) command(call string, f func()) error {
	return d.do(call, func() { d.issue(f) })
}

// complete issues the commands of f, which may be nil, and waits as finish does. It
// looks at a fence now and then, so that the context's thread is free for others.
func (d *device) complete(call string, f func()) error {
	var fence uintptr
	var issued uint64
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var passed bool
		var status uint32
		err := d.do(call, func() {
			if fence == 0 {
				d.issue(f)
				issued = d.issued.Load()
				fence = gl.FenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0)
			}
			if passed = gl.ClientWaitSync(fence, gl.SYNC_FLUSH_COMMANDS_BIT, 0) != gl.TIMEOUT_EXPIRED; passed {
				gl.DeleteSync(fence)
			}
			status = d.resetStatus()
		})
		if err == nil && status != gl.NO_ERROR {
			err = d.failed("glGetGraphicsResetStatus", status)
		}
		if err != nil && !passed {
			d.run(func() { gl.DeleteSync(fence) })
		}
		if err != nil {
			return err
		}
		if passed {
			break
		}
		time.Sleep(pause)
	}
	for {
		finished := d.finished.Load()
		if finished >= issued || d.finished.CompareAndSwap(finished, issued) {
			return nil
		}
	}
}

// issue issues the commands of f, which may be nil, on the context's thread. What
// shaders of others wrote is seen by them, and by the host once a fence was passed.
func (d *device) issue(f func()) {
	gl.MemoryBarrier(gl.ALL_BARRIER_BITS)
	if f != nil {
		f()
		d.issued.Add(1)
	}
}
