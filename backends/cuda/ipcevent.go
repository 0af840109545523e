//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveIPCEvents = core.NewLiveCounter("cuda.IPCEvent")

// IPCEvent is an event that streams of several processes record and wait for. Each
// Record moves it to a new point, and a wait is for the point where it was then: that the
// record comes before the wait the processes must agree on by other means. It is
// safe for concurrent use.
type IPCEvent struct {
	device *device
	handle driver.IPCHandle
	mu     sync.Mutex
	raw    uintptr // 0 once it was closed
}

// NewIPCEvent makes an event on d that other processes open by its Handle. The
// caller closes it, after the others have closed theirs (cuIpcGetEventHandle). It
// fails with core.ErrDevice if d is no device of CUDA, core.ErrNotSupported where the
// driver has no such events, and core.ErrClosed.
func NewIPCEvent(ctx context.Context, d core.Device) (*IPCEvent, error) {
	return newIPCEvent(ctx, "NewIPCEvent", d, func(e *IPCEvent) error {
		d := e.device
		var s driver.Status
		if e.raw, s = d.context.NewIPCEvent(); s != driver.Success {
			return d.check(s, "cuEventCreate", "an event for other processes")
		}
		if e.handle, s = d.context.ExportIPCEvent(e.raw); s != driver.Success {
			d.context.DestroyEvent(e.raw)
		}
		return d.check(s, "cuIpcGetEventHandle", "an event for other processes")
	})
}

// OpenIPCEvent opens, on a device of the same card, the event of another process. The
// caller closes it. It fails as NewIPCEvent does, and with core.ErrInvalid if
// handle is none or whoever made it is gone, core.ErrNotSupported if that is this process.
func OpenIPCEvent(ctx context.Context, d core.Device, handle [64]byte) (*IPCEvent, error) {
	return newIPCEvent(ctx, "OpenIPCEvent", d, func(e *IPCEvent) error {
		e.handle = handle
		var s driver.Status
		e.raw, s = e.device.context.OpenIPCEvent(handle)
		return e.device.checkIPC(s, "cuIpcOpenEventHandle")
	})
}

// newIPCEvent has open fill in the event.
func newIPCEvent(ctx context.Context, call string, d core.Device, open func(*IPCEvent) error) (*IPCEvent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inner, err := deviceOf(call, d)
	if err != nil {
		return nil, err
	}
	e := &IPCEvent{device: inner}
	if err := inner.open(call, func() error { return open(e) }); err != nil {
		return nil, err
	}
	liveIPCEvents.Add(1)
	return e, nil
}

// Handle is what [OpenIPCEvent] takes in another process: a CUipcEventHandle.
func (e *IPCEvent) Handle() [64]byte { return e.handle }

// Record moves the event behind all work that was enqueued on s, a stream of the
// event's device. It fails with core.ErrDevice for another stream, and core.ErrClosed.
func (e *IPCEvent) Record(s core.Stream) error {
	return e.on("Record", s, func(q *queue) error {
		return e.device.check(e.device.context.RecordEvent(e.raw, q.raw), "cuEventRecord", "an event of several processes")
	})
}

// WaitOn makes work enqueued on s later wait for the point of the latest Record, of
// any process; if there was none, for nothing. It fails as Record does.
func (e *IPCEvent) WaitOn(s core.Stream) error {
	return e.on("WaitOn", s, func(q *queue) error {
		return e.device.check(e.device.context.StreamWaitEvent(q.raw, e.raw), "cuStreamWaitEvent", "an event of several processes")
	})
}

// on calls f with s as a stream of the device, both of them open.
func (e *IPCEvent) on(call string, s core.Stream, f func(*queue) error) error {
	q, err := e.device.streamOf(call, s)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return errorf(core.ErrClosed, call, "the event was closed")
	}
	return q.enqueue(call, func() error { return f(q) })
}

// Close gives the event back. Waits for it that were enqueued stay. A second Close
// does nothing.
func (e *IPCEvent) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return nil
	}
	s := e.device.context.DestroyEvent(e.raw)
	e.raw = 0
	e.device.Drop()
	liveIPCEvents.Add(-1)
	return e.device.check(s, "cuEventDestroy", "an event of several processes")
}
