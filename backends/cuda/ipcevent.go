//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveIPCEvents = core.NewLiveCounter("cuda.IPCEvent")

type ipcEvent struct {
	device *device
	handle driver.IPCHandle
	mu     sync.Mutex
	raw    uintptr // 0 once it was closed
}

func newIPCEvent(ctx context.Context, d core.Device) (*IPCEvent, error) {
	return makeIPCEvent(ctx, "NewIPCEvent", d, func(e *ipcEvent) error {
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

func openIPCEvent(ctx context.Context, d core.Device, handle [64]byte) (*IPCEvent, error) {
	return makeIPCEvent(ctx, "OpenIPCEvent", d, func(e *ipcEvent) error {
		e.handle = handle
		var s driver.Status
		e.raw, s = e.device.context.OpenIPCEvent(handle)
		return e.device.checkIPC(s, "cuIpcOpenEventHandle")
	})
}

// makeIPCEvent has open fill in the event.
func makeIPCEvent(ctx context.Context, call string, d core.Device, open func(*ipcEvent) error) (*IPCEvent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inner, err := deviceOf(call, d)
	if err != nil {
		return nil, err
	}
	e := &IPCEvent{ipcEvent{device: inner}}
	if err := inner.open(call, func() error { return open(&e.ipcEvent) }); err != nil {
		return nil, err
	}
	liveIPCEvents.Add(1)
	return e, nil
}

func (e *ipcEvent) export() [64]byte { return e.handle }

func (e *ipcEvent) record(s core.Stream) error {
	return e.on("Record", s, func(q *queue) error {
		return e.device.check(e.device.context.RecordEvent(e.raw, q.raw), "cuEventRecord", "an event of several processes")
	})
}

func (e *ipcEvent) waitOn(s core.Stream) error {
	return e.on("WaitOn", s, func(q *queue) error {
		return e.device.check(e.device.context.StreamWaitEvent(q.raw, e.raw), "cuStreamWaitEvent", "an event of several processes")
	})
}

// on calls f with s as a stream of the device, both of them open.
func (e *ipcEvent) on(call string, s core.Stream, f func(*queue) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		return errorf(core.ErrClosed, call, "the event was closed")
	}
	q, err := e.device.streamOf(call, s)
	if err != nil {
		return err
	}
	return q.enqueue(call, func() error { return f(q) })
}

func (e *ipcEvent) close() error {
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
