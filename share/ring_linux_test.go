package share

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// publish makes a ring of 64-bit words. The test closes it.
func publish(t testing.TB, c *Conn, r Ring) *Publisher {
	t.Helper()
	if r.Shape == nil {
		r.Shape, r.DType = []int64{16}, core.TypeUint64
	}
	p, err := c.Publish(t.Context(), "frames", r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// subscribe subscribes to the ring of publish. The test closes the result.
func subscribe(t testing.TB, c *Conn, o SubscribeOptions) *Subscription {
	t.Helper()
	s, err := c.Subscribe(t.Context(), "frames", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// put sends a frame of consecutive words.
func put(t testing.TB, p *Publisher, first uint64) RingReport {
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
	r, err := p.Send(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// get receives a frame, and fails unless it is the given one.
func get(t testing.TB, s *Subscription, sequence, first uint64) Frame {
	t.Helper()
	f, err := s.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantFrame(t, f, sequence, first)
	return f
}

func wantFrame(t testing.TB, f Frame, sequence, first uint64) {
	t.Helper()
	words, err := core.Values[uint64](f.Tensor())
	if err != nil {
		t.Fatal(err)
	}
	if f.Sequence() != sequence || words[0] != first || words[len(words)-1] != first+uint64(len(words)-1) {
		t.Errorf("frame %d has the words %d to %d; want frame %d with the words from %d on", f.Sequence(), words[0], words[len(words)-1], sequence, first)
	}
	if err := f.Err(); err != nil {
		t.Error(err)
	}
}

// briefly is a context that ends soon.
func briefly(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// wantBlocked fails unless err is that of the end of a context.
func wantBlocked(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: error %v, want one of the context", what, err)
	}
}

// A subscriber of a queue gets every frame from its subscription on, in place. The publisher waits
// for the slots.
func TestARingOfTheModeQueue(t *testing.T) {
	d, e := host(t), host(t)
	for _, device := range []core.Device{nil, d} {
		a, b := connected(t, of(d), of(e))
		p := publish(t, a, Ring{Slots: 3, Device: device, Mode: Queue})
		if r := put(t, p, 1); r.Sequence != 1 || len(r.Readers) != 0 || r.Wait != stream.NoWait {
			t.Errorf("a frame for nobody: %+v", r)
		}
		s := subscribe(t, b, SubscribeOptions{})
		next := uint64(2)
		for round := range uint64(5) {
			for i := range uint64(3) {
				r := put(t, p, 100*round+i)
				if len(r.Readers) != 1 || r.Readers[0].Mechanism != exchange.Map || r.Readers[0].BytesCopied != 0 || r.Readers[0].Peer.PID == 0 {
					t.Errorf("the report: %+v", r)
				}
			}
			_, err := p.Loan(briefly(t))
			wantBlocked(t, "Loan of a slot that a subscriber needs", err)
			var held []Frame
			for i := range uint64(3) {
				held = append(held, get(t, s, next+i, 100*round+i))
			}
			_, err = s.Receive(briefly(t))
			wantBlocked(t, "Receive without a frame", err)
			for _, f := range slices.Backward(held) { // in any order
				f.Release()
				f.Release()
				if err := f.Err(); !errors.Is(err, core.ErrClosed) {
					t.Errorf("a frame that was released: %v", err)
				}
			}
			next += 3
		}
		if err := p.WaitReleased(t.Context()); err != nil {
			t.Error(err)
		}
		put(t, p, 7)
		_ = p.Close()
		get(t, s, next, 7).Release() // was sent before
		if _, err := s.Receive(t.Context()); !errors.Is(err, io.EOF) || !errors.Is(err, core.ErrClosed) {
			t.Errorf("Receive after the end of the ring: %v", err)
		}
		if _, err := p.Loan(t.Context()); !errors.Is(err, core.ErrClosed) {
			t.Errorf("Loan after Close: %v", err)
		}
	}
}

// A subscriber of the newest frame never blocks the publisher, and keeps what it holds.
func TestARingOfTheModeLatest(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	p := publish(t, a, Ring{Slots: 4, Mode: Latest})
	put(t, p, 1000)
	s := subscribe(t, b, SubscribeOptions{Hold: 2})
	first := get(t, s, 1, 1000) // the newest frame is there at once
	for i := range uint64(50) {
		put(t, p, i)
	}
	second := get(t, s, 51, 49)
	for i := range uint64(50) {
		put(t, p, i)
	}
	wantFrame(t, first, 1, 1000)
	wantFrame(t, second, 51, 49)
	if _, err := s.Receive(t.Context()); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("more frames than the subscriber may hold: %v", err)
	}
	first.Release()
	third := get(t, s, 101, 49)
	third.Release()
	second.Release()
	_, err := s.Receive(briefly(t))
	wantBlocked(t, "Receive without a newer frame", err)
	if _, err := b.Subscribe(t.Context(), "frames", SubscribeOptions{Hold: 1}); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("a subscriber for whom there is no slot: %v", err)
	}
	// The program can have all slots but the newest one.
	var loans []*core.Tensor
	for {
		x, err := p.Loan(t.Context())
		if err != nil {
			if !errors.Is(err, core.ErrOutOfMemory) || len(loans) != 3 {
				t.Errorf("after %d loans: %v", len(loans), err)
			}
			break
		}
		loans = append(loans, x)
	}
	for _, x := range loans {
		x.Close()
	}
	put(t, p, 5)
	get(t, s, 102, 5).Release()
}

// Slots are given back when the program has done all that it does with a frame.
func TestReleaseWaitsForViewsAndWork(t *testing.T) {
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			d, e := host(t), host(t)
			a, b := connected(t, of(d), of(e))
			p := publish(t, a, Ring{Slots: 3, Mode: mode})
			s := subscribe(t, b, SubscribeOptions{})
			for n := uint64(1); n <= 3; n++ {
				put(t, p, n)
				f := get(t, s, n, n)
				view, err := f.Tensor().Slice(0, 1, 3, 1)
				if err != nil {
					t.Fatal(err)
				}
				work := stream.NewEvent()
				switch n {
				case 1: // the view is open
				case 2:
					buffer(t, view).Used(work)
					view.Close()
				case 3: // the program closes the tensor, and not the frame
					f.Tensor().Close()
				}
				f.Release()
				wantBlocked(t, "WaitReleased while a view or work uses the frame", p.WaitReleased(briefly(t)))
				view.Close()
				work.Complete(nil)
				if err := p.WaitReleased(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Send waits for the work that fills a slot, if a subscriber is too old to do so. A slot whose work has failed is not sent.
func TestSendOfASlotThatIsBeingWritten(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	old(t, a)
	p := publish(t, a, Ring{Slots: 2, Device: d, Mode: Queue})
	s := subscribe(t, b, SubscribeOptions{})
	x, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	work := stream.NewEvent()
	buffer(t, x).Wrote(work)
	_, err = p.Send(briefly(t), x)
	wantBlocked(t, "Send of a slot that is being written", err)
	done := make(chan error)
	go func() { done <- nil; work.Complete(nil) }()
	<-done
	if r, err := p.Send(t.Context(), x); err != nil || r.Sequence != 1 {
		t.Errorf("%+v, error %v", r, err)
	}
	f, err := s.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Release()
	if _, err := p.Send(t.Context(), x); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a tensor that is not on loan: %v", err)
	}
	for range 4 {
		if x, err = p.Loan(t.Context()); err != nil {
			t.Fatal(err)
		}
		failed := stream.NewEvent()
		buffer(t, x).Wrote(failed)
		failed.Complete(core.ErrDeviceLost)
		if _, err := p.Send(t.Context(), x); !errors.Is(err, core.ErrDeviceLost) {
			t.Errorf("a slot whose work failed: %v", err)
		}
		x.Close()
	}
	put(t, p, 3)
	get(t, s, 2, 3).Release()
}

// The end of a subscriber frees the slots that it had, at once if its connection ends, and when
// it has released them if it only ends the subscription.
func TestTheEndOfASubscriber(t *testing.T) {
	coretest.CheckNoLeaks(t)
	d, e := host(t), host(t)
	for _, c := range []struct {
		name string
		end  func(*Conn, *Subscription)
		free bool
	}{
		{"closed", func(_ *Conn, s *Subscription) { _ = s.Close() }, false},
		{"connection closed", func(c *Conn, _ *Subscription) { _ = c.Close() }, true},
		{"killed", func(c *Conn, _ *Subscription) { _ = unixShutdown(c.socket.UnixConn) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := connected(t, of(d), of(e))
			p := publish(t, a, Ring{Slots: 3, Mode: Queue})
			s := subscribe(t, b, SubscribeOptions{})
			for i := range uint64(3) {
				put(t, p, i)
			}
			f := get(t, s, 1, 0)
			c.end(b, s)
			for { // until the end is noticed
				g, err := s.Receive(t.Context())
				if err != nil {
					if !errors.Is(err, core.ErrClosed) {
						t.Errorf("Receive: %v", err)
					}
					break
				}
				g.Release()
			}
			for i := range uint64(10) {
				put(t, p, 10+i)
			}
			if !c.free {
				wantFrame(t, f, 1, 0)
				f.Release()
				for i := range uint64(10) {
					put(t, p, 10+i)
				}
			}
			if err := f.Err(); !errors.Is(err, core.ErrClosed) {
				t.Errorf("the frame is overwritten, and Err says %v", err)
			}
			f.Release()
			if n := len(p.Readers()); n != 0 {
				t.Errorf("%d readers are left", n)
			}
		})
	}
}

// A process that has the files of a ring cannot write them, nor change their size.
func TestNobodyElseWritesTheFilesOfARing(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	publish(t, a, Ring{Slots: 3, Mode: Queue})
	subscribe(t, b, SubscribeOptions{})
	b.mu.Lock()
	fd := b.announced[1].fd
	b.mu.Unlock()
	if _, err := mapShared(fd, 4096, unix.PROT_READ|unix.PROT_WRITE); !errors.Is(err, unix.EPERM) {
		t.Errorf("a mapping for writing: %v", err)
	}
	m, err := openShared(fd, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer m.release()
	if _, _, code := unix.Syscall(unix.SYS_MPROTECT, m.address(0), 4096, unix.PROT_READ|unix.PROT_WRITE); code != unix.EACCES {
		t.Errorf("a mapping that is made writable: %v", code)
	}
	if _, err := unix.Pwrite(fd, []byte{1}, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("a write: %v", err)
	}
	for _, size := range []int64{0, 1 << 20} {
		if err := unix.Ftruncate(fd, size); !errors.Is(err, unix.EPERM) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// What is asked for wrongly is refused with a typed error, and leaves nothing open.
func TestWrongRings(t *testing.T) {
	coretest.CheckNoLeaks(t)
	a, b := connected(t, Options{}, Options{Limits: Limits{Bytes: 1 << 16, Memories: 2}})
	right := Ring{Slots: 3, Shape: []int64{4}, DType: core.TypeUint64, Mode: Queue}
	before := coretest.Descriptors()
	for _, c := range []struct {
		what   string
		name   string
		change func(*Ring)
		want   error
	}{
		{"no name", "", func(*Ring) {}, core.ErrInvalid},
		{"no slots", "x", func(r *Ring) { r.Slots = 0 }, core.ErrInvalid},
		{"too many slots", "x", func(r *Ring) { r.Slots = maxSlots + 1 }, core.ErrInvalid},
		{"no mode", "x", func(r *Ring) { r.Mode = 0 }, core.ErrInvalid},
		{"too few slots", "x", func(r *Ring) { r.Mode, r.Slots = Latest, 2 }, core.ErrInvalid},
		{"no elements", "x", func(r *Ring) { r.Shape = []int64{0} }, core.ErrInvalid},
		{"no type", "x", func(r *Ring) { r.DType = core.DType{} }, core.ErrDType},
		{"a negative extent", "x", func(r *Ring) { r.Shape = []int64{-1} }, core.ErrLayout},
		{"too many bytes for a ring", "x", func(r *Ring) { r.Shape = []int64{1 << 50} }, core.ErrInvalid},
		{"more bytes than the peer permits", "x", func(r *Ring) { r.Shape = []int64{1 << 12} }, core.ErrOutOfMemory},
	} {
		r := right
		c.change(&r)
		if _, err := a.Publish(t.Context(), c.name, r); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.what, err, c.want)
		}
	}
	coretest.WantDescriptors(t, before, "afterwards")
	p := publish(t, a, right)
	if _, err := a.Publish(t.Context(), "frames", right); !errors.Is(err, core.ErrExists) {
		t.Errorf("a name twice: %v", err)
	}
	if err := p.Offer(t.Context(), a); !errors.Is(err, core.ErrExists) {
		t.Errorf("a connection twice: %v", err)
	}
	_, err := b.Subscribe(briefly(t), "others", SubscribeOptions{})
	wantBlocked(t, "a subscription to a ring that there is not", err)
	if _, err := b.Subscribe(t.Context(), "frames", SubscribeOptions{Hold: -1}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a negative Hold: %v", err)
	}
	if _, err := p.Send(t.Context(), nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Send(nil): %v", err)
	}
	x, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Close()
	if _, err := p.Send(t.Context(), x); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
	if _, err := core.Mutable[uint64](x); err != nil { // it is still open
		t.Error(err)
	}
	x.Close()
	if err := p.Offer(t.Context(), b); !errors.Is(err, core.ErrClosed) {
		t.Errorf("Offer after Close: %v", err)
	}
}

// A publisher that looks for a slot does not make a frame that is held look like one that was written
// again.
func TestAHeldFrameStaysWholeWhileThePublisherLooksForASlot(t *testing.T) {
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	p := publish(t, a, Ring{Slots: 4, Mode: Latest})
	put(t, p, 1)
	s := subscribe(t, b, SubscribeOptions{Hold: 2})
	f := get(t, s, 1, 1)
	defer f.Release()
	put(t, p, 2) // the slot of f is not that of the last frame: Loan looks at it
	var failed error
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for range 300_000 {
			x, err := p.Loan(t.Context())
			if err != nil {
				failed = err
				return
			}
			x.Close()
		}
	}()
	for done := false; !done; {
		select {
		case <-looked:
			done = true
		default:
		}
		for range 1000 {
			if err := f.Err(); err != nil {
				t.Error(err)
				<-looked
				return
			}
		}
	}
	if failed != nil {
		t.Error(failed)
	}
}
