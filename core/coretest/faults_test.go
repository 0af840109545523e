package coretest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// shaky is a driver with as many functions as are called.
type shaky struct {
	mu      sync.Mutex // a life may go on when it is given up
	calls   map[string]int
	failing string
	in      int // calls until it fails
	open    int // things
}

func newShaky() *shaky { return &shaky{calls: make(map[string]int)} }

// locked calls f while nobody else uses the driver.
func locked[R any](s *shaky, f func() R) R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (s *shaky) Fail(call string, nth, code int) {
	locked(s, func() any { s.failing, s.in = call, nth; return nil })
}

func (s *shaky) Calls() map[string]int {
	return locked(s, func() map[string]int { return maps.Clone(s.calls) })
}

func (s *shaky) Live() map[string]int {
	return locked(s, func() map[string]int { return map[string]int{"things": s.open} })
}

// opens counts things that are opened, or with a minus closed.
func (s *shaky) opens(n int) {
	locked(s, func() any { s.open += n; return nil })
}

func (s *shaky) call(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[name]++
	if s.failing == name && s.in > 0 {
		if s.in--; s.in == 0 {
			return core.Errorf(core.ErrOutOfMemory, "shaky", name, "as asked for")
		}
	}
	return nil
}

// life opens a thing, works twice, and closes it.
func (s *shaky) life(context.Context) error {
	if err := s.call("open"); err != nil {
		return err
	}
	s.opens(1)
	err := errors.Join(s.call("work"), s.call("work"))
	s.opens(-1)
	return errors.Join(err, s.call("close"))
}

func TestEachCallFailsAtEachOfItsPlaces(t *testing.T) {
	t.Setenv("DLX_THOROUGH", "1")
	s := newShaky()
	places := make(map[string]int)
	e := EachCall{Faults: s, Life: func(ctx context.Context) error {
		err := s.life(ctx)
		if err != nil {
			places[s.failing]++
		}
		return err
	}}
	wantEqual(t, e.Run(t), []string{"close", "open", "work"}, "what failed")
	wantEqual(t, places, map[string]int{"open": 1, "work": 2, "close": 1}, "lives with a fault, by its call")
}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

func TestEachCallFindsMistakes(t *testing.T) {
	whole, release := lifetime, releaseTimeout
	for _, c := range []struct {
		mistake string
		after   func(*shaky, error) error // what Life returns
		wants   string
	}{
		{"nothing", func(_ *shaky, err error) error { return err }, ""},
		{"not typed", func(_ *shaky, err error) error { return errors.Join(err, errors.New("bare")) }, "error bare is not a *core.Error"},
		{"left open", func(s *shaky, err error) error { s.opens(1); return err }, "open at the driver: map[things:1], before map[things:0]"},
		{"stuck", func(*shaky, error) error { select {} }, "Life did not return"},
	} {
		s := newShaky()
		e := EachCall{Faults: s, Life: func(ctx context.Context) error { return c.after(s, s.life(ctx)) }}
		f := &failures{TB: t}
		switch c.mistake {
		case "left open":
			releaseTimeout = 20 * time.Millisecond
		case "stuck":
			lifetime = 10 * time.Millisecond
		}
		fired := e.fails(f, "work", 2)
		lifetime, releaseTimeout = whole, release
		if reported := strings.Join(f.all, "\n"); !strings.Contains(reported, c.wants) || (c.wants == "") != (reported == "") {
			t.Errorf("%s: it reports %q, want %q", c.mistake, reported, c.wants)
		}
		wantEqual(t, fired, c.mistake != "stuck", c.mistake+": the call failed")
	}
	s := newShaky()
	e := EachCall{Faults: s, Life: func(context.Context) error { return core.ErrInvalid }}
	f := &failures{TB: t}
	if e.fails(f, "work", 1); len(f.all) == 0 || !strings.HasPrefix(f.all[0], "call 1 was not reached, but Life failed") {
		t.Errorf("Life fails without a fault: it reports %q", f.all)
	}
}
