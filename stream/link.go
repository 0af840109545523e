package stream

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Link is a timeline semaphore that two devices share, which orders their streams
// where neither can wait for the other's events. It is safe for concurrent use, but
// values must come in order: until a stream has signalled, no other stream may be
// handed over from. The caller of [NewLink] closes it.
type Link struct {
	signal, wait core.Semaphore

	mu    sync.Mutex // held while work is enqueued, so that values come in order
	value uint64     // the latest
}

// NewLink makes a link of one semaphore as both sides know it: streams of the one
// signal the first, streams of the other wait on the second, which was imported.
// The link owns both.
func NewLink(signal, wait core.Semaphore) *Link { return &Link{signal: signal, wait: wait} }

// Handoff is [Handoff] of t alone, for a stream from of the signalling side and a
// stream to of the waiting side: where to cannot wait for the last write of t, but
// from can, to waits for from by the semaphore. All work that from holds is then
// waited for, and an event of to stands for all work on t that from can wait for
// ([core.Buffer.Supersede]): work on t that is submitted to streams of that side later
// blocks nobody either. A semaphore carries no errors: that work on from failed is from's to tell.
func (l *Link) Handoff(ctx context.Context, t *core.Tensor, from, to core.Stream) (Mechanism, error) {
	if e := t.Ready(); e != nil && !isDone(e) {
		err := to.Wait(e)
		if err == nil {
			return StreamWait, nil
		}
		if errors.Is(err, core.ErrNotSupported) {
			err = l.pass(t, from, to, e)
		}
		if !errors.Is(err, core.ErrNotSupported) {
			return SemaphoreWait, err
		}
	}
	return Handoff(ctx, t, nil, to)
}

func isDone(e core.Event) bool {
	done, _ := e.Done()
	return done
}

// pass makes from wait for e, the last write of t, and for what else it can of the
// work on t, and to for from.
func (l *Link) pass(t *core.Tensor, from, to core.Stream, e core.Event) error {
	b, err := hold("Handoff", t)
	if err != nil {
		return err
	}
	defer b.Release()
	if err := from.Wait(e); err != nil {
		return err
	}
	before := []core.Event{e}
	for _, use := range b.Pending() {
		if streamWait(from, use, true) == nil { // what from cannot wait for is the next one's, as ever
			before = append(before, use)
		}
	}
	if err := l.signalAndWait(from, to); err != nil {
		return err
	}
	if after, err := to.Record(); err == nil {
		b.Supersede(before, after)
	}
	return nil
}

// signalAndWait makes to wait for all that from holds.
func (l *Link) signalAndWait(from, to core.Stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value++
	if err := l.signal.Signal(from, l.value); err != nil {
		return err
	}
	return l.wait.WaitOn(to, l.value)
}

// Close closes both semaphores, after the last work that uses them.
func (l *Link) Close() error { return errors.Join(l.wait.Close(), l.signal.Close()) }
