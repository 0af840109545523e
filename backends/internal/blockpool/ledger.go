// Package blockpool keeps freed blocks of memory for reuse, and counts the memory in use and the memory that
// it keeps.
package blockpool

import (
	"math/bits"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Ledger counts the bytes in use and the cached bytes of a pool, and keeps their sum within a limit. Callers
// hold the mutex of [NewLedger] for all methods except those of [core.PoolController], which lock it
// themselves. A device that embeds a Ledger or a [Pool] implements core.PoolController.
type Ledger struct {
	// Stats.Allocs counts all calls of Alloc whose options the device supports. The code that caches memory,
	// or takes it from the cache, updates Stats.Cached.
	Stats core.PoolStats

	backend string
	mu      sync.Locker
	shrink  func(want int64)
}

var _ core.PoolController = (*Ledger)(nil)

// NewLedger makes a ledger without a limit. backend is named in errors, and mu guards the pool. shrink
// returns at least want cached bytes to the system, or as many as it can, and subtracts them from
// Stats.Cached. After that it may unlock mu for a time; MakeRoom, KeepLimit and Trim then do so too.
func NewLedger(backend string, mu sync.Locker, shrink func(want int64)) *Ledger {
	return &Ledger{backend: backend, mu: mu, shrink: shrink}
}

// Count counts a call of Alloc that returned err.
func (l *Ledger) Count(err error) {
	l.Stats.Allocs++
	if err != nil {
		l.Stats.Failures++
	}
}

// Charge adds bytes to the memory in use, of which requested were asked for. Freed memory is charged with
// negative numbers.
func (l *Ledger) Charge(bytes, requested int64) {
	l.Stats.InUse += bytes
	l.Stats.Requested += requested
	l.Stats.Peak = max(l.Stats.Peak, l.Stats.InUse)
}

// CheckLimit fails with ErrOutOfMemory if so many more bytes in use exceed the limit, even with an empty
// cache.
func (l *Ledger) CheckLimit(bytes int64) error { return l.check(bytes, l.Stats.InUse) }

// MakeRoom frees cached memory until so many more bytes stay within the limit. If that is impossible, it
// fails with ErrOutOfMemory and frees nothing.
func (l *Ledger) MakeRoom(bytes int64) error {
	if err := l.CheckLimit(bytes); err != nil {
		return err
	}
	l.Stats.InUse += bytes // so that blocks that others put back while shrink unlocks the mutex are not cached
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

// KeepLimit frees the cached memory beyond the limit.
func (l *Ledger) KeepLimit() {
	if l.Stats.Limit > 0 {
		l.shrinkTo(l.Stats.Limit)
	}
}

// Trim frees all cached memory.
func (l *Ledger) Trim() { l.shrinkTo(l.Stats.InUse) }

// shrinkTo frees cached memory until the bytes in use and in the cache are at most bytes.
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

// SetPoolLimit sets the limit and frees the cached memory beyond it. A negative limit means no limit, as 0
// does.
func (l *Ledger) SetPoolLimit(limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Stats.Limit = max(limit, 0)
	l.KeepLimit()
}

// TrimPool is [Ledger.Trim] for callers that do not hold the mutex.
func (l *Ledger) TrimPool() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Trim()
}

// RoundDown returns the largest size of at most size that [RoundUp] returns for a unit that divides size.
func RoundDown(size int64) int64 {
	unit := int64(1) << max(bits.Len64(uint64(size))-4, 0)
	return size / unit * unit
}

// RoundUp rounds size up to a multiple of unit, or of an eighth to a sixteenth of size if that is larger. A
// freed block then serves sizes that differ little. unit is a power of two, and size is from 1 to 1<<62.
func RoundUp(size, unit int64) int64 {
	unit = max(unit, 1<<max(bits.Len64(uint64(size-1))-4, 0))
	return (size + unit - 1) / unit * unit
}
