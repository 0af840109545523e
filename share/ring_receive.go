package share

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// Frame is a tensor that a publisher has sent. Copies of a Frame are the same frame. The zero Frame
// is one that was released.
type Frame struct { // with at most four fields, the compiler keeps it in registers
	subscription *Subscription
	tensor       *core.Tensor
	number       uint64
	slot         int // or inCopy
}

// inCopy says that the tensor of a frame is a copy of its slot, which was given back.
const inCopy = -1

// Tensor returns the tensor, which is read-only unless it was copied to another device. The frame
// owns it: the caller does not close it, and uses it until it calls [Frame.Release]. Views of it
// belong to the caller.
func (f Frame) Tensor() *core.Tensor { return f.tensor }

// Sequence returns the number of the frame: the publisher's frames have the numbers from 1 on. A gap
// is frames that a subscriber of the mode Latest has not received.
func (f Frame) Sequence() uint64 { return f.number }

// Release gives the slot back to the publisher when the program has closed all views of the tensor,
// and when its work on them is done; it does not wait for that. A second Release does nothing.
func (f Frame) Release() {
	switch s := f.subscription; {
	case f.slot == inCopy:
		f.tensor.Close()
	case s != nil:
		s.release(f)
	}
}

// Err returns nil if the elements are those that were sent. It is for programs that read them in
// place: call it after that. It returns core.ErrClosed if the frame was released, or if the publisher has
// written the slot again, which it may when the connection has ended. If the work that writes the frame has failed,
// Err returns its error. It does not wait for that work.
func (f Frame) Err() error {
	s := f.subscription
	if f.slot == inCopy {
		return nil
	}
	if s == nil {
		return core.Errorf(core.ErrClosed, "share", "Err", "the frame was released")
	}
	s.mu.Lock() // also the barrier between the reads of the elements and the look at the sequence; see DESIGN.md
	defer s.mu.Unlock()
	switch x := &s.slots[f.slot]; {
	case x.frame != f.number:
		return core.Errorf(core.ErrClosed, "share", "Err", "frame %d of ring %q was released", f.number, s.message.name)
	case s.sequence(f.slot)&^looking != 2*f.number:
		return core.Errorf(core.ErrClosed, "share", "Err", "the publisher of ring %q has written the slot of frame %d again: the connection has ended", s.message.name, f.number)
	case x.work != nil && x.work.frame == f.number:
		_, err := x.work.result.Done()
		return err
	}
	return nil
}

// sequence returns the sequence of a slot. A frame that was not released keeps the words mapped.
func (s *Subscription) sequence(slot int) uint64 {
	return atomic.LoadUint64(s.words.u64(sequenceAt(len(s.slots)) + 8*int64(slot)))
}

// Receive waits for the next frame: in the mode Queue the one after the last frame, and in the mode
// Latest the newest one. The caller releases the result. The work that writes the frame may be unfinished: Ready
// of its tensor is then an event that is done with that work, and that has its error, or that of a
// connection which has ended. Receive may open a semaphore in a driver, so that the device of the tensor waits.
//
// Receive returns ctx's error; an error that wraps core.ErrClosed and io.EOF when the publisher has
// ended the ring and all frames were received; core.ErrOutOfMemory if more frames than
// SubscribeOptions.Hold would be held; core.ErrClosed if the subscription is closed; errors of
// [exchange.To] for a frame that is moved to another device, which is then lost; and the
// [*ConnError] of a connection that has ended. A frame that was released counts as held as long as
// work on it is unfinished, which Receive waits for.
func (s *Subscription) Receive(ctx context.Context) (Frame, error) {
	if s == nil || s.words == nil {
		return Frame{}, core.Errorf(core.ErrInvalid, "share", "Receive", "the subscription is nil or was not made by Subscribe")
	}
	if err := ctx.Err(); err != nil {
		return Frame{}, err
	}
	for waited := false; ; waited = true {
		f, err := s.poll()
		if f.number == 0 && err == nil {
			if !waited {
				s.mu.Lock()
				if s.waited != s.next { // else an earlier call has waited for it
					s.waited = s.next
					s.waits++
				}
				s.mu.Unlock()
			}
			f, err = s.watch()
		}
		if f.number == 0 && err == nil {
			f, err = s.rest(ctx)
		}
		switch {
		case err != nil:
			return Frame{}, s.failed(err)
		case f.number != 0:
			if f.slot >= unfinished {
				if f, err = s.arrive(ctx, f); err != nil {
					return Frame{}, s.failed(err)
				}
			}
			if s.device != nil {
				return s.move(ctx, f)
			}
			return f, nil
		}
		if err := ctx.Err(); err != nil {
			return Frame{}, err
		}
	}
}

