package stream

import (
	"context"

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

// Acquire prepares work that the caller does itself, without a stream, as in a
// [core.Device.Copy] with a nil stream. It keeps the memory of the tensors alive. It waits
// for the last write of each tensor in reads, and for all work on each tensor in writes, or
// until ctx ends.
//
// After Acquire, the caller makes an event, passes it to [Uses.Note], does the work, and
// completes the event. If the caller enqueues the work on a stream, it calls Note with an
// event that it records after the work. Finally it calls [Uses.Release]. It may do so
// before the event is done, because the event keeps the memory alive from Note on.
//
//	uses, err := stream.Acquire(ctx, []*core.Tensor{dst}, []*core.Tensor{src})
//	if err != nil {
//		return err
//	}
//	defer uses.Release()
//	done := stream.NewEvent()
//	uses.Note(done)
//	err = work()
//	done.Complete(err)
//	return err
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
	_, reports := s.(core.SettledWaiter) // its events have the errors of what it waits for already
	for i := u.written; i < u.count; i++ {
		if e := u.at(i).Ready(); e != nil {
			how, err := await(ctx, s, e, false)
			if err != nil {
				return nil, err
			}
			if _, ok := e.(*chainedEvent); ok || how == StreamWait && !reports {
				earlier = append(earlier, earlierEvent{Event: e})
			}
		}
	}
	for i := range u.written {
		for _, e := range u.at(i).Pending() {
			if _, err := await(ctx, s, e, true); err != nil {
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
		if i < u.written {
			u.at(i).Wrote(done)
		} else {
			u.at(i).Used(done)
		}
	}
}

// Release releases the buffers. A second Release does nothing.
func (u *Uses) Release() {
	for i := range u.count {
		u.at(i).Release()
	}
	u.count = 0
}
