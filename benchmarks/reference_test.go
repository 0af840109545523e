package benchmarks

import (
	"math"
	"testing"
)

// sampled is a series of blocks of ten samples. The speed of the processor is that of each block.
func sampled(base float64, speeds ...float64) (s Series) {
	for i, speed := range speeds {
		for j := range 10 {
			wobble := 1 + 0.002*float64((3*i+7*j)%5-2)
			s.Times = append(s.Times, base*speed*wobble)
			s.Reference = append(s.Reference, 4000*speed*wobble)
		}
		s.Blocks = append(s.Blocks, 10)
	}
	return s
}

func report(s Series) Report {
	c := Result{Name: "c", Status: OK, Series: s}
	c.summarize(0)
	return Report{Cases: []Result{c}}
}

func TestTheSpeedOfTheProcessorIsNoChangeOfTheProgram(t *testing.T) {
	for name, c := range map[string]struct {
		before, now Series
		slower      bool
	}{
		"all slow later":            {sampled(100, 1, 1, 1), sampled(100, 2, 2, 2), false},
		"some slow":                 {sampled(100, 1, 1, 2), sampled(100, 1, 2, 1), false},
		"slower":                    {sampled(100, 1, 1, 1), sampled(110, 1, 1, 1), true},
		"slower among slow samples": {sampled(100, 1, 1, 2, 1), sampled(110, 1, 2, 1, 2), true},
		"nothing in common":         {sampled(100, 1, 1, 1), sampled(230, 2, 2, 2), true},
		"faster than the processor": {sampled(100, 2, 2, 2), sampled(100, 1, 1, 1), false},
		"without the reference": {
			Series{Times: sampled(100, 1, 1, 1).Times, Blocks: []int{10, 10, 10}},
			Series{Times: sampled(110, 1, 1, 1).Times, Blocks: []int{10, 10, 10}}, true,
		},
	} {
		now := report(c.now)
		if n := now.Compare(report(c.before), 0.05); n != 1 {
			t.Fatalf("%s: %d cases", name, n)
		}
		if change := now.Cases[0].Change; change.Slower != c.slower {
			t.Errorf("%s: %+v", name, change)
		}
	}
}

func TestTheReferenceIsMeasuredBesideEachSample(t *testing.T) {
	r := runOne(t, Case{setup: ready(trial{own: fixed(1000)})}, 5)
	if len(r.Reference) != len(r.Times) {
		t.Fatalf("%d times of the reference beside %d samples", len(r.Reference), len(r.Times))
	}
	for _, ns := range r.Reference {
		if !(ns > 0) || math.IsInf(ns, 0) {
			t.Errorf("%v ns", ns)
		}
	}
}

// The baseline depends less on the speed of the processor than the case does. No sample of the two runs has the same speed.
func TestABaselineDoesNotOutweighTheSpeedOfTheProcessor(t *testing.T) {
	run := func(speed, baseline float64) Report {
		r := report(sampled(100, speed, speed, speed))
		b := sampled(50, baseline, baseline, baseline)
		b.Baseline = "call"
		b.summarize(0)
		r.Cases[0].Baselines = []Series{b}
		return r
	}
	now := run(1.6, 1.2)
	if now.Compare(run(1, 1), 0.05); now.Cases[0].Change.Significant {
		t.Errorf("%+v", now.Cases[0].Change)
	}
}
