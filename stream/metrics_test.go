package stream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// hostWaits returns how many waits of the host for a device were counted.
func hostWaits(id core.DeviceID) (n int64, d time.Duration) {
	for _, m := range core.ReadMetrics().Devices {
		if m.Device == id {
			return m.HostWaits, m.HostWaitTime
		}
	}
	return 0, 0
}

// A wait of the host counts for the device of the memory, and only if the work was unfinished.
func TestWaitsOfTheHostAreCounted(t *testing.T) {
	d := open(t, newBackend(t, coretest.Options{}), 0)
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{8}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	list := []*core.Tensor{x}
	for name, wait := range map[string]func(context.Context) error{
		"Acquire to read": func(ctx context.Context) error {
			u, err := stream.Acquire(ctx, nil, list)
			u.Release()
			return err
		},
		"Acquire to write": func(ctx context.Context) error {
			u, err := stream.Acquire(ctx, list, nil)
			u.Release()
			return err
		},
		"Handoff to the host": func(ctx context.Context) error {
			_, err := stream.Handoff(ctx, x, nil, nil)
			return err
		},
		"SubmitSame without a stream": func(ctx context.Context) error { return stream.SubmitSame(ctx, nil, x, x) },
	} {
		before, waited := hostWaits(d.ID())
		if err := wait(t.Context()); err != nil {
			t.Error(name, err)
		}
		if n, _ := hostWaits(d.ID()); n != before {
			t.Errorf("%s without work counts %d waits", name, n-before)
		}
		work := stream.NewEvent()
		b.Wrote(work)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s for work without an end: %v", name, err)
		}
		cancel()
		work.Complete(nil)
		if n, all := hostWaits(d.ID()); n != before+1 || all <= waited {
			t.Errorf("%s: %d waits of %v, want 1", name, n-before, all-waited)
		}
	}
}

// A stream that waits on the device is no wait of the host; one that cannot is.
func TestWaitsOfStreamsAreNotCounted(t *testing.T) {
	for _, hostWaiting := range []bool{false, true} {
		backend := newBackend(t, coretest.Options{HostWaits: hostWaiting})
		d := open(t, backend, 1)
		x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{8}, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first, err1 := d.NewStream(t.Context())
		second, err2 := d.NewStream(t.Context())
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		y, err := core.FromSlice(make([]byte, 8))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Copy(t.Context(), first, x, y); err != nil {
			t.Fatal(err)
		}
		before, _ := hostWaits(d.ID())
		how, err := stream.Handoff(t.Context(), x, nil, second)
		n, _ := hostWaits(d.ID())
		if err != nil || (how == stream.HostWait) != hostWaiting || (n-before == 1) != hostWaiting {
			t.Errorf("%v: %v, %d waits counted", how, err, n-before)
		}
		if err := errors.Join(second.Synchronize(t.Context()), first.Close(), second.Close(), x.Close(), y.Close()); err != nil {
			t.Error(err)
		}
	}
}
