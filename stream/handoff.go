package stream

import (
	"context"
	"errors"

	"github.com/dlx-go/dlx/core"
)

// Wait is the way in which a stream, or the host, waits for unfinished work on a tensor. A larger
// Wait costs more.
type Wait uint8

// The kinds of waits.
const (
	NoWait        Wait = iota // no work was unfinished
	StreamWait                // the stream waits, and the caller does not
	SemaphoreWait             // the stream waits for a semaphore that the other device signals, and the caller does not
	HostWait                  // the caller waited until the work was done
)

var waitNames = [...]string{"none", "stream_wait", "semaphore_wait", "host_wait"}

// String returns the name of the wait, such as "stream_wait".
func (w Wait) String() string {
	if int(w) < len(waitNames) {
		return waitNames[w]
	}
	return "unknown"
}

// MarshalText returns the same text as [Wait.String].
func (w Wait) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Handoff makes the stream to wait until t may be read there. Work that is enqueued on to
// later waits for the last write of t and, unless from is nil, for all work that was
// enqueued on the stream from. Pass from if the code that writes t on from does not record
// events on t.
//
// If to cannot wait for an event, the caller waits for it, or until ctx ends. The caller
// also waits if to is nil, which means that the host reads t. Handoff reports how the work
// is waited for.
//
// Handoff does not keep t open, and does not record a use of t; [Submit] does both. Handoff
// returns core.ErrClosed if t or a stream is closed, ctx's error, the error of the awaited
// work if it is known to have failed, and the errors of Record of from and Wait of to.
func Handoff(ctx context.Context, t *core.Tensor, from, to core.Stream) (Wait, error) {
	b, err := hold("Handoff", t)
	if err != nil {
		return NoWait, err
	}
	defer b.Release()
	var events [2]core.Event
	if events[0] = b.Ready(); from != nil {
		if events[1], err = from.Record(); err != nil {
			return NoWait, err
		}
	}
	how := NoWait
	for _, e := range events {
		if e != nil {
			w, err := await(ctx, to, b, e, false)
			if err != nil {
				return how, err
			}
			how = max(how, w)
		}
	}
	return how, nil
}

// await makes s wait for e, the event of work on b, or the caller if s is nil or cannot wait for e, and reports
// which. It returns the error of e's work as far as that is known by then, unless
// the work's result is to be overwritten.
func await(ctx context.Context, s core.Stream, b *core.Buffer, e core.Event, overwrite bool) (Wait, error) {
	how := NoWait
	done, failed := e.Done()
	if !done {
		if s != nil {
			if err := streamWait(s, e, overwrite); !errors.Is(err, core.ErrNotSupported) {
				return StreamWait, err
			}
		}
		err := privateCore.WaitOnHost(ctx, b, e)
		if done, failed = e.Done(); !done {
			return HostWait, err
		}
		how = HostWait
	}
	if overwrite {
		failed = nil
	}
	return how, failed
}

// streamWait is s.Wait(e), without taking the failure of what is to be
// overwritten for a failure of s.
func streamWait(s core.Stream, e core.Event, overwrite bool) error {
	if q, ok := s.(settledWaiter); ok && overwrite {
		return q.WaitSettled(e)
	}
	err := s.Wait(e)
	if err != nil && overwrite && isDone(e) { // it has failed meanwhile
		return nil
	}
	return err
}
