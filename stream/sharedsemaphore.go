package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// SharedSemaphore orders the streams of two devices that cannot wait for each other's
// events. It uses a timeline semaphore that both devices have open. It is safe for
// concurrent use, with one condition: while a stream that was passed to Handoff as from has
// not signaled, no other stream may be passed as from. The caller of [NewSharedSemaphore]
// closes it.
//
// If a signal fails, or the device that signals is lost, the SharedSemaphore soon signals
// the missing value itself, on a stream of the device that waits, so that the work of this
// device continues. The events of the tensors that the lost device should have written
// report the error, and so do the events of work that reads these tensors.
type SharedSemaphore struct {
	signal, wait core.Semaphore

	mu        sync.Mutex // held while work is enqueued, so that values come in order
	value     uint64     // the latest
	signalled core.Event // behind the latest signal; nil if that is known to have come
	waited    core.Event // behind the latest wait, for a binary semaphore
	unpaired  bool       // a binary semaphore was signalled, and nobody waits for it
	waits     core.Device
	instead   chan struct{} // closed when signalInstead, which runs without mu, has ended; nil if it does not run
}

// checkInterval is how often a SharedSemaphore checks whether its latest signal failed.
const checkInterval = 100 * time.Millisecond

// NewSharedSemaphore returns a SharedSemaphore for one semaphore that two devices have
// open. signal is the semaphore on the device whose streams signal. wait is the same
// semaphore on the device whose streams wait, which imported it. The SharedSemaphore owns
// both, and closes them.
func NewSharedSemaphore(signal, wait core.Semaphore) *SharedSemaphore {
	return &SharedSemaphore{signal: signal, wait: wait}
}

// Handoff makes the stream to wait until t may be read there, as the function [Handoff]
// does. from is a stream of the device that signals, and to is a stream of the device that
// waits. The semaphore is used only if to cannot wait for the last write of t and from can:
// from then waits for that write and signals, and to waits for the signal. to thereby also
// waits for all other work that was enqueued on from.
//
// Handoff also records an event of to on t, which stands for all work on t that from can
// wait for. Streams of the device that waits can wait for this event, so that later calls
// for t do not block.
//
// A semaphore does not carry errors. If the write or other work on from fails, or its
// device is lost, the work on to does not fail. The event that is recorded on t reports the
// error, and so do the events of later work on t; see [core.Tensor.WaitReady].
//
// With binary semaphores ([core.BinarySemaphore]) the caller waits, as with the function [Handoff],
// unless Reusable returns true and the signal can be submitted at once.
//
// While the SharedSemaphore signals a missing value itself, Handoff waits for that, or until
// ctx ends.
//
// Handoff fails as the function [Handoff] does, or with the errors of Signal and WaitOn of
// the semaphores.
func (s *SharedSemaphore) Handoff(ctx context.Context, t *core.Tensor, from, to core.Stream) (Wait, error) {
	if s.signal == nil || s.wait == nil || t == nil || from == nil || to == nil {
		return NoWait, core.Errorf(core.ErrInvalid, "stream", "Handoff", "a semaphore, the tensor or a stream is nil")
	}
	if e := t.Ready(); e != nil && !isDone(e) {
		err := streamWait(to, e, false)
		if err == nil {
			return StreamWait, nil
		}
		if errors.Is(err, core.ErrNotSupported) {
			err = s.handoff(ctx, t, from, to, e)
		}
		if !errors.Is(err, core.ErrNotSupported) {
			return SemaphoreWait, err
		}
	}
	return Handoff(ctx, t, nil, to)
}

// Reusable reports whether the next Handoff can use the semaphore at once. It is false while
// the SharedSemaphore signals a missing value itself, and for a binary semaphore whose latest
// wait is unfinished, or whose signal nobody waits for since a call failed.
func (s *SharedSemaphore) Reusable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instead == nil && s.isReusable()
}

func (s *SharedSemaphore) isReusable() bool {
	return !s.unpaired && (s.waited == nil || isDone(s.waited))
}

func isDone(e core.Event) bool {
	done, _ := e.Done()
	return done
}

