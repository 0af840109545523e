//go:build cgo

package share

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// lateOnCard sends a frame of equal elements whose write does not end before w is let go.
func lateOnCard(t testing.TB, p *Publisher, w *work, value int32) RingReport {
	t.Helper()
	x, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(t.Context(), x, value); err != nil {
		t.Fatal(err)
	}
	r, err := p.Send(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantWaits fails unless the work on a frame was unfinished, and the subscribers wait for it as the list says.
func wantWaits(t testing.TB, r RingReport, waits ...stream.Wait) {
	t.Helper()
	var got []stream.Wait
	for _, x := range r.Readers {
		got = append(got, x.Wait)
		if (x.Refused == "") != (x.Wait == stream.SemaphoreWait) {
			t.Errorf("the subscriber waits by %v, since %q", x.Wait, x.Refused)
		}
	}
	if r.Wait != stream.SemaphoreWait || !slices.Equal(got, waits) {
		t.Fatalf("the report: %+v, want %v", r, waits)
	}
}

// subscribeOn subscribes on a card. The test closes the result.
func subscribeOn(t testing.TB, c *Conn, x *card) *Subscription {
	t.Helper()
	return subscribe(t, c, SubscribeOptions{Device: x.device})
}

// wantCopies enqueues a copy of a frame, lets the work go, and fails unless the copy is right.
func wantCopies(t testing.TB, s core.Stream, d core.Device, f Frame, w *work, value int32) {
	t.Helper()
	z := copied(t, d, s, f.Tensor())
	if done, err := z.Ready().Done(); done {
		t.Fatalf("the copy is done before what it reads: %v", err)
	}
	if err := w.let(); err != nil {
		t.Fatal(err)
	}
	wantWords(t, z, value)
	_ = z.Close()
}

func received(t testing.TB, s *Subscription) Frame {
	t.Helper()
	f, err := s.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The device of a subscriber waits for the work on a frame. One semaphore serves all frames, one after the other.
func TestASemaphoreOrdersFrames(t *testing.T) {
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := newCard(t), newCard(t)
			sender, receiver := connected(t, a.options(), b.options())
			r := cardRing
			r.Device, r.Mode = a.device, mode
			p := publish(t, sender, r)
			s := subscribeOn(t, receiver, b)
			w, reads := begun(t, a), newStream(t, b.device)
			for n := range int32(10) {
				wantWaits(t, lateOnCard(t, p, w, n), stream.SemaphoreWait)
				f := received(t, s)
				if _, ok := f.Tensor().Ready().(*arrival); !ok {
					t.Fatalf("frame %d: the device does not wait", f.Sequence())
				}
				wantCopies(t, reads, b.device, f, w, n)
				if err := f.Err(); err != nil {
					t.Error(err)
				}
				f.Release()
				if err := p.WaitReleased(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n := sender.laneCount(); n != 1 {
				t.Errorf("there are %d semaphores", n)
			}
			p.mu.Lock()
			for i := range p.slots {
				if w := p.slots[i].work; w != nil && len(w.turns) != 0 {
					t.Errorf("slot %d keeps connections after its work", i)
				}
			}
			p.mu.Unlock()
			if err := errors.Join(sender.Err(), receiver.Err()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Several subscribers wait each in their own way: by a semaphore of their own connection, or for a message.
// Tensors of the same connection take semaphores of the same lanes.
func TestSubscribersWaitEachInTheirWay(t *testing.T) {
	a, b := newCard(t), newCard(t)
	first, one := connected(t, a.options(), b.options())
	second, two := connected(t, a.options(), b.options())
	third, three := connected(t, of(a.device), b.options()) // no device there exports a semaphore
	p := publishOn(t, first, a)
	for _, c := range []*Conn{second, third} {
		if err := p.Offer(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	var list []*Subscription
	for _, c := range []*Conn{one, two, two, three} {
		list = append(list, subscribeOn(t, c, b))
	}
	w, v, reads := begun(t, a), begun(t, a), newStream(t, b.device)
	for n := range int32(5) {
		wantWaits(t, lateOnCard(t, p, w, n), stream.SemaphoreWait, stream.SemaphoreWait, stream.SemaphoreWait, stream.HostWait)
		x := onCard(t, a.device, opaqueFD)
		if err := v.write(t.Context(), x, 100); err != nil {
			t.Fatal(err)
		}
		if r := send(t, second, x); r.Wait != stream.SemaphoreWait {
			t.Fatalf("%v", r)
		}
		y, _ := receive(t, two, b.device)
		var copies []*core.Tensor
		for _, s := range list {
			f := received(t, s)
			wantUnfinished(t, f)
			if s.conn != three { // the stream of a copy would wait on the host
				copies = append(copies, copied(t, b.device, reads, f.Tensor()))
			}
			f.Release()
		}
		if err := w.let(); err != nil {
			t.Fatal(err)
		}
		for _, z := range copies {
			wantWords(t, z, n)
		}
		if err := v.let(); err != nil {
			t.Fatal(err)
		}
		wantWords(t, y, 100)
		_ = y.Close()
		if err := p.WaitReleased(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := second.laneCount(); n != 2 {
		t.Errorf("there are %d semaphores", n)
	}
}

// A subscriber that signals its semaphore too early reads what is not there yet, and no other subscriber does. The
// publisher goes on.
func TestASubscriberThatSignals(t *testing.T) {
	a, b := newCard(t), newCard(t)
	a.late, b.late = true, true
	first, one := connected(t, a.options(), b.options())
	second, two := connected(t, a.options(), b.options())
	p := publishOn(t, first, a)
	if err := p.Offer(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	hostile, s := subscribeOn(t, one, b), subscribeOn(t, two, b)
	w, reads := begun(t, a), newStream(t, b.device)
	for n := range int32(4) {
		r := lateOnCard(t, p, w, n)
		wantWaits(t, r, stream.SemaphoreWait, stream.SemaphoreWait)
		g := received(t, hostile)
		semaphore := hostile.slots[g.slot].work
		if err := semaphore.semaphore.semaphore.Signal(reads, semaphore.value); err != nil {
			t.Fatal(err)
		}
		f := received(t, s)
		wantCopies(t, reads, b.device, f, w, n)
		if err := f.Tensor().WaitReady(t.Context()); err != nil {
			t.Error(err)
		}
		f.Release()
		g.Release()
		if err := p.WaitReleased(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(first.Err(), second.Err()); err != nil {
		t.Error(err)
	}
}

// The end of a connection or of the publisher lets the subscriber's device go on.
func TestTheEndEndsWaitsForFrames(t *testing.T) {
	for _, end := range []string{"the publisher", "the publisher's connection", "the subscriber's connection", "the socket"} {
		t.Run(end, func(t *testing.T) {
			a, b := newCard(t), newCard(t)
			a.late, b.late = true, true
			x, y := pair(t)
			sender, receiver := made(t, x, patient(a.options(), 20*time.Millisecond)), made(t, y, patient(b.options(), 20*time.Millisecond))
			p := publishOn(t, sender, a)
			s := subscribeOn(t, receiver, b)
			w, reads := begun(t, a), newStream(t, b.device)
			wantWaits(t, lateOnCard(t, p, w, 1), stream.SemaphoreWait)
			f := received(t, s)
			z := copied(t, b.device, reads, f.Tensor())
			switch end {
			case "the publisher":
				_ = p.Close()
			case "the publisher's connection":
				_ = sender.Close()
			case "the subscriber's connection":
				_ = receiver.Close()
			default:
				_ = unixShutdown(x)
			}
			if err := reads.Synchronize(t.Context()); err != nil {
				t.Errorf("the stream: %v", err)
			}
			for _, x := range []*core.Tensor{f.Tensor(), z} {
				if err := x.WaitReady(t.Context()); err == nil {
					t.Error("reading gives no error")
				}
			}
			if now, err := w.gate.Value(); err != nil || now != 0 {
				t.Fatalf("the work has ended: %d, %v", now, err)
			}
			f.Release()
		})
	}
}

// A failed write reaches what was enqueued before.
func TestAFailedWriteOfAFrame(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	p := publishOn(t, sender, a)
	s := subscribeOn(t, receiver, b)
	w, reads := begun(t, a), newStream(t, b.device)
	for n := range int32(4) {
		x, err := p.Loan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.write(t.Context(), x, n); err != nil {
			t.Fatal(err)
		}
		buffer(t, x).Wrote(failing{x.Ready(), core.Errorf(core.ErrDeviceLost, "test", "write", "the write failed on purpose")})
		r, err := p.Send(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		wantWaits(t, r, stream.SemaphoreWait)
		f := received(t, s)
		z := copied(t, b.device, reads, f.Tensor())
		if err := w.let(); err != nil {
			t.Fatal(err)
		}
		for _, x := range []*core.Tensor{f.Tensor(), z} {
			if err := x.WaitReady(t.Context()); !errors.Is(err, core.ErrDeviceLost) {
				t.Errorf("reading gives %v", err)
			}
		}
		f.Release()
	}
}

// A subscriber that cannot open the semaphore waits for the message.
func TestASubscriberWithoutTheSemaphore(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	p := publishOn(t, sender, a)
	s := subscribeOn(t, receiver, b)
	w := begun(t, a)
	wantWaits(t, lateOnCard(t, p, w, 3), stream.SemaphoreWait)
	b.timelines.sim.Fail("cuImportExternalSemaphore", 1, 0)
	f := received(t, s)
	wantUnfinished(t, f)
	if _, ok := f.Tensor().Ready().(*arrival); ok {
		t.Error("the device waits")
	}
	if err := w.let(); err != nil {
		t.Fatal(err)
	}
	wantWords(t, f.Tensor(), 3)
	f.Release()
}

// A semaphore that cannot be passed now, since the peer does not read, or that serves only one wait, is not used for a
// frame: the subscriber waits for the message. The lane stays there.
func TestSemaphoresThatFramesDoNotUse(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, receiver := connected(t, a.options(), b.options())
	p := publishOn(t, sender, a)
	s := subscribeOn(t, receiver, b)
	w := begun(t, a)
	frame := func(value int32) (stream.Wait, string) {
		t.Helper()
		r := lateOnCard(t, p, w, value)
		if err := w.let(); err != nil {
			t.Fatal(err)
		}
		return r.Readers[0].Wait, r.Readers[0].Refused
	}
	read := func(value int32) {
		t.Helper()
		f := received(t, s)
		wantWords(t, f.Tensor(), value)
		f.Release()
	}
	sender.writing <- struct{}{} // as a call that waits for the peer
	for n := range int32(2) {
		if how, why := frame(n); how != stream.HostWait || !strings.Contains(why, "does not read its messages") {
			t.Errorf("frame %d: %v, %q", n, how, why)
		}
	}
	<-sender.writing
	read(0)
	read(1)
	until(t, "the peer has the semaphore", func() bool { // the writer may still be at work
		how, _ := frame(2)
		read(2)
		return how == stream.SemaphoreWait
	})
	sender.mu.Lock()
	sender.lanes[0].binary = true
	sender.mu.Unlock()
	if how, why := frame(3); how != stream.HostWait || !strings.Contains(why, "a binary semaphore serves one wait") {
		t.Errorf("%v, %q", how, why)
	}
	read(3)
	if n := sender.laneCount(); n != 1 {
		t.Errorf("there are %d semaphores", n)
	}
}

// The end of one wait does not signal the value of a later one on the same semaphore. A wait that begins
// when the peer has told of the end is ended, too.
func TestTheEndOfOneWaitOfSeveral(t *testing.T) {
	coretest.CheckNoLeaks(t)
	a, b := newCard(t), newCard(t)
	a.late, b.late = true, true
	sender, receiver := connected(t, patient(a.options(), 20*time.Millisecond), patient(b.options(), 20*time.Millisecond))
	w := begun(t, a)
	var y *core.Tensor
	for n := range int32(2) { // the second one waits for the value 2
		x := onCard(t, a.device, opaqueFD)
		if err := w.write(t.Context(), x, n); err != nil {
			t.Fatal(err)
		}
		send(t, sender, x)
		y, _ = receive(t, receiver, b.device)
		if n == 0 {
			if err := w.let(); err != nil {
				t.Fatal(err)
			}
			wantWords(t, y, 0)
			_ = y.Close()
			released(t, sender)
		}
	}
	receiver.mu.Lock()
	var x *openSemaphore
	for _, only := range receiver.semaphores {
		x = only
	}
	receiver.mu.Unlock()
	x.release(1, true)
	x.release(1, false)
	sender.mu.Lock()
	now, err := sender.lanes[0].made.Value()
	sender.mu.Unlock()
	if err != nil || now != 1 {
		t.Fatalf("the semaphore has the value %d, error %v", now, err)
	}
	if done, _ := y.Ready().Done(); done {
		t.Error("the tensor counts as written")
	}
	if err := w.let(); err != nil {
		t.Fatal(err)
	}
	wantWords(t, y, 1)
	_ = y.Close()
	told := stream.NewEvent()
	told.Complete(nil)
	e, err := x.arrival(t.Context(), receiver, b.device, 3, told)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// A lane that is to be closed is not taken by another call before that, and Close of the connection goes on when it is closed.
func TestALaneThatIsToBeClosed(t *testing.T) {
	coretest.CheckNoLeaks(t)
	a, b := newCard(t), newCard(t)
	sender, _ := connected(t, patient(a.options(), time.Hour), b.options())
	if err := sender.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, err := sender.lane(t.Context(), a.device)
	if err != nil {
		t.Fatal(err)
	}
	sender.mu.Lock()
	keep := sender.idle(one, false)
	sender.mu.Unlock()
	two, err := sender.lane(t.Context(), a.device)
	if err != nil {
		t.Fatal(err)
	}
	if keep || two == one {
		t.Errorf("the lane is used again: kept %t", keep)
	}
	sender.giveBackLane(two, true)
	closed := make(chan struct{})
	go func() { _ = sender.Close(); close(closed) }()
	until(t, "Close waits", func() bool { sender.mu.Lock(); defer sender.mu.Unlock(); return len(sender.waiters) > 0 })
	sender.drop(one)
	<-closed
}

// The end of a context does not count as a peer that does not read, and the error says why a semaphore was not passed.
func TestASemaphoreThatIsNotPassed(t *testing.T) {
	a, b := newCard(t), newCard(t)
	sender, _ := connected(t, a.options(), b.options())
	if err := sender.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := sender.lane(t.Context(), a.device)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.giveBackLane(l, true)
	stuck := func() bool {
		sender.mu.Lock()
		defer sender.mu.Unlock()
		return sender.stuck
	}
	ended, end := context.WithCancel(t.Context())
	end()
	sender.writing <- struct{}{} // no message is written
	err = sender.passLaneSoon(ended, l)
	if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) || stuck() {
		t.Errorf("the end of a context: error %v, the peer does not read: %t", err, stuck())
	}
	if err = sender.passLaneSoon(t.Context(), l); !errors.Is(err, core.ErrNotSupported) || !stuck() {
		t.Errorf("a peer that does not read: error %v, noted %t", err, stuck())
	}
	_ = sender.passLaneSoon(ended, l)
	if !stuck() {
		t.Error("the end of a context counts as a peer that reads")
	}
	<-sender.writing
	if err = sender.passLaneSoon(t.Context(), l); err != nil || stuck() {
		t.Errorf("a peer that reads: error %v, the peer does not read: %t", err, stuck())
	}
}
