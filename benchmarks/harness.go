package benchmarks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/benchmarks/facts"
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
	// Budget, if not 0, is the time for all cases together. Each case gets an equal part of the time that is left, at
	// most MaxTime. RunByTurns ends when it is over, but not before LeastTurns rounds.
	Budget time.Duration
	// Limit makes Budget a limit of Run: a round that does not fit is left out, and so is a case for which no time is left,
	// whose result is Skipped. At least one case is tried.
	Limit bool
	// Begin is when the budget began to count; zero: when Run is called.
	Begin time.Time
	// TooLong, if not nil, is called if the least rounds of RunByTurns take longer than the budget, with the time that they may take.
	TooLong func(time.Duration)
	// Rounds is how often the list of cases is measured, each time with a part of the samples; 0 means once. What
	// disturbs the machine for some seconds then does not disturb all samples of a case.
	Rounds int
	// Worker, if not nil, starts a process that calls [Serve] with the same cases. Each round has a process of its own. If a
	// case ends its process, as a fault of a driver does, only that case is lost.
	Worker func(context.Context) *exec.Cmd
	// WorkerMetrics, if not nil, is called after each case with the metrics of the process that measured it, and with a number
	// that differs from those of other processes.
	WorkerMetrics func(process int, m core.Metrics)
	// SkipVerification leaves out the comparison of the bytes that arrived with those that were sent.
	SkipVerification bool
	// Simulated measures simulated devices, too. Each result of one says so.
	Simulated bool
	// SlowDown adds this part of its time to each operation of the cases it names, to test comparisons: 0.1 makes
	// a case 10 % slower.
	SlowDown map[string]float64
	// Small shrinks all tensors to a few kilobytes, to test that the cases work.
	Small bool
	// Progress, if not nil, is called before each case of each round, with the number of those that are done.
	Progress func(c Case, done int)
	// Measured, if not nil, is called with each result as soon as it is there: in each round once for each case.
	Measured func(Result)
}

const (
	longestSample = 20 * time.Millisecond
	// A sample of less is one of the clock and of what the caches hold, and a share of less has no room for samples.
	shortestSample = 50 * time.Microsecond
	leastShare     = 20 * time.Millisecond
	fewestRounds   = 3
	// A sample is made of up to this many parts of at least shortestPart: another program that takes the processor for some
	// milliseconds spoils a whole sample, but seldom each of its parts.
	mostParts    = 16
	shortestPart = 100 * time.Microsecond
	mostLoops    = 1 << 30
)

// block is what a case is measured with in one round.
type block struct {
	Samples int           `json:"samples"`
	Time    time.Duration `json:"time_ns"`
}

// measurer takes one block of samples of a case. The result has no figures that follow from the samples.
type measurer interface {
	measure(ctx context.Context, c Case, b block) Result
	close()
	numpyVersion() string
}

// Run measures the cases one after the other. For a case that cannot be measured, the [Result] holds the
// reason. If ctx ends, Run returns ctx's error, and the report has the cases that were measured until then. Run returns
// core.ErrInvalid for a case that [List] has not returned.
func Run(ctx context.Context, cases []Case, opts Options) (Report, error) {
	if err := checkListed("Run", cases); err != nil {
		return Report{}, err
	}
	reports, err := run(ctx, cases, opts, opts.Worker)
	return reports[0], err
}

// RunByTurns measures the cases like [Run], and by turns with another program: in each round each case is measured
// by both, one right after the other, and in each round another one begins. Whatever makes the machine slower for
// some seconds does so for both. Other starts a process of that program, which calls [Serve], as opts.Worker does for
// this one. [Report.CompareByTurns] compares the two reports. Opts.Measured is called with the results of this program only, and
// opts.WorkerMetrics with the metrics of both.
func RunByTurns(ctx context.Context, cases []Case, opts Options, other func(context.Context) *exec.Cmd) (own, others Report, err error) {
	if err := checkListed("RunByTurns", cases); err != nil {
		return own, others, err
	}
	reports, err := run(ctx, cases, opts, opts.Worker, other)
	return reports[0], reports[1], err
}

