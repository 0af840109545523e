package share

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// This file is about frames that are received while the publisher's work on them is unfinished.

// lateWork is the publisher's work on a frame that it has told of. The subscription's mutex guards it, and the
// connection's mutex is held when it changes.
type lateWork struct {
	frame     uint64
	semaphore *openSemaphore // that has value when the work is done; nil without one
	value     uint64
	result    *stream.Event
	told      bool // how the work has ended
	received  bool // before that: the slot is held, or owed
}

// isAwaited reports whether a slot is held for work that has not ended, as far as this process knows.
func (w *lateWork) isAwaited() bool { return w != nil && w.received && !w.told }

// takeWork handles how far the work on a frame is.
func (c *Conn) takeWork(payload []byte) error {
	m, err := readWork(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, semaphore := c.subscriptions[m.subscription], c.semaphores[m.semaphore]
	switch {
	case s == nil && m.subscription > c.lastSubscription:
		return violation("the work on frame %d is for subscription %d, which was not made", m.frame, m.subscription)
	case m.semaphore != 0 && semaphore == nil:
		return violation("the work on frame %d has semaphore %d, which is not open", m.frame, m.semaphore)
	case s == nil: // it was closed
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.slot >= len(s.slots) {
		return violation("the work on frame %d of ring %q is on slot %d: it has %d slots", m.frame, s.message.name, m.slot, len(s.slots))
	}
	x := &s.slots[m.slot]
	w := x.work
	again := w != nil && w.frame == m.frame
	switch {
	case again && m.ended && !w.told:
	case s.closed && !again:
		return nil
	case w != nil && m.frame <= w.frame, w.isAwaited():
		return violation("the work on frame %d of ring %q came after that on frame %d, told %t, held %t", m.frame, s.message.name, w.frame, w.told, w.received)
	case x.frame != 0 && m.frame > x.frame: // Receive, or Err, may look at its work
		return violation("the work on frame %d of ring %q is on slot %d, which holds frame %d", m.frame, s.message.name, m.slot, x.frame)
	default:
		s.forget(x)
		w = &lateWork{frame: m.frame, semaphore: semaphore, value: m.value, result: stream.NewEvent()}
		if semaphore != nil {
			semaphore.tensors++
		}
		x.work = w
	}
	if m.ended {
		w.result.Complete(m.result.err())
		if w.received && w.semaphore != nil {
			go w.semaphore.release(w.value, !m.result.missing) // it waits for the device
		}
		s.forgetSemaphore(w)
		w.told = true
		if s.left && !s.awaits() {
			delete(c.subscriptions, s.id)
		}
	}
	s.stir()
	return nil
}

// forgetSemaphore notes that work does not need its semaphore any more. Both mutexes are held.
func (s *Subscription) forgetSemaphore(w *lateWork) {
	if w.semaphore != nil && !w.told {
		w.semaphore.tensors--
	}
}

// forget takes the work of a slot out, whose result nobody waits for. Both mutexes are held.
func (s *Subscription) forget(x *subscribedSlot) {
	if x.work != nil {
		s.forgetSemaphore(x.work)
		x.work = nil
	}
}

// forgetWork takes out all work that no frame waits for, and reports whether there is other work. The
// connection's mutex is held.
func (s *Subscription) forgetWork() (awaits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slots {
		if x := &s.slots[i]; x.work != nil && !x.work.received && !x.work.told {
			s.forget(x)
		}
	}
	return s.awaits()
}

// awaits reports whether a frame waits for work. s.mu is held.
func (s *Subscription) awaits() bool {
	for i := range s.slots {
		if s.slots[i].work.isAwaited() {
			return true
		}
	}
	return false
}

// abandon ends the wait for all work with the error of the connection, which has ended.
func (s *Subscription) abandon(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slots {
		if w := s.slots[i].work; w != nil {
			w.result.Complete(err) // unless the peer has told
		}
	}
}

// isTold reports whether the peer has told of the work on a frame in a slot. s.mu is held.
func (s *Subscription) isTold(n uint64, slot int) bool {
	w := s.slots[slot].work
	return w != nil && w.frame == n
}

// lateFrame is frame for one whose work was unfinished when it was sent. The slot of the result is marked, for
// arrive. s.mu is held.
func (s *Subscription) lateFrame(n uint64, slot int) (Frame, error) {
	f, err := s.frame(n, slot)
	if err == nil {
		w := s.slots[slot].work
		w.received = !w.told
		f.slot |= unfinished
	}
	return f, err
}

// arrive gives the tensor of a late frame the event of the publisher's work. If the device of the tensor can
// wait for the semaphore of the work, it does.
func (s *Subscription) arrive(ctx context.Context, f Frame) (Frame, error) {
	f.slot &^= unfinished
	s.mu.Lock()
	x := &s.slots[f.slot]
	w, buffer, device := x.work, x.buffer, f.tensor.Device()
	s.mu.Unlock()
	if w == nil || w.frame != f.number { // cannot be: the slot is held, and takeWork checks that
		f.Release()
		return Frame{}, brokenError{violation("the work on frame %d of ring %q has gone", f.number, s.message.name)}
	}
	done, err := w.result.Done()
	if done && err == nil {
		return f, nil
	}
	ready := core.Event(w.result)
	if !done && w.semaphore != nil && device != nil {
		bound, stop := s.conn.bound(ctx)
		if e, err := w.semaphore.arrival(bound, s.conn, device, w.value, w.result); err == nil {
			ready = e // else the host waits
		}
		stop()
	}
	buffer.Wrote(ready)
	return f, nil
}
