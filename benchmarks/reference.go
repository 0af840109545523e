package benchmarks

import (
	"encoding/binary"
	"math"
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

// steady returns the logarithms of the times of two series as they would have been if the processor had always been as fast as it
// was on average. How much a case depends on that is found within each series, where the program is the same: by
// least squares, and at most in proportion. Without reference times, or where they explain little, the times stay as they
// are.
func steady(a, b *Series) (x, y []float64) {
	x, y = logs(a.Times), logs(b.Times)
	if len(a.Reference) != len(a.Times) || len(b.Reference) != len(b.Times) || len(x)+len(y) < leastForReference {
		return x, y
	}
	p, q := logs(a.Reference), logs(b.Reference)
	both, squaresOfReference, squaresOfTime := products(x, p), products(p, p)+products(q, q), products(x, x)+products(y, y)
	both += products(y, q)
	if !(squaresOfReference > 0) || !(squaresOfTime > 0) || both <= 0 || both*both < leastExplained*squaresOfReference*squaresOfTime {
		return x, y
	}
	slope := min(1, both/squaresOfReference)
	center := (mean(p)*float64(len(p)) + mean(q)*float64(len(q))) / float64(len(p)+len(q))
	for i := range x {
		x[i] -= slope * (p[i] - center)
	}
	for i := range y {
		y[i] -= slope * (q[i] - center)
	}
	return x, y
}

const (
	leastForReference = 12   // samples of both series together
	leastExplained    = 0.15 // the part of the variance that the reference must explain
)

func logs(times []float64) []float64 {
	list := make([]float64, len(times))
	for i, t := range times {
		list[i] = math.Log(max(t, 0.0005)) // half of the least time that is kept
	}
	return list
}

// products adds up the products of the deviations of two lists from their means.
func products(a, b []float64) (sum float64) {
	meanA, meanB := mean(a), mean(b)
	for i := range a {
		sum += (a[i] - meanA) * (b[i] - meanB)
	}
	return sum
}
