package benchmarks

import (
	"cmp"
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

// run does the work, and returns its time in nanoseconds. It does it once before that: what it finds in the caches must not
// depend on the case.
func (r *reference) run() float64 {
	var start time.Time
	for i := range 5 {
		if i == 1 {
			start = time.Now()
		}
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

// evidence is what the samples of two series say at the same speed of the processor: logarithms of times, with the medians of
// blocks. What disturbs a machine makes a sample longer, never shorter, so it has the quickest samples of each block, and the
// medians of the quickest blocks.
type evidence struct {
	before, now             []float64
	beforeBlocks, nowBlocks []float64
	within                  float64 // the typical distance of these samples from the median of their block
	machine                 float64 // the logarithm of how much slower the processor was for the later samples
}

// What is taken of two series.
const (
	sameSpeed    = 0.06 // the logarithm of how much the times of the reference may differ
	speedError   = 0.03 // of the reference, as a logarithm: less says nothing about the processor
	leastSamples = 8    // of each series at the same speed
	quickSamples = 4    // one of so many samples of a block, but at least leastQuick
	leastQuick   = 2
	leastTested  = 5   // of each series: the U test of fewer cannot tell any difference from chance, 2/C(8,4) is above alpha
	quickBlocks  = 0.6 // this part of the blocks, rounded up
)

// compareAtOneSpeed compares two series by the samples beside which the processor was about as fast: at the highest speed that
// leastSamples of both have. Without such samples, or without times of the reference, it takes those of any speed.
func compareAtOneSpeed(before, now *Series) evidence {
	a, b := comparable(before, now)
	if len(before.Reference) != len(a) || len(now.Reference) != len(b) {
		return newEvidence(before.quickest(a, nil, 0), now.quickest(b, nil, 0))
	}
	speedsA, speedsB := logs(before.Reference), logs(now.Reference)
	for _, low := range slices.Sorted(slices.Values(slices.Concat(speedsA, speedsB))) {
		if min(within(speedsA, low), within(speedsB, low)) >= leastSamples {
			return newEvidence(before.quickest(a, speedsA, low), now.quickest(b, speedsB, low))
		}
	}
	return newEvidence(before.quickest(a, speedsA, math.Inf(-1)), now.quickest(b, speedsB, math.Inf(-1)))
}

// within counts the times of the reference that are as low, or a little higher. No time is lower than -Inf, which has them all.
func within(speeds []float64, low float64) (n int) {
	for _, s := range speeds {
		if isWithin(s, low) {
			n++
		}
	}
	return n
}

func isWithin(speed, low float64) bool {
	return speed >= low && (speed <= low+sameSpeed || math.IsInf(low, -1))
}

// quick are the samples of a series that are compared.
type quick struct {
	times, speeds, distances []float64
	blocks                   []float64 // medians
}

// quickest takes samples whose reference is as low, or a little higher. Without references, it takes samples of any speed.
func (s *Series) quickest(times, speeds []float64, low float64) (q quick) {
	for least := leastQuick; ; least++ { // more of each block, where there are few
		if q = s.quickestOf(times, speeds, low, least); len(q.times) >= min(leastTested, len(times)) || least >= leastTested {
			return q
		}
	}
}

// quickestOf is quickest with at least so many samples of a block that has them.
func (s *Series) quickestOf(times, speeds []float64, low float64, least int) (q quick) {
	take := func(from, to int) {
		var block []int
		for i := from; i < to; i++ {
			if speeds == nil || isWithin(speeds[i], low) {
				block = append(block, i)
			}
		}
		slices.SortFunc(block, func(i, j int) int { return cmp.Compare(times[i], times[j]) })
		block = block[:min(len(block), max(least, len(block)/quickSamples))]
		from = len(q.times)
		for _, i := range block {
			q.times = append(q.times, times[i])
			if speeds != nil {
				q.speeds = append(q.speeds, speeds[i])
			}
		}
		if len(block) < 2 {
			return
		}
		m := median(q.times[from:])
		q.blocks = append(q.blocks, m)
		for _, t := range q.times[from:] {
			q.distances = append(q.distances, math.Abs(t-m))
		}
	}
	if s.blockMedians(times) == nil {
		take(0, len(times))
		q.blocks = nil
		return q
	}
	from := 0
	for _, n := range s.Blocks {
		take(from, from+n)
		from += n
	}
	slices.Sort(q.blocks)
	q.blocks = q.blocks[:int(math.Ceil(quickBlocks*float64(len(q.blocks))))]
	return q
}

func newEvidence(before, now quick) evidence {
	e := evidence{before: before.times, now: now.times, beforeBlocks: before.blocks, nowBlocks: now.blocks}
	if distances := slices.Concat(before.distances, now.distances); len(distances) > 0 {
		e.within = median(distances)
	}
	if len(before.speeds) > 0 && len(now.speeds) > 0 {
		if e.machine = median(now.speeds) - median(before.speeds); math.Abs(e.machine) < speedError {
			e.machine = 0
		}
	}
	return e
}

func logs(times []float64) []float64 {
	list := make([]float64, len(times))
	for i, t := range times {
		list[i] = math.Log(min(max(t, 0.0005), 1e18)) // from half of the least time that is kept to the longest of measured
	}
	return list
}

// comparable returns the logarithms of the times of the fastest parts of the samples, or of whole samples if an older program has not
// kept the parts.
func comparable(before, now *Series) (a, b []float64) {
	if len(before.Fastest) == len(before.Times) && len(now.Fastest) == len(now.Times) {
		return logs(before.Fastest), logs(now.Fastest)
	}
	return logs(before.Times), logs(now.Times)
}
