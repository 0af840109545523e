package benchmarks

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// gateEnv is an env of a test.
func gateEnv(t *testing.T) *env {
	t.Helper()
	e := &env{ctx: t.Context()}
	t.Cleanup(e.close)
	return e
}

func TestStreamsBeginTogether(t *testing.T) {
	e := gateEnv(t)
	g := e.gate()
	var begun, enqueued atomic.Int64
	var list []work
	for range 3 {
		q := e.queue()
		list = append(list, work{stream: q, times: 4, op: func() error {
			enqueued.Add(1)
			return q.Enqueue(func() error {
				if enqueued.Load() < 12 {
					t.Error("a stream works before all work was enqueued")
				}
				begun.Add(1)
				return nil
			})
		}})
	}
	for range 3 {
		begun.Store(0)
		enqueued.Store(0)
		if d, err := g.run(e.ctx, list); err != nil || d <= 0 || begun.Load() != 12 {
			t.Fatalf("%v, %v, %d did their work", d, err, begun.Load())
		}
	}
	if notes := g.notes(); notes != nil {
		t.Errorf("%q", notes)
	}
}

// closedStream is a stream that does not wait for the host.
type closedStream struct {
	queue
	err error
}

func (s closedStream) Wait(core.Event) error { return s.err }

func TestAStreamThatCannotWaitBeginsWithTheOthers(t *testing.T) {
	e := gateEnv(t)
	g := e.gate()
	a, b := e.queue(), e.queue()
	var opened atomic.Bool
	held := work{stream: a, times: 1, op: func() error { return a.Enqueue(func() error { opened.Store(true); return nil }) }}
	free := work{stream: closedStream{b, core.Errorf(core.ErrNotSupported, "test", "Wait", "no")}, times: 1, op: func() error {
		return b.Enqueue(func() error { return nil })
	}}
	if _, err := g.run(e.ctx, []work{held, free}); err != nil || !opened.Load() {
		t.Error(err)
	}
	if notes := g.notes(); len(notes) != 1 || !strings.Contains(notes[0], "cannot wait for the host") {
		t.Errorf("%q", notes)
	}
}

func TestTheGateOpensWhenSomethingFails(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(e *env) []work{
		"a stream fails to wait": func(e *env) []work {
			a, b := e.queue(), e.queue()
			return []work{{stream: a, times: 1, op: a.enqueue}, {stream: closedStream{b, broken}, times: 1, op: b.enqueue}}
		},
		"enqueuing fails half-way": func(e *env) []work {
			a, b := e.queue(), e.queue()
			n := 0
			return []work{{stream: a, times: 5, op: a.enqueue}, {stream: b, times: 5, op: func() error {
				if n++; n == 3 {
					return broken
				}
				return b.enqueue()
			}}}
		},
		"the work fails": func(e *env) []work {
			a := e.queue()
			return []work{{stream: a, times: 2, op: func() error { return a.Enqueue(func() error { return broken }) }}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := gateEnv(t)
			list := fail(e)
			if _, err := e.gate().run(e.ctx, list); !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A queue that is full, or a copy that waits for the one before it, would never take the rest of the work.
func TestTheGateOpensForAFullQueue(t *testing.T) {
	e := gateEnv(t)
	g := e.gate()
	g.patience = time.Millisecond
	q := e.queue()
	full := work{stream: q, times: 3, op: func() error { // each one waits until the one before it is done
		done := stream.NewEvent()
		if err := q.Enqueue(func() error { done.Complete(nil); return nil }); err != nil {
			return err
		}
		return done.Wait(e.ctx)
	}}
	if _, err := g.run(e.ctx, []work{full}); err != nil || !g.early {
		t.Errorf("%v, early %v", err, g.early)
	}
	if notes := g.notes(); len(notes) != 1 || !strings.Contains(notes[0], "before all work was enqueued") {
		t.Errorf("%q", notes)
	}
}
