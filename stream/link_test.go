package stream_test

import (
	"context"
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// deaf is a stream that cannot wait for events, only for semaphores.
type deaf struct{ core.Stream }

func (deaf) Wait(core.Event) error { return core.ErrNotSupported }

// ofDeaf is the side of a semaphore that deaf streams wait on.
type ofDeaf struct {
	core.Semaphore
	fails error
}

func (m ofDeaf) WaitOn(s core.Stream, value uint64) error {
	if m.fails != nil {
		return m.fails
	}
	return m.Semaphore.WaitOn(s.(deaf).Stream, value)
}

func TestLink(t *testing.T) {
	lost := core.Errorf(core.ErrDeviceLost, "test", "WaitOn", "")
	for _, c := range []struct {
		name    string
		deaf    bool  // to cannot wait for events
		fromToo bool  // nor from
		fails   error // WaitOn
		done    bool  // the tensor was written already
		want    stream.Mechanism
		err     error
	}{
		{name: "the stream waits by itself where it can", want: stream.StreamWait},
		{name: "the semaphore where it cannot", deaf: true, want: stream.SemaphoreWait},
		{name: "the host where neither can", deaf: true, fromToo: true, want: stream.HostWait},
		{name: "the host where the semaphore is of no use", deaf: true, fails: core.ErrNotSupported, want: stream.HostWait},
		{name: "nobody where the work is done", deaf: true, done: true, want: stream.NoWait},
		{name: "a lost device", deaf: true, fails: lost, want: stream.SemaphoreWait, err: core.ErrDeviceLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t, coretest.Options{})
			d, other := open(t, b, 0), open(t, b, 1)
			signal, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			link := stream.NewLink(signal, ofDeaf{signal, c.fails})
			defer link.Close()
			from, plain := newStream(t, d), newStream(t, other)
			signalling, to := from, plain
			if c.deaf {
				to = deaf{plain}
			}
			if c.fromToo {
				signalling = deaf{from}
			}
			x := empty(t, d, core.TypeInt8, 4)
			for round := range int8(3) { // the values grow
				if err := d.Copy(t.Context(), from, x, host(t, []int8{round, 1, 2, 3})); err != nil {
					t.Fatal(err)
				}
				if c.done {
					if err := from.Synchronize(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				how, err := link.Handoff(t.Context(), x, signalling, to)
				if how != c.want || !errors.Is(err, c.err) {
					t.Errorf("round %d: %v, %v; want %v, %v", round, how, err, c.want, c.err)
				}
				done := make(chan bool, 1)
				err = plain.(*coretest.Stream).Enqueue(func() error {
					done <- x.Ready() == nil
					return nil
				})
				if err := errors.Join(err, plain.Synchronize(t.Context())); err != nil {
					t.Fatal(err)
				}
				if !<-done && c.err == nil {
					t.Errorf("round %d: the reader came before the writer", round)
				}
			}
			_ = from.Synchronize(t.Context())
		})
	}
}

func TestALinkSignalsForADeviceThatIsLost(t *testing.T) {
	b := newBackend(t, coretest.Options{})
	d, other := open(t, b, 0), open(t, b, 1)
	semaphore, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	link := stream.NewLink(semaphore, ofDeaf{semaphore, nil})
	defer link.Close()
	from, plain := newStream(t, d), newStream(t, other)
	written, late := empty(t, d, core.TypeInt8, 4), empty(t, d, core.TypeInt8, 4)
	hand := func(x *core.Tensor) {
		t.Helper()
		if err := d.Copy(t.Context(), from, x, host(t, []int8{0, 1, 2, 3})); err != nil {
			t.Fatal(err)
		}
		if how, err := link.Handoff(t.Context(), x, from, deaf{plain}); how != stream.SemaphoreWait || err != nil {
			t.Fatal(how, err)
		}
	}
	hand(written)
	if err := plain.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := from.Synchronize(t.Context()); err != nil { // and the link has nothing to look after
		t.Fatal(err)
	}
	hand(late)
	b.Lose(0)
	go func() { _ = from.Synchronize(context.Background()) }() // fails
	if err := plain.Synchronize(t.Context()); err != nil {
		t.Errorf("the device that waits: %v", err)
	}
	if err := late.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("what was never written: %v", err)
	}
}
