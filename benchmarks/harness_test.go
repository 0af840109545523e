package benchmarks

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// fixed is an operation that always takes the same time, by its own clock.
func fixed(d time.Duration) sampler {
	return func(n int) (time.Duration, error) { return time.Duration(n) * d, nil }
}

func ready(t trial) func(*env) (trial, error) {
	return func(*env) (trial, error) { return t, nil }
}

// runOne measures one case.
func runOne(t *testing.T, c Case, samples int) Result {
	t.Helper()
	r, err := Run(t.Context(), []Case{c}, Options{Samples: samples, MaxTime: time.Hour})
	if err != nil || len(r.Cases) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	return r.Cases[0]
}

func TestACaseIsMeasuredBesideItsBaseline(t *testing.T) {
	r := runOne(t, Case{
		Name:   "x",
		Target: Target{Measure: Extra, Limit: 10, Baseline: "base"},
		setup:  ready(trial{bytes: 500, own: fixed(250), baselines: []baseline{{name: "base", sample: fixed(225)}}}),
	}, 5)
	if r.Status != OK || r.Median != 250 || r.Min != 250 || r.Spread != 0 || r.GBPerSecond != 2 || len(r.Times) != 5 {
		t.Errorf("%+v", r)
	}
	if r.Against != "base" || r.Extra != 25 || r.Speed != 0.9 {
		t.Errorf("against %q, extra %v, speed %v", r.Against, r.Extra, r.Speed)
	}
	if r.Verdict == nil || r.Verdict.Met || r.Verdict.Text != "missed by 15 ns" {
		t.Errorf("verdict %+v", r.Verdict)
	}
}

// The samplers take longer than any calibration wants, so that each call is a sample.
func TestSamplesAreTakenByTurns(t *testing.T) {
	var calls []string
	named := func(name string) sampler {
		return func(n int) (time.Duration, error) {
			calls = append(calls, name)
			return time.Hour, nil
		}
	}
	runOne(t, Case{setup: ready(trial{own: named("own"), baselines: []baseline{{name: "a", sample: named("a")}, {name: "b", sample: named("b")}}})}, 3)
	want := []string{
		"own", "a", "b", // to warm up
		"own", "a", "b",
		"a", "b", "own",
		"b", "own", "a",
		"own", // to count allocations
	}
	if !slices.Equal(calls, want) {
		t.Errorf("the order was %q, want %q", calls, want)
	}
}

func TestASlowCaseGetsFewerSamples(t *testing.T) {
	slow := timed(func(n int) error { time.Sleep(time.Duration(n) * 2 * time.Millisecond); return nil })
	r, err := Run(t.Context(), []Case{{setup: ready(trial{own: slow})}}, Options{Samples: 1000, MaxTime: time.Millisecond})
	if err != nil || len(r.Cases[0].Times) != fewestRounds {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCalibrationFindsALongEnoughSample(t *testing.T) {
	for _, op := range []time.Duration{1, 7, 1000, time.Hour} {
		n, err := calibrate(fixed(op), time.Millisecond)
		if took := time.Duration(n) * op; err != nil || took < time.Millisecond || n > 1 && took > 2*time.Millisecond {
			t.Errorf("%d operations of %v: %v", n, op, err)
		}
	}
	if n, err := calibrate(fixed(0), time.Millisecond); err != nil || n < mostLoops {
		t.Errorf("operations without a time: %d, %v", n, err)
	}
}

func TestCalibrationMindsWhatIsOffTheClock(t *testing.T) {
	mostlyOff := func(n int) (time.Duration, error) {
		time.Sleep(time.Duration(n) * time.Millisecond)
		return time.Duration(n), nil
	}
	if n, err := calibrate(mostlyOff, time.Millisecond); err != nil || n > 100 {
		t.Errorf("%d operations of a millisecond each, %v", n, err)
	}
}

func TestWhatCannotBeMeasuredSaysWhy(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		err  error
		want Status
	}{
		{core.Errorf(core.ErrNotSupported, "test", "setup", "no such thing"), Unsupported},
		{core.Errorf(core.ErrOutOfMemory, "test", "setup", "no room"), Skipped},
		{broken, Failed},
	} {
		closed := 0
		inSetup := runOne(t, Case{Target: Target{Measure: Time, Limit: 1}, setup: func(e *env) (trial, error) {
			e.cleanup(func() { closed++ })
			return trial{}, c.err
		}}, 1)
		inSample := runOne(t, Case{Target: Target{Measure: Time, Limit: 1}, setup: func(e *env) (trial, error) {
			e.cleanup(func() { closed++ })
			return trial{own: func(int) (time.Duration, error) { return 1, c.err }}, nil
		}}, 1)
		for _, r := range []Result{inSetup, inSample} {
			if r.Status != c.want || r.Reason != c.err.Error() || len(r.Times) != 0 || r.Verdict.Text != "not measured: "+c.err.Error() {
				t.Errorf("%v: %+v", c.err, r)
			}
		}
		if closed != 2 {
			t.Errorf("%v: %d cleanups, want 2", c.err, closed)
		}
	}
}

func TestABaselineThatFailsIsLeftOut(t *testing.T) {
	calls := 0
	dies := func(n int) (time.Duration, error) {
		if calls++; calls > 3 {
			return 0, errors.New("died")
		}
		return time.Hour, nil
	}
	r := runOne(t, Case{setup: ready(trial{own: fixed(100), baselines: []baseline{
		{name: "never", reason: "is not there"},
		{name: "dies", sample: dies},
		{name: "lives", sample: fixed(200)},
	}})}, 5)
	if r.Status != OK || len(r.Times) != 5 || r.Against != "lives" || r.Speed != 2 || calls != 4 {
		t.Errorf("%d calls, %+v", calls, r)
	}
	for i, want := range []string{"is not there", "died", ""} {
		if b := r.Baselines[i]; b.NotMeasured != want || (want != "") != (len(b.Times) == 0) {
			t.Errorf("%+v", b)
		}
	}
}

func TestCleanupsRunBackwards(t *testing.T) {
	var order []int
	e := new(env)
	for i := range 3 {
		e.cleanup(func() { order = append(order, i) })
	}
	e.close()
	if !slices.Equal(order, []int{2, 1, 0}) {
		t.Errorf("the order was %v", order)
	}
}

var escape *[64]byte

func TestAllocationsAreCountedByOperation(t *testing.T) {
	for _, want := range []int64{0, 1, 2} {
		s := repeat(func() error {
			for range want {
				escape = new([64]byte)
			}
			return nil
		})
		if n, err := countAllocs(s, 1000); err != nil || n != want {
			t.Errorf("%d allocations, %v; want %d", n, err, want)
		}
	}
}

func TestAnInterruptEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun, closed := 0, 0
	c := Case{setup: func(e *env) (trial, error) {
		e.cleanup(func() { closed++ })
		return trial{own: func(int) (time.Duration, error) { cancel(); return time.Hour, nil }}, nil
	}}
	r, err := Run(ctx, []Case{c, c}, Options{Samples: 3, MaxTime: time.Second, Progress: func(Case) { begun++ }})
	if !errors.Is(err, context.Canceled) || r.Cases != nil || begun != 1 || closed != 1 {
		t.Errorf("%d begun, %d closed, %+v, %v", begun, closed, r, err)
	}
}
