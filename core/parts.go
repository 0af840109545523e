package core

import (
	"cmp"
	"context"
	"sync/atomic"
)

// Parts is for memory that several pieces of work write together, in the order of one stream,
// such as the copies of the parts of a tensor. From now on, b keeps the events of all writes.
// end makes an event of them the last write, which reports the errors of all. Without that, the
// last write would only report its own: who writes memory again overwrites what failed before.
// The caller calls end once, and others do not write b meanwhile.
func (privateCore) Parts(b *Buffer) (end func()) { return b.parts() }

// parts is Parts.
func (b *Buffer) parts() (end func()) {
	o := b.lockOrder()
	defer o.mu.Unlock()
	o.parts = &writtenParts{}
	return func() {
		o := b.lockOrder()
		defer o.mu.Unlock()
		if o.parts != nil && o.parts.earlier != nil {
			o.ready = o.parts
			o.note()
		}
		o.parts = nil
	}
}

// wrote makes e the last write. o.mu is held.
func (o *order) wrote(e Event) {
	if o.ready = e; e != nil && o.parts != nil {
		if o.parts.Event != nil {
			o.parts.earlier = append(o.parts.earlier, o.parts.Event)
		}
		o.parts.Event = e
	}
}

// writtenParts is the event of several writes, of which the last one is Event. On the device
// the earlier ones run before it.
type writtenParts struct {
	Event
	earlier []Event
	result  atomic.Pointer[error] // nil until all is known to be done
}

// Unwrap returns what a stream waits for: a writtenParts is an EventWrapper of package backendkit.
func (p *writtenParts) Unwrap() Event {
	if w, ok := p.Event.(interface{ Unwrap() Event }); ok {
		return w.Unwrap()
	}
	return p.Event
}

// Done returns the first error, in the order of the writes, when all work is done.
func (p *writtenParts) Done() (bool, error) {
	if r := p.result.Load(); r != nil {
		return true, *r
	}
	done, last := p.Event.Done()
	var failed error
	for i := 0; done && i < len(p.earlier); i++ {
		var err error
		done, err = p.earlier[i].Done()
		failed = cmp.Or(failed, err)
	}
	if !done {
		return false, nil
	}
	failed = cmp.Or(failed, last)
	p.result.CompareAndSwap(nil, &failed)
	return true, *p.result.Load()
}

// Wait waits for the last write, and for earlier ones that are not known to be done then.
func (p *writtenParts) Wait(ctx context.Context) error {
	for _, e := range append([]Event{p.Event}, p.earlier...) {
		if err := e.Wait(ctx); err != nil && !isDone(e) {
			return err
		}
	}
	_, err := p.Done()
	return err
}
