//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// CUDA and the other driver use one buffer in turn. All of CUDA's work of a batch is enqueued before the other driver
// begins. CUDA's work would run too early if it did not wait, and the other driver would read too early if CUDA did
// not signal.
func TestASemaphoreOrdersBothWays(t *testing.T) {
	const batches, rounds, size = 10, 100, 4096
	simulator(t)
	d := opened(t)
	other, own := newTimeline(t, d)
	streams := []core.Stream{newStream(t, d), newStream(t, d)}
	shared, m := exported(t, d, size)
	host := view(t, coretest.FD(t, m.Handle), m.Size)
	defer m.Close()
	seen := make([]byte, rounds*size)
	said := pattern(rounds*size, 9)
	value := uint64(0)
	for batch := range batches {
		clear(seen)
		first := value
		for round := range rounds {
			s := streams[round%len(streams)]
			step := func(err error) {
				if err != nil {
					t.Fatalf("batch %d, round %d: %v", batch, round, err)
				}
			}
			part := func(p []byte) *core.Tensor { return keep(t)(core.FromSlice(p[round*size:][:size])) }
			step(own.WaitOn(s, value+1))
			step(d.Copy(t.Context(), s, part(seen), shared))
			step(d.Copy(t.Context(), s, shared, part(said)))
			step(own.Signal(s, value+2))
			value += 2
		}
		for round := range rounds {
			copy(host, pattern(size, uint64(round)))
			if err := other.Timeline.Signal(first + 1); err != nil {
				t.Fatal(err)
			}
			if err := other.Wait(t.Context(), first+2); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(host[:size], said[round*size:][:size]) {
				t.Fatalf("batch %d, round %d: the other driver sees other bytes than CUDA wrote", batch, round)
			}
			first += 2
		}
		for _, s := range streams {
			if err := s.Synchronize(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for round := range rounds {
			if !bytes.Equal(seen[round*size:][:size], pattern(size, uint64(round))) {
				t.Fatalf("batch %d, round %d: CUDA sees other bytes than the other driver wrote", batch, round)
			}
		}
	}
}

// With a shared semaphore, streams that cannot wait for each other's events hand tensors over, in both directions.
func TestASharedSemaphoreServesBothDirections(t *testing.T) {
	const size = 5000
	sim := simulator(t)
	d := opened(t)
	other, own := newTimeline(t, d)
	back, backOwn := newTimeline(t, d)
	ours, theirs := newStream(t, d), newOtherStream(t)
	shared, m := exported(t, d, size)
	host := view(t, coretest.FD(t, m.Handle), m.Size)
	defer m.Close()
	toThem, toUs := stream.NewSharedSemaphore(own, other), stream.NewSharedSemaphore(back, backOwn)
	for round := range uint64(20) {
		sim.Hold(true)
		if err := d.Copy(t.Context(), ours, shared, keep(t)(core.FromSlice(pattern(size, 2*round)))); err != nil {
			t.Fatal(err)
		}
		how, err := toThem.Handoff(t.Context(), shared, ours, theirs)
		if err != nil || how != stream.SemaphoreWait {
			t.Fatalf("round %d, from CUDA: %v, %v", round, how, err)
		}
		read := make([]byte, size)
		err = stream.Submit(t.Context(), theirs, []*core.Tensor{shared}, nil, func() error {
			return theirs.Enqueue(func() error {
				copy(read, host)
				copy(host, pattern(size, 2*round+1))
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		how, err = toUs.Handoff(t.Context(), shared, theirs, ours)
		if err != nil || how != stream.SemaphoreWait {
			t.Fatalf("round %d, to CUDA: %v, %v", round, how, err)
		}
		sim.Hold(false)
		if got := get(t, d, shared); !bytes.Equal(got, pattern(size, 2*round+1)) {
			t.Fatalf("round %d: CUDA sees other bytes than the other driver wrote", round)
		}
		if !bytes.Equal(read, pattern(size, 2*round)) {
			t.Fatalf("round %d: the other driver sees other bytes than CUDA wrote", round)
		}
	}
}

func TestASmallerValueIsRefused(t *testing.T) {
	simulator(t)
	d := opened(t)
	other, own := newTimeline(t, d)
	s := newStream(t, d)
	if err := own.Signal(s, 5); err != nil {
		t.Fatal(err)
	}
	for _, v := range []uint64{0, 4, 5} {
		wantError(t, own.Signal(s, v), core.ErrInvalid, "Signal of a value that is not larger than 5")
	}
	if err := errors.Join(own.Wait(t.Context(), 5), other.Timeline.Signal(9), own.Wait(t.Context(), 9)); err != nil {
		t.Fatal(err)
	}
	wantError(t, own.Signal(s, 9), core.ErrInvalid, "Signal of a value that Wait has seen")
	if err := errors.Join(own.Signal(s, 10), other.Wait(t.Context(), 10)); err != nil {
		t.Fatal(err)
	}
	if v, err := other.Value(); v != 10 || err != nil {
		t.Errorf("the counter is %d, %v; want 10", v, err)
	}
}

// The first stream has to wait before it signals, and the second one does not.
func TestSignalsOfTwoStreamsKeepTheirOrder(t *testing.T) {
	simulator(t)
	d := opened(t)
	gate, gateOwn := newTimeline(t, d)
	other, own := newTimeline(t, d)
	first, second := newStream(t, d), newStream(t, d)
	if err := errors.Join(gateOwn.WaitOn(first, 1), own.Signal(first, 1), own.Signal(second, 2)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := second.Synchronize(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("2 was signalled before 1: %v", err)
	}
	if err := errors.Join(gate.Timeline.Signal(1), other.Wait(t.Context(), 2)); err != nil {
		t.Fatal(err)
	}
}

func TestTheValueCannotBeRead(t *testing.T) {
	_, own := newTimeline(t, opened(t))
	_, err := own.Value()
	wantError(t, err, core.ErrNotSupported, "Value of an imported semaphore")
}

// The stream goes on waiting in the driver, so the device cannot be closed.
func TestAWaitEndsWithItsContext(t *testing.T) {
	sim := simulator(t)
	d := open(t)
	other, own := newTimeline(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const call = "cuWaitExternalSemaphoresAsync"
	calls := sim.Count(call)
	go func() {
		for sim.Count(call) == calls {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := own.Wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v, want the context's error", err)
	}
	if err := own.Wait(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with a context that ended: %v", err)
	}
	if err := own.Close(); err != nil {
		t.Error(err)
	}
	wantError(t, d.Close(), core.ErrInvalid, "Close of the device while the driver waits")
	if err := other.Timeline.Signal(1); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		err := d.Close()
		if err == nil {
			break
		}
		if !errors.Is(err, core.ErrInvalid) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// The driver's semaphore is not closed before the work that waits for it is done.
func TestCloseOfASemaphoreLeavesItsWork(t *testing.T) {
	sim := simulator(t)
	d := open(t)
	live := sim.Live()
	other, own := newTimeline(t, d)
	waiter := newStream(t, d)
	host := make([]byte, 1000)
	x := row(t, d, 1000, core.AllocOptions{})
	put(t, d, x, pattern(1000, 1))
	if err := errors.Join(own.WaitOn(waiter, 1), d.Copy(t.Context(), waiter, keep(t)(core.FromSlice(host)), x), own.Signal(waiter, 2), own.Close()); err != nil {
		t.Fatal(err)
	}
	if n := sim.Live()["external_semaphores"] - live["external_semaphores"]; n != 1 {
		t.Errorf("%d semaphores of the driver are open while work uses one", n)
	}
	if err := errors.Join(other.Timeline.Signal(1), other.Wait(t.Context(), 2), waiter.Close(), x.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(host, pattern(1000, 1)) {
		t.Error("the work after the wait did not run")
	}
	if n := sim.Live()["external_semaphores"] - live["external_semaphores"]; n != 0 {
		t.Errorf("%d semaphores of the driver are left open", n)
	}
}

func TestAClosedSemaphore(t *testing.T) {
	d := opened(t)
	_, own := newTimeline(t, d)
	s := newStream(t, d)
	for range 3 {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := own.Value()
	for what, err := range map[string]error{
		"Signal": own.Signal(s, 1), "WaitOn": own.WaitOn(s, 1), "Wait": own.Wait(t.Context(), 0), "Value": err,
	} {
		wantError(t, err, core.ErrClosed, what)
	}
}

func TestASemaphoreRefusesOtherStreams(t *testing.T) {
	d := opened(t)
	_, own := newTimeline(t, d)
	closed := newStream(t, d)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what     string
		s        core.Stream
		sentinel error
	}{
		{"no stream", nil, core.ErrDevice},
		{"a stream of the host", newOtherStream(t), core.ErrDevice},
		{"a stream of another opened device", newStream(t, opened(t)), core.ErrDevice},
		{"a closed stream", closed, core.ErrClosed},
	} {
		wantError(t, own.Signal(c.s, 1), c.sentinel, "Signal on "+c.what)
		wantError(t, own.WaitOn(c.s, 1), c.sentinel, "WaitOn "+c.what)
	}
}

func TestASemaphoreKeepsACaptureValid(t *testing.T) {
	simulator(t)
	native, end := capture(t, captureGlobal)
	d := opened(t)
	_, own := newTimeline(t, d)
	s, err := d.(core.StreamImporter).ImportStream(t.Context(), native)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, own.Signal(s, 1), core.ErrNotSupported, "Signal")
	wantError(t, own.WaitOn(s, 1), core.ErrNotSupported, "WaitOn")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	end()
}

func TestARefusedSemaphoreStaysTheCallers(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	own, err := sim.NewTimeline()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(own.FD) }()
	memory, _ := foreign(t, d, 4096)
	defer memory.Close()
	foreigner := coretest.HandleOf(t, core.HandleDMABuf, own.FD)
	good := core.ExternalSemaphore{Handle: coretest.HandleOf(t, core.HandleOpaqueFD, own.FD), DeviceUUID: d.Properties().UUID}
	type bad struct {
		rule     string
		change   func(*core.ExternalSemaphore)
		sentinel error
	}
	cases := []bad{
		{"another device", func(x *core.ExternalSemaphore) { x.DeviceUUID[7]++ }, core.ErrDevice},
		{"no device", func(x *core.ExternalSemaphore) { x.DeviceUUID = core.UUID{} }, core.ErrDevice},
		{"a type that cannot be imported", func(x *core.ExternalSemaphore) { x.Handle = foreigner }, core.ErrNotSupported},
		{"no handle", func(x *core.ExternalSemaphore) { x.Handle = nil }, core.ErrNotSupported},
		{"memory", func(x *core.ExternalSemaphore) { x.Handle = memory.Handle }, core.ErrInvalid},
	}
	for what, h := range wrongDescriptors(t) {
		cases = append(cases, bad{what, func(x *core.ExternalSemaphore) { x.Handle = h }, core.ErrInvalid})
	}
	before, live := descriptors(), sim.Live()
	for _, c := range cases {
		x := good
		c.change(&x)
		s, err := d.(core.SemaphoreImporter).ImportSemaphore(t.Context(), x)
		if err == nil {
			_ = s.Close()
		}
		wantError(t, err, c.sentinel, c.rule)
		if now := descriptors(); now != before {
			t.Errorf("%s: %d descriptors are open, %d were", c.rule, now, before)
		}
	}
	wantLive(t, sim, live, sharedKinds...)
}
