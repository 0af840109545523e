package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// reach counts the events that one stands for, however far back.
func reach(e core.Event, seen map[core.Event]bool) int {
	if seen[e] {
		return 0
	}
	seen[e] = true
	n := 1
	if t, ok := e.(*chainedEvent); ok {
		if earlier := t.earlier.Load(); earlier != nil {
			for _, b := range *earlier {
				n += reach(b.Event, seen)
			}
		}
	}
	return n
}

// A chain of work keeps what is under way, and the errors, however long it gets.
func TestAChainDropsWhatSucceeded(t *testing.T) {
	write := NewEvent()
	steps := []*Event{write}
	var e core.Event = write
	for range 2000 { // nine steps are under way, and each is made of the one before in two ways
		next := NewEvent()
		e = chain(next, earlierEvent{Event: e}, earlierEvent{e, true})
		if steps = append(steps, next); len(steps) == 10 {
			steps[0].Complete(nil)
			steps = steps[1:]
		}
		if n := reach(e, map[core.Event]bool{}); n > 9+maxDepth+1 {
			t.Fatalf("%d events are kept", n)
		}
	}
	failed := errors.New("failed")
	last := NewEvent()
	e = chain(last, earlierEvent{Event: e}, earlierEvent{Event: e})
	for i, s := range steps {
		if done, err := e.Done(); done || err != nil {
			t.Errorf("before its work is done: %v, %v", done, err)
		}
		if i == 0 {
			s.Complete(failed)
		} else {
			s.Complete(nil)
		}
	}
	last.Complete(nil)
	for range 2 {
		if done, err := e.Done(); !done || !errors.Is(err, failed) {
			t.Errorf("after it: %v, %v", done, err)
		}
		if err := e.Wait(t.Context()); !errors.Is(err, failed) {
			t.Errorf("Wait: %v", err)
		}
	}
	if e := chain(last, earlierEvent{Event: last}); e != last {
		t.Errorf("%T stands for work that succeeded", e)
	}
}

// The device of the event inside is lost, and the memory still used by others.
func TestAChainIsNotDoneBeforeAll(t *testing.T) {
	write, read, lost := NewEvent(), NewEvent(), NewEvent()
	e := chain(lost, earlierEvent{read, true}, earlierEvent{Event: write})
	failed := errors.New("lost")
	lost.Complete(failed)
	for _, under := range []*Event{write, read} {
		if done, err := e.Done(); done || err != nil {
			t.Errorf("while work is under way: %v, %v", done, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait while work is under way: %v", err)
		}
		cancel()
		under.Complete(errors.New("another"))
	}
	if done, err := e.Done(); !done || !errors.Is(err, failed) {
		t.Errorf("after all: %v, %v", done, err)
	}
	if err := e.Wait(t.Context()); !errors.Is(err, failed) {
		t.Errorf("Wait after all: %v", err)
	}
}

func TestAChainIgnoresErrorsOfReaders(t *testing.T) {
	read, inside := NewEvent(), NewEvent()
	e := chain(inside, earlierEvent{read, true})
	read.Complete(errors.New("of the reader"))
	inside.Complete(nil)
	if done, err := e.Done(); !done || err != nil {
		t.Errorf("Done: %v, %v", done, err)
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Errorf("Wait: %v", err)
	}
}
