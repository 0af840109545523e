package cpu

import (
	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// allocation owns a block of the pool.
type allocation struct {
	device    *device
	block     block // without a span for size 0
	requested int64
	freed     bool // guarded by device.Mu: freeing twice must not take the next user's memory
}

var _ backendkit.OrderedOwner = (*allocation)(nil)

func (d *device) allocBlock(size int64) (uintptr, core.Owner, error) {
	a := &allocation{device: d, requested: size}
	if size > 0 {
		var err error
		if a.block, err = d.take(size); err != nil {
			return 0, nil, err
		}
	}
	return a.block.addr, a, nil
}

// Free puts the block into the cache. Another call does nothing.
func (a *allocation) Free() {
	d := a.device
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if a.freed {
		return
	}
	a.freed = true
	if a.block.span != nil {
		d.put(a.block, a.requested)
	}
	d.DropMemory()
}

// FreeAfter puts the block into the cache when pending is done. [device.Close] waits for it.
func (a *allocation) FreeAfter(pending []core.Event) { a.device.Reaper.After(pending, a.Free) }
