package benchmarks

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// A processor that shares its core with other programs, or whose clock changes, is faster at one time than at another,
// sometimes by half. So each sample of a case has the time of the same reference work beside it, which tells how fast
// the processor was.

// referenceBytes fit into the caches next to the processor.
const referenceBytes = 16 << 10

// reference is that work: it keeps several units of the processor busy, as most programs do.
type reference struct {
	from, to [referenceBytes]byte
	sum      uint64
}

// run does the work, and returns its time in nanoseconds.
func (r *reference) run() float64 {
	start := time.Now()
	for range 4 {
		var a, b, c, d uint64
		for i := 0; i < referenceBytes; i += 32 {
			a = a*31 + binary.LittleEndian.Uint64(r.from[i:])
			b = b*31 + binary.LittleEndian.Uint64(r.from[i+8:])
			c = c*31 + binary.LittleEndian.Uint64(r.from[i+16:])
			d = d*31 + binary.LittleEndian.Uint64(r.from[i+24:])
		}
		r.sum += a ^ b ^ c ^ d
		copy(r.to[:], r.from[:])
		r.from[0]++
	}
	return float64(time.Since(start))
}

// evidence is what the samples of two series say at the same speed of the processor: logarithms of times, with the medians
// of their blocks.
type evidence struct {
	before, now             []float64
	beforeBlocks, nowBlocks []float64
	// machine is the logarithm of how much slower the processor was for the later samples.
	machine float64
}

// What samples must have in common to be compared with each other.
const (
	sameSpeed    = 0.12 // the logarithm of how much the times of the reference may differ
	leastSamples = 8    // of each series
	leastPart    = 0.4  // of the samples of the shorter series: fewer are those that something disturbed
	leastBlocks  = 2
)

// compareAtOneSpeed takes those samples of two series beside which the processor had about the same speed: the speed that most
// samples of both have. Without such samples, or without times of the reference, it takes all samples.
func compareAtOneSpeed(before, now *Series) evidence {
	all := evidence{before: logs(before.Times), now: logs(now.Times)}
	all.beforeBlocks, all.nowBlocks = before.blockMedians(all.before), now.blockMedians(all.now)
	if len(before.Reference) != len(before.Times) || len(now.Reference) != len(now.Times) || len(all.before) == 0 || len(all.now) == 0 {
		return all
	}
	speedBefore, speedNow := logs(before.Reference), logs(now.Reference)
	all.machine = median(speedNow) - median(speedBefore)
	low, most := 0.0, 0
	for _, candidate := range slices.Concat(speedBefore, speedNow) {
		if n := min(within(speedBefore, candidate), within(speedNow, candidate)); n > most {
			low, most = candidate, n
		}
	}
	if float64(most) < max(leastSamples, leastPart*float64(min(len(all.before), len(all.now)))) {
		return all
	}
	same := evidence{}
	var speeds [2][]float64
	same.before, same.beforeBlocks, speeds[0] = before.at(low, all.before, speedBefore)
	same.now, same.nowBlocks, speeds[1] = now.at(low, all.now, speedNow)
	if before.Blocks != nil && len(same.beforeBlocks) < leastBlocks || now.Blocks != nil && len(same.nowBlocks) < leastBlocks {
		return all
	}
	same.machine = median(speeds[1]) - median(speeds[0])
	return same
}

// within counts the speeds that are as low, or a little higher.
func within(speeds []float64, low float64) (n int) {
	for _, s := range speeds {
		if s >= low && s <= low+sameSpeed {
			n++
		}
	}
	return n
}

// at returns the samples at a speed, the medians of the blocks that have two of them or more, and their speeds.
func (s *Series) at(low float64, times, speeds []float64) (same, blocks, ofSame []float64) {
	take := func(from, to int) {
		var block []float64
		for i := from; i < to; i++ {
			if speeds[i] >= low && speeds[i] <= low+sameSpeed {
				block, ofSame = append(block, times[i]), append(ofSame, speeds[i])
			}
		}
		same = append(same, block...)
		if len(block) > 1 {
			blocks = append(blocks, median(block))
		}
	}
	if s.blockMedians(times) == nil {
		take(0, len(times))
		return same, nil, ofSame
	}
	from := 0
	for _, n := range s.Blocks {
		take(from, from+n)
		from += n
	}
	return same, blocks, ofSame
}

func logs(times []float64) []float64 {
	list := make([]float64, len(times))
	for i, t := range times {
		list[i] = math.Log(max(t, 0.0005)) // half of the least time that is kept
	}
	return list
}
