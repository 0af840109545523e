package share

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// late sends a frame of consecutive words while its work is unfinished, and returns the event that ends the work.
func late(t testing.TB, p *Publisher, first uint64) (*stream.Event, RingReport) {
	t.Helper()
	x, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	words, err := core.Mutable[uint64](x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range words {
		words[i] = first + uint64(i)
	}
	e := stream.NewEvent()
	buffer(t, x).Wrote(e)
	r, err := p.Send(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return e, r
}

// wantUnfinished fails unless the work on a frame counts as unfinished.
func wantUnfinished(t testing.TB, f Frame) {
	t.Helper()
	if e := f.Tensor().Ready(); e == nil {
		t.Fatalf("the work on frame %d counts as done", f.Sequence())
	} else if done, err := e.Done(); done {
		t.Fatalf("the work on frame %d is done: %v", f.Sequence(), err)
	}
	if err := f.Err(); err != nil {
		t.Errorf("frame %d: %v", f.Sequence(), err)
	}
}

// wantTold waits until a subscription knows that its frames' work has ended.
func wantTold(t testing.TB, s *Subscription) {
	t.Helper()
	until(t, "the subscriber is told", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.awaits()
	})
}

// old makes a peer one whose dlx takes only frames whose work has ended.
func old(t testing.TB, c *Conn) {
	t.Helper()
	if err := c.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.features &^= featureWork
	c.mu.Unlock()
}

// Send returns while the work on a frame is unfinished, and so does Receive. The slot is not loaned again before the work
// has ended, even if no subscriber needs it.
func TestFramesWhoseWorkIsUnfinished(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := connected(t, Options{}, Options{})
			p := publish(t, a, Ring{Slots: 4, Mode: mode})
			s := subscribe(t, b, SubscribeOptions{})
			for n := uint64(1); n <= 20; n += 2 {
				e, r := late(t, p, 100*n)
				if len(r.Readers) != 1 || r.Wait != stream.SemaphoreWait || r.Readers[0].Wait != stream.HostWait || r.Readers[0].Refused == "" {
					t.Fatalf("the report: %+v", r)
				}
				f, err := s.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantUnfinished(t, f)
				if n%4 == 1 { // before the work has ended, or after that
					f.Release()
					f.Release()
					err := p.WaitReleased(briefly(t))
					wantBlocked(t, "a slot whose work is unfinished", err)
					e.Complete(nil)
				} else {
					e.Complete(nil)
					wantFrame(t, f, n, 100*n)
					f.Release()
				}
				put(t, p, 7) // a frame whose work has ended
				get(t, s, n+1, 7).Release()
			}
			if err := p.WaitReleased(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A publisher without subscribers waits for its own work when it needs a slot, and only then.
func TestLoanWaitsForUnfinishedWork(t *testing.T) {
	for _, r := range []Ring{{Slots: 1, Mode: Queue}, {Slots: 3, Mode: Latest}} {
		a, _ := connected(t, Options{}, Options{})
		p := publish(t, a, r)
		var events []*stream.Event
		for n := range r.Slots {
			e, report := late(t, p, uint64(n))
			if len(report.Readers) != 0 {
				t.Errorf("the report: %+v", report)
			}
			events = append(events, e)
		}
		_, err := p.Loan(briefly(t))
		wantBlocked(t, r.Mode.String(), err)
		events[0].Complete(nil)
		x, err := p.Loan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = x.Close()
		for _, e := range events {
			e.Complete(nil)
		}
	}
}

// If one subscriber takes only frames whose work has ended, Send waits, as long as it is there.
func TestAnOldSubscriberMakesSendWait(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	c, d := connected(t, Options{}, Options{})
	old(t, c)
	p := publish(t, a, Ring{Slots: 4, Mode: Queue})
	if err := p.Offer(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s, aged := subscribe(t, b, SubscribeOptions{}), subscribe(t, d, SubscribeOptions{})
	x, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := stream.NewEvent()
	buffer(t, x).Wrote(e)
	r, err := p.Send(briefly(t), x)
	if wantBlocked(t, "Send", err); r.Wait != stream.HostWait {
		t.Errorf("the report: %+v", r)
	}
	e.Complete(nil)
	if _, err = p.Send(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	x, err = p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e = stream.NewEvent()
	buffer(t, x).Wrote(e)
	time.AfterFunc(5*time.Millisecond, func() { e.Complete(nil) })
	if r, err = p.Send(t.Context(), x); err != nil || r.Sequence != 2 || r.Wait != stream.HostWait || len(r.Readers) != 2 {
		t.Fatalf("the report: %+v, error %v", r, err)
	}
	if (r.Readers[0].Refused == "") == (r.Readers[1].Refused == "") {
		t.Errorf("the report does not say for which subscriber Send has waited: %+v", r)
	}
	for _, s := range []*Subscription{s, aged} {
		for range 2 {
			f, err := s.Receive(t.Context())
			if err != nil || f.Tensor().Ready() != nil {
				t.Errorf("frame %d, error %v", f.Sequence(), err)
			}
			f.Release()
		}
	}
	_ = aged.Close()
	until(t, "the old subscriber has left", func() bool { return len(p.Readers()) == 1 })
	e, r = late(t, p, 5)
	if r.Wait != stream.SemaphoreWait {
		t.Errorf("the report: %+v", r)
	}
	e.Complete(nil)
	get(t, s, 3, 5).Release()
}

// A subscriber that joins while the newest frame is unfinished gets that frame in the mode Latest, unless its dlx
// is old, and the next one in the mode Queue.
func TestJoiningAnUnfinishedFrame(t *testing.T) {
	for _, c := range []struct {
		mode  Mode
		old   bool
		ended bool // before it joins
		first uint64
	}{
		{Queue, false, false, 2}, {Queue, true, false, 2}, {Latest, false, false, 1}, {Latest, false, true, 1}, {Latest, true, false, 2},
	} {
		a, b := connected(t, Options{}, Options{})
		if c.old {
			old(t, a)
		}
		p := publish(t, a, Ring{Slots: 4, Mode: c.mode})
		e, _ := late(t, p, 10)
		if c.ended {
			e.Complete(nil)
			if err := p.WaitReleased(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		s := subscribe(t, b, SubscribeOptions{})
		if c.first == 1 {
			f, err := s.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !c.ended {
				wantUnfinished(t, f)
			}
			e.Complete(nil)
			wantFrame(t, f, 1, 10)
			f.Release()
		} else {
			_, err := s.Receive(briefly(t))
			wantBlocked(t, "a subscriber that has come after the frame", err)
		}
		e.Complete(nil)
		put(t, p, 20)
		get(t, s, 2, 20).Release()
	}
}

// Work that fails after Send gives its error to those that read the frame. The next frame in the slot has no error.
func TestFailedWorkOnAFrame(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, mode := range []Mode{Queue, Latest} {
		for _, want := range []error{core.ErrDeviceLost, core.ErrOutOfMemory, core.ErrInvalid} {
			for _, early := range []bool{false, true} { // the work ends before Receive, or after that
				a, b := connected(t, Options{}, Options{})
				p := publish(t, a, Ring{Slots: 3, Mode: mode})
				s := subscribe(t, b, SubscribeOptions{})
				e, _ := late(t, p, 1)
				fail := func() {
					e.Complete(core.Errorf(want, "test", "write", "the work failed on purpose"))
					until(t, "the work has ended", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.working == 0 })
				}
				if early {
					fail()
				}
				f, err := s.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !early {
					wantUnfinished(t, f)
					fail()
				}
				wantTold(t, s)
				if _, err := core.Values[uint64](f.Tensor()); !errors.Is(err, want) {
					t.Errorf("reading gives %v, want %v", err, want)
				}
				if err := f.Err(); !errors.Is(err, want) {
					t.Errorf("Err gives %v, want %v", err, want)
				}
				f.Release()
				for n := range uint64(6) { // every slot
					put(t, p, n)
					get(t, s, 2+n, n).Release()
				}
			}
		}
	}
}

// The end of either side ends the wait for unfinished work, with an error.
func TestTheEndWithUnfinishedFrames(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, mode := range []Mode{Queue, Latest} {
		for _, c := range []struct {
			name string
			end  func(p *Publisher, s *Subscription, a, b *Conn)
			want error // of the frame
		}{
			{"publisher", func(p *Publisher, _ *Subscription, _, _ *Conn) { _ = p.Close() }, core.ErrInvalid},
			{"publisher's connection", func(_ *Publisher, _ *Subscription, a, b *Conn) { _ = a.Close(); <-b.ended }, io.EOF},
			{"subscriber's connection", func(_ *Publisher, _ *Subscription, _, b *Conn) { _ = b.Close() }, core.ErrClosed},
			{"socket", func(_ *Publisher, _ *Subscription, a, b *Conn) { _ = a.socket.Close(); <-b.ended }, core.ErrClosed},
			{"subscription", func(_ *Publisher, s *Subscription, _, _ *Conn) { _ = s.Close() }, nil},
		} {
			for _, how := range []string{"received", "released", "not received"} {
				t.Run(mode.String()+", "+c.name+", "+how, func(t *testing.T) {
					a, b := connected(t, patient(Options{}, 20*time.Millisecond), patient(Options{}, 20*time.Millisecond))
					p, err := a.Publish(t.Context(), "frames", Ring{Slots: 3, Shape: []int64{16}, DType: core.TypeUint64, Mode: mode})
					if err != nil {
						t.Fatal(err)
					}
					defer p.Close()
					s, err := b.Subscribe(t.Context(), "frames", SubscribeOptions{})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					e, _ := late(t, p, 1)
					defer e.Complete(nil)
					f, ready := Frame{}, core.Event(nil)
					if how != "not received" {
						if f, err = s.Receive(t.Context()); err != nil {
							t.Fatal(err)
						}
						ready = f.Tensor().Ready()
					} else { // the message is there
						until(t, "the message has come", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.isTold(1, 0) })
					}
					if how == "released" {
						f.Release()
					}
					c.end(p, s, a, b)
					if c.want == nil {
						e.Complete(nil)
					}
					if ready == nil {
						return
					}
					if err := ready.Wait(t.Context()); !errors.Is(err, c.want) {
						t.Errorf("reading gives %v, want %v", err, c.want)
					}
					if how == "received" {
						if err := f.Err(); !errors.Is(err, c.want) {
							t.Errorf("Err gives %v, want %v", err, c.want)
						}
						f.Release()
					}
					until(t, "the frame is given back", func() bool { return b.Stats().FramesHeld == 0 })
				})
			}
		}
	}
}

// Close of a publisher waits for the work on what it has sent.
func TestCloseOfAPublisherWaitsForWork(t *testing.T) {
	a, b := connected(t, patient(Options{}, time.Hour), Options{})
	p := publish(t, a, Ring{Slots: 3, Mode: Queue})
	s := subscribe(t, b, SubscribeOptions{})
	e, _ := late(t, p, 4)
	closed := make(chan struct{})
	go func() { _ = p.Close(); _ = a.Close(); close(closed) }()
	until(t, "Close sleeps", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.sleepers > 0 })
	f, err := s.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantUnfinished(t, f)
	e.Complete(nil)
	<-closed
	if err := f.Tensor().WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	f.Release()
}

// Work may end at any moment while subscribers come and go, and is told in any case.
func TestManyUnfinishedFrames(t *testing.T) {
	coretest.CheckNoLeaks(t)
	frames := 2000
	if coretest.Quick() || coretest.Sanitized {
		frames = 200
	}
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			const readers = 3
			var p *Publisher
			results := make(chan error, readers)
			going, stop := context.WithCancel(t.Context())
			defer stop()
			for i := range readers {
				a, b := connected(t, Options{}, Options{})
				if i == 0 {
					r := killRing
					r.Mode, r.Slots = mode, 2+2*readers+2
					p = publish(t, a, r)
				} else if err := p.Offer(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				go func() { results <- comeAndGo(going, b, mode, i) }()
			}
			if err := p.WaitReaders(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			for n := range frames {
				if err := leadLate(t, p, time.Duration(n%5)*20*time.Microsecond); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.WaitReleased(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = p.Close()
			stop()
			for range readers {
				if err := <-results; !errors.Is(err, io.EOF) {
					t.Errorf("a subscriber: %v", err)
				}
			}
		})
	}
}

// leadLate is lead, with the elements written after Send.
func leadLate(t testing.TB, p *Publisher, after time.Duration) error {
	x, err := p.Loan(t.Context())
	if err != nil {
		return err
	}
	words, err := core.MutableWithoutWaiting[uint64](x)
	if err != nil {
		return err
	}
	view, err := core.NewTensor(buffer(t, x), core.Spec{DType: x.DType(), Shape: []int64{slotWords}, Offset: x.Offset()}) // keeps the slot
	if err != nil {
		return err
	}
	p.mu.Lock()
	n := p.count + 1
	p.mu.Unlock()
	e := stream.NewEvent()
	buffer(t, x).Wrote(e)
	if _, err := p.Send(t.Context(), x); err != nil {
		return err
	}
	work := func() {
		fillSlot(words, n)
		_ = view.Close()
		e.Complete(nil)
	}
	if after == 0 {
		work()
	} else {
		time.AfterFunc(after, work)
	}
	return nil
}
