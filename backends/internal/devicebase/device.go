// Package devicebase implements what the opened devices of all backends have in common. They count what is open,
// close, free memory once and in order, and check the arguments of calls of package core. Each backend
// submits work by itself.
package devicebase

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

// Device is embedded in the opened device of a backend, which must call Init first.
type Device struct {
	backendkit.CloseHooks
	Reaper reaper.Reaper
	Gate   reaper.Gate
	Info   core.Properties
	self   core.Device

	// Lost returns, for a call, why the device is lost, or nil. It is called with Mu held. It is nil if calls find that out
	// from the driver.
	Lost func(call string) error

	devices, memory *live.Counter // of the backend: see [core.Live]

	open backendkit.OpenSet // streams, semaphores and the like

	Closed   atomic.Bool // set with Mu held
	Mu       sync.Mutex  // guards the fields below, and fields of the device that embeds this one
	Calls    int         // calls that Close must not overtake: see Hold
	Memories int         // allocations and imports that were not freed
}

// Init initialises d as a part of self, and counts self as an open device.
func (d *Device) Init(self core.Device, info core.Properties) {
	d.self, d.Info = self, info
	d.open.Backend = info.ID.Type.BackendName()
	d.devices, d.memory = live.Named(d.open.Backend+".Device"), live.Named(d.open.Backend+".Memory")
	d.devices.Add(1)
}

// ID returns the ID of the properties.
func (d *Device) ID() core.DeviceID { return d.Info.ID }

// Properties returns a copy of Info.
func (d *Device) Properties() core.Properties {
	p := d.Info
	p.Features = slices.Clone(p.Features)
	return p
}

// Errorf makes an error that names the device's backend.
func (d *Device) Errorf(sentinel error, call, format string, args ...any) *core.Error {
	return core.Errorf(sentinel, d.Info.ID.Type.BackendName(), call, format, args...)
}

// IsOpen fails with ErrClosed after Close. Whoever holds Mu knows that the device stays open until Mu is unlocked.
func (d *Device) IsOpen(call string) error {
	if d.Closed.Load() {
		return d.Errorf(core.ErrClosed, call, "the device was closed")
	}
	return nil
}

// Begin must be called first by calls that take a context. It fails with ctx's error, or with ErrClosed.
func (d *Device) Begin(ctx context.Context, call string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.IsOpen(call)
}

// Enter is Begin for calls that open something. It waits for a moment while the device is being closed: see
// [reaper.Gate].
func (d *Device) Enter(ctx context.Context, call string) error {
	if err := d.Gate.Enter(ctx); err != nil {
		return err
	}
	return d.IsOpen(call)
}

// EnterWith is Enter for calls of an optional interface. It first fails with ErrNotSupported if the device
// lacks the capability.
func (d *Device) EnterWith(ctx context.Context, want core.Capabilities, call string) error {
	if err := d.Info.Require(want, call); err != nil {
		return err
	}
	return d.Enter(ctx, call)
}

// Open calls f with Mu held, and counts one open object of a kind, such as "stream", until the item is closed.
// If the device is closed or f fails, nothing is counted.
func (d *Device) Open(call, kind string, f func() error) (backendkit.OpenItem, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return backendkit.OpenItem{}, err
	}
	if err := f(); err != nil {
		return backendkit.OpenItem{}, err
	}
	return d.open.Add(kind), nil
}

// Opened is Open for an object that was made already. Mu is held, and the device is open.
func (d *Device) Opened(kind string) backendkit.OpenItem { return d.open.Add(kind) }

// Hold keeps Close from releasing the device while a call uses it, until Drop. Calls on tensors need it, too: a tensor of
// DLPack is not memory of an opened device, so that Close does not see it. It fails like IsOpen, or with the error of Lost.
func (d *Device) Hold(call string) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return err
	}
	if d.Lost != nil {
		if err := d.Lost(call); err != nil {
			return err
		}
	}
	d.Calls++
	return nil
}

// Drop ends what Hold began.
func (d *Device) Drop() {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Calls--
}

// Shut closes the device. It calls the hooks, and waits for work on memory that was released already: no
// caller could close that memory. It fails with ErrInvalid if something is open, and says what. Otherwise it
// calls finish with Mu held, which releases what belongs to the device. If finish fails and sets Closed to
// false, the device stays open. Shut returns ctx's error if ctx ends while it waits.
func (d *Device) Shut(ctx context.Context, finish func() error) error {
	d.RunCloseHooks()
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Gate.Await(ctx, &d.Mu, &d.Reaper, func() (int, int) { return d.Calls + d.open.Len(), d.Memories })
	switch {
	case d.Closed.Load():
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case d.Calls > 0:
		return d.Errorf(core.ErrInvalid, "Close", "%d calls are in progress", d.Calls)
	}
	d.open.Set("memory", d.Memories)
	if err := d.open.Err(d.Info.ID.Type.BackendName(), d.Info.ID); err != nil {
		return err
	}
	d.Closed.Store(true)
	err := finish()
	if d.Closed.Load() {
		d.devices.Add(-1)
	}
	return err
}