// checkListed returns core.ErrInvalid for a case that [List] has not returned, which has no operation.
func checkListed(call string, cases []Case) error {
	if i := slices.IndexFunc(cases, func(c Case) bool { return c.setup == nil }); i >= 0 {
		return core.Errorf(core.ErrInvalid, "benchmarks", call, "case %d, %q, has nothing to measure: take the cases of List", i, cases[i].Name)
	}
	return nil
}

// program is one that measures: in processes that start starts, or in this one if that is nil.
type program struct {
	start   func(context.Context) *exec.Cmd
	results []*Result
	report  Report
	measurer
}

func run(ctx context.Context, cases []Case, opts Options, starts ...func(context.Context) *exec.Cmd) ([]Report, error) {
	opts.Samples, opts.Rounds = max(1, opts.Samples), max(1, opts.Rounds)
	opts.Rounds = min(opts.Rounds, opts.Samples)
	if opts.Begin.IsZero() {
		opts.Begin = time.Now()
	}
	if opts.Registry == nil {
		opts.Registry = new(core.Registry)
	}
	host := facts.Read(ctx, opts.Registry)
	programs := make([]*program, len(starts))
	for i, start := range starts {
		programs[i] = &program{start: start, results: make([]*Result, len(cases)), report: Report{
			Date:    time.Now().UTC().Truncate(time.Second),
			Samples: opts.Samples,
			MaxTime: opts.MaxTime,
			Cases:   []Result{},
		}}
	}
	byTurns := len(programs) > 1
	plan := budgetOf(opts, byTurns)
	interrupted := false
	for round := 0; round < plan.rounds; round++ {
		begun := time.Now()
		if interrupted = !runRound(ctx, cases, opts, round, programs, plan); interrupted || !anyMeasured(programs) {
			break
		}
		plan.next(round, time.Since(begun), byTurns)
	}
	host.End()
	reports := make([]Report, len(programs))
	for i, p := range programs {
		p.report.Interrupted, p.report.Host = interrupted, host
		p.report.Shortened = plan.shortened
		p.finish(cases)
		reports[i] = p.report
	}
	return reports, ctx.Err()
}

// anyMeasured reports whether there is a case that every program could measure so far.
func anyMeasured(programs []*program) bool {
	for i := range programs[0].results {
		if !slices.ContainsFunc(programs, func(p *program) bool { return p.results[i] == nil || p.results[i].Status != OK }) {
			return true
		}
	}
	return false
}

// finish puts the results into the report.
func (p *program) finish(cases []Case) {
	r := &p.report
	if r.NumPy != "" {
		r.Host.Versions = maps.Clone(r.Host.Versions)
		r.Host.Versions["NumPy"] = r.NumPy
	}
	for i, result := range p.results {
		if result != nil {
			result.finish(cases[i].Target)
			result.checkPeak(&r.Host)
			r.Cases = append(r.Cases, *result)
		}
	}
}

// begin starts what measures one round.
func (p *program) begin(opts Options) {
	if p.start == nil {
		p.measurer = newInProcess(opts)
		return
	}
	p.measurer = &workers{start: p.start, metrics: opts.WorkerMetrics, hangs: hangsAfter}
}

// end ends it.
func (p *program) end() {
	p.close()
	p.report.NumPy = cmp.Or(p.report.NumPy, p.numpyVersion())
}

