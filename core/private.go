package core

import (
	"reflect"
	"slices"

	"github.com/dlx-go/dlx/internal/private"
)

// privateCore has what other packages of this module do with tensors and buffers, and nobody
// else should have to: see [private.Core].
type privateCore struct{}

func init() { private.Core = privateCore{} }

// Place returns the data pointer and the byte offset by which DLPack describes a tensor on b's memory whose first element
// is offset bytes after the handle. The pointer is the address of that element if memory of the type is known to have
// addresses, since many consumers do not add the offset; and also if offset is negative, which byte_offset cannot be.
func (privateCore) Place(b *Buffer, offset int64) (data uintptr, byteOffset int64) {
	if b.mem.ID.Type.addressed() || offset < 0 {
		return b.mem.Handle + uintptr(offset), 0
	}
	return b.mem.Handle, offset
}

// Addressed reports whether memory of a type of devices is known to have an address.
func (privateCore) Addressed(t DeviceType) bool { return t.addressed() }

// Unique reports whether b has one reference only. That stays so as long as its holder
// does not share it.
func (privateCore) Unique(b *Buffer) bool { return b != nil && b.more.Load() == 0 }

// ReleaseUnlessLast is [Buffer.Release], except that it keeps the last reference and
// reports false: for callers who hold a lock, and so must not call the owner.
func (privateCore) ReleaseUnlessLast(b *Buffer) bool {
	for b != nil {
		n := b.more.Load()
		if n <= 0 {
			return false
		}
		if b.more.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// Supersede replaces events of b's memory by later, which is done only when they are: a
// device that can wait for later, and not for the events, waits for all of them by it.
// later also reports the errors of the events. Supersede does nothing if later is nil.
func (privateCore) Supersede(b *Buffer, events []Event, later Event) {
	if b == nil || later == nil {
		return
	}
	o := b.lockOrder()
	defer o.mu.Unlock()
	superseded := func(e Event) bool {
		return reflect.TypeOf(e).Comparable() && slices.ContainsFunc(events, func(x Event) bool { return x == e })
	}
	found := len(o.uses)
	o.uses = slices.DeleteFunc(o.uses, superseded)
	switch {
	case o.ready != nil && superseded(o.ready):
		o.ready = later
	case len(o.uses) < found:
		o.uses = append(o.uses, later)
	}
}

// Describe makes t a description of what [Wrap] would make a tensor of, and fails like Wrap.
// Without a share, every function that needs the memory finds t closed.
func (privateCore) Describe(call string, t *Tensor, m *Memory, s *Spec) error {
	t.share = nil
	return t.init(call, m, s)
}

// NoteIfIdle is [Buffer.Wrote] or [Buffer.Used], and reports true, unless b's memory has
// other work than e that is unfinished, or whose last write failed. It then does nothing.
func (privateCore) NoteIfIdle(b *Buffer, e Event, write bool) bool {
	o := b.lockOrder()
	defer o.mu.Unlock()
	if o.ready != nil && o.ready != e || slices.ContainsFunc(o.uses, func(x Event) bool { return x != e }) {
		return false
	}
	switch {
	case write:
		o.wrote(e)
	case len(o.uses) == 0: // else e is there already
		o.uses = append(o.uses, e)
	}
	o.note()
	return true
}

// Attach makes b free o before its memory, after all work on that: o owns what was made
// of the memory and is worth keeping as long as the memory lives. The caller holds a
// reference to b; o must hold none. detach gives o back to the caller and reports true, or
// reports false if b frees it.
func (privateCore) Attach(b *Buffer, o Owner) (detach func() bool) {
	if b == nil || o == nil {
		return func() bool { return false }
	}
	a := &attachment{owner: o}
	own := b.ownOrder()
	own.mu.Lock()
	defer own.mu.Unlock()
	own.attached = append(own.attached, a)
	return func() bool {
		own.mu.Lock()
		defer own.mu.Unlock()
		own.attached = slices.DeleteFunc(own.attached, func(x *attachment) bool { return x == a })
		had := a.owner != nil
		a.owner = nil
		return had
	}
}

// OriginOffset returns where in [Buffer.Origin] the first byte of b lies: 0 where b is
// its own origin.
func (privateCore) OriginOffset(b *Buffer) int64 { return b.originOffset() }

// LastWrite returns the event of the last write, as [Buffer.Ready] does, but without asking
// whether it is done. It returns nil if there was no write, or if that is known to be done.
func (privateCore) LastWrite(b *Buffer) Event {
	o := b.kept()
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ready
}
