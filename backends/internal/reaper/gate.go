package reaper

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Gate lets Close of a device succeed while goroutines continually open and close things on the device.
// Without it, one of them would have something open whenever Close checks. The zero value is ready for use. A
// Gate is safe for concurrent use.
type Gate struct {
	closing atomic.Int32 // calls of Await

	mu   sync.Mutex
	open chan struct{} // closed when no Await is left
}

const (
	// patience is how long Close waits for others to close what they have open. For at most
	// that time it keeps them from opening more.
	patience = 50 * time.Millisecond
	// checkInterval is the time between two checks of Close.
	checkInterval = 200 * time.Microsecond
)

// Enter must be called first by every call that opens something on the device. It returns at once, unless the
// device is being closed: then it waits, for at most 50 ms, until the device is closed or stays open. It
// returns ctx's error if ctx ends.
func (g *Gate) Enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil || g.closing.Load() == 0 {
		return err
	}
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open == nil {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-open:
	case <-timer.C: // whoever has something open may need this call to close it
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Await must be called first by Close of a device, with the device's mutex held, which it unlocks while it
// waits. inUse returns the number of open streams and similar objects, and the number of memories that are
// not freed.
//
// Await waits as long as the only things open are memories that were released and wait for their work: the
// caller cannot close those. For other open things it waits up to 50 ms, in which it keeps others from
// opening more. If something is open when it returns, Close must fail. Await also returns when ctx ends.
func (g *Gate) Await(ctx context.Context, held sync.Locker, r *Reaper, inUse func() (others, memories int)) {
	idle := func() bool {
		others, memories := inUse()
		return others == 0 && memories == 0
	}
	g.shut()
	defer g.reopen()
	for end := time.Now().Add(patience); ; {
		r.WaitWhile(ctx, held, func(left int) bool {
			others, memories := inUse()
			return others == 0 && memories <= left
		})
		if idle() || ctx.Err() != nil || time.Now().After(end) {
			return
		}
		held.Unlock()
		time.Sleep(checkInterval)
		held.Lock()
	}
}

func (g *Gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing.Add(1) == 1 {
		g.open = make(chan struct{})
	}
}

func (g *Gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing.Add(-1) == 0 {
		close(g.open)
		g.open = nil
	}
}
