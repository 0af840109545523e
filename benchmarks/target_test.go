package benchmarks

import "testing"

func TestVerdicts(t *testing.T) {
	measured := Result{Status: OK, Series: Series{Median: 13.1}, Against: "x", Speed: 0.9, Extra: 33.1}
	allocating := measured
	allocating.Allocs = 2
	for _, c := range []struct {
		name   string
		target Target
		result Result
		want   Verdict
	}{
		{"time met", Target{Measure: Time, Limit: 14}, measured, Verdict{Target: "<= 14 ns", Value: "13.1 ns", Met: true, Text: "met"}},
		{"time met to the point", Target{Measure: Time, Limit: 13.1}, measured, Verdict{Target: "<= 13.1 ns", Value: "13.1 ns", Met: true, Text: "met"}},
		{"time missed", Target{Measure: Time, Limit: 10, NoAllocs: true}, measured, Verdict{Target: "<= 10 ns, 0 allocs", Value: "13.1 ns", MissBy: 3.1, Text: "missed by 3.1 ns"}},
		{"time missed by little", Target{Measure: Time, Limit: 13.098}, measured, Verdict{Target: "<= 13.098 ns", Value: "13.1 ns", MissBy: 0.002, Text: "missed by 0.002 ns"}},
		{"allocations", Target{Measure: Time, Limit: 14, NoAllocs: true}, allocating, Verdict{Target: "<= 14 ns, 0 allocs", Value: "13.1 ns", Text: "missed by 2 allocs"}},
		{"allocations that are allowed", Target{Measure: Time, Limit: 14}, allocating, Verdict{Target: "<= 14 ns", Value: "13.1 ns", Met: true, Text: "met"}},
		{"extra met", Target{Measure: Extra, Limit: 40, Baseline: "empty call"}, measured, Verdict{Target: "<= empty call + 40 ns", Value: "+33.1 ns", Met: true, Text: "met"}},
		{"extra missed", Target{Measure: Extra, Limit: 30, Baseline: "empty call"}, measured, Verdict{Target: "<= empty call + 30 ns", Value: "+33.1 ns", MissBy: 3.1, Text: "missed by 3.1 ns"}},
		{"speed met", Target{Measure: Speed, Limit: 0.9, Baseline: "memcpy"}, measured, Verdict{Target: ">= 0.90 x memcpy", Value: "0.90 x", Met: true, Text: "met"}},
		{"speed missed", Target{Measure: Speed, Limit: 0.95, Baseline: "memcpy"}, measured, Verdict{Target: ">= 0.95 x memcpy", Value: "0.90 x", MissBy: 0.05, Text: "missed by 0.05"}},
		{
			"a baseline that is missing", Target{Measure: Speed, Limit: 1, Baseline: "np.copyto"},
			Result{Status: OK, Baselines: []Series{{Baseline: "np.copyto", NotMeasured: "no Python"}}},
			Verdict{Target: ">= 1.00 x np.copyto", Text: "not measured: np.copyto: no Python"},
		},
		{"a case that was not measured", Target{Measure: Time, Limit: 1}, Result{Status: Skipped, Reason: "no room"}, Verdict{Target: "<= 1 ns", Text: "not measured: no room"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.target.judge(c.result)
			if got == nil {
				t.Fatal("no verdict")
			}
			got.MissBy = round(got.MissBy)
			if *got != c.want {
				t.Errorf("got  %+v\nwant %+v", *got, c.want)
			}
		})
	}
	if v := (Target{}).judge(measured); v != nil {
		t.Errorf("without a target the verdict is %+v", *v)
	}
}

func TestAMissIsNeverPrintedAsZero(t *testing.T) {
	for x, want := range map[float64]string{139.2: "139", 13.91: "14", 3.14: "3.1", 1: "1.00", 0.36: "0.36", 0.1: "0.10", 0.03: "0.03", 0.0004: "0.0004"} {
		if got := significant(x); got != want {
			t.Errorf("significant(%v) = %q, want %q", x, got, want)
		}
	}
}
