package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// The other processes of the tests, which go on until they are killed or the connection ends.
const (
	childFollow = "follow"      // subscribes to "frames"
	childQueue  = "lead queue"  // publishes "frames"
	childLatest = "lead latest" // the same, of the other mode
)

var killRing = Ring{Slots: 6, Shape: []int64{slotWords}, DType: core.TypeUint64}

// follow checks frames until the connection or the ring ends, and returns why. It holds up to two at once.
// seen, if not nil, is called for each frame.
func follow(c *Conn, seen func(Frame)) error {
	ctx := context.Background()
	s, err := c.Subscribe(ctx, "frames", SubscribeOptions{Hold: 2})
	if err != nil {
		return err
	}
	defer s.Close()
	var earlier Frame
	defer func() { earlier.Release() }()
	for last := uint64(0); ; {
		f, err := s.Receive(ctx)
		if err != nil {
			return err
		}
		n := f.Sequence()
		if n <= last || last != 0 && s.message.mode == Queue && n != last+1 {
			return fmt.Errorf("frame %d comes after frame %d", n, last)
		}
		last = n
		for _, x := range []Frame{f, earlier} {
			if err := wantWhole(x); err != nil {
				return err
			}
		}
		earlier.Release()
		earlier = f
		if seen != nil {
			seen(f)
		}
	}
}

// wantWhole fails if a frame is torn and its Err is nil.
func wantWhole(f Frame) error {
	if f.Tensor() == nil {
		return nil
	}
	words, err := core.Values[uint64](f.Tensor())
	if err != nil {
		return err
	}
	sum := uint64(0)
	for _, w := range words[:len(words)-1] {
		sum = sum*31 + w
	}
	whole := sum == words[len(words)-1] && words[0] == f.Sequence()*0x9e3779b97f4a7c15
	if err := f.Err(); err == nil && !whole {
		return fmt.Errorf("frame %d is torn", f.Sequence())
	}
	return nil
}

// lead sends a frame whose elements have a checksum.
func lead(ctx context.Context, p *Publisher) error {
	x, err := p.Loan(ctx)
	if err != nil {
		return err
	}
	words, err := core.Mutable[uint64](x)
	if err != nil {
		return err
	}
	p.mu.Lock()
	n := p.count + 1 // the tests have one goroutine that sends
	p.mu.Unlock()
	fillSlot(words, n)
	if _, err = p.Send(ctx, x); err != nil {
		x.Close()
	}
	return err
}

// childsRing is the other process, with a part of the tests.
func childsRing(role string) error {
	ctx := context.Background()
	c, err := inherited(nil)
	if err != nil {
		return err
	}
	if role == childFollow {
		return follow(c, nil)
	}
	r := killRing
	if r.Mode = Queue; role == childLatest {
		r.Mode = Latest
	}
	p, err := c.Publish(ctx, "frames", r)
	for err == nil {
		if err = lead(ctx, p); err == nil {
			err = c.Err()
		}
	}
	return err
}

// wantEnd fails unless err is that of a connection whose peer was killed.
func wantEnd(t testing.TB, err error) {
	t.Helper()
	var typed *ConnError
	if !errors.As(err, &typed) || !errors.Is(err, core.ErrClosed) {
		t.Errorf("the survivor has the error %v", err)
	}
}

func killings() int { return coretest.Times(100, 1000, 10_000) }

