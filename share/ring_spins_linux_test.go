package share

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"
)

// lonely is a context that ends at its deadline, and that nobody watches.
type lonely struct {
	t   *testing.T
	end time.Time
}

func (c lonely) EndsAtDeadline()             {}
func (c lonely) Deadline() (time.Time, bool) { return c.end, !c.end.IsZero() }
func (c lonely) Value(any) any               { return nil }

func (c lonely) Done() <-chan struct{} {
	c.t.Error("a call that sleeps until the deadline asks for Done")
	return nil
}

func (c lonely) Err() error {
	if !c.end.IsZero() && !time.Now().Before(c.end) {
		return context.DeadlineExceeded
	}
	return nil
}

type key struct{}

// bounded is a context that ends at its deadline, of which others ask for Done.
type bounded struct{ lonely }

func (bounded) Done() <-chan struct{} { return nil }

func TestSleepLimits(t *testing.T) {
	for name, c := range map[string]struct {
		ctx      context.Context
		from, to time.Duration
		noticed  bool
	}{
		"no deadline":             {lonely{t: t}, sleepTime, sleepTime, true},
		"a deadline":              {lonely{t, time.Now().Add(sleepTime / 2)}, -time.Hour, sleepTime / 2, true},
		"a late deadline":         {lonely{t, time.Now().Add(time.Hour)}, sleepTime, sleepTime, true},
		"a deadline that is over": {lonely{t, time.Now().Add(-time.Second)}, -time.Hour, 0, true},
		"another context":         {context.WithValue(bounded{lonely{t: t}}, key{}, 1), sleepTime, sleepTime, false},
	} {
		if limit, noticed := sleepLimit(c.ctx); limit < c.from || limit > c.to || noticed != c.noticed {
			t.Errorf("%s: %v, %t", name, limit, noticed)
		}
	}
}

// Calls that wait notice a deadline by themselves, and a frame or a slot that comes before it.
func TestSleepsUntilADeadline(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	p := publish(t, a, Ring{Slots: 1, Mode: Queue})
	s := subscribe(t, b, SubscribeOptions{})
	waits := func(ctx context.Context) error { return p.WaitReaders(ctx, 2) }
	loans := func(ctx context.Context) error {
		x, err := p.Loan(ctx)
		if err == nil {
			x.Close()
		}
		return err
	}
	receives := func(ctx context.Context) error { _, err := s.Receive(ctx); return err }
	ends := func(call func(context.Context) error) {
		t.Helper()
		if err := call(lonely{t, time.Now().Add(5 * time.Millisecond)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	}
	ends(receives)
	ends(waits)
	received := make(chan Frame)
	go func() {
		f, err := s.Receive(lonely{t: t})
		if err != nil {
			t.Error(err)
		}
		received <- f
	}()
	time.Sleep(5 * time.Millisecond) // it sleeps, or not: both are to work
	put(t, p, 7)
	f := <-received
	ends(loans)
	loaned := make(chan error)
	go func() { loaned <- loans(lonely{t: t}) }()
	time.Sleep(5 * time.Millisecond)
	f.Release()
	if err := <-loaned; err != nil {
		t.Error(err)
	}
}

// Waits that have looked in vain sleep at once, but for one of some, and look again when that one has found something.
func TestSpinsInVain(t *testing.T) {
	if before := runtime.GOMAXPROCS(0); before == 1 { // then no wait looks
		runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(before)
	}
	var p spins
	looks := func() bool {
		w := p.newSpinner()
		looking := w.goesOn()
		w.end(!looking)
		return looking
	}
	for range vainAtMost {
		if !looks() {
			t.Fatal("a wait does not look")
		}
	}
	looked := 0
	for range 10 * looksAgain {
		if looks() {
			looked++
		}
	}
	if looked != 10 {
		t.Errorf("%d of %d waits have looked, want 10", looked, 10*looksAgain)
	}
	for range looksAgain {
		w := p.newSpinner()
		w.end(true)
	}
	if !looks() {
		t.Error("a wait does not look, although an earlier one has found what it waited for")
	}
}
