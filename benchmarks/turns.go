package benchmarks

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

// alphaByTurns is the probability below which [Report.CompareByTurns] does not take a difference for chance. A run has about a hundred
// cases, and should seldom call one of them slower that is not.
const alphaByTurns = 0.001

// LeastTurns is the least number of rounds with which a difference can be significant then: 2/2^11 is below alphaByTurns.
const LeastTurns = 11

// CompareByTurns is [Report.Compare] for the two reports of one [RunByTurns]. Each round compares the programs once, by a quick sample of
// each. What made the machine slower in a round did so for both, so that the rounds need not resemble each other.
//
// A difference is significant if so many rounds say that the same program is the faster one that this would be chance in less
// than 1 of 1,000 cases (the sign test, which assumes nothing of the size of differences), if the median of the rounds is above 2 %, and if
// it is above what the clock can tell.
func (r *Report) CompareByTurns(old Report, tolerance float64) int {
	if r == nil {
		return 0
	}
	pairs := r.pair(old, tolerance)
	r.Baseline.ByTurns = true
	var ratios []float64
	for _, p := range pairs {
		c := p.changeByTurns(tolerance)
		if p.new.Change = c; len(c.Rounds) > 0 {
			ratios = append(ratios, c.Ratio)
		}
	}
	if len(ratios) > 0 {
		r.Baseline.Common = &Common{Cases: len(ratios), Ratio: round(median(ratios))}
	}
	return len(ratios)
}

func (p *compared) changeByTurns(tolerance float64) *Change {
	c := &Change{Median: p.old.Median, Ratio: round(p.old.Median / p.new.Median), P: 1}
	before, after := comparable(&p.old.Series, &p.new.Series)
	shifts, now := p.old.quickByBlock(before), p.new.quickByBlock(after)
	shifts = shifts[:min(len(shifts), len(now))] // after an interrupt one program may have had a turn more
	if len(shifts) == 0 {
		return c
	}
	for i := range shifts {
		shifts[i] = now[i] - shifts[i]
		c.Rounds = append(c.Rounds, round(math.Exp(-shifts[i])))
	}
	of := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(shifts), &benchmath.DefaultThresholds), 1-alphaByTurns)
	c.Ratio, c.P = round(math.Exp(-of.Center)), signTest(shifts)
	if finite(of.Lo) && finite(of.Hi) {
		c.Low, c.High = round(math.Exp(-of.Hi)), round(math.Exp(-of.Lo))
	}
	clock := math.Log1p((p.old.ClockError + p.new.ClockError) / p.old.Median)
	c.Significant = c.P < alphaByTurns && math.Abs(of.Center) > max(math.Log1p(leastEffect), clock)
	c.Slower = c.Significant && of.Center > math.Log1p(tolerance)
	return c
}

// quickByBlock returns a quick sample of each block of times, which are those of the series: its first quartile. It returns nil if the
// blocks do not fit the times.
func (s *Series) quickByBlock(times []float64) (list []float64) {
	if s.blockMedians(times) == nil {
		return nil
	}
	for _, n := range s.Blocks {
		list, times = append(list, quantile(times[:n], 0.25)), times[n:]
	}
	return list
}

// signTest returns the probability that so many of the values, or more, have the same sign by chance. Zeros say nothing.
func signTest(values []float64) float64 {
	signs := [2]int{}
	for _, v := range values {
		switch {
		case v < 0:
			signs[0]++
		case v > 0:
			signs[1]++
		}
	}
	fewer := float64(min(signs[0], signs[1]))
	return min(1, 2*stats.BinomialDist{N: signs[0] + signs[1], P: 0.5}.CDF(fewer))
}
