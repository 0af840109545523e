package benchmarks

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{7}, 0.5, 7},
		{[]float64{7}, 0.25, 7},
		{[]float64{9, 1, 5}, 0.5, 5},
		{[]float64{4, 1, 2, 3}, 0.5, 2.5},
		{[]float64{5, 4, 3, 2, 1}, 0.25, 2},
		{[]float64{5, 4, 3, 2, 1}, 0.75, 4},
		{[]float64{0, 10}, 0.25, 2.5},
		{[]float64{3, 1, 2}, 0, 1},
		{[]float64{3, 1, 2}, 1, 3},
	} {
		before := slices.Clone(c.values)
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", before, c.q, got, c.want)
		}
		if !slices.Equal(c.values, before) {
			t.Errorf("the rounds %v were put into another order: %v", before, c.values)
		}
	}
}

func TestSummaryOfASeries(t *testing.T) {
	s := Series{Times: []float64{8, 4, 16, 8, 12}}
	s.summarize(64)
	if s.Min != 4 || s.Median != 8 || s.Spread != 0.5 || s.GBPerSecond != 8 {
		t.Errorf("%+v", s)
	}
	s = Series{Times: []float64{0, 0}} // a clock that does not move
	s.summarize(64)
	if s.Median != 0 || s.Spread != 0 || s.GBPerSecond != 0 || s.CV != 0 {
		t.Errorf("without time: %+v", s)
	}
	s = Series{}
	s.summarize(64)
	if s.Median != 0 || s.Max != 0 {
		t.Errorf("without samples: %+v", s)
	}
}

// The order statistics 35 and 66 of 1 to 100 hold the median with more than 95 % (binomial distribution, n = 100, p = 0.5).
func TestASeriesOfKnownValues(t *testing.T) {
	var s Series
	for i := range 101 {
		s.Times = append(s.Times, float64(i)) // 0 to 100
	}
	s.summarize(0)
	if s.Min != 0 || s.P05 != 5 || s.P25 != 25 || s.Median != 50 || s.P75 != 75 || s.P95 != 95 || s.P99 != 99 || s.Max != 100 || s.Spread != 1 {
		t.Errorf("%+v", s)
	}
	if s.CV != 0.586 { // the standard deviation is sqrt(101*102/12) = 29.30
		t.Errorf("the coefficient of variation is %v", s.CV)
	}
	if s.Confidence < 0.95 || s.Confidence > 0.97 || s.Low < 39 || s.Low > 41 || s.High < 59 || s.High > 61 || s.Low >= s.Median || s.High <= s.Median {
		t.Errorf("the median is from %v to %v with %v", s.Low, s.High, s.Confidence)
	}
}

func TestFewSamplesSayNothingOfTails(t *testing.T) {
	for n, want := range map[int][4]bool{1: {}, 3: {}, 4: {true}, 6: {true, true}, 19: {true, true}, 20: {true, true, true}, 99: {true, true, true}, 100: {true, true, true, true}} {
		s := Series{}
		for i := range n {
			s.Times = append(s.Times, float64(1+i))
		}
		s.summarize(0)
		got := [4]bool{s.P25 > 0 && s.P75 > 0, s.Low > 0 && s.High > 0 && s.Confidence >= 0.95, s.P05 > 0 && s.P95 > 0, s.P99 > 0}
		none := [4]bool{s.P25+s.P75 > 0, s.Low+s.High+s.Confidence > 0, s.P05+s.P95 > 0, s.P99 > 0}
		if got != want || none != want {
			t.Errorf("%d samples: %v and %v, want %v: %+v", n, got, none, want, s)
		}
		if s.Min != 1 || s.Max != float64(n) {
			t.Errorf("%d samples: %+v", n, s)
		}
	}
}

func TestFiguresOfASeriesAreInOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := Series{}
		for range 1 + rng.IntN(150) {
			s.Times = append(s.Times, round(math.Exp(10*rng.NormFloat64())))
		}
		before := slices.Clone(s.Times)
		s.summarize(0)
		known := slices.DeleteFunc([]float64{s.Min, s.P05, s.P25, s.Median, s.P75, s.P95, s.P99, s.Max}, func(x float64) bool { return x == 0 })
		if !slices.IsSorted(known) || s.CV < 0 || !slices.Equal(s.Times, before) {
			t.Fatalf("seed %d: %+v", seed, s)
		}
		if s.Confidence > 0 && (s.Low > s.Median || s.High < s.Median || s.Confidence > 1) {
			t.Fatalf("seed %d: %+v", seed, s)
		}
		// Twice the times have twice the figures.
		d := Series{}
		for _, x := range s.Times {
			d.Times = append(d.Times, 2*x)
		}
		d.summarize(0)
		if math.Abs(d.Median-2*s.Median) > 0.002 || d.Max != 2*s.Max || math.Abs(d.CV-s.CV) > 0.001 || math.Abs(d.High-2*s.High) > 0.002 {
			t.Fatalf("seed %d, twice the times: %+v and %+v", seed, d, s)
		}
	}
}

// In each round the machine was twice as slow as in the one before: whatever the
// medians are, the case was always twice as fast as one baseline.
func TestRoundsAreComparedWithThemselves(t *testing.T) {
	r := Result{
		Series: Series{Times: []float64{1, 2, 4}},
		Baselines: []Series{
			{Baseline: "slow", Times: []float64{30, 60, 120}},
			{Baseline: "missing", NotMeasured: "because"},
			{Baseline: "fast", Times: []float64{2, 4, 8}},
		},
	}
	r.summarize(0)
	r.Baselines[0].summarize(0)
	r.Baselines[2].summarize(0)
	r.compare()
	if r.Against != "fast" || r.Speed != 2 || r.Extra != -2 {
		t.Errorf("against %q, speed %v, extra %v", r.Against, r.Speed, r.Extra)
	}
}

func TestWithoutABaselineNothingIsCompared(t *testing.T) {
	r := Result{Series: Series{Times: []float64{1}}, Baselines: []Series{{Baseline: "missing", NotMeasured: "because"}}}
	r.compare()
	if r.Against != "" || r.Speed != 0 {
		t.Errorf("%+v", r)
	}
}
