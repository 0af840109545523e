package cudalike

import (
	"context"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
)

// Facts say how an API differs from others, besides its functions.
type Facts struct {
	API     string // its name in texts: "CUDA"
	Visible string // what to check if there is no device, such as the environment variable that hides devices

	// DLPack's types for memory of devices, pinned memory and managed memory. Managed is 0 if DLPack has no type
	// for it.
	Device, Host, Managed core.DeviceType
	Vendor                core.Vendor // whose drivers understand the IPC handles

	// The numbers that stand for the legacy stream, which may be 0, and for the calling thread's stream, which is 0 if
	// there is none. Other numbers below 3 are no streams, as in DLPack.
	LegacyStream, ThreadStream uintptr

	// ClockStep is the length of a step of the clock that events record.
	ClockStep time.Duration

	// NoPeerBoxes says that boxes cannot be copied between devices: CopyPeerBox is not called.
	NoPeerBoxes bool

	// Kernels returns the kernels for strided copies and conversions, as images for [Context.LoadModule], the best first. An image
	// that the device does not run is followed by another one.
	Kernels func(Description) []string
	Limits  gpucopy.Limits

	// Files reads files straight into memory of devices; nil if the API has no library for that.
	Files Files
}

// Backend is the backend of an API.
type Backend struct {
	Facts
	driver Driver

	hostWork devicebase.Fence // one for all devices, since their streams wait for each other
	imports  ipcImports
	waits    semaphoreWaits
	kernels  sync.Map // of *kernels, by ordinal
	opened   sync.Map // has every *device that is open, as a key
}

var _ core.Backend = (*Backend)(nil)

// New makes a backend. It must be called once for an API, when the program starts.
func New(d Driver, f Facts) *Backend {
	return &Backend{Facts: f, driver: d, imports: ipcImports{open: make(map[ipcKey]*ipcMapping)}}
}

// Name returns the name of the devices' type.
func (b *Backend) Name() string { return b.Device.BackendName() }

// Probe reports whether there is a device. If there is none, it says why.
func (b *Backend) Probe(ctx context.Context) core.Probe {
	all, err := b.Devices(ctx)
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return core.Probe{Available: true, Version: b.driver.Version(), Features: all[0].Features}
}

// Devices describes the devices that the driver can describe. It fails if it can describe none.
func (b *Backend) Devices(ctx context.Context) ([]core.Properties, error) {
	defer dl.KeepHandlers()()
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

// Open opens the device id.
func (b *Backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	defer dl.KeepHandlers()() // HIP begins to use a device by the first call for it
	n, err := b.count(ctx)
	if err != nil {
		return nil, err
	}
	if id.Type != b.Device || id.Index < 0 || int(id.Index) >= n {
		return nil, b.errorf(core.ErrDevice, "Open", "there is no device %v: this machine has %v:0 to %v:%d", id, b.Device, b.Device, n-1)
	}
	return b.openDevice(id.Index)
}

// count returns the number of devices. It fails if there is none.
func (b *Backend) count(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s, err := b.driver.Load()
	if err != nil {
		return 0, err
	}
	if s.Kind == NoDevice {
		return 0, b.statusf(core.ErrNotSupported, s, "the driver finds no card: check %s", b.Visible)
	}
	if err := b.check(s, "the driver cannot be used"); err != nil {
		return 0, err
	}
	n, s := b.driver.Devices()
	if err := b.check(s, "the number of devices"); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, b.errorf(core.ErrNotSupported, "Devices", "the driver has no device: check %s", b.Visible)
	}
	return n, nil
}
