package exchange

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Route is a plan: how a tensor gets to a device, and why not in a better way. It prints
// in words. It borrows the tensor, the device and the streams it was made for, which must
// be open when it runs. It is safe for concurrent use.
type Route struct {
	From      core.DeviceID // where the source's memory lies
	To        core.DeviceID
	Mechanism Mechanism

	move    move
	account account
}

// Plan decides how src gets to dst. It opens and copies nothing. What only a try can
// tell, such as whether memory was allocated for export, it assumes to succeed: if it
// does not, [Route.Run] tries the next way, and its report says so. Plan fails as [To]
// does, as far as that can be known beforehand.
func Plan(src *core.Tensor, dst core.Device, o Options) (*Route, error) {
	r := &Route{move: move{call: "Plan", src: src, dst: dst, o: o}}
	m := &r.move
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := m.look(); err != nil {
		return nil, err
	}
	defer m.release()
	p := newPlan(m)
	best := p.best()
	if best < 0 {
		return nil, noWay(m.call, p.refused(p.ways), nil)
	}
	r.account = account{plan: p, taken: p.ways[best], refused: p.ways[:best]}
	r.From, r.To, r.Mechanism = p.memory, p.to, r.account.taken.cost()
	return r, nil
}

// Steps lists what is to be done.
func (r *Route) Steps() []Step { return r.account.steps() }

// Refused lists the ways that rank better, and why they are not taken.
func (r *Route) Refused() []Refusal { return r.account.refusals() }

// String describes the plan: a line with the mechanism, one for each step and one for
// each better way that was refused.
func (r *Route) String() string {
	return describe(r.From, r.To, r.Mechanism, r.Mechanism.Copies()*r.account.bytes(), &r.account)
}

// MarshalJSON includes the steps and the refused ways.
func (r *Route) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		From      core.DeviceID `json:"from"`
		To        core.DeviceID `json:"to"`
		Mechanism Mechanism     `json:"mechanism"`
		Steps     []Step        `json:"steps"`
		Refused   []Refusal     `json:"refused,omitempty"`
	}{r.From, r.To, r.Mechanism, r.Steps(), r.Refused()})
}

// Run moves the tensor as planned. If a way fails, the report keeps it as a refusal with
// its error, and the next one is tried. [To] describes what Run returns and how it fails.
func (r *Route) Run(ctx context.Context) (*core.Tensor, Report, error) {
	start := time.Now()
	m := r.move
	m.call = "Run"
	t, report, err := m.follow(ctx, r.account.plan)
	report.Duration = time.Since(start)
	return t, report, err
}