// runRound measures each case once by each program, and reports whether it came to the end.
func runRound(ctx context.Context, cases []Case, opts Options, round int, programs []*program, plan *budget) bool {
	for _, p := range programs {
		p.begin(opts)
		defer p.end()
	}
	// Each round has an equal part of the budget, and each case that is left an equal part of what is left of that.
	plan.begin(round)
	todo := 0
	for _, p := range programs {
		for i := range cases {
			if round == 0 || p.results[i].Status == OK {
				todo++
			}
		}
	}
	beside := time.Duration(0)
	for i, c := range cases {
		done := round*len(cases) + i
		if opts.Progress != nil {
			opts.Progress(c, done)
		}
		b := block{Samples: opts.Samples / opts.Rounds, Time: opts.MaxTime / time.Duration(opts.Rounds)}
		if round < opts.Samples%opts.Rounds {
			b.Samples++
		}
		if plan.isOver() && done > 0 {
			if round > 0 {
				plan.shortened = fmt.Sprintf("the budget of %v ended the run in round %d of %d", opts.Budget, round+1, opts.Rounds)
				return true
			}
			for _, p := range programs {
				p.results[i] = c.notMeasured(Skipped, fmt.Sprintf("no time was left of the budget of %v", opts.Budget))
			}
			continue
		}
		if opts.Budget > 0 {
			b.Time = min(b.Time, time.Until(plan.until)/time.Duration(max(1, todo))-beside)
			b.Time = max(b.Time, leastShare)
		}
		for turn := range programs {
			p := programs[(turn+round)%len(programs)]
			if round > 0 && p.results[i].Status != OK {
				continue
			}
			begun := time.Now()
			result := p.measure(ctx, c, b)
			todo--
			if result.Status == OK { // what it took besides its share, on average of the last ones
				beside += (max(0, time.Since(begun)-b.Time) - beside) / 8
			}
			if ctx.Err() != nil {
				return false
			}
			if p.results[i] == nil {
				p.results[i] = &result
			} else {
				p.results[i].add(result)
			}
			if opts.Measured != nil && p == programs[0] {
				seen := p.results[i].clone()
				seen.finish(c.Target)
				opts.Measured(seen)
			}
		}
	}
	return true
}

// clone returns a copy whose finish does not change r.
func (r *Result) clone() Result {
	c := *r
	c.Baselines = slices.Clone(r.Baselines)
	return c
}

// add appends the samples of a later round.
func (r *Result) add(later Result) {
	if later.Status != OK {
		later.Series, later.Baselines, later.Way = Series{}, nil, ""
		*r = later
		return
	}
	r.Allocs, r.Verified, r.ClockError = later.Allocs, later.Verified, max(r.ClockError, later.ClockError)
	r.append(later.Series)
	for i := range r.Baselines {
		if b := &r.Baselines[i]; i < len(later.Baselines) && b.NotMeasured == "" {
			if reason := later.Baselines[i].NotMeasured; reason != "" {
				*b = Series{Baseline: b.Baseline, NotMeasured: reason}
				continue
			}
			b.append(later.Baselines[i])
		}
	}
}

// append appends the samples of a later block.
func (s *Series) append(later Series) {
	s.Times = append(s.Times, later.Times...)
	s.Blocks = append(s.Blocks, later.Blocks...)
	s.Fastest = append(s.Fastest, later.Fastest...)
	s.Reference = append(s.Reference, later.Reference...)
	s.Iterations = max(s.Iterations, later.Iterations)
}

// finish sets what follows from the samples.
func (r *Result) finish(target Target) {
	if r.Status == OK {
		r.summarize(r.Bytes)
		for i := range r.Baselines {
			if b := &r.Baselines[i]; b.NotMeasured == "" {
				b.summarize(r.Bytes)
			}
		}
		r.compare()
	}
	r.Verdict = target.judge(*r)
}

// inProcess measures in this process.
type inProcess struct {
	opts  Options
	numpy *numpy
}

func newInProcess(opts Options) *inProcess {
	return &inProcess{opts: opts, numpy: &numpy{python: opts.Python}}
}

func (p *inProcess) close() { p.numpy.close() }

func (p *inProcess) numpyVersion() string { return p.numpy.version }

func (p *inProcess) measure(ctx context.Context, c Case, b block) Result {
	p.numpy.ctx = ctx
	e := &env{ctx: ctx, registry: p.opts.Registry, small: p.opts.Small, withSimulated: p.opts.Simulated, numpy: p.numpy}
	defer e.close()
	r := *c.notMeasured(OK, "")
	t, err := c.setup(e)
	if p.opts.SkipVerification {
		t.verify = nil
	}
	if err == nil {
		// Also without a part: another place of the stack alone makes some cases faster or slower by 5 %.
		t.own = slowed(t.own, p.opts.SlowDown[c.Name])
		err = r.sample(ctx, t, b.Samples, b.Time)
	}
	r.Simulated = e.simulated
	if err != nil {
		r.Status, r.Reason = statusOf(err), err.Error()
		r.Series, r.Baselines, r.Way = Series{}, nil, ""
	}
	return r
}

