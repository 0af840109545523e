//go:build cgo

package share

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// The other processes of the tests, which go on until they are killed.
const (
	childLateQueue  = "late queue"  // publishes frames of a card whose work is unfinished
	childLateLatest = "late latest" // the same, of the other mode
	childLateFollow = "late follow" // reads such frames
)

var _ = []struct{}{
	role(childLateQueue, func() error { return leadCards(Queue) }),
	role(childLateLatest, func() error { return leadCards(Latest) }),
	role(childLateFollow, followCards),
}

// lateRing has slots for a subscriber that holds two frames.
var lateRing = Ring{Slots: 5, Shape: []int64{workWords}, DType: core.TypeInt32}

// leader publishes frames whose elements are their number. The work on a frame ends when the next one is sent.
type leader struct {
	publisher *Publisher
	works     [2]*work // in turn: each has one unfinished write
	last      *work    // that is not let go; nil if there is none
	sent      int32
}

func (x card) newLeader(ctx context.Context, c *Conn, mode Mode) (l *leader, err error) {
	l = new(leader)
	for i := range l.works {
		if l.works[i], err = x.newWork(ctx); err != nil {
			return nil, err
		}
	}
	r := lateRing
	r.Device, r.Mode = x.device, mode
	l.publisher, err = c.Publish(ctx, "frames", r)
	return l, err
}

// lead sends a frame.
func (l *leader) lead(ctx context.Context) error {
	t, err := l.publisher.Loan(ctx)
	if err != nil {
		return err
	}
	l.sent++
	w := l.works[l.sent%2]
	if err = w.write(ctx, t, l.sent); err == nil {
		_, err = l.publisher.Send(ctx, t)
	}
	err = errors.Join(err, l.let())
	l.last = w
	return err
}

// let lets the work on the last frame go.
func (l *leader) let() error {
	w := l.last
	if l.last = nil; w == nil {
		return nil
	}
	return w.let()
}

// end closes what the leader has.
func (l *leader) end() error {
	err := errors.Join(l.let(), l.publisher.Close())
	for _, w := range l.works {
		err = errors.Join(err, w.close())
	}
	return err
}

func leadCards(mode Mode) error {
	ctx := context.Background()
	x, err := openCard(ctx)
	if err != nil {
		return err
	}
	c, err := inherited([]core.Device{x.device, x.timelines})
	if err != nil {
		return err
	}
	l, err := x.newLeader(ctx, c, mode)
	if err == nil {
		err = l.publisher.WaitReaders(ctx, 1)
	}
	for err == nil {
		if err = l.lead(ctx); err == nil {
			err = c.Err()
		}
	}
	return err
}

// followCards copies each frame on the card while its work is unfinished, and waits for the copy of the frame before.
func followCards() error {
	ctx := context.Background()
	x, err := openCard(ctx)
	if err != nil {
		return err
	}
	c, err := inherited([]core.Device{x.device})
	if err != nil {
		return err
	}
	s, err := c.Subscribe(ctx, "frames", SubscribeOptions{Device: x.device, Hold: 2})
	if err != nil {
		return err
	}
	reads, err := x.device.NewStream(ctx)
	if err != nil {
		return err
	}
	var before *core.Tensor
	for {
		f, err := s.Receive(ctx)
		if err != nil {
			return err
		}
		y, err := core.Empty(ctx, x.device, core.TypeInt32, []int64{workWords}, core.AllocOptions{})
		if err == nil {
			err = x.device.Copy(ctx, reads, y, f.Tensor())
		}
		f.Release()
		if err == nil && before != nil {
			err = before.WaitReady(ctx)
		}
		if err != nil {
			return err
		}
		before.Close()
		before = y
	}
}

func lateKillings() int { return coretest.Times(8, 60, 500) }

// Publishers are killed while the work on their frames is unfinished. The subscriber's device goes on, what was written is
// right, and what was not is an error.
func TestKilledPublishersWithUnfinishedFrames(t *testing.T) {
	x := newCard(t)
	coretest.CheckNoLeaks(t)
	before := coretest.SettledDescriptors()
	random := rand.New(rand.NewPCG(4, uint64(time.Now().UnixNano())))
	whole, lost := 0, 0
	for i := range lateKillings() {
		t.Run("", func(t *testing.T) {
			c, child := start(t, []string{childLateQueue, childLateLatest}[i%2], x.options())
			s := subscribe(t, c, SubscribeOptions{Device: x.device, Hold: 2})
			reads, ahead := newStream(t, x.device), random.IntN(20)
			for n := 0; ; n++ {
				f, err := s.Receive(t.Context())
				if err != nil {
					if wantEnd(t, err); n == 0 {
						t.Error("no frame has come")
					}
					break
				}
				z := copied(t, x.device, reads, f.Tensor())
				if n == ahead { // with what it has sent since unfinished
					_ = child.Kill()
				}
				sequence := f.Sequence()
				f.Release()
				switch err := z.WaitReady(t.Context()); {
				case err == nil:
					wantWords(t, z, int32(sequence))
					whole++
				case errors.As(err, new(*ConnError)):
					lost++
				default:
					t.Error(err)
				}
				_ = z.Close()
			}
			if err := reads.Synchronize(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d frames arrived whole, %d were lost", whole, lost)
	if whole == 0 || lost == 0 {
		t.Error("want some that arrive and some that are lost")
	}
	coretest.WantDescriptors(t, before, "afterwards")
}

// Subscribers are killed while their devices wait for frames. The publisher and another subscriber go on.
func TestKilledSubscribersOfUnfinishedFrames(t *testing.T) {
	x, y := newCard(t), newCard(t)
	coretest.CheckNoLeaks(t)
	random := rand.New(rand.NewPCG(5, uint64(time.Now().UnixNano())))
	for _, mode := range []Mode{Queue, Latest} {
		t.Run(mode.String(), func(t *testing.T) {
			before := coretest.SettledDescriptors()
			a, b := connected(t, x.options(), y.options())
			l, err := x.newLeader(t.Context(), a, mode)
			if err != nil {
				t.Fatal(err)
			}
			s := subscribeOn(t, b, y)
			survivor, frames := make(chan error, 1), 0
			go func() {
				var failed error
				for {
					f, err := s.Receive(context.Background())
					if err != nil {
						survivor <- errors.Join(failed, err)
						return
					}
					frames++
					failed = errors.Join(failed, f.Tensor().WaitReady(context.Background()))
					f.Release()
				}
			}()
			for range lateKillings() / 2 {
				t.Run("", func(t *testing.T) {
					c, child := start(t, childLateFollow, x.options())
					if err := l.publisher.Offer(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					if err := l.publisher.WaitReaders(t.Context(), 2); err != nil {
						t.Fatal(err)
					}
					for range 1 + random.IntN(10) {
						if err := l.lead(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					_ = child.Kill()
					for range 2 * lateRing.Slots { // every slot is written again
						if err := l.lead(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					if err := l.let(); err != nil { // the end of a connection waits for that
						t.Fatal(err)
					}
					<-c.ended
					wantEnd(t, c.Err())
				})
			}
			if err := l.end(); err != nil {
				t.Error(err)
			}
			if err := <-survivor; !errors.Is(err, io.EOF) || errors.Is(err, core.ErrInvalid) {
				t.Errorf("the survivor has the error %v", err)
			}
			if frames == 0 || mode == Queue && frames != int(l.sent) {
				t.Errorf("the survivor has received %d of %d frames", frames, l.sent)
			}
			_ = s.Close()
			_, _ = a.Close(), b.Close()
			until(t, "the descriptors are closed", func() bool { return coretest.Descriptors() <= before })
		})
	}
}