// failed ends the connection if the publisher has broken the rules, and returns the error of Receive.
func (s *Subscription) failed(err error) error {
	var broken brokenError
	if errors.As(err, &broken) {
		s.conn.fail(broken.error)
	}
	return s.conn.orEnded(err)
}

// brokenError is an error of the publisher, and not of this process.
type brokenError struct{ error }

// poll takes the next frame, if it is there. It returns a frame without a number if it is not.
func (s *Subscription) poll() (Frame, error) {
	s.mu.Lock()
	f, err := s.take()
	s.mu.Unlock()
	return f, err
}

// watch is poll for a short time. It looks with the mutex held, so that nothing is left to do when the
// frame comes but to take it.
func (s *Subscription) watch() (f Frame, err error) {
	w := s.newSpinner()
	for w.goesOn() {
		s.mu.Lock()
		if !s.closed && !s.over {
			published, next := s.words.u64(publishedAt), s.next<<slotBits
			for range looksAtOnce {
				if atomic.LoadUint64(published) >= next {
					break
				}
			}
		}
		f, err = s.take()
		s.mu.Unlock()
		if f.number != 0 || err != nil {
			w.end(true)
			return f, err
		}
	}
	w.end(false)
	return f, err
}

// take is poll. s.mu is held.
func (s *Subscription) take() (Frame, error) {
	if s.closed {
		return Frame{}, core.Errorf(core.ErrClosed, "share", "Receive", "the subscription to ring %q was closed", s.message.name)
	}
	over := s.over // before the words are read: no frame comes after it
	last, slot := unpack(atomic.LoadUint64(s.words.u64(publishedAt)))
	if last < s.next {
		if over {
			return Frame{}, s.errOver()
		}
		return Frame{}, nil
	}
	if s.message.mode == Latest {
		return s.takeLatest()
	}
	if last != s.next {
		var n uint64
		n, slot = unpack(atomic.LoadUint64(s.words.u64(logAt + 8*int64(s.next%uint64(len(s.slots))))))
		if n != s.next {
			return Frame{}, brokenError{violation("the publisher of ring %q has written frame %d where frame %d was not released", s.message.name, n, s.next)}
		}
	}
	if slot&unfinished == 0 {
		return s.frame(s.next, slot)
	}
	if slot &^= unfinished; slot < len(s.slots) && !s.isTold(s.next, slot) {
		return Frame{}, nil // the message is on its way
	}
	return s.lateFrame(s.next, slot)
}

// takeLatest claims the newest frame. s.mu is held.
func (s *Subscription) takeLatest() (Frame, error) {
	if s.held >= s.hold {
		if slices.ContainsFunc(s.slots, (subscribedSlot).isComing) {
			return Frame{}, nil
		}
		return Frame{}, core.Errorf(core.ErrOutOfMemory, "share", "Receive", "%d frames of ring %q are held: release one, or subscribe to hold more", s.held, s.message.name)
	}
	const tries = 1000 // the publisher has sent as many frames meanwhile; the caller looks again
	for range tries {
		n, marked := unpack(atomic.LoadUint64(s.words.u64(publishedAt)))
		slot := marked &^ unfinished
		if slot >= len(s.slots) || s.slots[slot].isUsed() || n < s.next {
			return s.frame(n, slot) // which says what is wrong
		}
		if marked != slot && !s.isTold(n, slot) {
			return Frame{}, nil // the message is on its way: nothing is claimed meanwhile
		}
		atomic.StoreUint64(s.page.u64(claimsAt+8*int64(slot)), n)
		if s.sequence(slot) == 2*n {
			if marked != slot {
				return s.lateFrame(n, slot)
			}
			return s.frame(n, slot)
		}
		s.unclaim(slot, 0) // the publisher looks for claims of it, or writes it
	}
	return Frame{}, nil
}

