package backendtest

import (
	"context"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// caller is a simulated device with events that can leave it: as a number, by which the
// event is found again.
type caller struct {
	*wrapper
	hooks callerHooks

	mu   sync.Mutex
	made []*call
}

type callerHooks struct {
	uuid      core.UUID // of what is exported
	again     bool      // the event's only handle is exported again and again
	takes     bool      // the handle of what cannot be opened
	leaves    bool      // the handle of what was opened
	forgets   bool      // to wait
	unordered bool      // Record and WaitOn go on after Close
}

var _ core.IPCEventCreator = (*caller)(nil)

func (c *caller) Properties() core.Properties {
	p := c.wrapper.Properties()
	p.Capabilities |= core.CapIPCEvents
	return p
}

func (c *caller) NewIPCEvent(context.Context) (core.IPCEvent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &call{device: c, number: byte(len(c.made)), at: new(point)}
	c.made = append(c.made, e)
	return e, nil
}

func (c *caller) OpenIPCEvent(_ context.Context, x core.ExternalEvent) (e core.IPCEvent, err error) {
	defer func() {
		if err != nil && c.hooks.takes || err == nil && !c.hooks.leaves {
			_ = x.Close()
		}
	}()
	p := c.Properties()
	switch {
	case x.Handle.Type() != core.HandleIPC:
		return nil, core.Errorf(core.ErrNotSupported, "caller", "OpenIPCEvent", "the type is %v", x.Handle.Type())
	case x.DeviceUUID != p.UUID || x.DriverUUID != p.DriverUUID:
		return nil, core.Errorf(core.ErrDevice, "caller", "OpenIPCEvent", "another device")
	}
	payload, err := x.Handle.Payload()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &call{device: c, number: payload[0], at: c.made[payload[0]].at}, nil
}

// point is where the latest Record was.
type point struct {
	mu    sync.Mutex
	event core.Event
}

// call is an event of one process.
type call struct {
	device *caller
	number byte
	at     *point
	only   core.ExternalEvent // where hooks.again

	mu     sync.Mutex
	closed bool
}

func (e *call) isOpen(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed && !e.device.hooks.unordered {
		return core.Errorf(core.ErrClosed, "caller", name, "the event was closed")
	}
	return nil
}

func (e *call) Export() (x core.ExternalEvent, err error) {
	if err := e.isOpen("Export"); err != nil {
		return x, err
	}
	if e.only.Handle != nil {
		return e.only, nil
	}
	p := e.device.Properties()
	x = core.ExternalEvent{DeviceUUID: p.UUID, DriverUUID: p.DriverUUID}
	x.DeviceUUID[0] += e.device.hooks.uuid[0]
	x.Handle, err = backendkit.NewIPCHandle(core.VendorAMD, []byte{e.number})
	if e.device.hooks.again {
		e.only = x
	}
	return x, err
}

func (e *call) on(name string, s core.Stream, f func() error) error {
	if err := e.isOpen(name); err != nil {
		return err
	}
	if s == nil {
		return core.Errorf(core.ErrDevice, "caller", name, "no stream")
	}
	e.at.mu.Lock()
	defer e.at.mu.Unlock()
	return f()
}

func (e *call) Record(s core.Stream) error {
	return e.on("Record", s, func() (err error) {
		e.at.event, err = s.Record()
		return err
	})
}

func (e *call) WaitOn(s core.Stream) error {
	return e.on("WaitOn", s, func() error {
		if e.at.event == nil || e.device.hooks.forgets {
			return nil
		}
		return s.Wait(e.at.event)
	})
}

func (e *call) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}

func TestSuiteFindsMutantsThatShareEvents(t *testing.T) {
	open := func(t *testing.T, h callerHooks) (func(testing.TB) core.Device, []Options) {
		return opens(t, hooks{}, func(d *device) core.Device { return &caller{wrapper: d.outer.(*wrapper), hooks: h} }), nil
	}
	findMutants(t, ipcEventCases, []mutant[callerHooks]{
		{"waits for nothing", "ipc-event/orders-streams", "ran before it", callerHooks{forgets: true}},
		{"exports events of another device", "ipc-event/export", "UUIDs of device and driver", callerHooks{uuid: core.UUID{1}}},
		{"has one handle", "ipc-event/export", "after the first was closed", callerHooks{again: true}},
		{"leaves the handle", "ipc-event/open", "Duplicate of a handle that was imported: error <nil>", callerHooks{leaves: true}},
		{"takes the handle of what it refuses", "ipc-event/refused", "stays the caller's", callerHooks{takes: true}},
		{"goes on after Close", "ipc-event/close", "Record: error <nil>", callerHooks{unordered: true}},
	}, open)
	device, _ := open(t, callerHooks{})
	wantPass(t, ipcEventCases, device)
}
