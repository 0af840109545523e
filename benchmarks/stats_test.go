package benchmarks

import (
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
	if s.Median != 0 || s.Spread != 0 || s.GBPerSecond != 0 {
		t.Errorf("without time: %+v", s)
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
