package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// passOne passes a frame from Loan to Release.
func passOne(t testing.TB, p *Publisher, s *Subscription, n uint64) {
	ctx := t.Context()
	err := sendWord(ctx, p, n)
	got := uint64(0)
	if err == nil {
		got, err = receiveWord(ctx, s)
	}
	if err != nil || got != n {
		t.Fatalf("frame %d arrives as %d, error %v", n, got, err)
	}
}

// A frame allocates nothing in either process, whether its receiver was asleep or not.
func TestFramesAllocateNothing(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("a sanitizer allocates")
	}
	for _, mode := range []Mode{Queue, Latest} {
		a, b := connected(t, Options{}, Options{})
		r := pingRing
		r.Mode = mode
		p, s := publish(t, a, r), subscribe(t, b, SubscribeOptions{})
		n := uint64(0)
		for range 2 * r.Slots { // makes the tensors of the slots
			n++
			passOne(t, p, s, n)
		}
		if got := testing.AllocsPerRun(1000, func() { n++; passOne(t, p, s, n) }); got != 0 {
			t.Errorf("%v: a frame allocates %v times", mode, got)
		}
		// The receiver sleeps before each frame.
		next, done := make(chan struct{}), make(chan error)
		go func() {
			for range next {
				_, err := receiveWord(t.Context(), s)
				done <- err
			}
		}()
		asleep := func() {
			next <- struct{}{}
			for s.mu.Lock(); s.sleepers == 0; s.mu.Lock() {
				s.mu.Unlock()
				runtime.Gosched()
			}
			s.mu.Unlock()
			n++
			err := sendWord(t.Context(), p, n)
			if err := errors.Join(err, <-done); err != nil {
				t.Fatal(err)
			}
		}
		asleep() // watches the context
		if got := testing.AllocsPerRun(100, asleep); got != 0 {
			t.Errorf("%v: a frame for a sleeper allocates %v times", mode, got)
		}
		close(next)
	}
}

