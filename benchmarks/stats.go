package benchmarks

import (
	"math"
	"slices"
)

// round keeps a thousandth, which is more than any clock here can tell.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }

// quantile returns the value that the part q of the values lies below, between
// neighbours in proportion. There must be values.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// summarize fills in what follows from the samples.
func (s *Series) summarize(bytes int64) {
	s.Min = slices.Min(s.Times)
	s.Median = round(median(s.Times))
	if s.Median > 0 {
		s.Spread = round((quantile(s.Times, 0.75) - quantile(s.Times, 0.25)) / s.Median)
		s.GBPerSecond = round(float64(bytes) / s.Median) // bytes per nanosecond
	}
}

// compare finds the fastest baseline and how r stands beside it. Samples of the
// same round are compared with each other, since they saw the same machine.
func (r *Result) compare() {
	var best *Series
	for i := range r.Baselines {
		if b := &r.Baselines[i]; b.NotMeasured == "" && (best == nil || b.Median < best.Median) {
			best = b
		}
	}
	if best == nil {
		return
	}
	ratios, extras := make([]float64, len(r.Times)), make([]float64, len(r.Times))
	for i, own := range r.Times {
		ratios[i] = best.Times[i] / own
		extras[i] = own - best.Times[i]
	}
	r.Against, r.Speed, r.Extra = best.Baseline, round(median(ratios)), round(median(extras))
}
