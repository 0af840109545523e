package stream

import (
	"context"
	"errors"

	"github.com/dlx-go/dlx/core"
)

// Mechanism is how the reader of a handoff waits for the writer. A larger one costs more.
type Mechanism uint8

// The mechanisms.
const (
	NoWait        Mechanism = iota // all work was done already
	StreamWait                     // the stream waits, nobody is blocked
	SemaphoreWait                  // the stream waits for a semaphore that the other device signals, nobody is blocked
	HostWait                       // the caller was blocked until the work was done
)

var mechanismNames = [...]string{"none", "stream_wait", "semaphore_wait", "host_wait"}

// String gives the mechanism's name: "stream_wait".
func (m Mechanism) String() string {
	if int(m) < len(mechanismNames) {
		return mechanismNames[m]
	}
	return "unknown"
}

// MarshalText makes a mechanism print by name in JSON.
func (m Mechanism) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Handoff makes work that is enqueued later on the stream to wait until t may be read:
// for the last write of its memory and, unless from is nil, for all work that the stream
// from holds now. The latter is for producers that leave no events on the tensor. If to
// can wait for the events, the caller does not. Otherwise, or if to is nil for a reader
// on the host, the caller waits, at most until ctx ends. Handoff returns which it was.
//
// Handoff keeps no reference to t, and does not note a use of it: [Submit] does.
// It fails with core.ErrClosed if t or a stream is closed, with the error of the
// work waited for if that is known to have failed, with ctx's error, or as
// Record of from and Wait of to do.
func Handoff(ctx context.Context, t *core.Tensor, from, to core.Stream) (Mechanism, error) {
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
			m, err := await(ctx, to, e, false)
			if err != nil {
				return how, err
			}
			how = max(how, m)
		}
	}
	return how, nil
}

// await makes s wait for e, or the caller if s is nil or cannot wait for e, and reports
// which. It returns the error of e's work as far as that is known by then, unless
// the work's result is to be overwritten.
func await(ctx context.Context, s core.Stream, e core.Event, overwrite bool) (Mechanism, error) {
	how := NoWait
	done, failed := e.Done()
	if !done {
		if s != nil {
			if err := streamWait(s, e, overwrite); !errors.Is(err, core.ErrNotSupported) {
				return StreamWait, err
			}
		}
		err := e.Wait(ctx)
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
	if q, ok := s.(core.SettledWaiter); ok && overwrite {
		return q.WaitSettled(e)
	}
	err := s.Wait(e)
	if err != nil && overwrite && isDone(e) { // it has failed meanwhile
		return nil
	}
	return err
}
