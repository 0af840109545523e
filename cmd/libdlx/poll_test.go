//go:build cgo

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// A call that waits ends when poll asks for it, and poll is not called again.
func TestPollStopsACall(t *testing.T) {
	calls := 0
	err := polling(t.Context(), func(ctx context.Context) error {
		<-ctx.Done() // for ever, if nothing ends it
		return ctx.Err()
	}, func() int32 { calls++; return 5 })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "returned 5") || calls != 1 {
		t.Errorf("after %d calls of poll: %v", calls, err)
	}
}

// What a call has done before it learns that it was to stop counts.
func TestPollComesTooLate(t *testing.T) {
	for _, want := range []error{nil, core.ErrClosed} {
		err := polling(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return want
		}, func() int32 { return 1 })
		if !errors.Is(err, want) {
			t.Errorf("the error is %v, want %v", err, want)
		}
	}
}

// The end of the time of a call is no request of the program.
func TestPollAndATimeout(t *testing.T) {
	limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	polled := make(chan struct{})
	err := polling(limited, func(ctx context.Context) error {
		<-polled
		<-ctx.Done()
		return limited.Err()
	}, func() int32 {
		<-limited.Done()
		close(polled)
		return 1
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

func TestAPanicBesidePollIsAnError(t *testing.T) {
	err := polling(t.Context(), func(context.Context) error { panic("planted") }, func() int32 { return 0 })
	if err == nil || !strings.Contains(err.Error(), "planted") {
		t.Errorf("the error is %v", err)
	}
}
