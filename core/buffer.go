package core

import (
	"context"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
)

// Owner is whoever must be told that memory is no longer used. One that refers to
// a tensor may keep that and its neighbours from the net that closes lost tensors.
type Owner interface {
	// Free gives the memory back. It is called exactly once, from any goroutine,
	// after everything that used the memory is done. It must not block for long, and not
	// close the device of the memory, whose Close waits for it.
	Free()
}

// OrderedOwner is an Owner that orders the release itself, as a stream-ordered
// pool can.
type OrderedOwner interface {
	Owner
	// FreeAfter is called instead of Free, when some work may still be unfinished:
	// the memory may be used again only after all of pending. It must not block.
	FreeAfter(pending []Event)
}

// FreeFunc makes an Owner of a function.
type FreeFunc func()

// Free calls f.
func (f FreeFunc) Free() { f() }

// UnknownSize is the Size of memory that came without one, as in DLPack.
const UnknownSize = -1

// Memory is raw memory of a device, without a count of its users. Whoever holds
// it must see to it that Owner.Free is called once; [Wrap] takes that duty over.
type Memory struct {
	ID     DeviceID // where it lies; a device may have memory of several types
	Device Device   // the opened device that it belongs to; nil for memory of strangers
	Handle uintptr  // address, or the object's handle where ID.Type.OpaqueHandle()
	Offset int64    // bytes from Handle to the first byte, beside the handle
	Size   int64    // bytes from Offset on, or UnknownSize
	Owner  Owner    // nil if nobody needs to be told

	// Host is where the host sees the first byte of memory that is not
	// ID.Type.HostAccessible(); 0 if it does not, or nobody knows. It stays so as long
	// as the memory lives. The host must not use it without a [HostViewer]: it serves
	// to find out which tensors share bytes, see [CheckCopy].
	Host uintptr
	// Backing is what the memory was imported from, nil if it was not, or if that
	// cannot be told: see [ExternalMemory.Backing].
	Backing *Backing
}

// Free calls the owner, for memory that was never wrapped.
func (m Memory) Free() {
	if m.Owner != nil {
		m.Owner.Free()
	}
}

// Buffer is memory that tensors share. It is freed when the last of them is
// closed and all work on it is done. A Buffer that a tensor returns is borrowed:
// use it while the tensor is open, or between Retain and Release.
// It is safe for concurrent use.
type Buffer struct {
	mem   Memory
	more  atomic.Int32          // references beyond the first; about released when that is gone, too
	order atomic.Pointer[order] // nil until there was work on the memory
}

// released is so far below 0 that no number of failed Retains reaches 0 again.
const released = math.MinInt32 / 2

// order is the work on a buffer.
type order struct {
	busy  atomic.Bool // whether there is anything in ready or uses; changed with mu held
	mu    sync.Mutex
	ready Event   // the last write, unless it is done and went well
	uses  []Event // other work that may be unfinished

	origin   *Buffer       // if not nil, the order is kept there, and ready and uses are not used
	at       int64         // bytes from the first of origin to the buffer's first
	attached []*attachment // see Attach
	exported atomic.Pointer[Backing]
}

// attachment is something that a buffer frees before its memory.
type attachment struct {
	owner Owner // nil when it was taken back
}

// Memory returns what the buffer stands on. It stays the buffer's: Owner is nil.
func (b *Buffer) Memory() Memory {
	if b == nil {
		return Memory{}
	}
	m := &b.mem
	return Memory{ID: m.ID, Device: m.Device, Handle: m.Handle, Offset: m.Offset, Size: m.Size, Host: m.Host, Backing: m.Backing}
}

// Retain adds a reference, to be given back by one call of Release. It fails with
// ErrClosed if the last reference is gone. No net catches a reference that is lost:
// the memory leaks.
func (b *Buffer) Retain() error {
	if b == nil {
		return errReleased
	}
	if b.more.Add(1) < 0 {
		b.more.Add(-1)
		return errReleased
	}
	return nil
}

// errReleased is made once, so that Retain is small enough to be inlined.
var errReleased = Errorf(ErrClosed, "core", "Retain", "the memory was released")

// Release gives back a reference taken by Retain. With the last one the memory
// is freed, after all events that are still pending.
func (b *Buffer) Release() {
	// A Retain may come between: then the reference was not the last.
	if b != nil && b.more.Add(-1) < 0 && b.more.CompareAndSwap(-1, released) {
		b.free()
	}
}

// Unique reports whether there is one reference only. That stays so as long as
// whoever holds it does not share it.
func (b *Buffer) Unique() bool { return b != nil && b.more.Load() == 0 }

