package exchange

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Route is a plan for a move: how the tensor gets to the device, and why not in a better
// way. It refers to the tensor, the device and the streams that were passed to [Plan],
// which must be open when it runs. It does not own them. A Route is safe for concurrent
// use.
type Route struct {
	From      core.DeviceID // where the memory of the source lies
	To        core.DeviceID // the destination
	Mechanism Mechanism     // of the planned way

	move    move
	account account
	bytes   int64 // that are copied, with a conversion
}

// Plan decides how To would move src to dst. It opens and copies nothing. It assumes that a
// way works if only a try can show that it does not, for example because a driver refuses to
// map the memory. If such a way fails, [Route.Run] tries the next one, and the report
// says so. Plan returns the errors of [To] that are known without a try.
func Plan(src *core.Tensor, dst core.Device, o Options) (*Route, error) {
	r := &Route{move: move{call: "Plan", src: src, dst: dst, o: o}}
	m := &r.move
	if o.Convert != nil {
		return m.planConverted()
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := m.look(); err != nil {
		return nil, err
	}
	defer m.release()
	p := newPlan(m)
	best := p.best()
	for best >= 0 {
		reason := m.asked(p.ways[best])
		if reason == nil {
			break
		}
		p.ways[best].reason = reason
		best = p.best()
	}
	if best < 0 {
		return nil, noWay(m.call, p.refused(p.ways), nil)
	}
	r.account = account{plan: p, taken: p.ways[best], refused: p.ways[:best]}
	r.From, r.To, r.Mechanism = p.memory, p.to, r.account.taken.cost()
	return r, nil
}

// exists returns core.ErrInvalid if r is nil or was not made by [Plan].
func (r *Route) exists(call string) error {
	if r == nil || r.account.plan == nil {
		return core.Errorf(core.ErrInvalid, "exchange", call, "the route is nil or empty: make it with Plan")
	}
	return nil
}

// known returns what is known of a route: nothing of a nil one.
func (r *Route) known() *account {
	if r == nil {
		return nil
	}
	return &r.account
}

// Steps returns the steps of the move, none if r is nil.
func (r *Route) Steps() []Step { return r.known().steps() }

// Refused returns the ways that are better than the planned one, with the reason why each
// is not possible. It returns none if r is nil.
func (r *Route) Refused() []Refusal { return r.known().refusals() }

// String describes the plan in several lines: the mechanism, the steps, and the better ways
// that are not possible.
func (r *Route) String() string {
	if r == nil {
		return "no route"
	}
	copied := r.bytes
	if r.move.o.Convert == nil {
		copied = r.Mechanism.Copies() * r.account.bytes()
	}
	return describe(r.From, r.To, r.Mechanism, copied, &r.account, "")
}

// MarshalJSON returns the fields of r, the steps, and the ways that are not possible. It returns
// core.ErrInvalid if r is nil.
func (r *Route) MarshalJSON() ([]byte, error) {
	if r == nil {
		return nil, r.exists("MarshalJSON")
	}
	return json.Marshal(struct {
		From      core.DeviceID `json:"from"`
		To        core.DeviceID `json:"to"`
		Mechanism Mechanism     `json:"mechanism"`
		Steps     []Step        `json:"steps"`
		Refused   []Refusal     `json:"refused,omitempty"`
	}{r.From, r.To, r.Mechanism, r.Steps(), r.Refused()})
}

// Run moves the tensor as planned. If the planned way fails, Run tries the next one, and
// the report lists the failed way with its error. The results and the errors are those of
// [To]. Run returns core.ErrInvalid if r is nil or was not made by [Plan].
func (r *Route) Run(ctx context.Context) (*core.Tensor, Report, error) {
	if err := r.exists("Run"); err != nil {
		return nil, Report{}, err
	}
	if t := r.move.o.Tracer; t != nil {
		return traceOne(ctx, t, "Run", r.move.src, r.move.dst, r.run)
	}
	return r.run(ctx)
}

// run is Run without the tracer.
func (r *Route) run(ctx context.Context) (*core.Tensor, Report, error) {
	start := time.Now()
	m := r.move
	m.call = "Run"
	if m.o.Convert != nil {
		return m.toConverted(ctx)
	}
	t, report, err := m.follow(ctx, r.account.plan)
	m.count(&report, err)
	report.Duration = time.Since(start)
	return t, report, err
}
