package stream

import (
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// telling is an event that tells of the errors of other work, too, which a semaphore has
// kept from it. For streams that take the event inside that is enough to wait for: on
// the device the other work is before it.
type telling struct {
	core.Event
	before atomic.Pointer[[]core.Event] // nil if all is known to have gone well
}

// tellingOf makes e tell of the errors of before as well.
func tellingOf(e core.Event, before ...core.Event) core.Event {
	var unknown []core.Event
	for _, b := range before {
		unknown = appendUnknown(unknown, b)
	}
	if len(unknown) == 0 {
		return e
	}
	t := &telling{Event: e}
	t.before.Store(&unknown)
	return t
}

// appendUnknown adds e, and what it tells of, as far as that is not known to have gone
// well: a chain of work keeps no more than what is under way.
func appendUnknown(to []core.Event, e core.Event) []core.Event {
	t, ok := e.(*telling)
	if ok {
		e = t.Event
	}
	if done, err := e.Done(); !done || err != nil {
		to = append(to, e)
	}
	if ok {
		for _, b := range t.kept() {
			to = appendUnknown(to, b)
		}
	}
	return to
}

// kept lists what a semaphore has kept from the event inside.
func (t *telling) kept() []core.Event {
	if before := t.before.Load(); before != nil {
		return *before
	}
	return nil
}

func (t *telling) Done() (bool, error) {
	if done, err := t.Event.Done(); !done || err != nil {
		return done, err
	}
	for _, e := range t.kept() {
		if done, err := e.Done(); !done || err != nil {
			return done, err
		}
	}
	t.before.Store(nil)
	return true, nil
}

func (t *telling) Wait(ctx context.Context) error {
	err := t.Event.Wait(ctx)
	for _, e := range t.kept() {
		if err != nil {
			break
		}
		err = e.Wait(ctx)
	}
	return err
}
