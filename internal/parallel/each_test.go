package parallel

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// Each number comes once, in at most so many goroutines at a time, and all calls have returned at the end.
func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 2, 7, 1000} {
		for _, workers := range []int{-1, 0, 1, 2, 5, 2000} {
			calls := make([]int, n) // written without a lock: the race detector sees whether Each waits
			var active, most atomic.Int64
			if err := Each(n, workers, func(i int) error {
				if a := active.Add(1); a > most.Load() {
					most.Store(a)
				}
				calls[i]++
				if n < 10 {
					runtime.Gosched()
				}
				active.Add(-1)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for i, c := range calls {
				if c != 1 {
					t.Fatalf("%d of %d, %d workers: %d calls", i, n, workers, c)
				}
			}
			if m := most.Load(); m > int64(max(1, workers)) {
				t.Errorf("%d calls at a time, %d workers", m, workers)
			}
		}
	}
}

// Several goroutines do take part.
func TestEachIsParallel(t *testing.T) {
	const workers = 4
	arrived, all := make(chan struct{}, workers), make(chan struct{})
	go func() {
		for range workers {
			<-arrived
		}
		close(all)
	}()
	if err := Each(workers, workers, func(int) error {
		arrived <- struct{}{}
		select {
		case <-all:
			return nil
		case <-time.After(20 * time.Second):
			return errors.New("the other calls have not begun")
		}
	}); err != nil {
		t.Error(err)
	}
}

// An error is returned, and ends nothing.
func TestEachFails(t *testing.T) {
	failed := errors.New("failed")
	for _, workers := range []int{1, 3} {
		var calls atomic.Int64
		if err := Each(50, workers, func(i int) error {
			calls.Add(1)
			if i%10 == 3 {
				return failed
			}
			return nil
		}); !errors.Is(err, failed) || calls.Load() != 50 {
			t.Errorf("%d workers: error %v after %d calls", workers, err, calls.Load())
		}
	}
}

// Nobody waits for a goroutine that gets no processor before all calls are made.
func TestEachWaitsForNoGoroutineWithoutWork(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	calls := 0
	if err := Each(100, 8, func(int) error { calls++; return nil }); err != nil || calls != 100 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	late := &job{n: 5, f: func(int) error { t.Error("a call too many"); return nil }}
	late.taken.Store(2 | 3<<32)
	late.run(late.first)
	late.run(late.last)
}
