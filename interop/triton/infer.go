package triton

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// InferOptions are the options of a request. The zero value asks for all outputs of the model, in memory of the host.
type InferOptions struct {
	Version string   // of the model; empty: the server chooses
	ID      string   // of the request, for the logs of the server
	Outputs []Output // which outputs are asked for; none: all of the model
	// Device is where outputs go for which [Output] names no device; nil is the host. The caller keeps it open.
	Device core.Device
}

// Output asks for an output.
type Output struct {
	Name string
	// Size is the number of bytes that the output takes at most, so that its first answer can travel in shared memory. 0
	// means that it is not known: the client then takes the size of earlier answers. The server refuses a larger output.
	Size   int64
	Device core.Device // where the output goes; nil: to InferOptions.Device
}

// Infer sends a request to a model and returns its answer. The tensors of the inputs are borrowed until Infer returns, and
// may have any strides. The caller closes the result; the outputs are row-major, and independent of the client.
//
// Infer waits for the last writes to the inputs, the copies that are needed, and the server. An output that is moved to a
// device may still be in work when Infer returns, as with exchange.To. If ctx ends first, Infer returns its error; the
// server may still run the request.
//
// A request is repeated once if the server says that it failed, and either has lost the client's regions, which means
// that it did not run the request, or wants to write an output that is larger than all answers before, which it
// then computes again. Result.Repeated says so. [Output.Size] avoids the latter.
//
// Infer returns
//
//   - core.ErrInvalid if an argument is not valid, such as a nil tensor, or the server says so of the request;
//   - core.ErrClosed if a tensor or the client is closed, and an error that wraps [ErrUnavailable] if no server answers;
//   - core.ErrDType for elements that the protocol has not;
//   - core.ErrDevice if neither the host nor an opened device can read an input;
//   - core.ErrLayout if the server describes an output that does not fit its bytes or its place;
//   - ctx's error, the error of the last write to an input, or an error of Device.Copy or exchange.To.
//
// If Infer fails, nothing of it stays open.
func (c *Client) Infer(ctx context.Context, model string, inputs map[string]*core.Tensor, o InferOptions) (*Result, error) {
	const call = "Infer"
	own, end, err := c.begin(ctx, call)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := checkRequest(call, model, inputs, o); err != nil {
		return nil, err
	}
	for repeated := false; ; repeated = true {
		t := &trip{client: c, key: modelKey{model, o.Version}, options: o}
		result, err := t.run(own, inputs)
		if err == nil {
			result.Repeated = repeated
			return result, nil
		}
		if repeated || !t.mayRepeat(own, err) {
			if c.ctx.Err() != nil && ctx.Err() == nil {
				return nil, core.Errorf(core.ErrClosed, backend, call, "the client was closed during the call")
			}
			return nil, named(call, err)
		}
	}
}

// checkRequest checks what the caller says.
func checkRequest(call, model string, inputs map[string]*core.Tensor, o InferOptions) error {
	if model == "" {
		return core.Errorf(core.ErrInvalid, backend, call, "the name of the model is empty")
	}
	for name, x := range inputs {
		if x == nil || name == "" {
			return core.Errorf(core.ErrInvalid, backend, call, "input %q is %v: an input has a name and a tensor", name, x)
		}
		if _, err := x.Buffer(); err != nil {
			return core.Errorf(err, backend, call, "input %q", name)
		}
		if _, err := datatypeOf(call, name, x.DType()); err != nil {
			return err
		}
	}
	seen := make(map[string]bool)
	for _, out := range o.Outputs {
		if out.Name == "" || out.Size < 0 || seen[out.Name] {
			return core.Errorf(core.ErrInvalid, backend, call, "output %q with Size %d: each output is asked for once, by its name, and Size is not negative", out.Name, out.Size)
		}
		seen[out.Name] = true
	}
	return nil
}

// trip is one request and its answer.
type trip struct {
	client  *Client
	key     modelKey
	options InferOptions
	request request

	inputs  []Report
	outputs []*landing
	guessed bool // a size or a name of an output is that of an earlier answer

	slots []*slot  // of inputs
	ends  []func() // what to call when the request is over
}

// landing is where an output that is asked for is to go.
type landing struct {
	name   string
	device core.Device
	slot   *slot // nil: the output comes in the message, or a tensor owns it
	reason string
}

// run sends the request. If it fails, nothing stays open.
func (t *trip) run(ctx context.Context, inputs map[string]*core.Tensor) (_ *Result, err error) {
	sentAway := false
	defer func() { t.release(sentAway && !answeredError(err) && err != nil) }()
	t.request = request{model: t.key.model, version: t.key.version, id: t.options.ID}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if err := t.addInput(ctx, name, inputs[name]); err != nil {
			return nil, err
		}
	}
	if err := t.addOutputs(ctx); err != nil {
		return nil, err
	}
	sentAway = true
	a, err := t.client.server.infer(ctx, &t.request)
	if err != nil {
		return nil, err
	}
	sentAway = false
	return t.arrive(ctx, a)
}

