package core_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dlx-go/dlx/core"
)

// doors are the ways in which the host reaches elements.
var doors = []struct {
	name          string
	writes        bool
	open, without func(*core.Tensor) error
}{
	{"Values", false, door(core.Values[int32]), door(core.ValuesWithoutWaiting[int32])},
	{"All", false, door(core.All[int32]), door(core.AllWithoutWaiting[int32])},
	{"Mutable", true, door(core.Mutable[int32]), door(core.MutableWithoutWaiting[int32])},
	{"AllMutable", true, door(core.AllMutable[int32]), door(core.AllMutableWithoutWaiting[int32])},
}

func door[T any](f func(*core.Tensor) (T, error)) func(*core.Tensor) error {
	return func(t *core.Tensor) error {
		_, err := f(t)
		return err
	}
}

// reading makes a tensor, with its buffer, that the test closes at its end.
func reading(t *testing.T) (*core.Tensor, *core.Buffer) {
	t.Helper()
	x, err := core.FromSlice([]int32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x, bufferOf(t, x)
}

// Whoever reads waits for the last write, whoever writes for all work, and neither for
// what it does not mind.
func TestTheHostWaitsForWorkOnTheMemory(t *testing.T) {
	for _, d := range doors {
		for _, c := range []struct {
			name  string
			note  func(b *core.Buffer, e core.Event)
			waits bool
		}{
			{"a write", (*core.Buffer).Wrote, true},
			{"a use", (*core.Buffer).Used, d.writes},
		} {
			t.Run(d.name+" after "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x, b := reading(t)
					work := newEvent()
					c.note(b, work)
					if err := d.without(x); err != nil {
						t.Errorf("without waiting: %v", err)
					}
					opened := make(chan error, 1)
					go func() { opened <- d.open(x) }()
					synctest.Wait()
					if waits := len(opened) == 0; waits != c.waits {
						t.Errorf("it waits: %v, want %v", waits, c.waits)
					}
					close(work.c)
					if err := <-opened; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// The error of a write comes out of every door, until the memory is written again;
// that of a reader is nobody else's.
func TestTheHostLearnsOfAFailedWrite(t *testing.T) {
	failure := errors.New("the work failed")
	for _, d := range doors {
		x, b := reading(t)
		failed := newEvent()
		failed.err = failure
		close(failed.c)
		b.Used(failed)
		if err := d.open(x); err != nil {
			t.Errorf("%s after a use that failed: %v", d.name, err)
		}
		b.Wrote(failed)
		for range 2 {
			if err := d.open(x); !errors.Is(err, failure) {
				t.Errorf("%s after a write that failed: %v", d.name, err)
			}
		}
		if err := d.without(x); err != nil {
			t.Errorf("%s without waiting: %v", d.name, err)
		}
		b.Wrote(nil)
		if err := d.open(x); err != nil {
			t.Errorf("%s after the memory was written again: %v", d.name, err)
		}
	}
}

// A view, and memory under another name, know of the work too.
func TestTheHostWaitsForWorkThroughOtherNames(t *testing.T) {
	failure := errors.New("the work failed")
	x, b := reading(t)
	view, err := x.Share()
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	other, derived := reading(t)
	derived.OrderWith(b, 0)
	failed := newEvent()
	failed.err = failure
	close(failed.c)
	b.Wrote(failed)
	for name, v := range map[string]*core.Tensor{"a view": view, "another name": other} {
		if _, err := core.Values[int32](v); !errors.Is(err, failure) {
			t.Errorf("Values of %s: %v", name, err)
		}
	}
}

// What cannot be opened fails at once, without a wait.
func TestTheHostDoesNotWaitInVain(t *testing.T) {
	x, b := reading(t)
	b.Wrote(newEvent())
	readOnly, err := x.AsReadOnly()
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	if _, err := core.Mutable[int32](readOnly); !errors.Is(err, core.ErrReadOnly) {
		t.Errorf("Mutable: %v", err)
	}
	if _, err := core.AllMutable[int32](readOnly); !errors.Is(err, core.ErrReadOnly) {
		t.Errorf("AllMutable: %v", err)
	}
	if _, err := core.Values[int64](x); !errors.Is(err, core.ErrDType) {
		t.Errorf("Values: %v", err)
	}
	if _, err := core.All[int64](x); !errors.Is(err, core.ErrDType) {
		t.Errorf("All: %v", err)
	}
	b.Wrote(nil)
	if b.Ready() != nil || len(b.Pending()) != 1 {
		t.Errorf("a write that is done is %v; %d works are pending", b.Ready(), len(b.Pending()))
	}
	for _, e := range b.Pending() {
		close(e.(*event).c)
	}
}

func TestWaitIdle(t *testing.T) {
	x, b := reading(t)
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Errorf("without work: %v", err)
	}
	use, failure := newEvent(), errors.New("the work failed")
	b.Used(use)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.WaitIdle(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("while the memory is used: %v", err)
	}
	use.err = failure
	close(use.c)
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Errorf("after a use that failed: %v", err)
	}
	write := newEvent()
	write.err = failure
	b.Wrote(write)
	close(write.c)
	if err := x.WaitIdle(t.Context()); !errors.Is(err, failure) {
		t.Errorf("after a write that failed: %v", err)
	}
	x.Close()
	if err := x.WaitIdle(t.Context()); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// Work that is over leaves no trace: what comes later is as quick as without any.
func TestWorkThatIsOverIsForgotten(t *testing.T) {
	x, b := reading(t)
	write, use, later := newEvent(), newEvent(), newEvent()
	b.Wrote(write)
	b.Used(use)
	privateCore.Supersede(b, []core.Event{write, use}, later)
	if pending := b.Pending(); len(pending) != 1 || pending[0] != core.Event(later) {
		t.Errorf("%d works are pending, want the one that stands for both", len(pending))
	}
	close(later.c)
	if v, err := core.Mutable[int32](x); err != nil || !slices.Equal(v, []int32{1, 2, 3}) {
		t.Errorf("Mutable: %v, %v", v, err)
	}
	if b.Ready() != nil || len(b.Pending()) > 0 {
		t.Error("there is work still")
	}
}