// frame makes the frame in a slot, whose number the publisher has written. s.mu is held.
func (s *Subscription) frame(n uint64, slot int) (Frame, error) {
	if slot >= len(s.slots) || s.slots[slot].isUsed() || n < s.next {
		return Frame{}, brokenError{violation("the publisher of ring %q has put frame %d into slot %d, which it does not have or which was not released", s.message.name, n, slot)}
	}
	x := &s.slots[slot]
	if x.tensor == nil {
		if err := s.wrap(slot); err != nil {
			if s.message.mode == Latest {
				s.unclaim(slot, 0)
			}
			return Frame{}, err
		}
	}
	s.dropped += int64(n - s.next)
	x.frame, s.next = n, n+1
	s.held++
	s.received++
	return Frame{subscription: s, tensor: x.tensor, number: n, slot: slot}, nil
}

// rest sleeps until there is a frame, or something else has changed, and takes the frame if it is
// there.
func (s *Subscription) rest(ctx context.Context) (Frame, error) {
	s.mu.Lock()
	if s.closed {
		f, err := s.take()
		s.mu.Unlock()
		return f, err
	}
	s.sleepers++
	atomic.StoreUint32(s.page.u32(sleepingAt), 1)
	signal, own := s.words.u32(signalAt), s.page.u32(stirAt)
	words := [2]word{{signal, atomic.LoadUint32(signal)}, {own, atomic.LoadUint32(own)}}
	s.words.retain() // until this call does not sleep
	s.page.retain()
	limit, noticed := sleepLimit(ctx)
	if !noticed && ctx.Done() != s.watched {
		if s.unwatch != nil {
			s.unwatch()
		}
		s.watched, s.unwatch = ctx.Done(), context.AfterFunc(ctx, func() { s.mu.Lock(); defer s.mu.Unlock(); s.stir() })
	}
	f, err := s.take() // after the words
	s.mu.Unlock()
	if f.number == 0 && err == nil && ctx.Err() == nil { // else its end may have found nobody to wake
		sleep(words[:], limit)
	}
	s.mu.Lock()
	if s.sleepers--; s.sleepers == 0 {
		atomic.StoreUint32(s.page.u32(sleepingAt), 0)
	}
	if f.number == 0 && err == nil {
		f, err = s.take()
	}
	s.mu.Unlock()
	s.words.release()
	s.page.release()
	return f, err
}

// isUsed reports whether the slot is not given back.
func (x *subscribedSlot) isUsed() bool { return x.frame != 0 || x.owed }

// isComing reports whether the program has released the slot and closed all views, so that it is given back when the
// work on them is done.
func (x subscribedSlot) isComing() bool { return x.after != nil && len(x.after.pending) > 0 }

// subscribedOwner is the owner of the memory of a slot's tensor. The subscription's mutex guards
// what is below slot.
type subscribedOwner struct {
	subscription *Subscription
	slot         int
	owed         uint64       // frame that is given back when the memory is free; 0 if none
	pending      []core.Event // of work that reads, when all tensors are closed
}

var _ core.Owner = (*subscribedOwner)(nil)

// Free implements [core.Owner]: the tensor of the slot and all views are closed, and all work on
// them is done.
func (o *subscribedOwner) Free() {
	o.over()
	o.subscription.place.Release()
}

func (o *subscribedOwner) over() {
	s := o.subscription
	s.mu.Lock()
	x := &s.slots[o.slot]
	if x.owner == o { // the program has closed the tensor
		x.tensor, x.buffer, x.owner = nil, nil, nil
		o.owed, x.frame = x.frame, 0
	}
	if o.owed != 0 {
		s.giveBack(o.slot, o.owed)
		s.stir() // Receive may wait for it
	}
	s.mu.Unlock()
	s.words.release()
	s.page.release()
}

