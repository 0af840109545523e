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
	const sample = mostParts * time.Millisecond
	for op, parts := range map[time.Duration]int{1: mostParts, 7: mostParts, 1000: mostParts, 5 * time.Millisecond: 3, time.Hour: 1} {
		p, err := calibrate(fixed(op), sample)
		took := time.Duration(p.iterations) * op
		if err != nil || took < time.Millisecond || p.iterations > 1 && took > 1010*time.Microsecond || p.parts != parts {
			t.Errorf("%d parts of %d operations of %v: %v", p.parts, p.iterations, op, err)
		}
	}
	if p, err := calibrate(fixed(0), sample); err != nil || p.iterations < mostLoops {
		t.Errorf("operations without a time: %+v, %v", p, err)
	}
}

func TestCalibrationMindsWhatIsOffTheClock(t *testing.T) {
	mostlyOff := func(n int) (time.Duration, error) {
		time.Sleep(time.Duration(n) * time.Millisecond)
		return time.Duration(n), nil
	}
	if p, err := calibrate(mostlyOff, time.Millisecond); err != nil || p.iterations > 100 || p.parts != 1 {
		t.Errorf("%+v of a millisecond each, %v", p, err)
	}
}

// Something disturbs all parts of a sample but one.
func TestTheFastestPartOfASampleIsKept(t *testing.T) {
	part := 0
	op := func(n int) (time.Duration, error) {
		if part++; part == 2 {
			return time.Duration(10 * n), nil
		}
		return time.Duration(40 * n), nil
	}
	var s Series
	if err := s.take(op, pieces{parts: 3, iterations: 5}, new(reference)); err != nil {
		t.Fatal(err)
	}
	if len(s.Times) != 1 || s.Times[0] != 30 || len(s.Fastest) != 1 || s.Fastest[0] != 10 || len(s.Reference) != 1 {
		t.Errorf("%+v", s)
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

func TestAnInterruptEndsTheRunAndKeepsWhatWasMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun, closed := 0, 0
	measured := func(end func()) Case {
		return Case{setup: func(e *env) (trial, error) {
			e.cleanup(func() { closed++ })
			return trial{own: func(int) (time.Duration, error) { end(); return time.Hour, nil }}, nil
		}}
	}
	whole, last := measured(func() {}), measured(cancel)
	r, err := Run(ctx, []Case{whole, last, whole}, Options{Samples: 3, MaxTime: time.Second, Progress: func(Case, int) { begun++ }})
	if !errors.Is(err, context.Canceled) || !r.Interrupted || len(r.Cases) != 1 || r.Cases[0].Median == 0 || begun != 2 || closed != 2 {
		t.Errorf("%d begun, %d closed, %+v, %v", begun, closed, r, err)
	}
}

func TestRoundsDivideTheSamplesAndTheTime(t *testing.T) {
	setups, seen := 0, 0
	c := Case{setup: func(*env) (trial, error) {
		setups++
		return trial{own: fixed(time.Duration(10 * setups)), baselines: []baseline{{name: "b", sample: fixed(20)}, {name: "gone", reason: "r"}}}, nil
	}}
	r, err := Run(t.Context(), []Case{c}, Options{Samples: 5, Rounds: 2, MaxTime: time.Hour, Measured: func(r Result) {
		seen++
		if len(r.Times) == 0 || r.Median == 0 {
			t.Errorf("%+v", r)
		}
	}})
	got := r.Cases[0]
	if err != nil || setups != 2 || seen != 2 || !slices.Equal(got.Times, []float64{10, 10, 10, 20, 20}) || !slices.Equal(got.Blocks, []int{3, 2}) || got.Median != 10 {
		t.Errorf("%v, %d set-ups, %d seen, %+v", err, setups, seen, got)
	}
	if b := got.Baselines[0]; len(b.Times) != 5 || !slices.Equal(b.Blocks, []int{3, 2}) || got.Baselines[1].NotMeasured != "r" {
		t.Errorf("%+v", got.Baselines)
	}
}

func TestACaseThatFailsInALaterRoundHasFailed(t *testing.T) {
	setups := 0
	c := Case{setup: func(*env) (trial, error) {
		if setups++; setups == 2 {
			return trial{}, errors.New("lost")
		}
		return trial{own: fixed(1)}, nil
	}}
	r, err := Run(t.Context(), []Case{c}, Options{Samples: 6, Rounds: 3, MaxTime: time.Millisecond})
	if got := r.Cases[0]; err != nil || setups != 2 || got.Status != Failed || got.Reason != "lost" || got.Times != nil {
		t.Errorf("%v, %d set-ups, %+v", err, setups, got)
	}
}

func TestTheBudgetIsDividedAmongTheCases(t *testing.T) {
	var first, longest int
	c := Case{setup: func(*env) (trial, error) {
		return trial{own: func(n int) (time.Duration, error) {
			longest = max(longest, n)
			return time.Duration(n) * time.Microsecond, nil
		}}, nil
	}}
	run := func(o Options) {
		first, longest = 0, 0
		o.Progress = func(_ Case, done int) {
			if done == 1 {
				first = longest // the first case has the whole budget before it
			}
		}
		if _, err := Run(t.Context(), []Case{c, c, c, c}, o); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Samples: 4, MaxTime: time.Hour}
	if run(o); longest < 20_000/mostParts { // parts of samples of 20 ms
		t.Errorf("without a budget a sample has %d operations", longest)
	}
	// At most 10 ms for the first case, half of that for its 4 samples. A machine that is busy leaves it less.
	o.Budget = 40 * time.Millisecond
	if run(o); first > 5_000 || first == 0 {
		t.Errorf("with a budget of %v a sample has %d operations", o.Budget, first)
	}
}

func TestBytesThatDidNotArriveAreAFailure(t *testing.T) {
	c := Case{setup: ready(trial{own: fixed(1), verify: func() (*Mismatch, error) { return &Mismatch{Text: "byte 7 is wrong"}, nil }})}
	if r := runOne(t, c, 3); r.Status != Failed || r.Reason != "byte 7 is wrong" || r.Mismatch == nil || r.Times != nil {
		t.Errorf("%+v", r)
	}
	r, err := Run(t.Context(), []Case{c}, Options{Samples: 3, MaxTime: time.Millisecond, SkipVerification: true})
	if got := r.Cases[0]; err != nil || got.Status != OK || got.Verified || got.Mismatch != nil {
		t.Errorf("%v, %+v", err, got)
	}
	c.setup = ready(trial{own: fixed(1), verify: func() (*Mismatch, error) { return nil, nil }})
	if r := runOne(t, c, 3); r.Status != OK || !r.Verified {
		t.Errorf("%+v", r)
	}
}

func TestAPlantedSlowdownIsMoreOperationsAndAWait(t *testing.T) {
	for _, c := range []struct {
		part      float64
		n, called int
		want      time.Duration
		waits     time.Duration
	}{
		{0, 4, 4, 4 * time.Millisecond, 0},
		{0.5, 4, 6, 6 * time.Millisecond, 0},
		{0.5, 1, 1, 1500 * time.Microsecond, 500 * time.Microsecond},
		{0.1, 16, 17, 17600 * time.Microsecond, 600 * time.Microsecond},
		{2, 1, 3, 3 * time.Millisecond, 0},
	} {
		called := 0
		op := func(n int) (time.Duration, error) { called += n; return time.Duration(n) * time.Millisecond, nil }
		start := time.Now()
		d, err := slowed(op, c.part)(c.n)
		took := time.Since(start)
		if err != nil || (d-c.want).Abs() > time.Microsecond || called != c.called || took < c.waits-time.Microsecond {
			t.Errorf("%+v: %v by %d operations, %v on the clock, %v", c, d, called, took, err)
		}
	}
}

func TestTheErrorOfTheHostsClock(t *testing.T) {
	if e := hostClockError(); e <= 0 || e > 1e6 {
		t.Errorf("%v ns", e)
	}
	r := runOne(t, Case{setup: ready(trial{own: fixed(time.Microsecond)})}, 3)
	if want := round(hostClockError() / float64(r.Iterations)); r.Clock != HostClock || r.ClockError != want {
		t.Errorf("%+v, want an error of %v", r, want)
	}
	r = runOne(t, Case{setup: ready(trial{own: fixed(time.Second), clock: DeviceClock, resolution: 32})}, 3)
	if r.Clock != DeviceClock || r.ClockError != 32 || r.Iterations != 1 {
		t.Errorf("%+v", r)
	}
}
