package benchmarks

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestAReportSurvivesJSON(t *testing.T) {
	base := baseline{name: "base", sample: fixed(30)}
	cases := []Case{
		{Name: "plain", Description: "d", setup: ready(trial{own: fixed(7)})},
		{Name: "full", Target: Target{Measure: Speed, Limit: 4, Baseline: "base"}, setup: ready(trial{bytes: 8, own: fixed(10), baselines: []baseline{base, {name: "gone", reason: "r"}}})},
		{Name: "bad", setup: func(*env) (trial, error) { return trial{}, errors.New("broken") }},
	}
	want, err := Run(t.Context(), cases, Options{Samples: 2, MaxTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	want.Compare(want)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCompareIsAboveOneForWhatBecameFaster(t *testing.T) {
	report := func(medians map[string]float64, names ...string) (r Report) {
		for _, n := range names {
			r.Cases = append(r.Cases, Result{Name: n, Series: Series{Median: medians[n]}})
		}
		return r
	}
	now := report(map[string]float64{"faster": 10, "slower": 30, "new": 5, "revived": 5}, "faster", "slower", "new", "revived", "broken")
	old := report(map[string]float64{"slower": 15, "faster": 20, "gone": 1, "broken": 5}, "slower", "faster", "gone", "broken", "revived")
	if n := now.Compare(old); n != 2 {
		t.Errorf("%d cases were compared, want 2", n)
	}
	want := []*Change{{Median: 20, Ratio: 2}, {Median: 15, Ratio: 0.5}, nil, nil, nil}
	for i, c := range now.Cases {
		if !reflect.DeepEqual(c.Change, want[i]) {
			t.Errorf("%s: %+v, want %+v", c.Name, c.Change, want[i])
		}
	}
}
