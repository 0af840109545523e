package stream

import (
	"context"
	"errors"
	"sync"
	"time"
	"weak"

	"github.com/dlx-go/dlx/core"
)

// Link is a timeline semaphore that two devices share, which orders their streams
// where neither can wait for the other's events. It is safe for concurrent use, but
// values must come in order: until a stream has signalled, no other stream may be
// handed over from. The caller of [NewLink] closes it.
//
// A device that is lost signals nothing any more. Soon after, the link does so for it:
// the waiting side goes on, and the tensors that were on their way tell the loss.
type Link struct {
	signal, wait core.Semaphore

	mu        sync.Mutex // held while work is enqueued, so that values come in order
	value     uint64     // the latest
	signalled core.Event // behind the latest signal; nil if none is looked after
	to        core.Device
	handed    []weak.Pointer[core.Buffer] // that may wait for a signal
	closed    bool
}

// attention is how often a link looks whether the device is lost that is to signal.
const attention = 100 * time.Millisecond

// NewLink makes a link of one semaphore as both sides know it: streams of the one
// signal the first, streams of the other wait on the second, which was imported.
// The link owns both.
func NewLink(signal, wait core.Semaphore) *Link { return &Link{signal: signal, wait: wait} }

// Handoff is [Handoff] of t alone, for a stream from of the signalling side and a
// stream to of the waiting side: where to cannot wait for the last write of t, but
// from can, to waits for from by the semaphore. All work that from holds is then
// waited for, and an event of to stands for all work on t that from can wait for
// ([core.Buffer.Supersede]): work on t that is submitted to streams of that side later
// blocks nobody either. A semaphore carries no errors: that work on from failed is from's to
// tell, and that its device was lost meanwhile, t's, as soon as the link knows.
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
	if err := l.signalAndWait(from, to, b.Origin()); err != nil {
		return err
	}
	if after, err := to.Record(); err == nil {
		b.Supersede(before, after)
	}
	return nil
}

// signalAndWait makes to wait for all that from holds, for the sake of b.
func (l *Link) signalAndWait(from, to core.Stream, b *core.Buffer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value++
	if err := l.signal.Signal(from, l.value); err != nil {
		return err
	}
	signalled, err := from.Record()
	if err != nil {
		return err
	}
	if err := l.wait.WaitOn(to, l.value); err != nil {
		return err
	}
	if l.signalled == nil {
		time.AfterFunc(attention, l.look)
	}
	l.signalled, l.to = signalled, to.Device()
	if p, n := weak.Make(b), len(l.handed); n == 0 || l.handed[n-1] != p {
		l.handed = append(l.handed, p)
	}
	return nil
}

// look looks again later, unless the latest signal is over or will never be.
func (l *Link) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	done, err := l.signalled.Done()
	switch {
	case !done:
		time.AfterFunc(attention, l.look)
		return
	case errors.Is(err, core.ErrDeviceLost) && !reached(l.wait, l.value) && !reached(l.signal, l.value):
		l.stepIn()
	}
	l.signalled, l.handed = nil, nil
}

// reached reports whether a semaphore is known to have a value.
func reached(s core.Semaphore, value uint64) bool {
	now, err := s.Value()
	return err == nil && now >= value
}

// stepIn has the waiting side signal, since nobody else will.
func (l *Link) stepIn() {
	for _, p := range l.handed {
		if b := p.Value(); b != nil && b.Retain() == nil {
			b.Wrote(l.signalled) // before somebody reads what was never written
			b.Release()
		}
	}
	s, err := l.to.NewStream(context.Background())
	if err != nil { // that device is lost too, and waits for nothing
		return
	}
	_ = l.wait.Signal(s, l.value)
	_ = s.Close()
}

// Close closes both semaphores, after the last work that uses them.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	return errors.Join(l.wait.Close(), l.signal.Close())
}
