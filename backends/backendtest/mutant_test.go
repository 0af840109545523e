package backendtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// mutant is a device that breaks one rule.
type mutant struct {
	name    string // what it does wrong
	hooks   hooks
	fails   string           // the case that must find it
	says    string           // a part of what the case must say
	options coretest.Options // of the simulated device
}

// testTimeout is how long tests wait for what mutants leave behind.
const testTimeout = 20 * time.Second

// patience is how long a case waits for a mutant that never does what it should,
// on a busy machine once more. The longer it waits, the later it looks.
var patience = []time.Duration{300 * time.Millisecond, 15 * time.Second}

// leaves is what the simulated device cannot do, since its objects cannot leave it;
// other tests show that the cases which need it can fail.
const leaves = core.CapExportMemory | core.CapImportMemory | core.CapExportSemaphores | core.CapImportSemaphores | core.CapIPCEvents

func TestSuiteFindsMutants(t *testing.T) {
	found := make(map[string]bool)
	for _, m := range slices.Concat(memoryMutants, copyMutants, orderMutants, streamMutants, optionalMutants, crudeMutants, opaqueMutants, neighbourMutants, batchMutants, clockMutants, fileMutants) {
		found[m.fails] = true
		t.Run(m.name, func(t *testing.T) { m.check(t) })
	}
	for _, c := range Cases() {
		if !found[c.Name] && c.Needs&leaves == 0 {
			t.Errorf("%s: no mutant shows that it can fail", c.Name)
		}
	}
}

// check runs the case that must fail. That it passes where the rule is kept is for TestFake.
func (m mutant) check(t *testing.T) {
	m.options.Seed = 1
	first, second := wrapped(m.options, m.hooks)
	var opened []*device
	keep := func(open func(testing.TB) *device) func(testing.TB) core.Device {
		return func(tb testing.TB) core.Device {
			d := open(tb)
			opened = append(opened, d)
			return d.outer
		}
	}
	defer func() {
		for _, d := range opened {
			d.release(t)
		}
	}()
	wantFailure(t, m.fails, m.says, keep(first), Options{Peer: keep(second)})
}

// wantFailure proves that a case fails with a device, and says why. It may open
// several devices.
func wantFailure(t *testing.T, name, says string, open func(testing.TB) core.Device, options ...Options) {
	t.Helper()
	c := caseNamed(t, name)
	var problem string
	for _, timeout := range patience {
		o := append(options, Options{})[0]
		o.Seed, o.Timeout = 1, timeout
		cfg := newConfig(o)
		cfg.grace = timeout / 15
		ctx, over := context.WithCancel(t.Context())
		caseContext.Store(&ctx)
		r := recordWith(t, c, open, cfg)
		over()
		switch {
		case r.said(noDLPack):
			t.Skip(noDLPack)
		case r.skipped || !r.Failed():
			problem = fmt.Sprintf("%s did not fail; it said %q", c.Name, r.log)
		case !r.said(says):
			problem = fmt.Sprintf("%s said %q, nothing of %q", c.Name, r.log, says)
		case !r.said(c.Rule):
			problem = fmt.Sprintf("%s does not tell its rule: %q", c.Name, r.log)
		default:
			return
		}
		t.Logf("within %v: %s", timeout, problem)
	}
	t.Error(problem)
}

func caseNamed(t *testing.T, name string) Case {
	for _, c := range Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return Case{}
}

// wrapped opens the two devices of a simulated backend behind hooks. The peer has none.
func wrapped(o coretest.Options, h hooks) (first, second func(testing.TB) *device) {
	one, two := fakes(o)
	return func(tb testing.TB) *device { return wrap(one(tb), h) },
		func(tb testing.TB) *device { return wrap(two(tb), hooks{}) }
}

func wrap(d core.Device, h hooks) *device {
	w := &device{fake: d.(fake), hooks: h}
	w.outer = w
	return w
}

// respec makes another tensor of the memory of t, with another spec.
func respec(t *core.Tensor, change func(*core.Spec)) (*core.Tensor, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	s := core.Spec{
		DType: t.DType(), Shape: t.Shape(), Strides: t.Layout().Strides(),
		Offset: t.Offset() - b.Memory().Offset, Flags: t.Flags(),
	}
	change(&s)
	return core.NewTensor(b, s)
}

// copyHook is what hooks.copy is.
type copyHook = func(*device, context.Context, core.Stream, *core.Tensor, *core.Tensor) error

// copyOther copies to a dst and from a src that are not what they should be. Rows
// of bytes, by which the suite looks at memory, it copies well.
func copyOther(change func(dst, src *core.Spec)) copyHook {
	return func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if dst == nil || src == nil || dst.DType() == core.TypeUint8 && dst.Layout().IsContiguous() && !dst.ReadOnly() {
			return d.fake.Copy(ctx, s, dst, src)
		}
		var to, from core.Spec
		for _, x := range []struct {
			t *core.Tensor
			s *core.Spec
		}{{dst, &to}, {src, &from}} {
			u, err := respec(x.t, func(s *core.Spec) { *x.s = *s })
			if err != nil {
				return err
			}
			_ = u.Close()
		}
		change(&to, &from)
		otherDst, err := respec(dst, func(s *core.Spec) { *s = to })
		if err != nil {
			return err
		}
		defer otherDst.Close()
		otherSrc, err := respec(src, func(s *core.Spec) { *s = from })
		if err != nil {
			return err
		}
		defer otherSrc.Close()
		return d.fake.Copy(ctx, s, otherDst, otherSrc)
	}
}

// unordered makes a tensor of the same elements whose memory knows of no work:
// nothing that uses t is waited for, and t will not know what uses the result.
func unordered(t *core.Tensor) (*core.Tensor, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	var spec core.Spec
	same, err := respec(t, func(s *core.Spec) { spec = *s })
	if err != nil {
		return nil, err
	}
	_ = same.Close()
	m := b.Memory()
	m.Owner = nobody{}
	return core.Wrap(m, spec)
}

// nobody owns what somebody else frees. No goroutine waits to tell it: that would
// run work of the simulated device beside the case, which the race detector sees.
type nobody struct{}

func (nobody) Free() {}

func (nobody) FreeAfter([]core.Event) {}
