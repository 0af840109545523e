// Package blockpool keeps memory that was freed for the next who wants as much, and
// counts what is in use and what is kept.
package blockpool

import (
	"math/bits"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Ledger counts what a pool has handed out and what it keeps, in bytes, and holds
// both within a limit. Its methods want the mutex held that it was made with, but
// for those of [core.PoolController], which take it: a device that embeds a Ledger,
// or a [Pool], is one.
type Ledger struct {
	// Stats counts in Allocs all calls of Alloc whose options the device has. Whoever
	// keeps or takes back memory adds to and takes from Cached.
	Stats core.PoolStats

	backend string
	mu      sync.Locker
	shrink  func(want int64)
}

var _ core.PoolController = (*Ledger)(nil)

// NewLedger makes a ledger without a limit. Its errors name the backend; mu is the
// mutex that guards the pool. shrink gives at least want bytes of what is kept back
// to the system, if it can give so many, and takes them from Stats.Cached. It may let go of mu
// once that is done; then so may MakeRoom, KeepLimit and Trim.
func NewLedger(backend string, mu sync.Locker, shrink func(want int64)) *Ledger {
	return &Ledger{backend: backend, mu: mu, shrink: shrink}
}

// Count counts a call of Alloc that ended with err.
func (l *Ledger) Count(err error) {
	l.Stats.Allocs++
	if err != nil {
		l.Stats.Failures++
	}
}

// Charge records that bytes more are in use, of which requested were asked for; what
// is given back is charged with a minus.
func (l *Ledger) Charge(bytes, requested int64) {
	l.Stats.InUse += bytes
	l.Stats.Requested += requested
	l.Stats.Peak = max(l.Stats.Peak, l.Stats.InUse)
}

// CheckLimit fails with ErrOutOfMemory if so many bytes more could not be in use within
// the limit, whatever is given back of what is kept.
func (l *Ledger) CheckLimit(bytes int64) error { return l.check(bytes, l.Stats.InUse) }

// MakeRoom sees to it that so many bytes more stay within the limit. Where they
// cannot, it fails with ErrOutOfMemory, and keeps what it would free in vain.
func (l *Ledger) MakeRoom(bytes int64) error {
	if err := l.CheckLimit(bytes); err != nil {
		return err
	}
	l.Stats.InUse += bytes // what others put back while shrink lets go of the mutex is not kept then
	l.KeepLimit()
	l.Stats.InUse -= bytes
	return l.check(bytes, l.Stats.InUse+l.Stats.Cached)
}

func (l *Ledger) check(bytes, taken int64) error {
	s := &l.Stats
	if s.Limit <= 0 || bytes <= s.Limit-taken {
		return nil
	}
	return core.Errorf(core.ErrOutOfMemory, l.backend, "Alloc",
		"%d bytes are needed, but %d are in use and %d cached of the pool's limit of %d: close tensors or raise the limit",
		bytes, s.InUse, s.Cached, s.Limit)
}

// KeepLimit gives back what is kept beyond the limit.
func (l *Ledger) KeepLimit() {
	if l.Stats.Limit > 0 {
		l.shrinkTo(l.Stats.Limit)
	}
}

// Trim gives back all that is kept.
func (l *Ledger) Trim() { l.shrinkTo(l.Stats.InUse) }

// shrinkTo gives back what is kept beyond so many bytes, those in use included.
func (l *Ledger) shrinkTo(bytes int64) {
	if want := l.Stats.InUse + l.Stats.Cached - bytes; want > 0 {
		l.shrink(want)
	}
}

// PoolStats implements [core.PoolController].
func (l *Ledger) PoolStats() core.PoolStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Stats
}

// SetPoolLimit gives what is kept beyond the limit back at once. A negative limit is none.
func (l *Ledger) SetPoolLimit(limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Stats.Limit = max(limit, 0)
	l.KeepLimit()
}

// TrimPool is [Ledger.Trim], and takes the mutex.
func (l *Ledger) TrimPool() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Trim()
}

// RoundUp rounds a size up to a multiple of unit or, where that is more, of an eighth
// to a sixteenth of the size: so that what was freed serves sizes that differ little.
// unit is a power of two, and size from 1 to 1<<62.
func RoundUp(size, unit int64) int64 {
	unit = max(unit, 1<<max(bits.Len64(uint64(size-1))-4, 0))
	return (size + unit - 1) / unit * unit
}
