package coretest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

func TestWorkRunsWhenItIsWaitedForAndNotBefore(t *testing.T) {
	b := NewBackend(Options{Log: t.Logf})
	s := openStream(t, openDevice(t, b, 0))
	var d diary
	must(t, s.Enqueue(d.note("a")), s.Enqueue(d.note("b")))
	e := record(t, s)
	must(t, s.Enqueue(d.note("c")))
	for range 100 {
		if done, _ := e.Done(); done {
			t.Fatal("asking made the work run")
		}
		time.Sleep(10 * time.Microsecond)
	}
	wantEqual(t, d.String(), "", "what ran before anybody waited")
	wantEqual(t, b.Step(), true, "a step was there")
	wantEqual(t, d.String(), "a", "what has run after one step")
	must(t, e.Wait(t.Context()))
	if done, err := e.Done(); !done || err != nil || d.String() != "ab" {
		t.Fatalf("after the wait %q has run, done %v, %v", d.String(), done, err)
	}
	must(t, s.Close())
	wantEqual(t, d.String(), "abc", "what has run after Close")
	wantEqual(t, b.Step(), false, "a step was left where nothing is")
}

// orders collects what a test of two streams does under many seeds.
func orders(t *testing.T, run func(d *diary, s, other *Stream)) map[string]int {
	seen := make(map[string]int)
	for seed := range uint64(40) {
		var first string
		for again := range 2 {
			dev := openDevice(t, NewBackend(Options{Seed: seed + 1}), 0)
			var d diary
			s, other := openStream(t, dev), openStream(t, dev)
			run(&d, s, other)
			must(t, s.Close(), other.Close())
			if again == 0 {
				first = d.String()
			} else if d.String() != first {
				t.Errorf("seed %d gives %q and %q", seed+1, first, d.String())
			}
		}
		seen[first]++
	}
	return seen
}

func TestOrderBetweenStreamsIsDrawnByLot(t *testing.T) {
	seen := orders(t, func(d *diary, s, other *Stream) {
		must(t, s.Enqueue(d.note("a")), other.Enqueue(d.note("1")), s.Enqueue(d.note("b")), other.Enqueue(d.note("2")))
		must(t, s.Synchronize(t.Context()))
		d.WriteString("|")
	})
	if len(seen) < 4 {
		t.Errorf("only %v were seen", seen)
	}
	if seen["ab|12"] < 5 {
		t.Errorf("what nobody waits for is mostly left undone, but seen were %v", seen)
	}
	for order := range seen {
		if strings.Index(order, "a") > strings.Index(order, "b") || strings.Index(order, "1") > strings.Index(order, "2") {
			t.Errorf("%q is out of order within a stream", order)
		}
	}
}

// Whoever waits runs work, but never two pieces of one stream at a time.
func TestStreamDoesOneThingAtATime(t *testing.T) {
	s := openStream(t, openDevice(t, NewBackend(Options{}), 0))
	count := 0 // the race detector watches it too
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 200 {
				err := s.Enqueue(func() error {
					before := count
					runtime.Gosched()
					count = before + 1
					return nil
				})
				if err = errors.Join(err, s.Synchronize(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	wantEqual(t, count, 800, "the steps counted")
}

func TestWaitOrdersStreams(t *testing.T) {
	seen := orders(t, func(d *diary, s, other *Stream) {
		must(t, s.Enqueue(d.note("a")))
		e := record(t, s)
		must(t, other.Wait(e), other.Wait(nil), other.Enqueue(d.note("1")), other.Synchronize(t.Context()))
	})
	wantEqual(t, seen, map[string]int{"a1": 40}, "the orders seen")
}

func TestSemaphoreOrdersStreams(t *testing.T) {
	seen := orders(t, func(d *diary, s, other *Stream) {
		m := openSemaphore(t, s.device)
		must(t, m.WaitOn(other, 2), other.Enqueue(d.note("1")))
		must(t, s.Enqueue(d.note("a")), m.Signal(s, 2))
		must(t, m.Wait(t.Context(), 2), other.Synchronize(t.Context()))
		v, err := m.Value()
		must(t, err)
		wantEqual(t, v, 2, "the value")
		must(t, m.Signal(s, 2))
		WantError(t, s.Synchronize(t.Context()), core.ErrInvalid, "a counter that does not grow")
		must(t, m.Close(), m.Close())
	})
	wantEqual(t, seen, map[string]int{"a1": 40}, "the orders seen")
}

func TestWaitsEndWithTheirContext(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	s := openStream(t, d)
	m := openSemaphore(t, d)
	must(t, m.WaitOn(s, 1))
	e := record(t, s)
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	for call, err := range map[string]error{"Event.Wait": e.Wait(short), "Synchronize": s.Synchronize(short), "Semaphore.Wait": m.Wait(short, 1)} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s gives %v", call, err)
		}
	}
	must(t, m.Signal(openStream(t, d), 1)) // so that s can be closed
}

func TestStreamErrors(t *testing.T) {
	s := openStream(t, openDevice(t, NewBackend(Options{}), 0))
	must(t, s.Enqueue(func() error { return errInjected }))
	failed := record(t, s)
	must(t, s.Enqueue(nothing))
	well := record(t, s)
	wantInjected(t, failed.Wait(t.Context()), "the event of work that failed")
	must(t, well.Wait(t.Context()))
	wantInjected(t, s.Synchronize(t.Context()), "Synchronize")
	must(t, s.Synchronize(t.Context()), s.Close(), s.Close())
	WantError(t, s.Enqueue(nothing), core.ErrClosed, "work of a closed stream")
}

// foreign is an event of nobody.
type foreign struct{ core.Event }

func TestStreamsRefuseWhatTheHostHasToWaitFor(t *testing.T) {
	one, two := NewBackend(Options{}), NewBackend(Options{HostWaits: true})
	s, same, other := openStream(t, openDevice(t, one, 0)), openStream(t, openDevice(t, one, 1)), openStream(t, openDevice(t, two, 0))
	must(t, same.Wait(record(t, s)))
	own := record(t, other)
	WantError(t, s.Wait(foreign{}), core.ErrNotSupported, "an event of another kind")
	WantError(t, s.Wait(own), core.ErrNotSupported, "an event of another backend")
	WantError(t, other.Wait(own), core.ErrNotSupported, "its own event, with HostWaits")
	for b, want := range map[*Backend]bool{one: true, two: false} {
		wantEqual(t, b.properties(0).Capabilities.Has(core.CapStreamWait), want, "stream waits are declared")
	}
}
