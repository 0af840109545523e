package core

import (
	"context"
	"sync/atomic"
)

// Alloc allocates memory by [Device.Alloc], and counts it for [ReadMetrics] until its owner frees it. The caller
// owns the memory, as that of Device.Alloc. Alloc returns ErrInvalid if d is nil, and the errors of Device.Alloc.
func Alloc(ctx context.Context, d Device, size int64, opts AllocOptions) (Memory, error) {
	if d == nil {
		return Memory{}, Errorf(ErrInvalid, "core", "Alloc", "the device is nil")
	}
	m, err := d.Alloc(ctx, size, opts)
	if err != nil {
		id := d.ID()
		if opts.Type != 0 && opts.Type != id.Type {
			id = DeviceID{Type: opts.Type}
		}
		countersOf(id).failed.Add(1)
		return Memory{}, err
	}
	c := countersOf(m.ID)
	c.allocs.Add(1)
	c.allocated.Add(size)
	o := countedOwner{owner: m.Owner, counters: c, size: size}
	if _, ok := m.Owner.(orderedOwner); ok {
		m.Owner = &orderedCounted{o}
	} else {
		m.Owner = &o
	}
	return m, nil
}

// countedOwner is the owner of memory that is counted until it is freed.
type countedOwner struct {
	owner    Owner // nil if nothing must be freed
	counters *deviceCounters
	size     int64
	freed    int32 // 1 when it was counted as freed
}

// note counts that the memory is freed: once, also if a program frees it twice.
func (o *countedOwner) note() {
	if atomic.SwapInt32(&o.freed, 1) == 0 {
		o.counters.frees.Add(1)
		o.counters.freed.Add(o.size)
	}
}

// Free counts and frees.
func (o *countedOwner) Free() {
	o.note()
	if o.owner != nil {
		o.owner.Free()
	}
}

// orderedCounted is a countedOwner of an orderedOwner.
type orderedCounted struct{ countedOwner }

var _ orderedOwner = (*orderedCounted)(nil)

// FreeAfter counts, and leaves the waiting to the owner.
func (o *orderedCounted) FreeAfter(pending []Event) {
	o.note()
	o.owner.(orderedOwner).FreeAfter(pending)
}
