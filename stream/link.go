package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Link is a timeline semaphore that two devices share, which orders their streams
// where neither can wait for the other's events. It is safe for concurrent use, but
// values must come in order: until a stream has signalled, no other stream may be
// handed over from. The caller of [NewLink] closes it.
//
// A device that is lost signals nothing any more, nor does a signal that fails. Soon
// after, the link does so instead: the waiting side goes on, and tensors that a lost
// device never wrote, or that were made of such, tell so.
type Link struct {
	signal, wait core.Semaphore

	mu        sync.Mutex // held while work is enqueued, so that values come in order
	value     uint64     // the latest
	signalled core.Event // behind the latest signal; nil if none is looked after
	to        core.Device
}

// attention is how often a link looks whether its latest signal will never come.
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
// blocks nobody either. A semaphore carries no errors: to does not learn that the write,
// or other work that from holds, failed or lost its device, but t's event tells, and
// those of work on t do ([core.Tensor.WaitReady]).
//
// It fails as the package's [Handoff] does, and as Signal and WaitOn of the semaphores do.
func (l *Link) Handoff(ctx context.Context, t *core.Tensor, from, to core.Stream) (Mechanism, error) {
	if l.signal == nil || l.wait == nil || t == nil || from == nil || to == nil {
		return NoWait, core.Errorf(core.ErrInvalid, "stream", "Handoff", "a semaphore of the link, the tensor or a stream is nil")
	}
	if e := t.Ready(); e != nil && !isDone(e) {
		err := streamWait(to, e, false)
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
	if err := streamWait(from, e, false); err != nil {
		return err
	}
	before, parts := []core.Event{e}, []part{{Event: e}}
	for _, use := range b.Pending() {
		if streamWait(from, use, true) == nil { // what from cannot wait for is the next one's, as ever
			before = append(before, use)
			parts = append(parts, part{use, true})
		}
	}
	signalled, err := l.signalAndWait(from, to)
	if err != nil {
		return err
	}
	if after, err := to.Record(); err == nil {
		b.Supersede(before, tellingOf(after, append(parts, part{Event: signalled})...))
	}
	return nil
}

// signalAndWait makes to wait for all that from holds, and returns an event behind the signal.
func (l *Link) signalAndWait(from, to core.Stream) (signalled core.Event, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value++
	if err := l.signal.Signal(from, l.value); err != nil {
		return nil, err
	}
	if signalled, err = from.Record(); err != nil {
		return nil, err
	}
	if err := l.wait.WaitOn(to, l.value); err != nil {
		return nil, err
	}
	if l.signalled == nil {
		time.AfterFunc(attention, l.look)
	}
	l.signalled, l.to = signalled, to.Device()
	return signalled, nil
}

// look looks again later, unless the latest signal is over or will never be.
func (l *Link) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.signalled == nil { // Close was faster
		return
	}
	done, err := l.signalled.Done()
	switch {
	case !done:
		time.AfterFunc(attention, l.look)
		return
	case err != nil && l.isMissing(err):
		l.stepIn()
	}
	l.signalled = nil
}

// isMissing reports whether the latest value will never come, after a signal whose
// stream failed. A side that cannot read the semaphore, or whose device is lost, does not know.
func (l *Link) isMissing(failed error) bool {
	known := false
	for _, s := range []core.Semaphore{l.wait, l.signal} {
		if now, err := s.Value(); err == nil {
			if now >= l.value {
				return false
			}
			known = true
		}
	}
	return known || errors.Is(failed, core.ErrDeviceLost)
}

// stepIn has the waiting side signal, since nobody else will.
func (l *Link) stepIn() {
	s, err := l.to.NewStream(context.Background())
	if err != nil { // that device is lost too, and waits for nothing
		return
	}
	_ = l.wait.Signal(s, l.value)
	_ = s.Close()
}

// Close waits for the work that uses the semaphores, and closes both. It returns the
// errors of closing them. Closing twice is safe.
func (l *Link) Close() error {
	l.mu.Lock()
	signalled := l.signalled
	l.mu.Unlock()
	if signalled != nil {
		_ = signalled.Wait(context.Background()) // its error is its stream's to tell
		l.look()
	}
	var errs []error
	for _, s := range []core.Semaphore{l.wait, l.signal} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
