package backendtest

import (
	"errors"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

var ipcEventCases = []Case{
	{
		Name:  "ipc-event/orders-streams",
		Rule:  "core.IPCEvent: later work on a stream waits for what was enqueued before the latest Record; without one, for nothing",
		Needs: core.CapIPCEvents,
		run:   caseIPCEventOrders,
	},
	{
		Name:  "ipc-event/export",
		Rule:  "core.IPCEvent.Export: each call gives a handle of its own, with the device's UUIDs, which can be sent",
		Needs: core.CapIPCEvents,
		run:   caseIPCEventExport,
	},
	{
		Name:  "ipc-event/open",
		Rule:  "core.IPCEventCreator.OpenIPCEvent: takes the handle on success; an event of this process may fail with ErrNotSupported, and leaves the handle then",
		Needs: core.CapIPCEvents,
		run:   caseIPCEventOpen,
	},
	{
		Name:  "ipc-event/refused",
		Rule:  "core.IPCEventCreator.OpenIPCEvent: no handle and one of another type fail with ErrNotSupported, UUIDs of another device with ErrDevice, an empty handle with ErrClosed; the handle stays the caller's",
		Needs: core.CapIPCEvents,
		run:   caseIPCEventRefused,
	},
	{
		Name:  "ipc-event/close",
		Rule:  "core.IPCEvent.Close: a second Close does nothing; other calls then fail with ErrClosed",
		Needs: core.CapIPCEvents,
		run:   caseIPCEventClose,
	},
}

// ipcEvent makes an event for other processes, which is closed when the case is over.
func (e *env) ipcEvent() core.IPCEvent {
	e.Helper()
	event, err := as[core.IPCEventCreator](e).NewIPCEvent(e.ctx)
	e.check(err, "NewIPCEvent")
	e.Cleanup(func() {
		if err := event.Close(); err != nil {
			e.Errorf("Close of an IPC event: %v", err)
		}
	})
	return event
}

// exportEvent returns a handle of an event, which the case owns.
func (e *env) exportEvent(event core.IPCEvent) core.ExternalEvent {
	e.Helper()
	x, err := event.Export()
	e.check(err, "Export")
	return x
}

func caseIPCEventOrders(e *env) {
	event, first, second := e.ipcEvent(), e.stream(), e.stream()
	e.check(event.WaitOn(second), "WaitOn before a Record")
	e.synchronize(second)
	release, sure := e.hold(first)
	e.check(event.Record(first), "Record")
	var over atomic.Bool
	err := e.whileHeld(func() {
		if sure && over.Load() {
			e.Errorf("work that waits for the event ran before it")
		}
		release()
	}, func() error {
		defer over.Store(true)
		return errors.Join(event.WaitOn(second), second.Synchronize(e.ctx))
	})
	e.check(err, "work behind the event")
	e.wantError(event.Record(nil), core.ErrDevice, "Record on no stream")
	e.wantError(event.WaitOn(nil), core.ErrDevice, "WaitOn of no stream")
}

func caseIPCEventExport(e *env) {
	event := e.ipcEvent()
	x, second := e.exportEvent(event), e.exportEvent(event)
	e.check(x.Close(), "Close of the handle")
	if x.DeviceUUID != e.props.UUID || x.DriverUUID != e.props.DriverUUID {
		e.Errorf("UUIDs of device and driver are %v and %v, want %v and %v", x.DeviceUUID, x.DriverUUID, e.props.UUID, e.props.DriverUUID)
	}
	defer second.Close()
	if _, _, err := second.MarshalWithFDs(); err != nil {
		e.Errorf("MarshalWithFDs of the second handle, after the first was closed: %v", err)
	}
}

func caseIPCEventOpen(e *env) {
	x := e.exportEvent(e.ipcEvent())
	defer x.Close()
	opened, err := as[core.IPCEventCreator](e).OpenIPCEvent(e.ctx, x)
	if err != nil {
		e.wantError(err, core.ErrNotSupported, "OpenIPCEvent of an event of this process")
		other, err := x.Duplicate()
		e.check(err, "Duplicate of the handle, which stays the caller's")
		_ = other.Close()
		return
	}
	e.Cleanup(func() { _ = opened.Close() })
	e.wantEmpty(x.Handle, nil)
	s := e.stream()
	e.check(opened.Record(s), "Record of the event that was opened")
	e.check(opened.WaitOn(s), "WaitOn of the event that was opened")
	e.synchronize(s)
}

func caseIPCEventRefused(e *env) {
	creator := as[core.IPCEventCreator](e)
	open := func(x core.ExternalEvent) error {
		event, err := creator.OpenIPCEvent(e.ctx, x)
		if err == nil {
			_ = event.Close()
		}
		return err
	}
	x := e.exportEvent(e.ipcEvent())
	defer x.Close()
	h := x.Handle
	e.eachStranger([]core.HandleType{h.Type()}, func(h *core.Handle) error {
		return open(core.ExternalEvent{Handle: h, DeviceUUID: x.DeviceUUID, DriverUUID: x.DriverUUID})
	})
	x.DeviceUUID[3] ^= 1
	e.wantError(open(x), core.ErrDevice, "OpenIPCEvent with another device's UUID")
	x.DeviceUUID[3] ^= 1
	x.Handle = e.emptied(h)
	e.wantError(open(x), core.ErrClosed, "OpenIPCEvent with an empty handle")
	x.Handle = h
	other, err := x.Duplicate()
	e.check(err, "Duplicate of the handle, which stays the caller's")
	_ = other.Close()
}

func caseIPCEventClose(e *env) {
	event, s := e.ipcEvent(), e.stream()
	e.check(event.Record(s), "Record")
	e.check(event.WaitOn(s), "WaitOn")
	for i := range 2 {
		e.check(event.Close(), "Close number %d", i+1)
	}
	e.synchronize(s)
	e.wantError(event.Record(s), core.ErrClosed, "Record")
	e.wantError(event.WaitOn(s), core.ErrClosed, "WaitOn")
	x, err := event.Export()
	_ = x.Close()
	e.wantError(err, core.ErrClosed, "Export")
}