// handoff makes from wait for write, the last write of t, and for the uses of t that it
// can wait for, and to for from.
func (s *SharedSemaphore) handoff(ctx context.Context, t *core.Tensor, from, to core.Stream, write core.Event) error {
	b, err := hold("Handoff", t)
	if err != nil {
		return err
	}
	defer b.Release()
	if err := streamWait(from, write, false); err != nil {
		return err
	}
	superseded, earlier := []core.Event{write}, []earlierEvent{{Event: write}}
	for _, use := range b.Pending() {
		if streamWait(from, use, true) == nil { // the next writer waits for the others, as without a handoff
			superseded = append(superseded, use)
			earlier = append(earlier, earlierEvent{use, true})
		}
	}
	signalled, err := s.signalAndWait(ctx, from, to)
	if err != nil {
		return err
	}
	if after, err := to.Record(); err == nil {
		privateCore.Supersede(b, superseded, chain(after, append(earlier, earlierEvent{Event: signalled})...))
	}
	return nil
}

// signalAndWait makes to wait for all that from holds, and returns an event behind the signal.
func (s *SharedSemaphore) signalAndWait(ctx context.Context, from, to core.Stream) (signalled core.Event, err error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if !s.isReusable() {
		return nil, core.Errorf(core.ErrNotSupported, "stream", "Handoff", "the binary semaphore is in use")
	}
	s.value++
	if err := s.signal.Signal(from, s.value); err != nil {
		return nil, err
	}
	_, binary := s.wait.(core.BinarySemaphore)
	s.unpaired = binary
	if signalled, err = from.Record(); err != nil {
		return nil, err
	}
	if err := s.wait.WaitOn(to, s.value); err != nil {
		return nil, err
	}
	if binary {
		if s.waited, err = to.Record(); err != nil {
			return nil, err
		}
		s.unpaired = false
	}
	if s.signalled == nil {
		time.AfterFunc(checkInterval, s.checkSignal)
	}
	s.signalled, s.waits = signalled, to.Device()
	return signalled, nil
}

// lock locks mu when signalInstead does not run. It returns ctx's error, and has not locked mu, if ctx ends first.
func (s *SharedSemaphore) lock(ctx context.Context) error {
	for {
		s.mu.Lock()
		ended := s.instead
		if ended == nil {
			return nil
		}
		s.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// checkSignal signals in place of a stream that failed to. It is called again later
// while the latest signal is unfinished.
func (s *SharedSemaphore) checkSignal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signalled == nil { // another call has checked already
		return
	}
	done, err := s.signalled.Done()
	if !done {
		time.AfterFunc(checkInterval, s.checkSignal)
		return
	}
	s.signalled = nil
	if err == nil || !s.isMissing(err) {
		return
	}
	value, waits := s.value, s.waits
	_, s.unpaired = s.wait.(core.BinarySemaphore) // a signal may still come
	// The device may take until all its earlier work is done. Until then lock keeps others from the semaphores.
	ended := make(chan struct{})
	s.instead = ended
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.instead = nil
		close(ended)
	}()
	s.signalInstead(value, waits)
}

// isMissing reports whether the latest value will never come, after the stream that
// signals has failed. A device that is lost, or that cannot read its semaphore, does not know.
func (s *SharedSemaphore) isMissing(failed error) bool {
	if s.waited != nil && isDone(s.waited) {
		return false
	}
	known := false
	for _, semaphore := range []core.Semaphore{s.wait, s.signal} {
		if now, err := semaphore.Value(); err == nil {
			if now >= s.value {
				return false
			}
			known = true
		}
	}
	return known || errors.Is(failed, core.ErrDeviceLost)
}

// signalInstead signals value, the latest, on a stream of the device waits, which waits for it, or releases it from a
// binary semaphore. mu is not held.
func (s *SharedSemaphore) signalInstead(value uint64, waits core.Device) {
	if b, ok := s.wait.(core.BinarySemaphore); ok {
		_ = b.Release(context.Background(), value)
		return
	}
	own, err := waits.NewStream(context.Background())
	if err != nil { // that device is lost, too, and waits for nothing
		return
	}
	_ = s.wait.Signal(own, value)
	_ = own.Close()
}

// Close waits for the work that uses the semaphores, and closes both semaphores. It returns
// the errors of closing them. Closing twice is safe.
func (s *SharedSemaphore) Close() error {
	s.mu.Lock()
	signalled := s.signalled
	s.mu.Unlock()
	if signalled != nil {
		_ = signalled.Wait(context.Background()) // the event of the work reports its error
		s.checkSignal()
	}
	_ = s.lock(context.Background()) // the timer may have found that the signal failed
	s.mu.Unlock()
	var errs []error
	for _, semaphore := range []core.Semaphore{s.wait, s.signal} {
		if semaphore != nil {
			errs = append(errs, semaphore.Close())
		}
	}
	return errors.Join(errs...)
}
