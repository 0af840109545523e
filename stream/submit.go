package stream

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Submit enqueues work on s that writes and reads tensors, in order with all other work on
// them. Every [core.Device.Copy] on a stream calls it. Submit does four steps:
//
//  1. It keeps the memory of the tensors alive until it returns. From then on the
//     events that it records keep the memory alive, so the caller may close the tensors.
//  2. It makes s wait for the last write of each tensor in reads, and for all work on
//     each tensor in writes. If s cannot wait for an event, Submit waits for it on the
//     host, or until ctx ends. If the last write of a tensor in reads is known to have
//     failed, Submit returns the error of that write. Errors of earlier work on tensors
//     in writes are ignored, because the work overwrites them.
//  3. It calls enqueue, which enqueues the work on s. If enqueue fails, it must not
//     leave work behind that uses the tensors.
//  4. It records an event on s, as the last write of each tensor in writes and as a read
//     of each tensor in reads.
//
// If Submit fails, nothing was enqueued, with one exception: if s cannot record an event
// after the work, Submit waits for s, and returns the error of that wait. The events of the
// tensors in writes then report the error.
//
// If the work fails later, its event reports the error. That event also reports the errors
// of the last writes of the tensors in reads. Work that reads the result of a failed write
// therefore fails, too, on every device and every stream; see "Errors of work" in package
// core.
//
// A tensor may be in both lists. Submit returns core.ErrInvalid if a tensor, s or enqueue
// is nil, core.ErrClosed if a tensor is closed, ctx's error if ctx ends while Submit waits,
// and the error of enqueue. enqueue must not call Submit for the same stream.
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

// SubmitAndWait is like [Submit], but also waits until the work is done, and returns its
// error. Devices that copy on streams call it in [core.Device.Copy] with a nil stream. s is
// then a stream of the device, which several callers share. SubmitAndWait therefore waits
// for earlier work on the tensors on the host, and does not make s wait. If ctx ends while
// the work runs, SubmitAndWait returns ctx's error, and the memory stays alive until the
// work is done. A caller that does the work itself uses [Acquire].
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
	var b *core.Buffer
	if u.count > 0 {
		b = u.at(0)
	}
	return privateCore.WaitOnHost(ctx, b, done)
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
	record := s.Record
	if r, ok := s.(interface{ RecordSubmitted() (core.Event, error) }); ok {
		record = r.RecordSubmitted // the stream may have recorded an event with the work already
	}
	if e, err := record(); err == nil {
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
