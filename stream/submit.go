package stream

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Submit enqueues work that reads and writes tensors, in order with all other
// work on them. Every [core.Device.Copy] on a stream calls it. The steps are:
//
//  1. The memory of the tensors is held until Submit returns; from then on the
//     events recorded on it do that, so the tensors may be closed at once.
//  2. s waits for the last write of what is read, and for the last write and all
//     uses of what is written. If s cannot wait for an event, Submit does, at most
//     until ctx ends. If the last write of a tensor to be read is known to have
//     failed, Submit returns its error. Writes that are overwritten may have failed.
//  3. enqueue puts the work on s. If it fails, it must leave no work behind that
//     still uses the tensors.
//  4. An event recorded on s becomes the last write of writes and a use of reads.
//
// If Submit fails, nothing was enqueued, with one exception: if s cannot record an
// event behind the work, Submit waits for s instead, and returns the error of that wait;
// the events of writes then report the error.
//
// Work that fails later is reported by its event. That event also reports the error of
// the last write of what the work reads: work that reads the result of a failed write
// counts as failed on every device, on whichever stream (see package core, "Errors of work").
//
// A tensor may be in both lists. A nil tensor, stream or enqueue is
// core.ErrInvalid, a closed tensor core.ErrClosed. enqueue must not call Submit
// for the same stream.
func Submit(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error {
	if s == nil || enqueue == nil {
		return core.Errorf(core.ErrInvalid, "stream", "Submit", "the stream or enqueue is nil")
	}
	u, err := acquire("Submit", writes, reads)
	defer u.Release()
	if err != nil {
		return err
	}
	if q, ok := s.(interface{ submission() *sync.Mutex }); ok {
		mu := q.submission()
		mu.Lock()
		defer mu.Unlock()
	}
	earlier, err := u.await(ctx, s)
	if err != nil {
		return err
	}
	done, err := enqueueAndRecord(ctx, s, enqueue)
	if done != nil {
		u.Note(chain(done, earlier...))
	}
	return err
}

// SubmitAndWait is [Submit] for a caller who waits until the work is done. Devices that
// work on streams call it for a [core.Device.Copy] with a nil stream. s is a stream of the
// device's own, which several callers may share: so the caller, and not s, waits for the
// work that comes before. If ctx ends while the work runs, SubmitAndWait returns ctx's
// error, and the memory is kept until the work's event is done. See [Acquire] for work that
// the caller does itself.
func SubmitAndWait(ctx context.Context, s core.Stream, writes, reads []*core.Tensor, enqueue func() error) error {
	if s == nil || enqueue == nil {
		return core.Errorf(core.ErrInvalid, "stream", "SubmitAndWait", "the stream or enqueue is nil")
	}
	u, err := Acquire(ctx, writes, reads)
	if err != nil {
		return err
	}
	defer u.Release()
	done, err := enqueueAndRecord(ctx, s, enqueue)
	if done == nil {
		return err
	}
	u.Note(done)
	return done.Wait(ctx)
}

// hold takes a reference to the memory of t.
func hold(call string, t *core.Tensor) (*core.Buffer, error) {
	if t == nil {
		return nil, core.Errorf(core.ErrInvalid, "stream", call, "a tensor is nil")
	}
	b, err := t.Buffer()
	if err == nil {
		err = b.Retain()
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// enqueueAndRecord returns the event of what enqueue enqueued, or none if enqueue
// failed. Where s gives no event, it waits for the work and returns how that ended.
func enqueueAndRecord(ctx context.Context, s core.Stream, enqueue func() error) (core.Event, error) {
	if err := enqueue(); err != nil {
		return nil, err
	}
	if e, err := s.Record(); err == nil {
		return e, nil
	}
	// The work may be running: not even the end of ctx may free its memory now.
	err := s.Synchronize(context.WithoutCancel(ctx))
	if errors.Is(err, core.ErrClosed) {
		// Somebody is closing the stream, which waits for the work, as a second Close does.
		err = errors.Join(err, s.Close())
	}
	e := NewEvent()
	e.Complete(err)
	return e, err
}
