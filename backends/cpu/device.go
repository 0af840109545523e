package cpu

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

var liveDevices = core.NewLiveCounter("cpu.Device")

// device is the opened host.
type device struct {
	properties core.Properties
	core.CloseHooks
	reaper reaper.Reaper
	gate   reaper.Gate

	mu       sync.Mutex
	closed   bool
	streams  int                 // open
	memories int                 // allocations and imports that were not freed
	exports  map[uintptr]*shared // by address
	pool
}

var (
	_ core.Device         = (*device)(nil)
	_ core.PoolController = (*device)(nil)
	_ core.CloseNotifier  = (*device)(nil)
)

func openDevice() *device {
	d := &device{properties: properties(), exports: make(map[uintptr]*shared)}
	d.Ledger = blockpool.NewLedger("cpu", &d.mu, d.shrink)
	liveDevices.Add(1)
	return d
}

func (d *device) ID() core.DeviceID { return core.CPU }

func (d *device) Properties() core.Properties {
	p := d.properties
	p.Features = slices.Clone(p.Features)
	return p
}

// Alloc takes memory from the pool, or a memfd of its own if it is to be
// exported. The stream in opts has no influence: memory is handed out only after
// its former use is done.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.gate.Enter(ctx); err != nil {
		return core.Memory{}, err
	}
	if opts.Type != 0 && opts.Type != core.DeviceCPU {
		return core.Memory{}, core.Errorf(core.ErrNotSupported, "cpu", "Alloc", "AllocOptions.Type is %v; this device has memory of type %v only", opts.Type, core.DeviceCPU)
	}
	switch opts.Export {
	case 0:
		return d.alloc(size, d.allocBlock)
	case core.HandleMemFD:
		return d.alloc(size, d.allocShared)
	default:
		return core.Memory{}, core.Errorf(core.ErrNotSupported, "cpu", "Alloc", "AllocOptions.Export is %v; the host can export %v only", opts.Export, core.HandleMemFD)
	}
}

// alloc does what all kinds of memory have in common. get is called under d.mu.
func (d *device) alloc(size int64, get func(size int64) (uintptr, core.Owner, error)) (core.Memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, owner, err := uintptr(0), core.Owner(nil), d.checkAlloc(size)
	if err == nil {
		addr, owner, err = get(size)
	}
	d.Count(err)
	if err != nil {
		return core.Memory{}, err
	}
	d.addMemory()
	return core.Memory{ID: core.CPU, Device: d, Handle: addr, Size: size, Owner: owner}, nil
}

func (d *device) checkAlloc(size int64) error {
	switch {
	case d.closed:
		return closedDevice("Alloc")
	case size < 0:
		return core.Errorf(core.ErrInvalid, "cpu", "Alloc", "size is %d bytes", size)
	}
	return nil
}

func closedDevice(call string) error {
	return core.Errorf(core.ErrClosed, "cpu", call, "the device was closed")
}

// Close waits for work on memory that was released already, since nobody else
// could: that memory is not open any more. See [reaper.Gate].
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate.Await(context.Background(), &d.mu, &d.reaper, func() (int, int) { return d.streams, d.memories })
	if d.closed {
		return nil
	}
	if d.streams > 0 || d.memories > 0 {
		return core.Errorf(core.ErrInvalid, "cpu", "Close", "%d streams and %d allocations or imports are open: close them first", d.streams, d.memories)
	}
	d.closed = true
	d.Trim()
	liveDevices.Add(-1)
	return nil
}
