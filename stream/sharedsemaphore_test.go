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

func TestSharedSemaphore(t *testing.T) {
	lost := core.Errorf(core.ErrDeviceLost, "test", "WaitOn", "")
	for _, c := range []struct {
		name    string
		deaf    bool  // to cannot wait for events
		fromToo bool  // nor from
		fails   error // WaitOn
		done    bool  // the tensor was written already
		want    stream.Wait
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
			shared := stream.NewSharedSemaphore(signal, ofDeaf{signal, c.fails})
			defer shared.Close()
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
				written := x.Ready()
				how, err := shared.Handoff(t.Context(), x, signalling, to)
				if how != c.want || !errors.Is(err, c.err) {
					t.Errorf("round %d: %v, %v; want %v, %v", round, how, err, c.want, c.err)
				}
				done := make(chan bool, 1)
				err = plain.(*coretest.Stream).Enqueue(func() error {
					isDone := written == nil
					if !isDone {
						isDone, _ = written.Done()
					}
					done <- isDone
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

// pair is two devices and a semaphore from one to the other, whose streams wait for nothing else.
type pair struct {
	backend  *coretest.Backend
	d, other core.Device
	shared   *stream.SharedSemaphore
	from, to core.Stream
}

func newPair(t *testing.T) pair {
	t.Helper()
	b := newBackend(t, coretest.Options{})
	d, other := open(t, b, 0), open(t, b, 1)
	semaphore, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	shared := stream.NewSharedSemaphore(semaphore, ofDeaf{semaphore, nil})
	t.Cleanup(func() { _ = shared.Close() })
	return pair{b, d, other, shared, newStream(t, d), newStream(t, other)}
}

// hand writes x on the one device, and hands it over to the other.
func (l pair) hand(t *testing.T, x *core.Tensor) {
	t.Helper()
	if err := l.d.Copy(t.Context(), l.from, x, host(t, []int8{0, 1, 2, 3})); err != nil {
		t.Fatal(err)
	}
	if how, err := l.shared.Handoff(t.Context(), x, l.from, deaf{l.to}); how != stream.SemaphoreWait || err != nil {
		t.Fatal(how, err)
	}
}

// work has the other device make one tensor of another.
func (l pair) work(t *testing.T, made, of *core.Tensor) {
	t.Helper()
	err := stream.Submit(t.Context(), l.to, []*core.Tensor{made}, []*core.Tensor{of}, func() error {
		return l.to.(*coretest.Stream).Enqueue(nothing)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestASharedSemaphoreSignalsForADeviceThatIsLost(t *testing.T) {
	l := newPair(t)
	early, late := empty(t, l.d, core.TypeInt8, 4), empty(t, l.d, core.TypeInt8, 4)
	l.hand(t, early)
	if err := errors.Join(l.to.Synchronize(t.Context()), l.from.Synchronize(t.Context()), early.WaitReady(t.Context())); err != nil {
		t.Fatal(err)
	}
	held := make(chan struct{})
	err := l.from.(*coretest.Stream).Enqueue(func() error {
		<-held
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.hand(t, late)
	made := empty(t, l.other, core.TypeInt8, 4)
	l.work(t, made, late)
	waits := make(chan error, 1)
	go func() { waits <- made.WaitReady(context.Background()) }()
	l.backend.Lose(0)
	close(held)
	if err := <-waits; !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("what was made of what was never written: %v", err)
	}
	if err := l.to.Synchronize(t.Context()); err != nil {
		t.Errorf("the device that waits: %v", err)
	}
	if err := late.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
		t.Errorf("what was never written: %v", err)
	}
	if err := early.WaitReady(t.Context()); err != nil {
		t.Errorf("what had arrived: %v", err)
	}
}

// Nobody is lost: only the signal did not come.
func TestASharedSemaphoreSignalsWhereASignalFails(t *testing.T) {
	l := newPair(t)
	x := empty(t, l.d, core.TypeInt8, 4)
	l.backend.Fail("work", 2, core.ErrOutOfMemory)
	l.hand(t, x)
	if err := l.from.Synchronize(t.Context()); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("the stream that was to signal: %v", err)
	}
	if err := l.to.Synchronize(t.Context()); err != nil {
		t.Errorf("the side that waits: %v", err)
	}
	if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("what was handed over: %v", err)
	}
	l.hand(t, x) // the semaphore can still be used
	if err := errors.Join(l.to.Synchronize(t.Context()), x.WaitReady(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestASharedSemaphoreTellsThatAWriteFailed(t *testing.T) {
	l := newPair(t)
	x, made := empty(t, l.d, core.TypeInt8, 4), empty(t, l.other, core.TypeInt8, 4)
	l.backend.Fail("work", 1, core.ErrOutOfMemory)
	l.hand(t, x)
	l.work(t, made, x)
	for name, x := range map[string]*core.Tensor{"what was written": x, "what was made of it": made} {
		if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrOutOfMemory) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_ = l.from.Synchronize(t.Context())
}

func TestASharedSemaphoreClosesAfterItsWork(t *testing.T) {
	for _, lose := range []bool{false, true} {
		l := newPair(t)
		x := empty(t, l.d, core.TypeInt8, 4)
		l.hand(t, x)
		if lose {
			l.backend.Lose(0)
		}
		if err := l.shared.Close(); err != nil && !lose {
			t.Error(err)
		}
		if err := l.to.Synchronize(t.Context()); err != nil {
			t.Errorf("the side that waits: %v", err)
		}
	}
}

// late is a device that makes no stream before it is let.
type late struct {
	core.Device
	entered, let chan struct{}
}

func (d late) NewStream(ctx context.Context) (core.Stream, error) {
	close(d.entered)
	<-d.let
	return d.Device.NewStream(ctx)
}

// ofLate is a deaf stream of a late device.
type ofLate struct {
	deaf
	device late
}

func (s ofLate) Device() core.Device { return s.device }

// toLate is the side of a semaphore that streams of a late device wait on.
type toLate struct{ core.Semaphore }

func (m toLate) WaitOn(s core.Stream, value uint64) error {
	return m.Semaphore.WaitOn(s.(ofLate).Stream, value)
}

// A device may take long to signal for another one. Only those who need the semaphore wait for that.
func TestASharedSemaphoreDoesNotBlockWhileItSignalsItself(t *testing.T) {
	b := newBackend(t, coretest.Options{})
	d, other := open(t, b, 0), open(t, b, 1)
	semaphore, err := d.(core.SemaphoreCreator).NewSemaphore(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	shared := stream.NewSharedSemaphore(semaphore, toLate{semaphore})
	from, plain := newStream(t, d), newStream(t, other)
	to := ofLate{deaf{plain}, late{other, make(chan struct{}), make(chan struct{})}}
	x := empty(t, d, core.TypeInt8, 4)
	write := func() {
		if err := d.Copy(t.Context(), from, x, host(t, []int8{0, 1, 2, 3})); err != nil {
			t.Fatal(err)
		}
	}
	b.Fail("work", 2, core.ErrOutOfMemory) // the signal
	write()
	if how, err := shared.Handoff(t.Context(), x, from, to); how != stream.SemaphoreWait || err != nil {
		t.Fatal(how, err)
	}
	if err := from.Synchronize(t.Context()); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("the stream that was to signal: %v", err)
	}
	<-to.device.entered
	if shared.Reusable() {
		t.Error("it is reusable while it signals itself")
	}
	gate := make(chan struct{})
	err = from.(*coretest.Stream).Enqueue(func() error { <-gate; return nil })
	if err != nil {
		t.Fatal(err)
	}
	write()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := shared.Handoff(ended, x, from, to); !errors.Is(err, context.Canceled) {
		t.Errorf("a handoff whose context has ended: %v", err)
	}
	close(gate)
	closed := make(chan error, 1)
	go func() { closed <- shared.Close() }()
	select {
	case err := <-closed:
		t.Errorf("it closes while it signals itself: %v", err)
		closed <- err
	case <-time.After(20 * time.Millisecond):
	}
	close(to.device.let)
	if err := errors.Join(<-closed, plain.Synchronize(t.Context()), from.Synchronize(t.Context())); err != nil {
		t.Error(err)
	}
}
