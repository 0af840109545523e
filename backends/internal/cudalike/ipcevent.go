package cudalike

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// ipcEvent is an event that several processes have open.
type ipcEvent struct {
	device *device
	opened backendkit.OpenItem
	handle IPCHandle
	mu     sync.Mutex
	raw    uintptr // 0 once it is closed
}

var _ core.IPCEvent = (*ipcEvent)(nil)

// NewIPCEvent makes an event that other processes can open. The caller must close it after the other processes
// have closed theirs.
func (d *device) NewIPCEvent(ctx context.Context) (core.IPCEvent, error) {
	return d.makeIPCEvent(ctx, "NewIPCEvent", func(e *ipcEvent) error {
		var s Status
		if e.raw, s = d.context.NewIPCEvent(); s.OK() {
			if e.handle, s = d.context.ExportIPCEvent(e.raw); !s.OK() {
				d.context.DestroyEvent(e.raw)
			}
		}
		return d.check(s, "an event for other processes")
	})
}

// OpenIPCEvent opens an event of another process, on a device of the same card. It fails for an event of this
// process: no driver opens one.
func (d *device) OpenIPCEvent(ctx context.Context, x core.ExternalEvent) (core.IPCEvent, error) {
	const call = "OpenIPCEvent"
	e, err := d.makeIPCEvent(ctx, call, func(e *ipcEvent) (err error) {
		if err := d.importer().CheckEvent(x); err != nil {
			return err
		}
		if e.handle, err = d.ipcHandle(call, x.Handle); err != nil {
			return err
		}
		var s Status
		e.raw, s = d.context.OpenIPCEvent(e.handle)
		return d.checkIPC(s)
	})
	if err == nil {
		_ = x.Close()
	}
	return e, err
}

// makeIPCEvent makes an event, which open fills in.
func (d *device) makeIPCEvent(ctx context.Context, call string, open func(*ipcEvent) error) (core.IPCEvent, error) {
	if err := d.EnterWith(ctx, core.CapIPCEvents, call); err != nil {
		return nil, err
	}
	e := &ipcEvent{device: d}
	opened, err := d.open(call, "IPC event", func() error { return open(e) })
	if err != nil {
		return nil, err
	}
	e.opened = opened
	return e, nil
}

// Export returns the handle. It fails with ErrClosed for a closed event.
func (e *ipcEvent) Export() (core.ExternalEvent, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return core.ExternalEvent{}, e.device.closedError("Export", "event")
	}
	h, err := backendkit.NewIPCHandle(e.device.backend.Vendor, e.handle[:])
	return core.ExternalEvent{Handle: h, DeviceUUID: e.device.Info.UUID}, err
}

// Record makes the event stand for the work that was enqueued on s before.
func (e *ipcEvent) Record(s core.Stream) error {
	return e.on("Record", s, func(q *queue) error {
		return e.device.check(e.device.context.RecordEvent(e.raw, q.raw), "an event that several processes use")
	})
}

// WaitOn makes later work of s wait for the event, on the device.
func (e *ipcEvent) WaitOn(s core.Stream) error {
	return e.on("WaitOn", s, func(q *queue) error {
		return e.device.check(e.device.context.WaitEvent(q.raw, e.raw), "an event that several processes use")
	})
}

// on calls f with s as a stream of the device. It fails if the event or the stream is closed.
func (e *ipcEvent) on(call string, s core.Stream, f func(*queue) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return e.device.closedError(call, "event")
	}
	q, err := e.device.streamOf(call, s)
	if err != nil {
		return err
	}
	return q.enqueue(call, func() error { return f(q) })
}

// Close destroys the event of this process. A second Close does nothing.
func (e *ipcEvent) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return nil
	}
	s := e.device.context.DestroyEvent(e.raw)
	e.raw = 0
	e.opened.Close()
	return e.device.check(s, "an event that several processes use")
}
