package cudalike

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// IPCEvent is an event of several processes. Its zero value is closed.
type IPCEvent struct {
	device *device
	handle IPCHandle
	mu     sync.Mutex
	raw    uintptr // 0 once it was closed
}

// MakeIPCEvent makes e, which is the zero value, an event that other processes open by its handle.
func (b *Backend) MakeIPCEvent(ctx context.Context, d core.Device, e *IPCEvent) error {
	return b.ipcEvent(ctx, "NewIPCEvent", d, e, func(c Context) (s Status) {
		if e.raw, s = c.NewIPCEvent(); s.OK() {
			if e.handle, s = c.ExportIPCEvent(e.raw); !s.OK() {
				c.DestroyEvent(e.raw)
			}
		}
		return s
	})
}

// OpenIPCEvent makes e, which is the zero value, the event of another process.
func (b *Backend) OpenIPCEvent(ctx context.Context, d core.Device, handle IPCHandle, e *IPCEvent) error {
	return b.ipcEvent(ctx, "OpenIPCEvent", d, e, func(c Context) (s Status) {
		e.handle = handle
		e.raw, s = c.OpenIPCEvent(handle)
		return s
	})
}

// ipcEvent has open fill in the event.
func (b *Backend) ipcEvent(ctx context.Context, call string, d core.Device, e *IPCEvent, open func(Context) Status) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	inner, err := b.deviceOf(call, d)
	if err != nil {
		return err
	}
	e.device = inner
	if err := inner.open(call, func() error { return inner.checkIPC(open(inner.context)) }); err != nil {
		return err
	}
	b.ipcEvents.Add(1)
	return nil
}

// Handle is what other processes open the event by.
func (e *IPCEvent) Handle() IPCHandle { return e.handle }

// Record moves the event behind the work of s so far.
func (e *IPCEvent) Record(s core.Stream) error {
	return e.on("Record", s, func(q *queue) error {
		return e.device.check(e.device.context.RecordEvent(e.raw, q.raw), "an event of several processes")
	})
}

// WaitOn makes later work of s wait for the latest Record.
func (e *IPCEvent) WaitOn(s core.Stream) error {
	return e.on("WaitOn", s, func(q *queue) error {
		return e.device.check(e.device.context.WaitEvent(q.raw, e.raw), "an event of several processes")
	})
}

// on calls f with s as a stream of the device, both of them open.
func (e *IPCEvent) on(call string, s core.Stream, f func(*queue) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return e.device.closed(call, "event")
	}
	q, err := e.device.streamOf(call, s)
	if err != nil {
		return err
	}
	return q.enqueue(call, func() error { return f(q) })
}

// Close gives the event back.
func (e *IPCEvent) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return nil
	}
	s := e.device.context.DestroyEvent(e.raw)
	e.raw = 0
	e.device.Drop()
	e.device.backend.ipcEvents.Add(-1)
	return e.device.check(s, "an event of several processes")
}