// release ends the trip. uncertain means that the server may still use the slots.
func (t *trip) release(uncertain bool) {
	for _, out := range t.outputs {
		if out.slot != nil {
			t.slots = append(t.slots, out.slot)
			out.slot = nil
		}
	}
	for _, s := range t.slots {
		if uncertain {
			s.abandon()
		}
		s.Free()
	}
	for _, end := range t.ends {
		end()
	}
	t.slots, t.ends = nil, nil
}

// share makes sure that the server has the region. If the server refuses it, share returns false, and no memory of
// the kind is shared any more.
func (t *trip) share(ctx context.Context, m Mechanism, r *region) (bool, error) {
	c := t.client
	c.mu.Lock()
	stale := c.stale
	c.stale = nil
	c.mu.Unlock()
	for i, name := range stale { // the server may never have had them
		if err := c.server.unregister(ctx, false, name); err != nil && !answeredError(err) {
			c.mu.Lock()
			c.stale = append(c.stale, stale[i:]...) // for the next request
			c.mu.Unlock()
			return false, err
		}
	}
	err := r.ensure(ctx)
	if answeredError(err) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refused[m] = "the server does not open the memory: " + err.Error()
		return false, nil
	}
	return err == nil, err
}

// why says why memory is not shared; empty: it may be.
func (t *trip) why(m Mechanism) string {
	t.client.mu.Lock()
	defer t.client.mu.Unlock()
	return t.client.refused[m]
}

// slot returns a slot that the server has, or a reason.
func (t *trip) slot(ctx context.Context, d core.Device, size int64) (_ *slot, reason string, err error) {
	m := mechanismFor(d)
	if why := t.why(m); why != "" {
		return nil, why, nil
	}
	s, err := t.client.pool.get(ctx, d, size)
	if err != nil {
		return nil, err.Error(), ctx.Err()
	}
	if ok, err := t.share(ctx, m, s.region); err != nil || !ok {
		s.Free()
		return nil, t.why(m), err
	}
	return s, "", nil
}

// addOutputs asks for the outputs, those whose size is known in shared memory.
func (t *trip) addOutputs(ctx context.Context) error {
	c := t.client
	c.mu.Lock()
	known, all := maps.Clone(c.models[t.key].sizes), c.models[t.key].all
	c.mu.Unlock()
	asked := t.options.Outputs
	if len(asked) == 0 && all {
		for _, name := range slices.Sorted(maps.Keys(known)) {
			asked = append(asked, Output{Name: name})
		}
		t.guessed = len(asked) > 0
	}
	for _, out := range asked {
		l := &landing{name: out.Name, device: out.Device}
		if l.device == nil {
			l.device = t.options.Device
		}
		t.outputs = append(t.outputs, l)
		size := out.Size
		if size == 0 {
			size = known[out.Name]
			t.guessed = t.guessed || size > 0
		}
		w := wanted{name: out.Name}
		switch {
		case size == 0:
			l.reason = "the size is not known before the first answer: see Output.Size"
		case size <= c.o.Inline:
			l.reason = "the tensor is small: see Options.Inline"
		default:
			if err := t.land(ctx, l, size); err != nil {
				return err
			}
			if l.slot != nil {
				w.at = l.slot.at(l.slot.size)
			}
		}
		t.request.outputs = append(t.request.outputs, w)
	}
	return nil
}

// land finds a slot for an output, on its device if the server can write there.
func (t *trip) land(ctx context.Context, l *landing, size int64) (err error) {
	var why string
	if d := l.device; d != nil && d.ID().Type == core.DeviceCUDA {
		if l.slot, why, err = t.slot(ctx, d, size); err != nil || l.slot != nil {
			return err
		}
		l.reason = SharedCUDA.String() + ": " + why + "; "
	}
	if l.slot, why, err = t.slot(ctx, nil, size); err == nil && l.slot == nil {
		l.reason += Shared.String() + ": " + why
	}
	l.reason = strings.TrimSuffix(l.reason, "; ")
	return err
}

// mayRepeat reports whether a request that the server refused with err may succeed when it is sent again, and does what
// is needed for that.
func (t *trip) mayRepeat(ctx context.Context, err error) bool {
	if !answeredError(err) || ctx.Err() != nil || errors.Is(err, errAnswer) {
		return false
	}
	shared := slices.ContainsFunc(t.request.inputs, func(in sent) bool { return in.at != nil }) ||
		slices.ContainsFunc(t.request.outputs, func(out wanted) bool { return out.at != nil })
	if shared && t.client.pool.lost(ctx) {
		return true
	}
	if !t.guessed {
		return false
	}
	c := t.client
	c.mu.Lock()
	delete(c.models, t.key) // the names or the sizes may be those of another version of the model
	c.mu.Unlock()
	// Only the text says that an output does not fit. If it changes, the next request succeeds, and this one fails.
	return shared && strings.Contains(err.Error(), "shared memory")
}
