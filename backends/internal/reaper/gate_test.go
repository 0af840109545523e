package reaper_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// user is a device as far as a gate is concerned.
type user struct {
	gate   reaper.Gate
	reaper reaper.Reaper

	mu           sync.Mutex
	others, held int
	closed       bool
}

func (u *user) inUse() (others, memories int) { return u.others, u.held }

// close closes u if nothing is open.
func (u *user) close(ctx context.Context) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gate.Await(ctx, &u.mu, &u.reaper, u.inUse)
	u.closed = u.closed || u.others == 0 && u.held == 0
	return u.closed
}

// open opens something for a moment, and reports whether u was open.
func (u *user) open(t *testing.T) bool {
	if err := u.gate.Enter(t.Context()); err != nil {
		t.Error(err)
		return false
	}
	u.mu.Lock()
	closed := u.closed
	u.others++
	u.mu.Unlock()
	time.Sleep(time.Millisecond)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.others--
	return !closed
}

func TestCloseHasItsTurn(t *testing.T) {
	var u user
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for u.open(t) {
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	begin := time.Now()
	for !u.close(t.Context()) {
		runtime.Gosched()
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	group.Wait()
}

func TestNobodyWaitsLongWhereSomethingStaysOpen(t *testing.T) {
	u := user{others: 1}
	done := make(chan bool)
	go func() { done <- u.close(t.Context()) }()
	time.Sleep(time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.gate.Enter(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Enter with an ended context: %v", err)
	}
	if !u.open(t) {
		t.Error("what stays open was closed")
	}
	if <-done {
		t.Error("closed, although something is open")
	}
}

func TestAContextEndsWaitingForReleasedMemory(t *testing.T) {
	u := user{held: 1}
	stuck := stream.NewEvent()
	u.reaper.After([]core.Event{stuck}, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.held--
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if u.close(ctx) {
		t.Error("closed before the work was done")
	}
	stuck.Complete(nil)
	if !u.close(t.Context()) {
		t.Error("not closed, although the work is done")
	}
}

// What is being freed may be calling the driver still when it is not counted any more.
func TestCloseWaitsForWhatIsBeingFreed(t *testing.T) {
	u := user{held: 1}
	freed := false
	u.reaper.After(nil, func() {
		u.mu.Lock()
		u.held--
		u.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		u.mu.Lock()
		defer u.mu.Unlock()
		freed = true
	})
	for !u.close(t.Context()) {
		runtime.Gosched()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !freed {
		t.Error("closed before all was freed")
	}
}
