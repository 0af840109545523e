package stream_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// wrapping is an event that reports an error that the event inside has not.
type wrapping struct {
	core.Event
	err error
}

func (w wrapping) Unwrap() core.Event { return w.Event }

func (w wrapping) Done() (bool, error) {
	done, err := w.Event.Done()
	if done && err == nil {
		err = w.err
	}
	return done, err
}

func (w wrapping) Wait(ctx context.Context) error {
	if err := w.Event.Wait(ctx); err != nil {
		return err
	}
	return w.err
}

// settling is a stream whose events have the errors of what it waits for, which is what is inside.
type settling struct{ *coretest.Stream }

func (s settling) WaitSettled(e core.Event) error { return s.Wait(e) }

// A stream waits for the event inside. Who made the event outside says which errors there are beside.
func TestWorkReportsErrorsThatOnlyTheEventOutsideHas(t *testing.T) {
	b := newBackend(t, coretest.Options{})
	d := open(t, b, 0)
	writing, reading := newStream(t, d), settling{newStream(t, d).(*coretest.Stream)}
	x, y := host(t, []int32{1}), host(t, []int32{0})
	e, err := writing.Record()
	if err != nil {
		t.Fatal(err)
	}
	buffer, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("an earlier write failed")
	buffer.Wrote(wrapping{e, failed})
	if err := stream.Submit(t.Context(), reading, []*core.Tensor{y}, []*core.Tensor{x}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := y.WaitReady(t.Context()); err != failed {
		t.Errorf("the work reports %v", err)
	}
}
