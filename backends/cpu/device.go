package cpu

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// device is the opened host.
type device struct {
	devicebase.Device

	// guarded by Mu
	exports map[uintptr]*shared // by address
	pool
}

var (
	_ core.Device              = (*device)(nil)
	_ core.PoolController      = (*device)(nil)
	_ backendkit.CloseNotifier = (*device)(nil)
	_ core.BatchCopier         = (*device)(nil)
)

func openDevice() *device {
	d := &device{exports: make(map[uintptr]*shared)}
	d.Ledger = blockpool.NewLedger("cpu", &d.Mu, d.shrink)
	d.Init(d, properties())
	return d
}

// Alloc allocates from the pool, or makes a separate memfd if the memory is for export. The stream in opts
// has no influence: memory is reused only after its earlier work is done.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Gate.Enter(ctx); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, []core.HandleType{core.HandleMemFD}); err != nil {
		return core.Memory{}, err
	}
	if opts.Export != 0 {
		return d.alloc(size, d.allocShared)
	}
	return d.alloc(size, d.allocBlock)
}

// alloc does what all kinds of memory have in common. It calls get with d.Mu held.
func (d *device) alloc(size int64, get func(size int64) (uintptr, core.Owner, error)) (core.Memory, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	addr, owner, err := uintptr(0), core.Owner(nil), d.CheckSize(size)
	if err == nil {
		addr, owner, err = get(size)
	}
	d.Count(err)
	if err != nil {
		return core.Memory{}, err
	}
	d.CountMemory()
	return core.Memory{ID: core.CPU, Device: d, Handle: addr, Size: size, Owner: owner}, nil
}

// Close frees the pool: see [devicebase.Device.Shut].
func (d *device) Close() error {
	return d.Shut(context.Background(), func() error {
		d.Trim()
		return nil
	})
}
