package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// mutant is a device that breaks one rule, as its hooks say.
type mutant[H any] struct {
	name  string // what it does wrong
	fails string // the case that must find it
	says  string // a part of what the case must say
	hooks H
}

// testTimeout is how long tests wait for what mutants leave behind.
const testTimeout = 20 * time.Second

// patience is how long a case waits for a mutant that never does what it should,
// on a busy machine again and again. The longer it waits, the later it looks.
var patience = []time.Duration{300 * time.Millisecond, 15 * time.Second, time.Minute}

// leaves is what the simulated device cannot do, since its objects cannot leave it;
// other tests show that the cases which need it can fail.
const leaves = core.CapExportMemory | core.CapImportMemory | core.CapExportSemaphores | core.CapImportSemaphores | core.CapIPCEvents

func TestSuiteFindsMutants(t *testing.T) {
	cases := slices.DeleteFunc(Cases(), func(c Case) bool { return c.Needs&leaves != 0 })
	list := slices.Concat(memoryMutants, copyMutants, orderMutants, streamMutants, optionalMutants, crudeMutants, opaqueMutants, neighbourMutants, batchMutants, convertMutants, clockMutants, fileMutants)
	findMutants(t, cases, list, func(t *testing.T, h hooks) (func(testing.TB) core.Device, []Options) {
		h.options.Seed = 1
		first, second := wrapped(h)
		return keeps(t, first, outer), []Options{{Peer: keeps(t, second, outer)}}
	})
}

// findMutants shows that the case which a mutant names finds it, and that each of cases finds one.
func findMutants[H any](t *testing.T, cases []Case, list []mutant[H], open func(*testing.T, H) (func(testing.TB) core.Device, []Options)) {
	found := make(map[string]bool)
	for _, m := range list {
		found[m.fails] = true
		t.Run(m.name, func(t *testing.T) {
			device, opts := open(t, m.hooks)
			wantFailure(t, m.fails, m.says, device, opts...)
		})
	}
	for _, c := range cases {
		if !found[c.Name] {
			t.Errorf("%s: no mutant shows that it can fail", c.Name)
		}
	}
}

// wantPass shows that cases pass: the hooks alone make the difference between a mutant and a device that keeps all rules.
func wantPass(t *testing.T, cases []Case, open func(testing.TB) core.Device, options ...Options) {
	t.Helper()
	for _, c := range cases {
		if r := record(t, c, open, options...); r.Failed() || r.skipped {
			t.Errorf("%s: %q", c.Name, r.log)
		}
	}
}

// wantFailure proves that a case fails with a device, and says why. It may open
// several devices.
func wantFailure(t *testing.T, name, says string, open func(testing.TB) core.Device, options ...Options) {
	t.Helper()
	c := casesNamed(t, name)[0]
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

func casesNamed(t *testing.T, names ...string) (list []Case) {
	for _, name := range names {
		i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("there is no case %q", name)
		}
		list = append(list, Cases()[i])
	}
	return list
}

// specOf returns the spec of t in its buffer.
func specOf(t *core.Tensor) (*core.Buffer, core.Spec, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, core.Spec{}, err
	}
	return b, core.Spec{
		DType: t.DType(), Shape: t.Shape(), Strides: t.Layout().Strides(),
		Offset: t.Offset() - b.Memory().Offset, Flags: t.Flags(),
	}, nil
}

// respec makes another tensor of the memory of t, with another spec.
func respec(t *core.Tensor, change func(*core.Spec)) (*core.Tensor, error) {
	b, s, err := specOf(t)
	if err != nil {
		return nil, err
	}
	change(&s)
	return core.NewTensor(b, s)
}

// use returns a function that calls f with t and then closes t.
func use(t *core.Tensor, err error) func(f func(*core.Tensor) error) error {
	return func(f func(*core.Tensor) error) error {
		if err != nil {
			return err
		}
		defer t.Close()
		return f(t)
	}
}

// copyOther copies to a dst and from a src that are not what they should be. Rows
// of bytes, by which the suite looks at memory, it copies well.
func copyOther(change func(dst, src *core.Spec)) hooks {
	return hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if dst == nil || src == nil || dst.DType() == core.TypeUint8 && dst.Layout().IsContiguous() && !dst.ReadOnly() {
			return d.Copy(ctx, s, dst, src)
		}
		dstBuffer, to, dstErr := specOf(dst)
		srcBuffer, from, srcErr := specOf(src)
		if err := errors.Join(dstErr, srcErr); err != nil {
			return err
		}
		change(&to, &from)
		return use(core.NewTensor(dstBuffer, to))(func(dst *core.Tensor) error {
			return use(core.NewTensor(srcBuffer, from))(func(src *core.Tensor) error { return d.Copy(ctx, s, dst, src) })
		})
	}}
}

// copyFrom copies from what other makes of src.
func copyFrom(other func(dst, src *core.Tensor) (*core.Tensor, error)) hooks {
	return hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		return use(other(dst, src))(func(src *core.Tensor) error { return d.Copy(ctx, s, dst, src) })
	}}
}

// failIf refuses the copies that match, failFor those to a dst that matches.
func failIf(match func(dst, src *core.Tensor) bool) hooks {
	return hooks{copy: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor) error {
		if match(dst, src) {
			return core.Errorf(core.ErrNotSupported, "mutant", "Copy", "not for %v", dst)
		}
		return d.Copy(ctx, s, dst, src)
	}}
}

func failFor(match func(*core.Tensor) bool) hooks {
	return failIf(func(dst, _ *core.Tensor) bool { return match(dst) })
}

// unordered makes a tensor of the same elements whose memory knows of no work:
// nothing that uses t is waited for, and t will not know what uses the result.
func unordered(t *core.Tensor) (*core.Tensor, error) {
	b, spec, err := specOf(t)
	if err != nil {
		return nil, err
	}
	m := b.Memory()
	m.Owner = nobody{}
	return core.Wrap(m, spec)
}

// nobody owns what somebody else frees. No goroutine waits to tell it: that would
// run work of the simulated device beside the case, which the race detector sees.
type nobody struct{}

func (nobody) Free() {}

func (nobody) FreeAfter([]core.Event) {}

// asks allocates other memory than it was asked for.
func asks(change func(size *int64, o *core.AllocOptions)) hooks {
	return hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
		change(&size, &o)
		return d.Alloc(ctx, size, o)
	}}
}

// gives returns other memory than it should. The memory that it changes has more bytes behind its end.
func gives(more int64, change func(*device, *core.Memory)) hooks {
	return hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
		m, err := d.Alloc(ctx, size+more, o)
		m.Size -= more
		change(d, &m)
		return m, err
	}}
}

// refuses does not allocate where refuse returns an error.
func refuses(refuse func(size int64, o core.AllocOptions) error) hooks {
	return hooks{alloc: func(d *device, ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
		if err := refuse(size, o); err != nil {
			return core.Memory{}, err
		}
		return d.Alloc(ctx, size, o)
	}}
}

// altered is a hook that changes what another one gives for a buffer.
func altered(hook memoryHook, change func(*core.Buffer, *core.Memory)) memoryHook {
	return func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
		m, err := hook(d, ctx, b)
		change(b, &m)
		return m, err
	}
}

// asBuffer calls f with a buffer that owns m.
func asBuffer(m core.Memory, f func(*core.Buffer) (core.Memory, error)) (memory core.Memory, err error) {
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
	if err != nil {
		m.Free()
	}
	err = use(t, err)(func(t *core.Tensor) error {
		b, err := t.Buffer()
		if err == nil {
			memory, err = f(b)
		}
		return err
	})
	return memory, err
}
