package parallel

import (
	"testing"
	"time"
)

// Work is divided if that is faster, and only then, whatever is usual.
func TestThreads(t *testing.T) {
	if fixedShare() > 0 {
		t.Skip("DLX_COPY_SHARE is set")
	}
	for _, workers := range []int{2, 3, 4} {
		for fastest := 1; fastest <= workers; fastest++ {
			if fastest == 3 && workers == 4 {
				continue // only 1, 2 and 4 are tried
			}
			for _, share := range []int64{300 << 10, 1 << 40} {
				x := Threads{Share: share} // 1 MiB has a contest, in several goroutines or in one by default
				used := 0
				for range mostWays*trials + 1 {
					if err := x.Run(1<<20, workers, func(n int) error {
						if used = n; n != fastest {
							time.Sleep(time.Millisecond)
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
				}
				if used != fastest {
					t.Errorf("share %d: %d goroutines are used, and %d of %d are the fastest", share, used, fastest, workers)
				}
			}
		}
	}
}

// Small work and one processor have no contest, and each size its own.
func TestThreadsWithoutAContest(t *testing.T) {
	x := Threads{Share: 1 << 20}
	run := func(size int64, workers int) (n int) {
		_ = x.Run(size, workers, func(used int) error { n = used; return nil })
		return n
	}
	for _, c := range []struct {
		size    int64
		workers int
		want    int
	}{{0, 2, 1}, {Least - 1, 2, 1}, {1 << 30, 1, 1}, {1 << 30, 0, 1}, {sure << 20, 2, 2}, {sure << 20, 3, 3}, {1 << 30, 5, 5}} {
		if n := run(c.size, c.workers); n != c.want && fixedShare() == 0 {
			t.Errorf("%d bytes, %d workers: %d goroutines", c.size, c.workers, n)
		}
	}
	begun := func() (n int) {
		for ways := range x.contests {
			for class := range x.contests[ways] {
				if x.contests[ways][class].begun.Load() != 0 {
					n++
				}
			}
		}
		return n
	}
	if n := begun(); n != 0 {
		t.Errorf("%d contests have begun", n)
	}
	for i, c := range []struct {
		size    int64
		workers int
	}{{2 << 20, 2}, {1 << 20, 2}, {1 << 20, 16}, {Least, 2}} {
		run(c.size, c.workers)
		if n := begun(); n != i+1 && fixedShare() == 0 {
			t.Errorf("%d contests have begun after %d kinds of work", n, i+1)
		}
	}
}

func TestUsual(t *testing.T) {
	x := Threads{Share: 1 << 20}
	for _, c := range []struct {
		size          int64
		workers, want int
	}{{0, 4, 1}, {2<<20 - 1, 4, 1}, {2 << 20, 4, 2}, {3 << 20, 4, 3}, {1 << 40, 4, 4}, {1 << 40, 0, 1}} {
		if n := x.Usual(c.size, c.workers); n != c.want && fixedShare() == 0 {
			t.Errorf("%d bytes, %d workers: %d", c.size, c.workers, n)
		}
	}
}

func TestShareOf(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "x": 0, "-5": 0, "0": 0, "8388608": 8 << 20} {
		if n := shareOf(text); n != want {
			t.Errorf("%q is %d", text, n)
		}
	}
}