// ReleaseUnlessLast is Release, except that it keeps the last reference and
// reports false: for callers who cannot bear that Release calls the owner.
func (b *Buffer) ReleaseUnlessLast() bool {
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

func (b *Buffer) free() {
	owner := b.mem.Owner
	b.mem.Owner = nil // the slot that holds b may outlive it: keep nothing alive through it
	var pending []Event
	if b.backing() != nil {
		b.forgetBacked()
	}
	if o := b.order.Load(); o != nil {
		pending = slices.DeleteFunc(b.Pending(), isDone) // also a write that failed is over
		owner = o.withAttached(owner)
		b.order.Store(nil)
	}
	if len(pending) == 0 {
		if owner != nil {
			owner.Free()
		}
		freedBuffers.Add(1)
	} else if ordered, ok := owner.(OrderedOwner); ok {
		ordered.FreeAfter(pending)
		freedBuffers.Add(1)
	} else {
		go freeLater(owner, pending)
	}
}

// freeLater frees when all work is over. That some of it failed is its stream's to report.
func freeLater(owner Owner, pending []Event) {
	for _, e := range pending {
		_ = e.Wait(context.Background())
	}
	if owner != nil {
		owner.Free()
	}
	freedBuffers.Add(1)
}

// Ready is the event of the last write, nil if that is done. Whoever reads the
// memory waits for it. A write that failed stays, so that its error is not lost.
func (b *Buffer) Ready() Event {
	o := b.kept()
	if o == nil || !o.busy.Load() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prune()
	return o.ready
}

// Pending lists all unfinished work on the memory, the last write included.
// Whoever overwrites the memory waits for all of it.
func (b *Buffer) Pending() []Event {
	o := b.kept()
	if o == nil || !o.busy.Load() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prune()
	pending := slices.Clone(o.uses)
	if o.ready != nil {
		pending = append(pending, o.ready)
	}
	return pending
}

// Wrote records that work which ends with e writes to the memory; nil stands for
// work that is done. What was pending stays so: a writer that did not wait for it
// must not hide it.
func (b *Buffer) Wrote(e Event) {
	if b == nil {
		return
	}
	o := b.lockOrder()
	defer o.mu.Unlock()
	if o.ready != nil {
		o.uses = append(o.uses, o.ready)
	}
	o.ready = e
	o.note()
}

// Used records that work which ends with e reads the memory.
func (b *Buffer) Used(e Event) {
	if b == nil || e == nil {
		return
	}
	o := b.lockOrder()
	defer o.mu.Unlock()
	o.uses = append(o.uses, e)
	o.note()
}

// Supersede has later stand for events of the memory that are over when it is: so
// that who knows the one, and not the others, can wait on a device. later is
// not nil. If work behind the others fails, later must tell, or whoever waits for it does not learn.
func (b *Buffer) Supersede(events []Event, later Event) {
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

// OrderWith makes b keep one order with origin, whose memory it is under another
// API or address: work on one is work on the other. The first byte of b is the one
// at offset in origin; by that [CheckCopy] knows which bytes they share. It is
// called before b is used or shared, by whoever made b's memory; b's owner must hold
// a reference to origin, until it is freed.
func (b *Buffer) OrderWith(origin *Buffer, offset int64) {
	if b == nil || origin == nil {
		return
	}
	b.order.Store(&order{origin: origin.Origin(), at: origin.OriginOffset() + offset})
}

// Origin is the buffer that b keeps one order with: the first owner of the
// memory, or b itself. It is open as long as b is.
func (b *Buffer) Origin() *Buffer {
	if b == nil {
		return nil
	}
	if o := b.order.Load(); o != nil && o.origin != nil {
		return o.origin
	}
	return b
}

// OriginOffset is where in [Buffer.Origin] the first byte of b lies: 0 where b is
// its own origin.
func (b *Buffer) OriginOffset() int64 {
	if b == nil {
		return 0
	}
	if o := b.order.Load(); o != nil {
		return o.at
	}
	return 0
}

// Exported records that x stands for the memory: so that [CheckCopy] knows what is
// imported from it in this process. Implementations of [MemoryExporter] call it; the
// handle of x stays the caller's.
func (b *Buffer) Exported(x ExternalMemory) {
	// A later file takes the place of an earlier one: a system that gives the same
	// memory another file does so when nobody has the earlier one open any more.
	if k := x.Backing(); b != nil && k != nil {
		b.ownOrder().exported.Store(k)
		b.noteBacked()
	}
}

// backing is the file that stands for the memory, nil if none is known.
func (b *Buffer) backing() *Backing {
	if b.mem.Backing != nil {
		return b.mem.Backing
	}
	if o := b.order.Load(); o != nil {
		return o.exported.Load()
	}
	return nil
}

// Attach has b free o before its memory, after all work on that: for what was
// made of the memory and is worth keeping as long as that lives. The caller holds
// a reference to b; o must hold none. detach takes o back and reports true, or
// reports false if b frees it.
func (b *Buffer) Attach(o Owner) (detach func() bool) {
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

// withAttached takes the attachments and returns an owner that frees them first, then owner.
func (o *order) withAttached(owner Owner) Owner {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.attached) == 0 {
		return owner
	}
	first := make([]Owner, 0, len(o.attached))
	for _, a := range o.attached {
		first = append(first, a.owner)
		a.owner = nil
	}
	o.attached = nil
	all := attachedOwner{first, owner}
	if ordered, ok := owner.(OrderedOwner); ok {
		return orderedAttached{all, ordered}
	}
	return all
}

// ownOrder returns the order that b itself has, which it makes.
func (b *Buffer) ownOrder() *order {
	o := b.order.Load()
	if o == nil {
		b.order.CompareAndSwap(nil, new(order))
		o = b.order.Load()
	}
	return o
}

// kept returns the order of the memory, nil if there was no work on it.
func (b *Buffer) kept() *order {
	if b == nil {
		return nil
	}
	o := b.order.Load()
	if o != nil && o.origin != nil {
		return o.origin.order.Load()
	}
	return o
}

// busy reports whether work on the memory is noted, which may be done by now.
func (b *Buffer) busy() bool {
	o := b.kept()
	return o != nil && o.busy.Load()
}

// lockOrder returns the order of the memory, pruned and locked.
func (b *Buffer) lockOrder() *order {
	o := b.Origin().ownOrder()
	o.mu.Lock()
	o.prune()
	return o
}

// prune forgets what is done. o.mu is held.
func (o *order) prune() {
	o.uses = slices.DeleteFunc(o.uses, isDone)
	if o.ready != nil {
		if done, err := o.ready.Done(); done && err == nil {
			o.ready = nil
		}
	}
	o.note()
}

// note keeps busy true to ready and uses. o.mu is held.
func (o *order) note() { o.busy.Store(o.ready != nil || len(o.uses) > 0) }

func isDone(e Event) bool {
	done, _ := e.Done()
	return done
}
