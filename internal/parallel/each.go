// Package parallel divides work of the host among goroutines where this machine does it faster that way.
package parallel

import (
	"cmp"
	"sync"
	"sync/atomic"
)

// Each calls f with each number from 0 to n-1, which is below 2^31, in the caller's goroutine and at most workers-1
// others. It makes all calls even if some fail, and returns one of the errors. When Each returns, all calls have
// returned.
func Each(n, workers int, f func(i int) error) (err error) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			err = cmp.Or(err, f(i))
		}
		return err
	}
	j := &job{n: uint64(n), f: f}
	j.calls.Add(n)
	for range workers - 1 {
		go j.run(j.last)
	}
	// Go's scheduler delays stealing the newest goroutine of a running processor, by some 50 µs on Linux. So that is one
	// without work.
	go func() {}()
	j.run(j.first)
	// A goroutine that did not get a processor in time finds nothing to do, so that nobody waits for it.
	j.calls.Wait()
	return j.err
}

// job is the work of one call of Each.
type job struct {
	n     uint64
	f     func(i int) error
	taken atomic.Uint64 // low 32 bits: numbers taken from the bottom; high 32 bits: from the top
	calls sync.WaitGroup

	mu  sync.Mutex
	err error
}

// run makes calls until all are taken.
func (j *job) run(take func() (i int, ok bool)) {
	for i, ok := take(); ok; i, ok = take() {
		if err := j.f(i); err != nil {
			j.mu.Lock()
			j.err = cmp.Or(j.err, err)
			j.mu.Unlock()
		}
		j.calls.Done()
	}
}

// first takes a number from the bottom. The caller does: if the same work is done again, the caller mostly gets the numbers
// that it had before, and finds their bytes in the cache of its processor.
func (j *job) first() (i int, ok bool) {
	low, _, ok := j.take(1)
	return int(low), ok
}

// last takes a number from the top.
func (j *job) last() (i int, ok bool) {
	_, high, ok := j.take(1 << 32)
	return int(j.n - 1 - high), ok
}

// take adds one to one of the counts, unless all numbers are taken, and returns both counts from before.
func (j *job) take(one uint64) (low, high uint64, ok bool) {
	for {
		taken := j.taken.Load()
		low, high = taken&(1<<32-1), taken>>32
		if low+high >= j.n {
			return low, high, false
		}
		if j.taken.CompareAndSwap(taken, taken+one) {
			return low, high, true
		}
	}
}
