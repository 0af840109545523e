package devicebase_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestAReadingIsReleasedOnceAfterItsLastUse(t *testing.T) {
	d := open(t)
	var released []int
	begun, goOn := make(chan struct{}), make(chan struct{})
	clock := devicebase.Clock[int]{
		Device: &d.Device, Lost: func() error { return nil },
		Between: func(from, to int) (time.Duration, error) {
			close(begun)
			<-goOn
			return time.Duration(to - from), nil
		},
		Release: func(n int) { released = append(released, n) },
	}
	mark := func(n int) core.Mark {
		e := stream.NewEvent()
		e.Complete(nil)
		m, err := clock.Mark(func() (int, core.Event, error) { return n, e, nil })
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first, last := mark(3), mark(10)
	took := make(chan time.Duration)
	go func() {
		d, err := last.Since(first)
		if err != nil {
			t.Error(err)
		}
		took <- d
	}()
	<-begun
	if err := errors.Join(first.Close(), first.Close(), last.Close()); err != nil {
		t.Error(err)
	}
	if len(released) > 0 {
		t.Errorf("%v were released while a call used them", released)
	}
	_, err := last.Since(first)
	coretest.WantError(t, err, core.ErrClosed, "Since after Close")
	close(goOn)
	if d := <-took; d != 7 {
		t.Errorf("the time is %d, want 7", d)
	}
	if len(released) != 2 || released[0] == released[1] {
		t.Errorf("%v were released, want each once", released)
	}
}

func TestAClockRefusesMarks(t *testing.T) {
	d := open(t)
	lost := error(nil)
	clock := func() *devicebase.Clock[int] {
		return &devicebase.Clock[int]{
			Device: &d.Device, Lost: func() error { return lost },
			Between: func(from, to int) (time.Duration, error) { return 1, nil }, Release: func(int) {},
		}
	}
	own, other := clock(), clock()
	e := stream.NewEvent()
	m, err := own.Mark(func() (int, core.Event, error) { return 0, e, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	theirs, err := other.Mark(func() (int, core.Event, error) { return 0, e, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	failed := errors.New("it failed")
	if _, err := own.Mark(func() (int, core.Event, error) { return 0, nil, failed }); !errors.Is(err, failed) {
		t.Errorf("Mark: error %v, want %v", err, failed)
	}
	_, err = m.Since(m)
	coretest.WantError(t, err, core.ErrInvalid, "Since before the reading")
	e.Complete(nil)
	_, err = m.Since(theirs)
	coretest.WantError(t, err, core.ErrDevice, "Since a mark of another device")
	if d, err := m.Since(m); err != nil || d != 1 {
		t.Errorf("Since: %v, %v", d, err)
	}
	lost = core.Errorf(core.ErrDeviceLost, "test", "call", "it is gone")
	_, err = m.Since(m)
	coretest.WantError(t, err, core.ErrDeviceLost, "Since on a lost device")
	_, err = own.Mark(func() (int, core.Event, error) { return 0, e, nil })
	coretest.WantError(t, err, core.ErrDeviceLost, "Mark on a lost device")
}
