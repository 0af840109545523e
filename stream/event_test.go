package stream_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/stream"
)

func TestEventKeepsItsFirstResult(t *testing.T) {
	first := errors.New("first")
	for _, want := range []error{nil, first} {
		e := stream.NewEvent()
		if done, err := e.Done(); done || err != nil {
			t.Fatalf("a new event: done %v, %v", done, err)
		}
		e.Complete(want)
		e.Complete(errors.New("second"))
		if done, err := e.Done(); !done || !errors.Is(err, want) {
			t.Errorf("completed with %v: done %v, %v", want, done, err)
		}
		if err := e.Wait(t.Context()); !errors.Is(err, want) {
			t.Errorf("completed with %v: Wait gives %v", want, err)
		}
	}
}

func TestEventWaitEndsWithItsContext(t *testing.T) {
	checkNoGoroutines(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e := stream.NewEvent()
	if err := e.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait gives %v, want the context's error", err)
	}
	e.Complete(nil)
	if err := e.Wait(ended); err != nil {
		t.Errorf("an event that was reached wins over an ended context; got %v", err)
	}
}

func TestEventWakesEveryWaiter(t *testing.T) {
	checkNoGoroutines(t)
	want := errors.New("failed")
	for range 5000 { // often enough that some come just as the event does
		e := stream.NewEvent()
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() {
				if err := e.Wait(context.Background()); !errors.Is(err, want) {
					t.Errorf("Wait gives %v", err)
				}
			})
		}
		e.Complete(want)
		waiters.Wait()
	}
}
