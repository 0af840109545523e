package cudalike

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/backends/internal/shell"
	"github.com/dlx-go/dlx/core"
)

// Facts are what a backend knows of its API besides the calls.
type Facts struct {
	API     string // its name in texts, such as "CUDA"
	Visible string // the environment variable that hides devices

	// The types of memory: of devices, pinned, and moved by the driver. Managed is 0 if DLPack
	// has no such type.
	Device, Host, Managed core.DeviceType
	Vendor                core.Vendor // whose drivers understand the handles for other processes

	// The numbers that stand for a stream without being one; 0 if there is none.
	LegacyStream, ThreadStream uintptr

	Kernels string // for strided copies, see [Context.LoadModule]
	Limits  gather.Limits
}

// Backend is the backend of an API.
type Backend struct {
	Facts
	driver Driver

	live                                            shell.Counters
	streams, semaphores, ipcEvents, timers, buffers *core.LiveCounter

	hostWork shell.Fence // one for all devices, whose streams wait for each other
	imports  ipcImports
}

var _ core.Backend = (*Backend)(nil)

// New makes a backend. It is called once for an API, when the program starts.
func New(d Driver, f Facts) *Backend {
	b := &Backend{Facts: f, driver: d}
	b.live = shell.NewCounters(b.Name())
	count := func(kind string) *core.LiveCounter { return core.NewLiveCounter(b.Name() + "." + kind) }
	b.streams, b.semaphores, b.ipcEvents = count("Stream"), count("Semaphore"), count("IPCEvent")
	b.timers, b.buffers = count("Timer"), count("GLBuffer")
	return b
}

// Name is that of the devices' type.
func (b *Backend) Name() string { return b.Device.BackendName() }

// Probe reports whether there is a device, or why there is none.
func (b *Backend) Probe(ctx context.Context) core.Probe {
	all, err := b.Devices(ctx)
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return core.Probe{Available: true, Version: b.driver.Version(), Features: all[0].Features}
}

// Devices describes every device that the driver can describe, one at least.
func (b *Backend) Devices(ctx context.Context) ([]core.Properties, error) {
	n, err := b.count(ctx)
	if err != nil {
		return nil, err
	}
	var all []core.Properties
	var failed error
	for i := range n {
		_, p, err := b.describe(int32(i))
		if err == nil {
			all = append(all, p)
		} else if failed == nil {
			failed = err
		}
	}
	if len(all) == 0 {
		return nil, failed
	}
	return all, nil
}

// Open opens a device.
func (b *Backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	n, err := b.count(ctx)
	if err != nil {
		return nil, err
	}
	if id.Type != b.Device || id.Index < 0 || int(id.Index) >= n {
		return nil, b.errorf(core.ErrDevice, "Open", "there is no device %v: this machine has %v:0 to %v:%d", id, b.Device, b.Device, n-1)
	}
	return b.openDevice(id.Index)
}

// count is how many devices there are: one at least.
func (b *Backend) count(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s, err := b.driver.Load()
	if err != nil {
		return 0, err
	}
	if s.Kind == NoDevice {
		return 0, b.statusf(core.ErrNotSupported, s, "a driver is installed, but it finds no card; %s may hide them", b.Visible)
	}
	if err := b.check(s, "the driver cannot be used"); err != nil {
		return 0, err
	}
	n, s := b.driver.Devices()
	if err := b.check(s, "the devices of the driver"); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, b.errorf(core.ErrNotSupported, "Devices", "the driver has no device: %s may hide them", b.Visible)
	}
	return n, nil
}
