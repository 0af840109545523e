package share

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// The words of a ring, which docs/share.md describes. Each word has one writer. The others only
// compare what they read, or check it before they use it.

// The words of the publisher, at the start of the ring's file.
const (
	publishedAt = 0  // 64 bits: number of the last frame << 16 | its slot
	signalAt    = 8  // 32 bits: subscribers sleep on it; it changes with a frame if one of them sleeps
	waitingAt   = 12 // 32 bits: not 0 while the publisher sleeps
	turnAt      = 16 // 32 bits: changes when the publisher's own process wakes the publisher
	logAt       = 64 // 64 bits for each slot: frame n has the entry n modulo slots, as above
)

// sequenceAt returns where the sequences are: 64 bits for each slot, twice the number of the
// frame, odd while the slot is written, and with looking while the publisher looks for claims.
func sequenceAt(slots int) int64 { return logAt + 8*int64(slots) }

// wordsSize returns the bytes of the publisher's words.
func wordsSize(slots int) int64 { return sequenceAt(slots) + 8*int64(slots) }

// The words of a subscriber, in a file of its own.
const (
	freedAt    = 0   // 32 bits: the publisher sleeps on it; it changes with a release if the publisher sleeps
	stirAt     = 4   // 32 bits: changes when the subscriber's own process wakes the subscriber
	sleepingAt = 64  // 32 bits: not 0 while the subscriber sleeps
	claimsAt   = 128 // 64 bits for each slot: the frame that was released last; in Latest, the frame that is held, or 0
)

// pageSize returns the bytes of a subscriber's words.
func pageSize(slots int) int64 { return claimsAt + 8*int64(slots) }

// looking is the bit of a sequence that keeps a slot of the mode Latest from being claimed. It differs
// from that of a slot that is written: a frame that is held is whole while the publisher looks.
const looking = 1 << 63

const slotBits = 16

// unfinished is the bit of a slot's number, in the words of the publisher, that says that the work which writes
// the frame was unfinished when it was sent. A message says more; see workMessage.
const unfinished = 1 << (slotBits - 1)

// pack makes the word of a frame.
func pack(n uint64, slot int) uint64 { return n<<slotBits | uint64(slot) }

// unpack returns the number of a frame and its slot, perhaps with the bit unfinished. The caller checks them.
func unpack(w uint64) (n uint64, slot int) { return w >> slotBits, int(w & (1<<slotBits - 1)) }

func (m *mapping) u32(at int64) *uint32 { return (*uint32)(unsafe.Add(m.base, at)) }

func (m *mapping) u64(at int64) *uint64 { return (*uint64)(unsafe.Add(m.base, at)) }

// address returns the address of a byte.
func (m *mapping) address(at int64) uintptr { return uintptr(m.base) + uintptr(at) }

// word is a word to sleep on, and the value that it had before the caller looked for what it
// waits for.
type word struct {
	at    *uint32
	value uint32
}

// maxReaders bounds the subscriptions of a ring, and maxWords the words that a call sleeps on.
const (
	maxReaders = 64
	maxWords   = maxReaders + 1
)

// sleepTime is after what time a call looks again if nobody wakes it.
const sleepTime = 100 * time.Millisecond

// deadlined is a context that ends at its deadline, and not before, such as those of libdlx. A call that sleeps no longer than that
// needs no timer, and no thread that waits for one.
type deadlined interface {
	context.Context
	EndsAtDeadline()
}

// sleepLimit returns how long a call may sleep, and whether it notices the end of ctx then without being woken.
func sleepLimit(ctx context.Context) (limit time.Duration, noticed bool) {
	limit = sleepTime
	if _, noticed = ctx.(deadlined); noticed {
		if end, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(end))
		}
	}
	return limit, noticed
}

// spinTime is how long a call waits without sleeping. Benchmarks set it to 0. It is longer than a process that sleeps takes to
// wake and to answer. Otherwise, two processes that have both slept once sleep for each frame.
var spinTime = 100 * time.Microsecond

// spins remembers whether waits have looked in vain for what they waited for before they slept. That is so if both
// processes run on one processor, or frames come seldom. Most waits then sleep at once. The zero value looks.
type spins struct {
	vain  atomic.Uint32 // waits in a row that have looked in vain
	waits atomic.Uint32 // waits since, of which one in looksAgain looks
}

const (
	vainAtMost = 3
	looksAgain = 16
)

// spinner bounds how long a call looks for what it waits for before it sleeps. A waiter that sleeps and
// is woken takes longer than a frame that comes soon; one that never sleeps takes a processor
// from the process that it waits for.
type spinner struct {
	*spins
	rounds int // that have begun
	start  time.Time
	last   time.Time     // when the last round began
	usual  time.Duration // of a round
}

const (
	looksAtOnce = 200                   // looks before a call reads the clock, which takes as long as some tens of them
	yieldsAfter = 3 * time.Microsecond  // after that, a call lets others use its processor between two rounds
	crowded     = 30 * time.Microsecond // of one round beyond the first one: others need the processor, so that the call sleeps
)

// newSpinner begins a time of looking, which the caller ends.
func (p *spins) newSpinner() spinner {
	w := spinner{spins: p}
	if spinTime == 0 || runtime.GOMAXPROCS(0) == 1 || p.vain.Load() >= vainAtMost && p.waits.Add(1)%looksAgain != 0 {
		w.rounds = -1
	}
	return w
}

// end ends a time of looking, in which the caller has found what it waits for, or has not.
func (w *spinner) end(found bool) {
	switch {
	case w.rounds < 0:
	case !found:
		w.vain.Add(1)
	case w.vain.Load() != 0:
		w.vain.Store(0)
	}
}

// goesOn reports whether to look once more. If the process that the caller waits for has only the same processor, it runs
// meanwhile.
func (w *spinner) goesOn() bool {
	if w.rounds < 0 {
		return false
	}
	if w.rounds++; w.rounds == 1 {
		return true
	}
	now := time.Now()
	switch w.rounds {
	case 2:
		w.start, w.last = now, now
	case 3:
		w.usual = now.Sub(w.last)
	}
	if now.Sub(w.start) > spinTime || now.Sub(w.last) > crowded+w.usual {
		return false
	}
	if w.last = now; now.Sub(w.start) > yieldsAfter {
		yield()
	}
	return true
}

// spin calls ready for a short time, until it returns true.
func (p *spins) spin(ready func() bool) bool {
	if ready() {
		return true
	}
	w := p.newSpinner()
	for w.goesOn() {
		for range looksAtOnce / 8 { // ready takes longer than a look
			if ready() {
				w.end(true)
				return true
			}
		}
	}
	w.end(false)
	return false
}

// stir changes a word of this process and wakes what sleeps on it.
//
// Whoever has changed a word that others wait for looks, after that, whether one of them says that
// it sleeps, and stirs the word that it sleeps on. Whoever goes to sleep says so first, then reads the word
// that it sleeps on, and then looks for what it waits for. So it finds the change, or is seen, and the
// kernel does not let it sleep on a word that has another value than it has read.
func stir(at *uint32) {
	atomic.AddUint32(at, 1)
	wake(at)
}
