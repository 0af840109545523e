package stream

import (
	"context"
	"reflect"

	"github.com/dlx-go/dlx/core"
)

// Uses holds the buffers that some work writes and reads. It keeps their memory alive until
// Release. [Acquire] returns it.
type Uses struct {
	few     [4]*core.Buffer // the first ones
	more    []*core.Buffer
	count   int
	written int // the first so many are written, the others are read
}

// Do does work that writes and reads tensors, after all work on them that was enqueued
// before, and returns its error. Work that is enqueued after the call waits for this. The
// order of calls at the same time is for their callers to keep. A [core.Device.Copy] with a
// nil stream calls Do if the host copies. Do waits as [Acquire] does, and fails like it. It
// also returns core.ErrInvalid if work is nil.
func Do(ctx context.Context, writes, reads []*core.Tensor, work func() error) error {
	if work == nil {
		return core.Errorf(core.ErrInvalid, "stream", "Do", "the work is nil")
	}
	u, err := acquire("Do", writes, reads)
	defer u.Release()
	if err != nil {
		return err
	}
	done := NewEvent()
	if !u.noteIfIdle(done) {
		done.Complete(nil) // some of the tensors may have it
		done = NewEvent()
		if _, err := u.await(ctx, nil); err != nil {
			return err
		}
		u.Note(done)
	}
	err = errPanicked
	defer func() { done.Complete(err) }()
	err = work()
	return err
}

// errPanicked is made once, so that Do allocates the event only.
var errPanicked = core.Errorf(core.ErrInvalid, "stream", "Do", "the work panicked")

// Acquire prepares work that needs no stream, or one that cannot wait for what comes before,
// as in a [core.Device.Copy] with a nil stream. It keeps the memory of the tensors alive. It waits
// for the last write of each tensor in reads, and for all work on each tensor in writes, or
// until ctx ends.
//
// After Acquire, the caller enqueues the work and passes an event that is done after it to
// [Uses.Note]. Finally it calls [Uses.Release]. It may do so before the event is done,
// because the event keeps the memory alive from Note on. A caller that does the work itself
// uses [Do].
//
// Acquire returns core.ErrInvalid if a tensor is nil, core.ErrClosed if one is closed,
// ctx's error, and the error of the last write of a tensor in reads.
func Acquire(ctx context.Context, writes, reads []*core.Tensor) (Uses, error) {
	u, err := acquire("Acquire", writes, reads)
	if err == nil {
		_, err = u.await(ctx, nil)
	}
	if err != nil {
		u.Release()
		return Uses{}, err
	}
	return u, nil
}

// acquire holds the buffers of tensors. On failure some may be held.
func acquire(call string, writes, reads []*core.Tensor) (u Uses, err error) {
	u.written = len(writes)
	for _, list := range [...][]*core.Tensor{writes, reads} {
		for _, t := range list {
			b, err := hold(call, t)
			if err != nil {
				return u, err
			}
			if u.count < len(u.few) {
				u.few[u.count] = b
			} else {
				u.more = append(u.more, b)
			}
			u.count++
		}
	}
	return u, nil
}

func (u *Uses) at(i int) *core.Buffer {
	if i < len(u.few) {
		return u.few[i]
	}
	return u.more[i-len(u.few)]
}

// await makes s, or the caller if s is nil or cannot, wait for the work that comes
// before. It returns the events whose errors the work's event has to report as well.
func (u *Uses) await(ctx context.Context, s core.Stream) (earlier []earlierEvent, err error) {
	_, reports := s.(settledWaiter) // its events have the errors of what it waits for already
	var last core.Event             // that was awaited: many tensors may have been written together
	for i := u.written; i < u.count; i++ {
		if last != nil && sameEvent(privateCore.LastWrite(u.at(i)), last) {
			continue
		}
		if e := u.at(i).Ready(); e != nil {
			last = e
			how, err := await(ctx, s, u.at(i), e, false)
			if err != nil {
				return nil, err
			}
			if _, ok := e.(eventWrapper); ok || how == StreamWait && !reports {
				earlier = append(earlier, earlierEvent{Event: e})
			}
		}
	}
	for i := range u.written {
		for _, e := range u.at(i).Pending() {
			if _, err := await(ctx, s, u.at(i), e, true); err != nil {
				return nil, err
			}
		}
	}
	return earlier, nil
}

// Note records done, an event that is done when the work is done, as the last write of the
// tensors that the work writes and as a read of the tensors that it reads.
func (u *Uses) Note(done core.Event) {
	for i := range u.count {
		switch b := u.at(i); {
		case i > 0 && b == u.at(i-1): // which knows of it already
		case i < u.written:
			b.Wrote(done)
		default:
			b.Used(done)
		}
	}
}

// noteIfIdle is Note, unless there is something to wait for. It then reports false, and may
// have recorded done for some of the tensors.
func (u *Uses) noteIfIdle(done core.Event) bool {
	for i := range u.count {
		if !privateCore.NoteIfIdle(u.at(i), done, i < u.written) {
			return false
		}
	}
	return true
}

// sameEvent reports whether two events are one. Events of other packages need not be comparable.
func sameEvent(a, b core.Event) bool {
	return a != nil && reflect.TypeOf(a).Comparable() && a == b
}

// Release releases the buffers. A second Release does nothing.
func (u *Uses) Release() {
	for i := range u.count {
		u.at(i).Release()
	}
	u.count = 0
}