// Memory and descriptors stay the same over many frames.
func TestManyFrames(t *testing.T) {
	frames := 1_000_000
	if coretest.Quick() || coretest.Sanitized {
		frames = 50_000
	}
	a, b := connected(t, Options{}, Options{})
	p, s := publish(t, a, pingRing), subscribe(t, b, SubscribeOptions{})
	n := uint64(0)
	many := func(count int) {
		for range count {
			n++
			passOne(t, p, s, n)
		}
	}
	many(100)
	tensors, descriptors, mappings := core.Live()["core.Tensor"], coretest.Descriptors(), mapped(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	many(frames)
	runtime.GC()
	runtime.ReadMemStats(&after)
	coretest.WantDescriptors(t, descriptors, "afterwards")
	if now := core.Live()["core.Tensor"]; now != tensors || mapped(t) != mappings {
		t.Errorf("%d tensors and %d mappings, before %d and %d", now, mapped(t), tensors, mappings)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes in %d frames", grown, frames)
	}
}

// Several subscribers that are fast, slow, or join and leave at random get what the mode promises:
// every frame in order, or a newer frame each time, and each frame whole.
func TestSubscribersThatComeAndGo(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			const readers = 4
			frames := uint64(3000)
			if coretest.Quick() || coretest.Sanitized {
				frames = 300
			}
			var p *Publisher
			var all sync.WaitGroup
			results := make(chan error, readers)
			going, stop := context.WithCancel(t.Context()) // until the ring has ended
			defer stop()
			for i := range readers {
				a, b := connected(t, Options{}, Options{})
				if i == 0 {
					r := killRing
					r.Mode, r.Slots = mode, 2+2*readers+2 // Hold of follow, and one that comes while another one leaves
					p = publish(t, a, r)
				} else if err := p.Offer(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				all.Go(func() { results <- comeAndGo(going, b, mode, i) })
			}
			if err := p.WaitReaders(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			for range frames {
				if err := lead(t.Context(), p); err != nil {
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
			all.Wait()
		})
	}
}

// comeAndGo subscribes again and again, and receives some frames each time, until the ring ends.
func comeAndGo(ctx context.Context, c *Conn, mode Mode, seed int) error {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	for {
		s, err := c.Subscribe(ctx, "frames", SubscribeOptions{})
		if errors.Is(err, context.Canceled) {
			return io.EOF
		}
		if errors.Is(err, core.ErrOutOfMemory) { // the slots of a subscription that has left are not free yet
			continue
		}
		if err != nil {
			return err
		}
		last := uint64(0)
		for range 1 + random.IntN(100) {
			f, err := s.Receive(context.Background())
			if err != nil {
				_ = s.Close()
				return err
			}
			n := f.Sequence()
			if n <= last || mode == Queue && last != 0 && n != last+1 {
				return fmt.Errorf("frame %d comes after frame %d", n, last)
			}
			last = n
			if err := wantWhole(f); err != nil {
				return err
			}
			if random.IntN(20) == 0 {
				time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
			}
			f.Release()
		}
		_ = s.Close()
	}
}

// Calls that wait end with their context, with the publisher, the subscription and the connection.
func TestCallsThatWaitEnd(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, c := range []struct {
		name      string
		end       func(cancel func(), p *Publisher, s *Subscription, a *Conn)
		loan, get error // nil for a call that does not end
	}{
		{"context", func(cancel func(), _ *Publisher, _ *Subscription, _ *Conn) { cancel() }, context.Canceled, context.Canceled},
		{"publisher", func(_ func(), p *Publisher, _ *Subscription, _ *Conn) { _ = p.Close() }, core.ErrClosed, io.EOF},
		{"subscription", func(_ func(), _ *Publisher, s *Subscription, _ *Conn) { _ = s.Close() }, nil, core.ErrClosed},
		{"connection", func(_ func(), _ *Publisher, _ *Subscription, a *Conn) { _ = a.Close() }, nil, core.ErrClosed},
	} {
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, old system %t", c.name, old), func(t *testing.T) {
				if old { // a system without futex_waitv
					defer noFutexWaitV.Store(noFutexWaitV.Swap(true))
				}
				a, b := connected(t, Options{}, Options{})
				p := publish(t, a, Ring{Slots: 1, Mode: Queue})
				s := subscribe(t, b, SubscribeOptions{})
				put(t, p, 1)
				f := get(t, s, 1, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				loans, gets := make(chan error), make(chan error)
				go func() {
					x, err := p.Loan(ctx)
					x.Close()
					loans <- err
				}()
				go func() { _, err := s.Receive(ctx); gets <- err }()
				until(t, "both calls sleep", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					s.mu.Lock()
					defer s.mu.Unlock()
					return p.sleepers == 1 && s.sleepers == 1
				})
				c.end(cancel, p, s, a)
				if err := <-gets; !errors.Is(err, c.get) {
					t.Errorf("Receive: %v, want %v", err, c.get)
				}
				if c.loan == nil {
					f.Release() // the slot is free, if it was not before
				}
				if err := <-loans; !errors.Is(err, c.loan) || (err == nil) != (c.loan == nil) {
					t.Errorf("Loan: %v, want %v", err, c.loan)
				}
				f.Release()
			})
		}
	}
}

// Several goroutines use a publisher and a subscription at once.
func TestConcurrentUseOfARing(t *testing.T) {
	coretest.CheckNoLeaks(t)
	frames := 20_000
	if coretest.Quick() || coretest.Sanitized {
		frames = 2000
	}
	a, b := connected(t, Options{}, Options{})
	p, s := publish(t, a, pingRing), subscribe(t, b, SubscribeOptions{})
	var senders, receivers sync.WaitGroup
	seen := make(chan uint64, frames)
	for range 3 {
		receivers.Go(func() {
			for {
				f, err := s.Receive(context.Background())
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Errorf("Receive: %v", err)
					}
					return
				}
				seen <- f.Sequence()
				f.Release()
			}
		})
	}
	for range 2 {
		senders.Go(func() {
			for range frames / 2 {
				if err := sendWord(context.Background(), p, 1); err != nil {
					t.Errorf("Send: %v", err)
					return
				}
			}
		})
	}
	senders.Wait()
	if err := p.WaitReleased(t.Context()); err != nil {
		t.Error(err)
	}
	_ = p.Close()
	receivers.Wait()
	close(seen)
	sum, n := uint64(0), 0
	for x := range seen {
		sum += x
		n++
	}
	if n != frames || sum != uint64(frames)*uint64(frames+1)/2 {
		t.Errorf("%d frames, whose numbers have the sum %d", n, sum)
	}
}
