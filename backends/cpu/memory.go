package cpu

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

var liveMemory = core.NewLiveCounter("cpu.Memory")

// addMemory counts memory that a caller gets. d.mu is held.
func (d *device) addMemory() {
	d.memories++
	liveMemory.Add(1)
}

// dropMemory counts memory that was freed. d.mu is held.
func (d *device) dropMemory() {
	d.memories--
	liveMemory.Add(-1)
}

// freeAfter calls free when all of pending is done. [device.Close] waits for it.
func (d *device) freeAfter(pending []core.Event, free func()) {
	d.mu.Lock()
	d.deferred++
	d.mu.Unlock()
	go func() {
		for _, e := range pending {
			// An error of the work is its stream's to report; it is over either way.
			_ = e.Wait(context.Background())
		}
		free()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.deferred--
		d.idle.Broadcast()
	}()
}

// allocation owns a block of the pool.
type allocation struct {
	device    *device
	block     block // without a span for size 0
	requested int64
	freed     bool // guarded by device.mu: freeing twice must not take the next user's memory
}

var _ core.OrderedOwner = (*allocation)(nil)

func (d *device) allocBlock(size int64) (uintptr, core.Owner, error) {
	a := &allocation{device: d, requested: size}
	if size > 0 {
		var err error
		if a.block, err = d.pool.take(size); err != nil {
			return 0, nil, err
		}
	}
	return a.block.addr, a, nil
}

// Free puts the block into the cache. Another call does nothing.
func (a *allocation) Free() {
	d := a.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.freed {
		return
	}
	a.freed = true
	if a.block.span != nil {
		d.pool.put(a.block, a.requested)
	}
	d.dropMemory()
}

// FreeAfter puts the block into the cache when pending is done.
func (a *allocation) FreeAfter(pending []core.Event) { a.device.freeAfter(pending, a.Free) }
