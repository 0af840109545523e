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
	want.Compare(want, 0.05)
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
