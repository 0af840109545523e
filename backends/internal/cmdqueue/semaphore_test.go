package cmdqueue_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// semaphore is a value that the test sets.
type semaphore struct {
	cmdqueue.Semaphore
	values
}

type values struct {
	mu    sync.Mutex
	value uint64
	err   error
}

func (v *values) Now() (uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value, v.err
}

func (v *values) WaitValue(value uint64) (bool, error) {
	now, err := v.Now()
	return err == nil && now >= value, err
}

func (v *values) set(value uint64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value, v.err = value, err
}

func (d *device) semaphore(t *testing.T) *semaphore {
	s := new(semaphore)
	opened, err := d.Open("test", "semaphore", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s.Init(&d.Base, &s.values, opened)
	t.Cleanup(func() { _ = s.CloseBy(func() {}) })
	return s
}

// signal adds an item that sets a value, or fails with failed.
func (s *semaphore) signal(q *queue, value uint64, failed error) error {
	return cmdqueue.AddSignal(&s.Semaphore, &q.Queue, value, func(before uint64) item {
		return item{
			Quick: true,
			Host: func() error {
				if failed != nil {
					s.TakeBack(value, before)
					return failed
				}
				s.set(value, nil)
				return nil
			},
			Over: func(uint64, error) { s.Drop() },
		}
	})
}

func TestValuesAreLargerThanAllBefore(t *testing.T) {
	d := open(t, 0)
	q, s := d.stream(t), d.semaphore(t)
	if err := s.signal(q, 5, nil); err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, s.signal(q, 5, nil), core.ErrInvalid, "a value that was signalled")
	if err := s.signal(q, 9, errTest); err != nil { // its item fails, and takes it back
		t.Fatal(err)
	}
	if err := s.signal(q, 7, nil); err != nil {
		t.Errorf("a value below one that was taken back: %v", err)
	}
	if err := q.Synchronize(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("Synchronize: %v, want %v", err, errTest)
	}
	s.TakeBack(5, 0) // a larger one was signalled since
	coretest.WantError(t, s.signal(q, 6, nil), core.ErrInvalid, "a value below the largest")
	s.set(20, nil)
	coretest.WantError(t, s.signal(q, 20, nil), core.ErrInvalid, "a value that was reached")
	coretest.WantError(t, s.Follows(7, 7), core.ErrInvalid, "a value that another stream has signalled")
	if v, err := s.Value(); v != 20 || err != nil {
		t.Errorf("Value: %d, %v", v, err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, s.signal(q, 30, nil), core.ErrClosed, "a signal on a closed stream")
	if err := s.signal(d.stream(t), 25, nil); err != nil {
		t.Errorf("a value below one that could not be enqueued: %v", err)
	}
	if err := s.CloseBy(func() {}); err != nil { // waits for users
		t.Error(err)
	}
}

func TestCloseEndsWaitsForValuesThatNobodySets(t *testing.T) {
	d := open(t, 0)
	s, held := d.semaphore(t), d.stream(t)
	d.pause()
	if err := errors.Join(held.add(t, item{Commands: commands(func() {})}), s.signal(held, 5, nil)); err != nil {
		t.Fatal(err)
	}
	promised, never := make(chan error), make(chan error)
	for value, result := range map[uint64]chan error{5: promised, 6: never} {
		if err := s.Use("test"); err != nil {
			t.Fatal(err)
		}
		go func() {
			err := s.Await(t.Context(), value)
			s.Drop()
			result <- err
		}()
	}
	destroyed, closed := 0, make(chan error)
	go func() { closed <- s.CloseBy(func() { destroyed++ }) }()
	coretest.WantError(t, <-never, core.ErrClosed, "a wait for a value that nobody promised")
	d.resume()
	if err := errors.Join(<-promised, <-closed, s.CloseBy(func() { destroyed++ })); err != nil || destroyed != 1 {
		t.Errorf("error %v, destroyed %d times", err, destroyed)
	}
	coretest.WantError(t, s.Use("test"), core.ErrClosed, "a closed semaphore")
}

func TestAWaitIsTriedAgainUnlessTheDeviceIsLost(t *testing.T) {
	d := open(t, 0)
	s := d.semaphore(t)
	s.set(0, core.Errorf(core.ErrOutOfMemory, "test", "test", "no memory"))
	result := make(chan error)
	go func() { result <- s.Wait(t.Context(), 1) }()
	s.set(1, nil)
	if err := <-result; err != nil {
		t.Error(err)
	}
	s.set(1, core.Errorf(core.ErrDeviceLost, "test", "test", "by the test"))
	coretest.WantError(t, s.Wait(t.Context(), 2), core.ErrDeviceLost, "a wait on a lost device")
	coretest.WantError(t, d.LostError(), core.ErrDeviceLost, "the device")
}
