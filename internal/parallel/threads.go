package parallel

import (
	"math/bits"
	"os"
	"strconv"
	"sync"
)

// Least is the size of the smallest work that Threads divides.
const Least = 256 << 10

// Threads finds out in how many goroutines this machine does some kind of work fastest. It holds a [Contest] for the sizes
// from each power of two up to the next one, and for each number of ways. It may be used by several goroutines.
//
// Contests time the work of the program itself, and none is made for them: they cost hardly any memory or time, and see
// whether the other processors are awake and free when this program copies. So all work of one size should have about the same speed.
type Threads struct {
	Share    int64 // how many bytes are worth a goroutine on most machines, which must be set
	contests [mostWays + 1][classes]Contest
}

const (
	// sure is how many shares have no contest: what most machines do best is best here, too, and each trial would take long.
	sure = 4
	// classes is how many powers of two from Least on have contests.
	classes = 8
	// lead is the part by which another number of goroutines than the usual one must be faster.
	lead = 8
)

// Run calls f with the number of goroutines for work of size bytes, which is at most workers, and returns its error.
func (t *Threads) Run(size int64, workers int, f func(workers int) error) error {
	if workers <= 1 || size < Least {
		return f(1)
	}
	usual := t.Usual(size, workers)
	class := bits.Len64(uint64(size)) - bits.Len64(Least)
	if fixedShare() > 0 || size >= sure*t.Share || class >= classes {
		return f(usual)
	}
	// The numbers are 1, 2, 4 and so on, and workers.
	ways := min(bits.Len(uint(workers-1))+1, mostWays)
	way := ways - 1
	if usual < workers {
		way = min(bits.Len(uint(usual))-1, way)
	}
	return t.contests[ways][class].Run(size, ways, way, lead, func(way int) error { return f(min(1<<way, workers)) })
}

// Usual returns the number of goroutines for work of size bytes without a contest, which is at most workers.
func (t *Threads) Usual(size int64, workers int) int {
	share := t.Share
	if fixed := fixedShare(); fixed > 0 {
		share = fixed
	}
	return Usual(size, share, workers)
}

// Usual returns the number of goroutines for work of size bytes, of which share bytes are worth one. It is from 1 to workers.
func Usual(size, share int64, workers int) int { return int(max(1, min(int64(workers), size/share))) }

// fixedShare returns the number of the environment variable DLX_COPY_SHARE: how many bytes are worth a goroutine, without a
// contest. It is 0 if there is no such number.
var fixedShare = sync.OnceValue(func() int64 { return shareOf(os.Getenv("DLX_COPY_SHARE")) })

func shareOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}
