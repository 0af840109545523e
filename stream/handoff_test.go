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

func TestHandoffSaysWhoWaits(t *testing.T) {
	for _, c := range []struct {
		name      string
		hostWaits bool
		to        func(t *testing.T, d core.Device) core.Stream
		idle      bool
		want      stream.Wait
	}{
		{name: "nothing to wait for", idle: true, to: newDeviceStream, want: stream.NoWait},
		{name: "device to device", to: newDeviceStream, want: stream.StreamWait},
		{name: "device to device that cannot", hostWaits: true, to: newDeviceStream, want: stream.HostWait},
		{name: "device to queue", to: func(t *testing.T, _ core.Device) core.Stream { return newQueue(t) }, want: stream.StreamWait},
		{name: "device to host", to: func(*testing.T, core.Device) core.Stream { return nil }, want: stream.HostWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, newBackend(t, coretest.Options{HostWaits: c.hostWaits}), 0)
			s := newStream(t, d)
			x := empty(t, d, core.TypeInt8, 1)
			if err := d.Copy(t.Context(), s, x, host(t, []int8{1})); err != nil {
				t.Fatal(err)
			}
			if c.idle {
				if err := s.Synchronize(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			how, err := stream.Handoff(t.Context(), x, nil, c.to(t, d))
			if how != c.want || err != nil {
				t.Errorf("Handoff gives %v, %v; want %v", how, err, c.want)
			}
			if done := x.Ready() == nil; c.want == stream.HostWait && !done {
				t.Error("the host has waited, but the tensor is not ready")
			}
		})
	}
}

func newDeviceStream(t *testing.T, d core.Device) core.Stream { return newStream(t, d) }

// A producer that notes no events is waited for by its stream.
func TestHandoffWaitsForAllThatTheOtherStreamHolds(t *testing.T) {
	from, to := newQueue(t), newQueue(t)
	gate := stream.NewEvent()
	x := host(t, []int8{0})
	values, _ := core.Mutable[int8](x)
	if err := from.Wait(gate); err != nil {
		t.Fatal(err)
	}
	mustEnqueue(t, from, func() error { values[0] = 42; return nil })
	how, err := stream.Handoff(t.Context(), x, from, to)
	if how != stream.StreamWait || err != nil {
		t.Fatalf("Handoff gives %v, %v", how, err)
	}
	var got int8
	mustEnqueue(t, to, func() error { got = values[0]; return nil })
	gate.Complete(nil)
	if err := to.Synchronize(t.Context()); err != nil || got != 42 {
		t.Errorf("the reader got %d, %v", got, err)
	}
}

func TestHandoffErrors(t *testing.T) {
	checkNoGoroutines(t)
	q := newQueue(t)
	x, closed := host(t, []int8{0}), host(t, []int8{0})
	_ = closed.Close()
	shut := stream.NewQueue(nil)
	_ = shut.Close()
	never := stream.NewEvent()
	buffer, _ := x.Buffer()
	buffer.Wrote(never)
	short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	check := func(name string, ctx context.Context, x *core.Tensor, from, to core.Stream, want error) {
		t.Helper()
		if _, err := stream.Handoff(ctx, x, from, to); !errors.Is(err, want) {
			t.Errorf("%s: Handoff gives %v, want %v", name, err, want)
		}
	}
	check("no tensor", t.Context(), nil, nil, q, core.ErrInvalid)
	check("a closed tensor", t.Context(), closed, nil, q, core.ErrClosed)
	check("from a closed stream", t.Context(), x, shut, q, core.ErrClosed)
	check("to a closed stream", t.Context(), x, nil, shut, core.ErrClosed)
	check("the context ends", short, x, nil, nil, context.DeadlineExceeded)
	never.Complete(errA)
	check("the write failed", t.Context(), x, nil, q, errA)
}

func TestWaitNames(t *testing.T) {
	for w, want := range map[stream.Wait]string{
		stream.NoWait: "none", stream.StreamWait: "stream_wait", stream.SemaphoreWait: "semaphore_wait", stream.HostWait: "host_wait", 9: "unknown",
	} {
		if text, err := w.MarshalText(); w.String() != want || string(text) != want || err != nil {
			t.Errorf("%d prints as %s and %s, want %s", w, w, text, want)
		}
	}
}
