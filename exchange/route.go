package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Route is a plan: how a tensor gets to a device, and why not in a better way. It
// borrows the tensor, the device and the streams it was made for, which must be
// open when it runs. It is safe for concurrent use.
type Route struct {
	From      core.DeviceID `json:"from"` // where the source's memory lies
	To        core.DeviceID `json:"to"`
	Mechanism Mechanism     `json:"mechanism"`
	Steps     []Step        `json:"steps"`
	Refused   []Refusal     `json:"refused,omitempty"` // ways that rank better, and why they were not taken

	move       *move
	candidates []candidate // the best first
}

// candidate is a way that was thought of.
type candidate struct {
	mechanism Mechanism
	what      string
	reason    string // why the way cannot be taken, known beforehand; empty if it can
	steps     []Step
	shares    *candidate // that shares memory: the way itself, or what it copies from; nil for others
	// run goes the way. It returns the tensor on the destination, and leaves nothing
	// behind if it fails.
	run func(ctx context.Context, r *run) (*core.Tensor, error)
}

// refusal is the candidate as a way that was not taken.
func (c *candidate) refusal(reason string) Refusal {
	return Refusal{Mechanism: c.mechanism, What: c.what, Reason: reason}
}

// NoWayError says that every way was refused. It wraps the errors of the ways
// that were tried, or core.ErrNotSupported if none could be.
type NoWayError struct {
	From, To core.DeviceID
	Refused  []Refusal

	tried []error
}

// Error names both places and every refused way.
func (e *NoWayError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no way from %v to %v", e.From, e.To)
	for _, r := range e.Refused {
		fmt.Fprintf(&b, "; %v: %s: %s", r.Mechanism, r.What, r.Reason)
	}
	return b.String()
}

// Unwrap returns the errors of the ways that were tried.
func (e *NoWayError) Unwrap() []error {
	if len(e.tried) == 0 {
		return []error{core.ErrNotSupported}
	}
	return e.tried
}

func noWay(call string, m *move, refused []Refusal, tried []error) error {
	return &core.Error{Backend: "exchange", Call: call, Err: &NoWayError{From: m.from.ID, To: m.dst.ID(), Refused: refused, tried: tried}}
}

// Plan decides how src gets to dst. It opens and copies nothing, so what only a
// try can tell, such as whether memory was allocated for export, it assumes to go
// well: [Route.Run] goes on to the next way where it does not, and its report tells.
// It fails as [To] does, as far as it can be known beforehand.
func Plan(src *core.Tensor, dst core.Device, o Options) (*Route, error) {
	m, err := newMove("Plan", src, dst, o)
	if err != nil {
		return nil, err
	}
	r := &Route{From: m.from.ID, To: dst.ID(), move: m, candidates: m.candidates()}
	for i := range r.candidates {
		c := &r.candidates[i]
		if c.reason == "" {
			r.Mechanism, r.Steps = c.mechanism, c.steps
			return r, nil
		}
		r.Refused = append(r.Refused, c.refusal(c.reason))
	}
	return nil, noWay("Plan", m, r.Refused, nil)
}

// Explain tells the plan in words: a line with the mechanism, one for each step
// and one for each better way that was refused.
func (r *Route) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v -> %v: %v, %d bytes copied\n", r.From, r.To, r.Mechanism, copied(r.Steps))
	for i, s := range r.Steps {
		fmt.Fprintf(&b, "  %d. %s", i+1, s.What)
		if s.Bytes > 0 {
			fmt.Fprintf(&b, " (%d bytes)", s.Bytes)
		}
		b.WriteByte('\n')
	}
	for _, f := range r.Refused {
		fmt.Fprintf(&b, "  not %v: %s: %s\n", f.Mechanism, f.What, f.Reason)
	}
	return b.String()
}

// Run moves the tensor as planned. Where a way fails, that is kept as a refusal
// with its error and the next one is tried. What it returns, and how it fails, is
// told at [To].
func (r *Route) Run(ctx context.Context) (*core.Tensor, Report, error) {
	start := time.Now()
	t, report, err := r.run(ctx)
	report.Duration = time.Since(start)
	return t, report, err
}

func (r *Route) run(ctx context.Context) (*core.Tensor, Report, error) {
	report := Report{From: r.From, To: r.To}
	m := r.move
	run, err := m.start(ctx)
	if err != nil {
		return nil, report, err
	}
	defer run.end()
	var tried []error
	for i := range r.candidates {
		c := &r.candidates[i]
		if c.reason != "" {
			report.Refused = append(report.Refused, c.refusal(c.reason))
			if s := c.shares; s != nil && s.reason != "" {
				run.unshared = append(run.unshared, s.refusal(s.reason))
			}
			continue
		}
		run.entry = nil
		t, err := c.run(ctx, run)
		if err == nil {
			report.Mechanism, report.Steps, report.Opened = c.mechanism, c.steps, run.opened
			if run.entry != nil {
				report.sharedBy(run.entry, c)
			}
			report.BytesCopied = copied(report.Steps)
			return m.finish(ctx, t, report)
		}
		if c.shares != nil && run.entry == nil {
			run.unshared = append(run.unshared, c.shares.refusal(err.Error()))
		}
		if errors.Is(err, core.ErrClosed) { // a device that was closed before tells nothing any more
			opened.unwatch(m.dst)
		}
		if fatal := run.fatal(ctx); fatal != nil {
			return nil, report, fatal
		}
		tried = append(tried, err)
		report.Refused = append(report.Refused, c.refusal(err.Error()))
	}
	return nil, report, noWay("Run", m, report.Refused, tried)
}

// sharedBy tells how the memory was opened that c shares, or copies from: another
// move may have opened it, by a way that ranks behind that of c.
func (r *Report) sharedBy(e *entry, c *candidate) {
	if c.mechanism.Copies() == 0 {
		r.Mechanism, r.Steps, r.Refused = e.way.mechanism, e.way.steps, e.refused
		return
	}
	copying := c.steps[len(c.steps)-1]
	r.Steps = append(slices.Clone(e.way.steps), copying)
	for _, f := range e.refused {
		f = copyOf(f, c.mechanism, copying)
		if !slices.ContainsFunc(r.Refused, func(x Refusal) bool { return x.What == f.What }) {
			r.Refused = append(r.Refused, f)
		}
	}
}

// copyOf makes of a way to share memory that was refused the way that copies from there.
func copyOf(f Refusal, m Mechanism, copying Step) Refusal {
	return Refusal{Mechanism: m, What: f.What + ", " + copying.What, Reason: f.Reason}
}

// copied sums up what steps copy.
func copied(steps []Step) (bytes int64) {
	for _, s := range steps {
		bytes += s.Bytes
	}
	return bytes
}

// fatal is the error that ends a move whichever way it goes: ctx's, or that of
// the work that wrote the source.
func (r *run) fatal(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e := r.root.Ready(); e != nil {
		if done, err := e.Done(); done {
			return err
		}
	}
	return nil
}
