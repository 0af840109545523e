package stream

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// chainedEvent is an event that also stands for earlier work, and reports its errors:
// those that a semaphore, or a stream of a device, cannot carry. On the device the
// earlier work runs before that of the event.
type chainedEvent struct {
	core.Event
	earlier atomic.Pointer[[]earlierEvent]
	result  atomic.Pointer[result] // nil until all is known to be done
	depth   int                    // of the longest chain behind this event, since prune
}

// earlierEvent is an event that a chainedEvent stands for as well.
type earlierEvent struct {
	core.Event
	ignoreError bool
}

type result struct{ err error }

var _ eventWrapper = (*chainedEvent)(nil)

// maxDepth is how long a chain gets before it is pruned.
const maxDepth = 64

// chain returns an event that stands for e and for earlier ones, as far as those are
// not known to have succeeded.
func chain(e core.Event, earlier ...earlierEvent) core.Event {
	c := &chainedEvent{Event: e}
	var unknown []earlierEvent
	for _, x := range earlier {
		if x.succeeded() {
			continue
		}
		unknown = append(unknown, x)
		if x, ok := x.Event.(*chainedEvent); ok {
			c.depth = max(c.depth, x.depth+1)
		}
	}
	if len(unknown) == 0 {
		return e
	}
	c.earlier.Store(&unknown)
	if c.depth >= maxDepth {
		c.prune()
	}
	return c
}

// succeeded reports whether the work is known to be done, without an error that counts.
func (x earlierEvent) succeeded() bool {
	done, err := x.Done()
	return done && (err == nil || x.ignoreError)
}

// prune drops what is known to have succeeded, from the whole chain: it then keeps
// what is unfinished, and no more than maxDepth events beside.
func (c *chainedEvent) prune() {
	seen := map[*chainedEvent]bool{}
	var walk func(c *chainedEvent)
	walk = func(c *chainedEvent) {
		earlier := c.earlier.Load()
		if earlier == nil || seen[c] {
			return
		}
		seen[c] = true
		var unknown []earlierEvent
		for _, x := range *earlier {
			if x.succeeded() {
				continue
			}
			unknown = append(unknown, x)
			if x, ok := x.Event.(*chainedEvent); ok {
				walk(x)
			}
		}
		c.earlier.CompareAndSwap(earlier, &unknown)
	}
	walk(c)
	c.depth = 0
}

func (c *chainedEvent) Unwrap() core.Event { return c.Event }

// Done reports true only if all work is done, even if the event inside has failed:
// memory is freed when its events are done.
func (c *chainedEvent) Done() (bool, error) {
	if r := c.result.Load(); r != nil {
		return true, r.err
	}
	earlier := c.earlier.Load()
	done, failed := c.Event.Done()
	if earlier != nil {
		for i := 0; done && i < len(*earlier); i++ {
			var err error
			x := (*earlier)[i]
			if done, err = x.Done(); !x.ignoreError {
				failed = cmp.Or(failed, err)
			}
		}
	}
	if !done {
		return false, nil
	}
	c.result.CompareAndSwap(nil, &result{failed})
	c.earlier.Store(nil)
	return true, c.result.Load().err
}

func (c *chainedEvent) Wait(ctx context.Context) error {
	all := []earlierEvent{{Event: c.Event}}
	if earlier := c.earlier.Load(); earlier != nil && c.result.Load() == nil {
		all = append(all, *earlier...)
	}
	for _, e := range all {
		if err := e.Wait(ctx); err != nil && !isDone(e.Event) {
			return err
		}
	}
	_, err := c.Done()
	return err
}
