package backendtest

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/core"
)

var lifetimeCases = []Case{
	{
		Name:  "lifetime/close-after-enqueue",
		Rule:  "core.Device.Copy: dst and src may both be closed at once; their memory stays until the work is done",
		Needs: core.CapAsync,
		run:   caseCloseAfterEnqueue,
	},
	{
		Name:  "lifetime/host-source",
		Rule:  "core.Buffer: the owner of a host src is freed once, after the copy from it is done",
		Needs: core.CapAsync,
		run:   caseHostSource,
	},
	{
		Name:  "lifetime/host-destination",
		Rule:  "core.Buffer: the owner of a host dst is freed once, after the copy to it is done",
		Needs: core.CapAsync,
		run:   caseHostDestination,
	},
	{
		Name:  "lifetime/ordered-release",
		Rule:  "backendkit.OrderedOwner: memory that is freed with work pending is used again only after that work",
		Needs: core.CapAsync,
		run:   caseOrderedRelease,
	},
	{
		Name: "lifetime/last-view",
		Rule: "core.Tensor.Close: the memory stays until the last view is closed",
		run:  caseLastView,
	},
	{
		Name: "lifetime/close-during-copy",
		Rule: "core.Device.Close: fails with ErrInvalid while a copy waits for earlier work, or the copy fails, also if the device does not know the memory, as that of a DLPack tensor",
		run:  caseCloseDuringCopy,
	},
}

func caseCloseAfterEnqueue(e *env) {
	s := e.stream()
	content := e.pattern(5000)
	src, middle, dst := e.upload(content), e.bytes(5000), e.bytes(5000)
	release, _ := e.hold(s)
	err := e.whileHeld(release, func() error {
		err := errors.Join(e.dev.Copy(e.ctx, s, middle, src), e.dev.Copy(e.ctx, s, dst, middle))
		_, _ = src.Close(), middle.Close()
		return err
	})
	e.check(err, "Copy")
	e.synchronize(s)
	e.wantBytes(dst, content, "the end of the chain")
}

// watched is a tensor on host memory whose owner counts how often it was freed.
func (e *env) watched(p []byte) (*core.Tensor, *atomic.Int32) {
	e.Helper()
	owner, freed := counted()
	return e.wrapBytes(core.Memory{ID: core.CPU, Handle: e.address(e.hostBytes(p)), Size: int64(len(p)), Owner: owner}), freed
}

// wantFreedOnce checks that an owner is freed once, now or soon.
func (e *env) wantFreedOnce(freed *atomic.Int32, what string) {
	e.Helper()
	eventually(e.cfg.Timeout, func() bool { return freed.Load() > 0 })
	time.Sleep(time.Millisecond) // a second call would follow at once
	if n := freed.Load(); n != 1 {
		e.Errorf("%s: the owner was freed %d times, want once", what, n)
	}
}

func caseHostSource(e *env) {
	s := e.stream()
	content := e.pattern(1000)
	src, freed := e.watched(slices.Clone(content))
	dst := e.bytes(1000)
	release, sure := e.hold(s)
	e.copy(s, dst, src)
	_ = src.Close()
	time.Sleep(e.cfg.grace)
	if sure && freed.Load() != 0 {
		e.Errorf("src was freed before the copy from it began")
	}
	release()
	e.synchronize(s)
	e.wantFreedOnce(freed, "src")
	e.wantBytes(dst, content, "dst")
}

func caseHostDestination(e *env) {
	s := e.stream()
	content := e.pattern(1000)
	host := make([]byte, 1000)
	dst, freed := e.watched(host)
	src := e.upload(content)
	release, sure := e.hold(s)
	e.copy(s, dst, src)
	_ = dst.Close()
	time.Sleep(e.cfg.grace)
	if sure && freed.Load() != 0 {
		e.Errorf("dst was freed before the copy to it began")
	}
	release()
	e.synchronize(s)
	e.wantFreedOnce(freed, "dst")
	if !slices.Equal(host, content) {
		e.Errorf("dst: %s", difference(host, content))
	}
}

func caseOrderedRelease(e *env) {
	first, second := e.stream(), e.stream()
	old, next := e.pattern(5000), e.pattern(5000)
	t, out := e.upload(old), e.bytes(5000)
	update := e.upload(next)
	release, _ := e.hold(first)
	e.copy(first, out, t)
	_ = t.Close()
	var again []*core.Tensor
	err := e.whileHeld(release, func() error {
		for range 5 {
			u, err := core.Empty(e.ctx, e.dev, core.TypeUint8, []int64{5000}, core.AllocOptions{Stream: second})
			if err != nil {
				return err
			}
			again = append(again, u)
			if err := e.dev.Copy(e.ctx, second, u, update); err != nil {
				return err
			}
		}
		return second.Synchronize(e.ctx)
	})
	for _, u := range again {
		e.keep(u, nil)
	}
	e.check(err, "allocating and overwriting memory of the same size")
	e.synchronize(first)
	e.wantBytes(out, old, "what was copied from the memory before it was freed")
	for i, u := range again {
		e.wantBytes(u, next, "new memory %d", i)
	}
}

func caseLastView(e *env) {
	content := e.pattern(100)
	t := e.upload(content)
	view, err := t.Slice(0, 10, 20, 1)
	e.keep(view, err)
	_, _ = t.Close(), t.Close()
	fill := e.upload(e.pattern(100))
	e.wantBytes(view, content[10:20], "a view of a closed tensor")
	e.wantError(e.dev.Close(), core.ErrInvalid, "Close of the device with a view open")
	_, _ = view.Close(), fill.Close()
	if _, err := view.Buffer(); !errors.Is(err, core.ErrClosed) {
		e.Errorf("the buffer of a closed view: error %v", err)
	}
}

func caseCloseDuringCopy(e *env) {
	const size = 1 << 20
	p, skip, origin := e.pointer(size)
	if e.cfg.Pointer != nil {
		_ = origin.Close() // else it is the memory
	}
	t := e.keep(core.Wrap(core.Memory{ID: e.props.ID, Handle: p, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{size}, Offset: skip}))
	host := e.hostBytes(make([]byte, size))
	calls := []func() error{func() error { return e.dev.Copy(e.ctx, nil, host, t) }}
	if b, ok := e.dev.(core.BatchCopier); ok {
		list := []*core.Tensor{host}
		calls = append(calls, func() error { return b.CopyBatch(e.ctx, nil, list, []*core.Tensor{t}) })
	}
	for _, call := range calls {
		gate := e.pending(host)
		copying := e.start(call)
		time.Sleep(e.cfg.grace)
		closed := e.finish(e.start(e.dev.Close))
		gate.Complete(nil)
		copied := e.finish(copying)
		if closed != nil {
			e.wantError(closed, core.ErrInvalid, "Close during a copy")
		}
		if copied != nil {
			e.wantTyped(copied, "a copy during Close")
		} else if closed == nil {
			e.Errorf("Close succeeded during a copy, which succeeded too")
		}
	}
}