// notMeasured returns a result without samples.
func (c *Case) notMeasured(s Status, reason string) *Result {
	return &Result{
		Name: c.Name, Description: c.Description, Family: c.Family, Kind: c.Kind, From: c.From, To: c.To,
		Memory: c.Memory, Size: c.Size, Streams: c.Streams, Status: s, Reason: reason,
	}
}

// slowed makes each sample take longer by a part of its time: by so many more operations, whose garbage is collected like that of the
// others, and by waiting for what is less than one operation.
func slowed(s sampler, part float64) sampler {
	return func(n int) (time.Duration, error) {
		more := part * float64(n)
		whole := int(more)
		d, err := s(n + whole)
		extra := time.Duration((more - float64(whole)) * float64(d) / float64(n+whole))
		for start := time.Now(); time.Since(start) < extra; {
			runtime.Gosched()
		}
		return d + extra, err
	}
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
	r.Clock, r.Memory = cmp.Or(t.clock, HostClock), cmp.Or(t.memory, r.Memory)
	if t.streams > 0 {
		r.From, r.To, r.Streams = t.from, t.to, t.streams
	}
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
	length := max(shortestSample, min(longestSample, maxTime/time.Duration(2*samples*len(series))))
	pieces := make([]pieces, len(series))
	for i, s := range series {
		if err := step(i, func() (err error) {
			pieces[i], err = calibrate(samplers[i], length)
			s.Iterations = pieces[i].iterations * pieces[i].parts
			return err
		}); err != nil {
			return err
		}
	}
	work := new(reference)
	start := time.Now()
	for round := range samples {
		if round >= fewestRounds && time.Since(start) > maxTime {
			break
		}
		for turn := range series {
			i := (turn + round) % len(series)
			s := series[i]
			if err := step(i, func() error {
				return s.take(samplers[i], pieces[i], work)
			}); err != nil {
				return err
			}
		}
	}
	for _, s := range series {
		if s.NotMeasured == "" {
			s.Blocks = []int{len(s.Times)}
		}
	}
	if r.ClockError = float64(t.resolution); r.Clock == HostClock {
		r.ClockError = max(r.ClockError, hostClockError())
	}
	r.ClockError = round(r.ClockError / float64(max(1, r.Iterations)))
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

// pieces are what a sample is made of.
type pieces struct {
	parts      int
	iterations int // of each part
}

// take takes a sample, with the reference work beside each part.
func (s *Series) take(op sampler, p pieces, work *reference) error {
	total, fastest, speed := time.Duration(0), time.Duration(math.MaxInt64), 0.0
	for range p.parts {
		d, err := op(p.iterations)
		if err != nil {
			return err
		}
		total += d
		if beside := work.run(); d < fastest {
			fastest, speed = d, beside
		}
	}
	s.Times = append(s.Times, perOperation(total, p.parts*p.iterations))
	s.Fastest = append(s.Fastest, perOperation(fastest, p.iterations))
	s.Reference = append(s.Reference, speed)
	return nil
}

// calibrate warms up and finds what makes a sample of a length: as many operations as take long enough for a part, and as many
// parts as there is time for. An operation that does most of its work off the clock has one part, and several times the length
// with what is off the clock: in short parts there would be too little to measure.
func calibrate(s sampler, sample time.Duration) (pieces, error) {
	const offClock = 5
	for n := 1; ; {
		start := time.Now()
		d, err := s(n)
		whole, length := d, max(shortestPart, sample/mostParts)
		if withOff := time.Since(start) / offClock; withOff > d {
			whole, length = withOff, sample
		}
		if err != nil || whole >= length || n >= mostLoops {
			if n > 1 && whole > length { // the same parts in each process, however long this run took by chance
				n, whole = int(math.Ceil(float64(n)*float64(length)/float64(whole))), length
			}
			return pieces{max(1, min(mostParts, int(sample/max(whole, 1)))), n}, err
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

// hostClockError is how far the difference of two readings of the host's clock may be wrong, in nanoseconds: the time of a
// reading, or the clock's step if that is longer.
var hostClockError = sync.OnceValue(func() float64 {
	const readings = 1000
	start, step := time.Now(), math.Inf(1)
	last := start
	for range readings {
		now := time.Now()
		if d := float64(now.Sub(last)); d > 0 {
			step = min(step, d)
		}
		last = now
	}
	return max(step, float64(last.Sub(start))/readings)
})