// Subscribers are killed at random moments. The publisher and another subscriber go on: no frame is
// lost or torn, all slots are free in the end, and nothing stays open.
func TestKilledSubscribers(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			random := rand.New(rand.NewPCG(2, uint64(time.Now().UnixNano())))
			r := killRing
			r.Mode = mode
			a, b := connected(t, Options{}, Options{})
			p, err := a.Publish(t.Context(), "frames", r)
			if err != nil {
				t.Fatal(err)
			}
			var survivor sync.WaitGroup
			t.Cleanup(func() { _ = p.Close() }) // or sooner
			frames, subscribed := 0, make(chan struct{})
			survivor.Go(func() {
				err = follow(b, func(Frame) {
					if frames++; frames == 1 {
						close(subscribed)
					}
				})
			})
			if err := p.WaitReaders(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			sent := 0
			many := func(n int) {
				for range n {
					if err := lead(ctx, p); err != nil {
						t.Fatal(err)
					}
					sent++
				}
			}
			many(1)
			<-subscribed // and has closed what it has opened for that
			before, mappings, joined := coretest.SettledDescriptors(), mapped(t), 0
			for i := range killings() / 2 {
				t.Run("", func(t *testing.T) {
					c, child := start(t, childFollow, Options{})
					if i%2 == 0 {
						time.AfterFunc(time.Duration(random.IntN(20_000))*time.Microsecond, func() { _ = child.Kill() })
					}
					err := p.Offer(ctx, c)
					if err == nil && i%2 == 1 {
						if err = p.WaitReaders(ctx, 2); err == nil {
							joined++
						}
					}
					if err != nil {
						wantEnd(t, err)
					}
					many(random.IntN(50))
					_ = child.Kill()
					many(2 * killRing.Slots) // every slot is written again
					<-c.Done()
					wantEnd(t, c.Err())
					_ = c.Close()
					if n := len(p.Readers()); n != 1 {
						t.Errorf("%d readers, want the one that was not killed", n)
					}
				})
			}
			coretest.WantDescriptors(t, before, "afterwards")
			until(t, "no memory of the killed processes is mapped", func() bool { return mapped(t) == mappings })
			_ = p.Close()
			survivor.Wait()
			if !errors.Is(err, io.EOF) {
				t.Errorf("the survivor has the error %v", err)
			}
			if frames == 0 || mode == Queue && frames != sent || joined == 0 {
				t.Errorf("the survivor has received %d of %d frames; %d processes had joined", frames, sent, joined)
			}
			t.Logf("%d frames were sent and %d received; %d processes had joined", sent, frames, joined)
		})
	}
}

// Publishers are killed at random moments. The subscriber gets a typed error, and no frame is torn.
func TestKilledPublishers(t *testing.T) {
	coretest.CheckNoLeaks(t)
	random := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	before, mappings, frames := coretest.SettledDescriptors(), mapped(t), 0
	for i := range killings() {
		t.Run("", func(t *testing.T) {
			c, child := start(t, []string{childQueue, childLatest}[i%2], Options{})
			n, after := 0, 1+random.IntN(200)
			if i%4 < 2 {
				after = -1
				time.AfterFunc(time.Duration(random.IntN(20_000))*time.Microsecond, func() { _ = child.Kill() })
			}
			err := follow(c, func(Frame) {
				frames++
				if n++; n == after {
					_ = child.Kill()
				}
			})
			wantEnd(t, err)
			_ = c.Close()
		})
	}
	t.Logf("%d frames have arrived whole", frames)
	if frames == 0 {
		t.Error("no frame has arrived")
	}
	coretest.WantDescriptors(t, before, "afterwards")
	until(t, "no memory of the killed processes is mapped", func() bool { return mapped(t) == mappings })
}

// A subscriber that is stopped holds a publisher of the mode Queue back, and no publisher of the mode Latest.
func TestAStoppedSubscriber(t *testing.T) {
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			c, child := start(t, childFollow, Options{})
			r := killRing
			r.Mode = mode
			p, err := c.Publish(t.Context(), "frames", r)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.WaitReaders(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if err := lead(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if err := child.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			if mode == Queue {
				ctx = briefly(t)
			}
			for n := 0; n < 10_000 && err == nil; n++ {
				err = lead(ctx, p)
			}
			if mode == Queue {
				wantBlocked(t, "a queue whose subscriber is stopped", err)
			} else if err != nil {
				t.Error(err)
			}
			if err := child.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if err := lead(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
