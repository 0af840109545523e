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

var errInjected = errors.New("injected")

// openDevice opens a device that the test closes at its end.
func openDevice(t *testing.T, b *Backend, index int32) *Device {
	t.Helper()
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt, Index: index})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.(*Device)
}

// openStream opens a stream that the test closes at its end.
func openStream(t *testing.T, d *Device) *Stream {
	t.Helper()
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.(*Stream)
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// diary notes in what order work runs.
type diary struct{ strings.Builder }

func (d *diary) note(s string) func() error {
	return func() error { d.WriteString(s); return nil }
}

func TestWorkRunsWhenItIsWaitedForAndNotBefore(t *testing.T) {
	b := NewBackend(Options{Log: t.Logf})
	s := openStream(t, openDevice(t, b, 0))
	var d diary
	must(t, s.Enqueue(d.note("a")), s.Enqueue(d.note("b")))
	e, err := s.Record()
	must(t, err, s.Enqueue(d.note("c")))
	for range 100 {
		if done, _ := e.Done(); done {
			t.Fatal("asking made the work run")
		}
		time.Sleep(10 * time.Microsecond)
	}
	if d.String() != "" {
		t.Fatalf("%q ran before anybody waited", d.String())
	}
	if !b.Step() || d.String() != "a" {
		t.Fatalf("after one step %q has run", d.String())
	}
	must(t, e.Wait(t.Context()))
	if done, err := e.Done(); !done || err != nil || d.String() != "ab" {
		t.Fatalf("after the wait %q has run, done %v, %v", d.String(), done, err)
	}
	must(t, s.Close())
	if d.String() != "abc" {
		t.Errorf("Close left work behind: %q", d.String())
	}
	if b.Step() {
		t.Error("a step was left where nothing is")
	}
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
	if count != 800 {
		t.Errorf("%d of 800 steps counted", count)
	}
}

func TestWaitOrdersStreams(t *testing.T) {
	seen := orders(t, func(d *diary, s, other *Stream) {
		must(t, s.Enqueue(d.note("a")))
		e, err := s.Record()
		must(t, err, other.Wait(e), other.Wait(nil), other.Enqueue(d.note("1")), other.Synchronize(t.Context()))
	})
	if len(seen) != 1 || seen["a1"] == 0 {
		t.Errorf("seen were %v, want a1 alone", seen)
	}
}

func TestSemaphoreOrdersStreams(t *testing.T) {
	seen := orders(t, func(d *diary, s, other *Stream) {
		m, err := s.device.NewSemaphore(t.Context(), 0)
		must(t, err, m.WaitOn(other, 2), other.Enqueue(d.note("1")))
		must(t, s.Enqueue(d.note("a")), m.Signal(s, 2))
		must(t, m.Wait(t.Context(), 2), other.Synchronize(t.Context()))
		if v, err := m.Value(); v != 2 || err != nil {
			t.Errorf("the value is %d, %v", v, err)
		}
		must(t, m.Signal(s, 2))
		if err := s.Synchronize(t.Context()); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a counter that does not grow gives %v", err)
		}
		must(t, m.Close(), m.Close())
	})
	if len(seen) != 1 || seen["a1"] == 0 {
		t.Errorf("seen were %v, want a1 alone", seen)
	}
}

func TestWaitsEndWithTheirContext(t *testing.T) {
	d := openDevice(t, NewBackend(Options{}), 0)
	s := openStream(t, d)
	m, err := d.NewSemaphore(t.Context(), 0)
	must(t, err, m.WaitOn(s, 1))
	defer m.Close()
	e, err := s.Record()
	must(t, err)
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
	failed, err := s.Record()
	must(t, err, s.Enqueue(func() error { return nil }))
	well, err := s.Record()
	must(t, err)
	if err := failed.Wait(t.Context()); !errors.Is(err, errInjected) {
		t.Errorf("the event of work that failed gives %v", err)
	}
	if err := well.Wait(t.Context()); err != nil {
		t.Errorf("the event of the work behind it gives %v", err)
	}
	if err := s.Synchronize(t.Context()); !errors.Is(err, errInjected) {
		t.Errorf("Synchronize gives %v", err)
	}
	must(t, s.Synchronize(t.Context()), s.Close(), s.Close())
	if err := s.Enqueue(func() error { return nil }); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a closed stream gives %v", err)
	}
}

// foreign is an event of nobody.
type foreign struct{ core.Event }

func TestStreamsRefuseWhatTheHostHasToWaitFor(t *testing.T) {
	one, two := NewBackend(Options{}), NewBackend(Options{HostWaits: true})
	s, same, other := openStream(t, openDevice(t, one, 0)), openStream(t, openDevice(t, one, 1)), openStream(t, openDevice(t, two, 0))
	e, err := s.Record()
	must(t, err, same.Wait(e))
	own, err := other.Record()
	must(t, err)
	for name, err := range map[string]error{
		"of another kind": s.Wait(foreign{}), "of another backend": s.Wait(own), "its own, with HostWaits": other.Wait(own),
	} {
		if !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("an event %s: %v", name, err)
		}
	}
	for b, want := range map[*Backend]bool{one: true, two: false} {
		if got := b.properties(0).Capabilities.Has(core.CapStreamWait); got != want {
			t.Errorf("stream waits are declared: %v, want %v", got, want)
		}
	}
}
