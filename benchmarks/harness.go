package benchmarks

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Options configure [Run].
type Options struct {
	Registry *core.Registry // where devices come from
	Python   string         // an interpreter with NumPy, see [FindPython]; without one NumPy is not measured
	Samples  int            // of every case, at least 1
	// MaxTime limits the time of a case. Samples are as long as it allows, up to 20 ms. If one operation
	// takes longer than a sample, fewer samples are taken.
	MaxTime time.Duration
	// Small shrinks all tensors to a few kilobytes, to test that the cases work.
	Small bool
	// Progress, if not nil, is called before each case.
	Progress func(c Case)
}

const (
	longestSample = 20 * time.Millisecond
	fewestRounds  = 3
	mostLoops     = 1 << 30
)

// Run measures the cases one after the other. For a case that cannot be measured, the [Result] holds the
// reason. Run fails only with ctx's error, and then returns no report.
func Run(ctx context.Context, cases []Case, opts Options) (Report, error) {
	r := Report{
		Date:    time.Now().UTC().Truncate(time.Second),
		Host:    thisHost(),
		Samples: max(1, opts.Samples),
		MaxTime: opts.MaxTime,
		Cases:   []Result{},
	}
	numpy := &numpy{ctx: ctx, python: opts.Python}
	defer numpy.close()
	for _, c := range cases {
		if opts.Progress != nil {
			opts.Progress(c)
		}
		e := &env{ctx: ctx, registry: opts.Registry, small: opts.Small, numpy: numpy}
		r.Cases = append(r.Cases, measure(e, c, r.Samples, r.MaxTime))
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
	}
	r.NumPy = numpy.version
	return r, nil
}

// measure takes the samples of one case.
func measure(e *env, c Case, samples int, maxTime time.Duration) (r Result) {
	r = Result{Name: c.Name, Description: c.Description, Family: c.Family, Kind: c.Kind, From: c.From, To: c.To, Memory: c.Memory, Size: c.Size, Streams: c.Streams, Status: OK}
	defer e.close()
	t, err := c.setup(e)
	if err == nil {
		err = r.sample(e.ctx, t, samples, maxTime)
	}
	if err != nil {
		r.Status, r.Reason = statusOf(err), err.Error()
		r.Series, r.Baselines, r.Way = Series{}, nil, ""
	} else {
		r.summarize(r.Bytes)
		for i := range r.Baselines {
			if b := &r.Baselines[i]; b.NotMeasured == "" {
				b.summarize(r.Bytes)
			}
		}
		r.compare()
	}
	r.Verdict = c.Target.judge(r)
	return r
}

func statusOf(err error) Status {
	switch {
	case errors.Is(err, core.ErrNotSupported):
		return Unsupported
	case errors.Is(err, core.ErrOutOfMemory):
		return Skipped
	default:
		return Failed
	}
}

// sample samples the operation and its baselines by turns, each round in another
// order. What fails among the baselines is left out from there on.
func (r *Result) sample(ctx context.Context, t trial, samples int, maxTime time.Duration) error {
	r.Bytes, r.Way, r.Refused, r.Notes = t.bytes, t.way, t.refused, t.notes
	r.Clock = cmp.Or(t.clock, HostClock)
	if n := len(t.baselines); n > 0 {
		r.Baselines = make([]Series, n)
	}
	series, samplers := []*Series{&r.Series}, []sampler{t.own}
	for i, b := range t.baselines {
		r.Baselines[i] = Series{Baseline: b.name, NotMeasured: b.reason}
		series, samplers = append(series, &r.Baselines[i]), append(samplers, b.sample)
	}
	// step calls f, if the series is still in the race, and puts it out on an error.
	step := func(i int, f func() error) error {
		if series[i].NotMeasured != "" {
			return nil
		}
		err := f()
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if err != nil && i > 0 {
			*series[i] = Series{Baseline: series[i].Baseline, NotMeasured: err.Error()}
			return nil
		}
		return err
	}

	runtime.GC() // the garbage of other cases is not this one's
	length := min(longestSample, maxTime/time.Duration(2*samples*len(series)))
	for i, s := range series {
		if err := step(i, func() (err error) {
			s.Iterations, err = calibrate(samplers[i], length)
			return err
		}); err != nil {
			return err
		}
	}
	start := time.Now()
	for round := range samples {
		if round >= fewestRounds && time.Since(start) > maxTime {
			break
		}
		for turn := range series {
			i := (turn + round) % len(series)
			s := series[i]
			if err := step(i, func() error {
				d, err := samplers[i](s.Iterations)
				s.Times = append(s.Times, perOperation(d, s.Iterations))
				return err
			}); err != nil {
				return err
			}
		}
	}
	var err error
	if r.Allocs, err = countAllocs(t.own, r.Iterations); err != nil || t.verify == nil {
		return err
	}
	if r.Mismatch, err = t.verify(); err != nil {
		return err
	}
	r.Verified = true
	if r.Mismatch != nil {
		return errors.New(r.Mismatch.Text)
	}
	return nil
}

// calibrate warms up and finds how many operations take at least as long as wanted,
// or several times that with what they do off the clock.
func calibrate(s sampler, length time.Duration) (int, error) {
	const offClock = 5
	for n := 1; ; {
		start := time.Now()
		d, err := s(n)
		whole := max(time.Since(start)/offClock, d)
		if err != nil || whole >= length || n >= mostLoops {
			return n, err
		}
		// A fifth more than needed, but a short run foretells little of a long one.
		n = max(n+1, min(100*n, int(1.2*float64(n)*float64(length)/float64(max(whole, 1)))))
	}
}

func perOperation(d time.Duration, n int) float64 { return round(float64(d) / float64(n)) }

// countAllocs counts as go test does: whole allocations of one operation, so that
// what others allocate meanwhile is lost among many operations.
func countAllocs(s sampler, n int) (int64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s(n)
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs-before.Mallocs) / int64(n), err
}
