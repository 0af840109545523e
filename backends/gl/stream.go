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
// both shaders and the host see what they wrote. It looks at a fence now and then,
// so that the context's thread is free for others.
func (d *device) finish() error {
	issued := d.issued.Load()
	if d.stop != nil && d.finished.Load() >= issued {
		return nil
	}
	fence := uintptr(0)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var passed bool
		var status uint32
		err := d.do("glClientWaitSync", func() {
			fence, passed = look(fence)
			status = d.resetStatus()
		})
		if err == nil && status != gl.NO_ERROR {
			err = d.failed("glGetGraphicsResetStatus", status)
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

// look asks on the context's thread whether a fence was passed, which is deleted
// then; with 0 it makes one first.
func look(fence uintptr) (_ uintptr, passed bool) {
	if fence == 0 {
		gl.MemoryBarrier(gl.ALL_BARRIER_BITS)
		fence = gl.FenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0)
	}
	if gl.ClientWaitSync(fence, gl.SYNC_FLUSH_COMMANDS_BIT, 0) == gl.TIMEOUT_EXPIRED {
		return fence, false
	}
	gl.DeleteSync(fence)
	return 0, true
}

// command issues commands that work on buffers.
func (d *device) command(call string, f func()) error {
	return d.do(call, func() {
		if d.stop == nil { // shaders of the caller's may have written what is read now
			gl.MemoryBarrier(gl.ALL_BARRIER_BITS)
		}
		f()
		d.issued.Add(1)
	})
}