// FreeAfter is Free, after work that is unfinished.
func (o *subscribedOwner) FreeAfter(pending []core.Event) {
	s := o.subscription
	s.mu.Lock()
	o.pending = pending
	s.mu.Unlock()
	freeAfter(pending, s.place, o.over)
}

// freeAfter releases place, whose device waits for pending before it frees the memory, also when it is closed. When
// the work is done, freeAfter calls over from another goroutine. Whoever reads the results gets the errors.
func freeAfter(pending []core.Event, place *core.Buffer, over func()) {
	for _, e := range pending {
		place.Used(e)
	}
	place.Release()
	go func() {
		for _, e := range pending {
			_ = e.Wait(context.Background())
		}
		over()
	}()
}

// wrap makes the tensor of a slot. It holds references to the memory and to the words. s.mu is held.
func (s *Subscription) wrap(slot int) error {
	if err := s.place.Retain(); err != nil {
		return err
	}
	o := &subscribedOwner{subscription: s, slot: slot}
	m, spec := s.place.Memory(), s.message.spec
	m.Owner, spec.Offset, spec.Flags = o, s.message.slot(slot), spec.Flags|core.FlagReadOnly
	t, err := core.Wrap(m, spec)
	if err != nil {
		s.place.Release()
		return err
	}
	s.words.retain()
	s.page.retain()
	x := &s.slots[slot]
	x.buffer, err = t.Buffer()
	x.tensor, x.owner = t, o
	return err
}

// release is Release of a frame that was not moved.
func (s *Subscription) release(f Frame) {
	s.mu.Lock()
	x := &s.slots[f.slot]
	if x.frame != f.number {
		s.mu.Unlock()
		return
	}
	x.frame = 0
	if !s.closed && isUnused(x.tensor, x.buffer) && x.buffer.Pending() == nil {
		s.giveBack(f.slot, f.number)
		s.mu.Unlock()
		return
	}
	// The owner of the memory gives the slot back, when it is free. The next frame gets another tensor.
	t, o := x.tensor, x.owner
	x.after = o
	x.tensor, x.buffer, x.owner = nil, nil, nil
	o.owed, x.owed = f.number, true
	s.mu.Unlock()
	t.Close()
}

// giveBack tells the publisher that a slot is free. s.mu is held, and the page is mapped.
func (s *Subscription) giveBack(slot int, frame uint64) {
	s.slots[slot].owed, s.slots[slot].after = false, nil
	s.held--
	if s.message.mode == Latest {
		frame = 0
	}
	s.unclaim(slot, frame)
}

// unclaim writes the word of a slot that the subscriber does not keep from a loan any more, and wakes the publisher if it
// sleeps. s.mu is held, and the page is mapped.
func (s *Subscription) unclaim(slot int, frame uint64) {
	atomic.StoreUint64(s.page.u64(claimsAt+8*int64(slot)), frame)
	if atomic.LoadUint32(s.words.u32(waitingAt)) != 0 {
		stir(s.page.u32(freedAt))
	}
}

// move moves a frame to the device of the subscription, and gives its slot back.
func (s *Subscription) move(ctx context.Context, f Frame) (Frame, error) {
	ctx, stop := s.conn.bound(ctx)
	defer stop()
	defer f.Release()
	y, report, err := exchange.To(ctx, f.tensor, s.device, exchange.Options{Copy: exchange.Always})
	if err == nil {
		if err = y.WaitReady(ctx); err == nil {
			err = f.Err()
		}
		if err != nil {
			y.Close()
		}
	}
	if err != nil {
		return Frame{}, s.conn.orEnded(err)
	}
	s.conn.mu.Lock()
	s.conn.stats.BytesCopied += report.BytesCopied
	s.conn.mu.Unlock()
	return Frame{subscription: s, tensor: y, number: f.number, slot: inCopy}, nil
}
