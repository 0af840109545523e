package share

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// A bound context ends with the context of the call, and with the connection, whether something waits for it or not.
func TestBoundContexts(t *testing.T) {
	type key struct{}
	for _, waits := range []bool{false, true} {
		for _, ends := range []string{"call", "connection"} {
			a, _ := connected(t, Options{}, Options{})
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			bound, stop := a.bound(ctx)
			if err := bound.Err(); err != nil {
				t.Fatalf("it has ended: %v", err)
			}
			if waits {
				child, stopChild := context.WithCancel(bound)
				defer func() {
					<-child.Done()
					stopChild()
				}()
			}
			if ends == "call" {
				cancel()
			} else {
				_ = a.Close()
			}
			if waits {
				<-bound.Done()
			}
			if err := bound.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("after the end of the %s, waiting %v: the error is %v", ends, waits, err)
			}
			<-bound.Done()
			if bound.Value(key{}) != "value" {
				t.Error("the values of the call are lost")
			}
			stop()
			stop()
			cancel()
		}
	}
	a, _ := connected(t, Options{}, Options{})
	limited, cancel := context.WithTimeout(t.Context(), 1<<40)
	defer cancel()
	bound, stop := a.bound(limited)
	want, _ := limited.Deadline()
	if got, ok := bound.Deadline(); !ok || !got.Equal(want) {
		t.Errorf("the deadline is %v", got)
	}
	done := bound.Done()
	stop() // what still waits for it is let go
	<-done
	bound, stop = a.bound(limited)
	stop()
	if <-bound.Done(); !errors.Is(bound.Err(), context.Canceled) {
		t.Errorf("after stop the error is %v", bound.Err())
	}
	if n := testing.AllocsPerRun(100, func() {
		bound, stop := a.bound(limited)
		_ = bound.Err()
		stop()
	}); n > 2 && !coretest.Sanitized { // which allocates by itself
		t.Errorf("a context that nothing waits for takes %v allocations", n)
	}
}
