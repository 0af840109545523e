package reaper

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Gate gives Close of a device its turn among goroutines that open things on the device
// and close them again and again: without it one of them has something open whenever
// Close looks. The zero value is ready for use, by any number of goroutines.
type Gate struct {
	closing atomic.Int32 // calls of Await

	mu   sync.Mutex
	open chan struct{} // closed when no Await is left
}

const (
	// patience is how long Close waits for others to close what they have open, and how
	// long at most these are kept from opening more.
	patience = 50 * time.Millisecond
	// look is how often Close looks meanwhile.
	look = 200 * time.Microsecond
)

// Enter is what calls begin with that open something on the device. It returns at once,
// unless the device is about to be closed: then it waits a moment, after which the
// device was closed or stays open. It returns ctx's error if that has ended.
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

// Await is what Close of a device begins with, holding the device's mutex, of which it
// lets go while it waits. inUse tells how many streams and the like, and how
// many memories are not freed. Await waits for work on memory that was released
// already, since nobody else could, while nothing else is open; and a moment for the
// rest to be closed, while it keeps others from opening more. Where something is left
// when it returns, Close is to fail. It also returns when ctx ends.
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
		time.Sleep(look)
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
