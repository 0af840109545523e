package share

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// settled waits until no frame of a publisher has unfinished work.
func settled(t testing.TB, p *Publisher) {
	t.Helper()
	until(t, "the work has ended", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.working == 0 })
}

// A slot whose work has failed is not loaned while the program has views of its tensor, or while other work on it is
// unfinished. In the mode Latest, Loan fails for views, which the program can close, and waits for work.
func TestASlotOfFailedWorkIsKept(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, r := range []Ring{{Slots: 1, Mode: Queue}, {Slots: 3, Mode: Latest}} {
		for _, by := range []string{"a view", "a write", "a read"} {
			t.Run(r.Mode.String()+", "+by, func(t *testing.T) {
				a, _ := connected(t, Options{}, Options{})
				p := publish(t, a, r)
				var views []*core.Tensor
				var ends []func()
				for range r.Slots {
					x, err := p.Loan(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					view, other, last := (*core.Tensor)(nil), stream.NewEvent(), stream.NewEvent()
					b := buffer(t, x)
					switch by {
					case "a view":
						if view, err = x.Share(); err != nil {
							t.Fatal(err)
						}
						views = append(views, view)
						other.Complete(nil)
					case "a write":
						b.Wrote(other)
					case "a read":
						b.Used(other)
					}
					b.Wrote(last)
					if _, err := p.Send(t.Context(), x); err != nil {
						t.Fatal(err)
					}
					last.Complete(core.Errorf(core.ErrInvalid, "test", "write", "the work failed on purpose"))
					settled(t, p)
					ends = append(ends, func() { _ = view.Close(); other.Complete(nil) })
				}
				_, err := p.Loan(briefly(t))
				if r.Mode == Latest && by == "a view" {
					if !errors.Is(err, core.ErrOutOfMemory) {
						t.Errorf("error %v", err)
					}
				} else {
					wantBlocked(t, by, err)
				}
				if t.Failed() {
					for _, end := range ends {
						end()
					}
					return
				}
				for _, view := range views {
					if _, err := core.Values[uint64](view); !errors.Is(err, core.ErrInvalid) {
						t.Errorf("the view has the error %v", err)
					}
				}
				ends[0]() // the last slot of the mode Latest has the newest frame
				x, err := p.Loan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if x.Ready() != nil {
					t.Error("the next frame has the work of the one before")
				}
				_ = x.Close()
				for _, end := range ends {
					end()
				}
			})
		}
	}
}

// The end of a publisher counts as a failure of unfinished work. Views and work outlive it.
func TestCloseWithASlotOfFailedWork(t *testing.T) {
	coretest.CheckNoLeaks(t)
	for _, fails := range []bool{false, true} { // before Close, or by it
		a, _ := connected(t, patient(Options{}, time.Millisecond), Options{})
		p := publish(t, a, Ring{Slots: 1, Mode: Queue})
		x, err := p.Loan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		view, err := x.Share()
		if err != nil {
			t.Fatal(err)
		}
		other, last := stream.NewEvent(), stream.NewEvent()
		buffer(t, x).Wrote(other)
		buffer(t, x).Wrote(last)
		if _, err := p.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if fails {
			last.Complete(core.Errorf(core.ErrInvalid, "test", "write", "the work failed on purpose"))
			settled(t, p)
		}
		_ = p.Close()
		_ = view.Close()
		last.Complete(nil)
		other.Complete(nil)
	}
}

// endedWith is an event whose Wait returns an error of the context although the work has ended without one.
type endedWith struct {
	*stream.Event
	err error
}

func (e *endedWith) Wait(ctx context.Context) error {
	_ = e.Event.Wait(ctx)
	return e.err
}

// Work that ends while the publisher is closed has its own result.
func TestWorkThatEndsWithItsWait(t *testing.T) {
	a, b := connected(t, Options{}, Options{})
	p := publish(t, a, Ring{Slots: 1, Mode: Queue})
	s := subscribe(t, b, SubscribeOptions{})
	x, err := p.Loan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := &endedWith{stream.NewEvent(), context.Canceled}
	buffer(t, x).Wrote(e)
	if _, err := p.Send(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	f, err := s.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.Complete(nil)
	wantTold(t, s)
	if err := f.Err(); err != nil {
		t.Error(err)
	}
	f.Release()
}
