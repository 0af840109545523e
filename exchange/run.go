package exchange

import (
	"context"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange/internal/opened"
)

// cache is what the moves of this process keep open.
var cache = opened.New()

// run is one execution of a plan.
type run struct {
	*move
	plan   *plan
	ways   []way         // those of the plan, with the reasons why some failed
	shared *opened.Entry // what the way being tried shares or copies from, if anything
	opened bool          // something was opened
}

// follow begins a move, and goes the best way of a plan that does not fail.
func (m *move) follow(ctx context.Context, p *plan) (*core.Tensor, Report, error) {
	if err := m.begin(ctx); err != nil {
		return nil, p.refused(nil), err
	}
	defer m.release()
	return m.run(ctx, p)
}

// run goes the best way that does not fail. The caller has begun the move.
func (m *move) run(ctx context.Context, p *plan) (*core.Tensor, Report, error) {
	r := &run{move: m, plan: p, ways: p.ways}
	var failed []error
	for i := range p.ways {
		if p.ways[i].reason != nil {
			continue
		}
		r.shared = nil
		t, err := r.try(ctx, i)
		if err == nil {
			report := r.report(i)
			t, err = m.finish(ctx, t, &report)
			return t, report, err
		}
		if errors.Is(err, core.ErrClosed) { // a device that was closed before does not call any more
			cache.Unwatch(m.dst)
		}
		if fatal := r.fatal(ctx); fatal != nil {
			return nil, p.refused(r.ways[:i]), fatal
		}
		if failed == nil {
			r.ways = slices.Clone(p.ways)
		}
		failed = append(failed, err)
		r.ways[i].reason = m.why(r.ways[i], err)
	}
	report := p.refused(r.ways)
	return nil, report, noWay(m.call, report, failed)
}

// try goes a way. It returns the tensor on the destination, and leaves nothing behind
// if it fails.
func (r *run) try(ctx context.Context, i int) (*core.Tensor, error) {
	w := r.ways[i]
	switch {
	case w.tensor != nil:
		return w.tensor(r)
	case w.fill != nil:
		return r.copied(ctx, w.handle, w.fill)
	}
	shared, err := r.share(ctx, i)
	if err != nil || !w.copies {
		return shared, err
	}
	defer shared.Close()
	return r.copied(ctx, 0, func(ctx context.Context, r *run, c *copying) error {
		b, err := shared.Buffer()
		if err != nil {
			return err
		}
		return with(b, c.source, func(src *core.Tensor) error { return r.copyOn(ctx, r.dst, c.fresh, src) })
	})
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

// report is that of a run which took way i.
func (r *run) report(i int) Report {
	w := r.ways[i]
	a := &account{plan: r.plan, taken: w, refused: r.ways[:i]}
	if r.shared != nil { // perhaps opened by another move, and in a way that ranks behind w
		by := r.shared.How().(*account)
		if !w.copies {
			a = by
		} else {
			a.taken = by.taken.copyOf()
			for _, f := range by.refused {
				if f = f.copyOf(); !slices.ContainsFunc(a.refused, f.is) {
					a.refused = append(slices.Clip(a.refused), f)
				}
			}
		}
	}
	mechanism := a.taken.cost()
	return Report{From: r.plan.memory, To: r.plan.to, Mechanism: mechanism, BytesCopied: mechanism.Copies() * r.plan.bytes, Opened: r.opened, account: a}
}

// sharing is what the cache keeps of how way i opened memory: the way without a copy
// behind it, and the ways to share the memory that were refused before.
func (r *run) sharing(i int) *account {
	a := &account{plan: r.plan, taken: r.ways[i]}
	a.taken.copies = false
	for _, w := range r.ways[:i] {
		if w.copies || w.cost().Copies() == 0 {
			w.copies = false
			a.refused = append(a.refused, w)
		}
	}
	return a
}
