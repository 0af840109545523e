package cudalike

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// semaphore is a timeline semaphore of another API. This API cannot make one, cannot read its value, and cannot
// cancel a wait for a value.
type semaphore struct {
	device   *device
	opened   backendkit.OpenItem
	timeline uintptr

	mu      sync.Mutex // held while work is enqueued, so that values are signalled in order
	closed  bool
	largest uint64 // the largest value that was signalled by this import or seen by Wait
	signal  *use   // the latest signal; nil if there is none
	users   []*use // one for each stream whose work may be unfinished
}

var _ core.Semaphore = (*semaphore)(nil)

// use is the latest work of a stream with a semaphore.
type use struct {
	queue *queue
	event core.Event // nil if none could be recorded yet
}

// record returns an event for the work; it records one if there is none yet. The event is nil if the work is done.
func (u *use) record() (core.Event, error) {
	if u.event != nil {
		return u.event, nil
	}
	e, err := u.queue.recordForOrder()
	if errors.Is(err, core.ErrClosed) { // Close of the stream has waited for the work
		return nil, nil
	}
	u.event = e
	return e, err
}

// done reports whether the work is known to be done.
func (u *use) done() bool { return u.event != nil && reaper.Over([]core.Event{u.event}) }

// SemaphoreImportTypes returns HandleOpaqueFD, for timeline semaphores of Vulkan, if the driver can import them.
func (d *device) SemaphoreImportTypes() []core.HandleType {
	if !d.Info.Capabilities.Has(core.CapImportSemaphores) {
		return nil
	}
	return []core.HandleType{core.HandleOpaqueFD}
}

// ImportSemaphore opens a timeline semaphore of the same card. Only the UUID of the device is compared, since
// drivers of this API have no UUID.
func (d *device) ImportSemaphore(ctx context.Context, x core.ExternalSemaphore) (core.Semaphore, error) {
	const call = "ImportSemaphore"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.Info.Require(core.CapImportSemaphores, call); err != nil {
		return nil, err
	}
	i := d.importer()
	if err := i.CheckSemaphore(x); err != nil {
		return nil, err
	}
	sem := &semaphore{device: d}
	opened, err := d.open(call, "semaphore", func() error {
		return i.Give(call, x.Handle, func(fd int) (taken bool, err error) {
			if err := i.CheckFD(call, x.Handle.Type(), fd, 0); err != nil {
				return false, err
			}
			var s Status
			sem.timeline, s = d.context.ImportTimeline(fd)
			return true, d.check(s, "the descriptor is not a timeline semaphore of this device")
		})
	})
	if err != nil {
		return nil, err
	}
	sem.opened = opened
	return sem, nil
}

// Signal makes the stream set the value when its earlier work is done. Each value must be larger than those that
// were signalled through this import and those that Wait has seen. Values that others signal are not checked, since
// the driver cannot read them. If another stream made the latest signal, this stream waits for it.
func (s *semaphore) Signal(on core.Stream, value uint64) error {
	const call = "Signal"
	q, err := s.lock(call, on)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if value <= s.largest {
		return s.device.Errorf(core.ErrInvalid, call, "value %d is not larger than %d, which was reached or signalled before", value, s.largest)
	}
	if s.signal != nil && s.signal.queue != q {
		before, err := s.signal.record()
		if err != nil {
			return err
		}
		if err := q.WaitSettled(before); err != nil {
			return err
		}
	}
	u, err := s.enqueue(call, q, func() error {
		return s.device.check(s.device.context.SignalTimeline(s.timeline, value, q.raw), "value %d", value)
	})
	if err == nil {
		s.largest, s.signal = value, u
	}
	return err
}

// WaitOn makes later work of the stream wait for the value, on the device.
func (s *semaphore) WaitOn(on core.Stream, value uint64) error {
	_, err := s.waitOn("WaitOn", on, value)
	return err
}

func (s *semaphore) waitOn(call string, on core.Stream, value uint64) (*use, error) {
	q, err := s.lock(call, on)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var u *use
	err = s.device.backend.waits.enqueue(func() (core.Event, error) {
		u, err = s.enqueue(call, q, func() error {
			return s.device.check(s.device.context.WaitTimeline(s.timeline, value, q.raw), "value %d", value)
		})
		if err != nil {
			return nil, err
		}
		return u.eventOrSynchronize(), nil
	})
	return u, err
}

// eventOrSynchronize returns an event for the work, or nil if it is done. If the driver can record none, the event
// is one that a goroutine completes, at once if it cannot wait for the stream.
func (u *use) eventOrSynchronize() core.Event {
	e, err := u.record()
	if err == nil {
		return e
	}
	done := stream.NewEvent()
	go func() {
		_ = u.queue.Synchronize(context.Background())
		done.Complete(nil)
	}()
	return done
}

// lock locks s.mu, and returns on as a stream of the device. It fails if the semaphore was closed.
func (s *semaphore) lock(call string, on core.Stream) (*queue, error) {
	q, err := s.device.streamOf(call, on)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, s.device.closedError(call, "semaphore")
	}
	return q, nil
}

// enqueue calls f, which enqueues work, and records that the work uses the semaphore. s.mu is held.
func (s *semaphore) enqueue(call string, q *queue, f func() error) (*use, error) {
	if err := q.enqueue(call, f); err != nil {
		return nil, err
	}
	u := &use{queue: q}
	_, _ = u.record() // after a failure the next call tries again
	s.users = append(slices.DeleteFunc(s.users, func(old *use) bool { return old.queue == q || old.done() }), u)
	return u, nil
}

// Value fails with ErrNotSupported: the API has no function for it.
func (s *semaphore) Value() (uint64, error) {
	const call = "Value"
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, s.device.closedError(call, "semaphore")
	}
	return 0, s.device.Errorf(core.ErrNotSupported, call, "%s cannot read the value of a semaphore: wait for a value, or read it by the API that made the semaphore", s.device.backend.API)
}

// Wait waits on a stream of its own. If ctx ends first, the stream goes on waiting, since the API cannot cancel
// the wait, and counts as open on the device until the value is reached.
func (s *semaphore) Wait(ctx context.Context, value uint64) error {
	own, err := s.device.NewStream(ctx)
	if err != nil {
		return err
	}
	u, err := s.waitOn("Wait", own, value)
	if err != nil {
		return errors.Join(err, own.Close())
	}
	s.mu.Lock()
	e, err := u.record()
	s.mu.Unlock()
	if err == nil {
		err = e.Wait(ctx)
	}
	unfinished := e == nil || !reaper.Over([]core.Event{e}) || s.device.lostError() != nil
	if unfinished && !s.device.contextLost.Load() {
		go func() { _ = own.Close() }() // waits; no caller is left to get its error
		return err
	}
	if err == nil {
		s.mu.Lock()
		s.largest = max(s.largest, value)
		s.mu.Unlock()
	}
	return errors.Join(err, own.Close())
}

// Close releases the semaphore when the work that uses it is done. A second Close does nothing.
func (s *semaphore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var pending []core.Event
	for _, u := range s.users {
		e, err := u.record()
		if err != nil { // without an event, wait here
			_ = u.queue.Synchronize(context.Background())
		}
		pending = append(pending, e)
	}
	free := func() {
		_ = s.device.check(s.device.context.CloseTimeline(s.timeline), "a semaphore without work")
	}
	if reaper.Over(pending) {
		free()
	} else {
		s.device.Reaper.After(pending, free) // before Drop: Close of the device waits for it
	}
	s.opened.Close()
	return nil
}
