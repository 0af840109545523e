package stream

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// telling is an event that stands for work before it, too, whose errors a semaphore has
// kept from it. On the device that work is before it.
type telling struct {
	core.Event
	before atomic.Pointer[[]part]
	over   atomic.Pointer[outcome] // nil until all is known to be done
	steps  int                     // of the longest way back, since forget
}

// part is what an event stands for beside the one inside.
type part struct {
	core.Event
	silent bool // its errors are not told
}

type outcome struct{ err error }

var _ core.EventWrapper = (*telling)(nil)

// tellingOf makes e stand for what is before it, as far as that is not known to have gone well.
func tellingOf(e core.Event, before ...part) core.Event {
	t := &telling{Event: e}
	var unknown []part
	for _, b := range before {
		if b.wentWell() {
			continue
		}
		unknown = append(unknown, b)
		if b, ok := b.Event.(*telling); ok {
			t.steps = max(t.steps, b.steps+1)
		}
	}
	if len(unknown) == 0 {
		return e
	}
	t.before.Store(&unknown)
	if t.steps >= 64 {
		t.forget()
	}
	return t
}

func (p part) wentWell() bool {
	done, err := p.Done()
	return done && (err == nil || p.silent)
}

// forget lets go of what is known to have gone well, however far back: a chain of work
// keeps what is under way, and no more than 64 steps beside.
func (t *telling) forget() {
	seen := map[*telling]bool{}
	var walk func(t *telling)
	walk = func(t *telling) {
		before := t.before.Load()
		if before == nil || seen[t] {
			return
		}
		seen[t] = true
		var unknown []part
		for _, b := range *before {
			if b.wentWell() {
				continue
			}
			unknown = append(unknown, b)
			if b, ok := b.Event.(*telling); ok {
				walk(b)
			}
		}
		t.before.CompareAndSwap(before, &unknown)
	}
	walk(t)
	t.steps = 0
}

func (t *telling) Unwrap() core.Event { return t.Event }

// Done waits for no less than all, though the event inside may have failed: memory is
// freed when its events are done.
func (t *telling) Done() (bool, error) {
	if o := t.over.Load(); o != nil {
		return true, o.err
	}
	before := t.before.Load()
	done, failed := t.Event.Done()
	if before != nil {
		for i := 0; done && i < len(*before); i++ {
			var err error
			b := (*before)[i]
			if done, err = b.Done(); !b.silent {
				failed = cmp.Or(failed, err)
			}
		}
	}
	if !done {
		return false, nil
	}
	t.over.CompareAndSwap(nil, &outcome{failed})
	t.before.Store(nil)
	return true, t.over.Load().err
}

func (t *telling) Wait(ctx context.Context) error {
	all := []part{{Event: t.Event}}
	if before := t.before.Load(); before != nil && t.over.Load() == nil {
		all = append(all, *before...)
	}
	for _, e := range all {
		if err := e.Wait(ctx); err != nil && !isDone(e.Event) {
			return err
		}
	}
	_, err := t.Done()
	return err
}
