package cpu

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/core"
)

var liveDevices = core.NewLiveCounter("cpu.Device")

// device is the opened host.
type device struct {
	properties core.Properties
	outer      core.Device // what callers know: this, or the sharingDevice around it
	core.CloseHooks

	mu       sync.Mutex
	idle     sync.Cond // deferred has become less
	closed   bool
	streams  int // open
	memories int // allocations and imports that were not freed
	deferred int // of those, released while work on them is unfinished
	pool     pool
	exports  map[uintptr]*shared // by address
}

var (
	_ core.Device         = (*device)(nil)
	_ core.PoolController = (*device)(nil)
	_ core.CloseNotifier  = (*device)(nil)
)

func openDevice() core.Device {
	d := &device{properties: properties(), exports: make(map[uintptr]*shared)}
	d.idle.L = &d.mu
	d.outer = d
	if d.properties.Capabilities.Has(core.CapExportMemory) {
		d.outer = sharingDevice{d}
	}
	liveDevices.Add(1)
	return d.outer
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
	if err := ctx.Err(); err != nil {
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
	d.pool.stats.Allocs++
	addr, owner, err := uintptr(0), core.Owner(nil), d.checkAlloc(size)
	if err == nil {
		addr, owner, err = get(size)
	}
	if err != nil {
		d.pool.stats.Failures++
		return core.Memory{}, err
	}
	d.addMemory()
	return core.Memory{ID: core.CPU, Device: d.outer, Handle: addr, Size: size, Owner: owner}, nil
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

// PoolStats counts in Allocs all calls of Alloc whose options this device has,
// and in InUse exportable memory too.
func (d *device) PoolStats() core.PoolStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pool.stats
}

// SetPoolLimit gives cached memory beyond the limit back at once. A negative limit is none.
func (d *device) SetPoolLimit(limit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.setLimit(limit)
}

// TrimPool keeps what shares a span with memory in use.
func (d *device) TrimPool() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.release(math.MaxInt64)
}

// Close waits for work on memory that was released already, since nobody else
// could: that memory is not open any more.
func (d *device) Close() error {
	d.RunCloseHooks()
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.streams == 0 && d.deferred > 0 && d.memories <= d.deferred {
		d.idle.Wait()
	}
	if d.closed {
		return nil
	}
	if d.streams > 0 || d.memories > 0 {
		return core.Errorf(core.ErrInvalid, "cpu", "Close", "%d streams and %d allocations or imports are open: close them first", d.streams, d.memories)
	}
	d.closed = true
	d.pool.release(math.MaxInt64)
	liveDevices.Add(-1)
	return nil
}
