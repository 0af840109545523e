package benchmarks

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
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

// confidence is how sure the confidence interval of a median is at least.
const confidence = 0.95

// The numbers of samples from which on percentiles say more than the least and the greatest sample do: at least one sample
// lies beyond them.
const (
	samplesForP25 = 4
	samplesForP05 = 20
	samplesForP99 = 100
)

// summarize fills in what follows from the samples. What so few samples cannot tell stays 0.
func (s *Series) summarize(bytes int64) {
	n := len(s.Times)
	if n == 0 {
		return
	}
	s.Min, s.Max = slices.Min(s.Times), slices.Max(s.Times)
	s.Median = round(median(s.Times))
	if n >= samplesForP25 {
		s.P25, s.P75 = round(quantile(s.Times, 0.25)), round(quantile(s.Times, 0.75))
	}
	if n >= samplesForP05 {
		s.P05, s.P95 = round(quantile(s.Times, 0.05)), round(quantile(s.Times, 0.95))
	}
	if n >= samplesForP99 {
		s.P99 = round(quantile(s.Times, 0.99))
	}
	s.CV = round(variation(s.Times))
	of := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(s.Times), &benchmath.DefaultThresholds), confidence)
	if finite(of.Lo) && finite(of.Hi) {
		s.Low, s.High, s.Confidence = round(of.Lo), round(of.Hi), round(of.Confidence)
	}
	if s.Median > 0 {
		s.Spread = round((quantile(s.Times, 0.75) - quantile(s.Times, 0.25)) / s.Median)
		s.GBPerSecond = round(float64(bytes) / s.Median) // bytes per nanosecond
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// mean returns the mean of values, of which there must be one.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// squares returns the sum of the squared distances of the values from their mean.
func squares(values []float64) (sum float64) {
	m := mean(values)
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return sum
}

// variation returns the coefficient of variation: the standard deviation, estimated from the sample, as a part of the mean.
// It is 0 if there are not two values, or if their mean is not above 0.
func variation(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	m := mean(values)
	if !(m > 0) {
		return 0
	}
	return math.Sqrt(squares(values)/float64(len(values)-1)) / m
}

// compare finds the fastest baseline and how r stands beside it. Samples of the
// same round are compared with each other, since they saw the same machine.
func (r *Result) compare() {
	var best *Series
	for i := range r.Baselines {
		b := &r.Baselines[i]
		whole := len(b.Times) == len(r.Times) // another program may say anything
		if b.NotMeasured == "" && whole && (best == nil || b.Median < best.Median) {
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
