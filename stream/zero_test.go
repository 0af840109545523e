package stream_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// Nothing panics on nil tensors, streams, events and semaphores.
func TestNothingPanicsOnNil(t *testing.T) {
	q := newQueue(t)
	tensor := host(t, []int32{1})
	nothing := func() error { return nil }
	none := []*core.Tensor{nil}
	var timeline stream.Timeline
	for name, call := range map[string]func(context.Context) error{
		"Submit to nil":         func(ctx context.Context) error { return stream.Submit(ctx, nil, none, none, nil) },
		"Submit of nil":         func(ctx context.Context) error { return stream.Submit(ctx, q, none, nil, nothing) },
		"Submit that reads nil": func(ctx context.Context) error { return stream.Submit(ctx, q, nil, none, nothing) },
		"SubmitAndWait to nil":  func(ctx context.Context) error { return stream.SubmitAndWait(ctx, nil, none, none, nil) },
		"SubmitAndWait of nil":  func(ctx context.Context) error { return stream.SubmitAndWait(ctx, q, none, nil, nothing) },
		"SubmitSame of nil":     func(ctx context.Context) error { return stream.SubmitSame(ctx, nil, nil, nil) },
		"SubmitSame from nil":   func(ctx context.Context) error { return stream.SubmitSame(ctx, nil, tensor, nil) },
		"Acquire of nil":        func(ctx context.Context) error { _, err := stream.Acquire(ctx, none, none); return err },
		"Handoff of nil":        func(ctx context.Context) error { _, err := stream.Handoff(ctx, nil, nil, nil); return err },
		"Handoff by no semaphore": func(ctx context.Context) error {
			_, err := stream.NewSharedSemaphore(nil, nil).Handoff(ctx, nil, nil, nil)
			return err
		},
		"Enqueue of nil": func(context.Context) error { return q.Enqueue(nil) },
		"Signal on nil":  func(context.Context) error { return timeline.Signal(nil, 1) },
		"WaitOn nil":     func(context.Context) error { return timeline.WaitOn(nil, 1) },
	} {
		var typed *core.Error
		if err := call(t.Context()); !errors.As(err, &typed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(q.Wait(nil), q.WaitSettled(nil), q.Synchronize(t.Context()), stream.NewSharedSemaphore(nil, nil).Close()); err != nil {
		t.Errorf("waits for nil events, and a shared semaphore of none: %v", err)
	}
}
