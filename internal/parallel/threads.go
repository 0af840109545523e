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
// from each power of two up to the next one. It may be used by several goroutines.
//
// Contests time the work of the program itself, and none is made for them: they cost no memory and hardly any time, and see
// whether the other processors are awake and free when this program copies.
type Threads struct {
	Share    int64 // how many bytes are worth a goroutine on most machines
	contests [bits.UintSize]Contest
}

// sure is how many shares have no contest: what most machines do best is best here, too, and each trial would take long.
const sure = 4

// lead is the part by which another number of goroutines than the usual one must be faster.
const lead = 8

// Run calls f with the number of goroutines for work of size bytes, which is at most workers. F's error is that of Run.
func (t *Threads) Run(size int64, workers int, f func(workers int) error) error {
	if workers <= 1 || size < Least {
		return f(1)
	}
	usual := t.Usual(size, workers)
	if fixedShare() > 0 || size >= sure*t.Share {
		return f(usual)
	}
	// The numbers are 1, 2, 4 and so on, and workers.
	ways := min(bits.Len(uint(workers-1))+1, mostWays)
	way := ways - 1
	if usual < workers {
		way = min(bits.Len(uint(usual))-1, way)
	}
	return t.contests[bits.Len64(uint64(size))].Run(size, ways, way, lead, func(way int) error { return f(min(1<<way, workers)) })
}

// Usual returns the number of goroutines for work of size bytes without a contest, which is at most workers.
func (t *Threads) Usual(size int64, workers int) int {
	share := t.Share
	if fixed := fixedShare(); fixed > 0 {
		share = fixed
	}
	return int(max(1, min(int64(workers), size/share)))
}

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
