package core

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// Owner frees memory. An Owner should not refer to a tensor: a lost tensor that an Owner
// refers to stays reachable, so that the garbage collector does not close it.
type Owner interface {
	// Free frees the memory. It is called exactly once, from any goroutine, after all
	// work that uses the memory is done. It must not block for long. It must not close
	// the device of the memory, because Close of the device waits for Free.
	Free()
}

// orderedOwner is OrderedOwner of package backendkit.
type orderedOwner interface {
	Owner
	FreeAfter(pending []Event)
}

// FreeFunc is a function that is an [Owner].
type FreeFunc func()

// Free calls f.
func (f FreeFunc) Free() { f() }

// UnknownSize is the Size of memory whose size is not known. DLPack, for example, does not
// carry a size.
const UnknownSize = -1

// Memory is raw memory of a device. It does not count its users. Its holder must call Free
// once, or pass it to [Wrap], which takes over that duty.
type Memory struct {
	ID     DeviceID // where the memory lies; a device may have memory of several types
	Device Device   // the opened device that the memory belongs to; nil for memory from another library
	Handle uintptr  // the address, or the handle of an object if ID.Type.OpaqueHandle()
	Offset int64    // bytes from the address or the start of the object to the first byte
	Size   int64    // bytes from Offset on, or UnknownSize
	Owner  Owner    // frees the memory; nil if nothing must be freed

	// Host is the address of the first byte on the host, for memory that is not
	// ID.Type.HostAccessible(); 0 if the host has no access or the address is not
	// known. It is valid until the memory is freed. Its only use is to find tensors
	// that share bytes (see CheckCopy of package backendkit); to access the memory, use a [HostViewer].
	Host uintptr
	// Backing identifies the file that the memory was imported from; nil if it was not
	// imported or the file is not known. See [ExternalMemory.Backing].
	Backing *Backing
	// Origin is the type of the device whose driver allocated the memory, if that is not
	// ID.Type. HostView and MapHost set it: memory of a Vulkan device that the host views
	// has the origin DeviceVulkan. 0 means ID.Type. See [Memory.OriginType].
	Origin DeviceType
	// ReadOnly says that the host cannot write the memory, such as the pages of a file that
	// is mapped for reading. All tensors on the memory are read-only, and a [HostMapper] may
	// refuse it. Mark such memory, or make its first tensor with FlagReadOnly: a HostMapper
	// then finds out.
	ReadOnly bool
}

// OriginType returns the type of the device whose driver allocated the memory.
func (m Memory) OriginType() DeviceType {
	if m.Origin != 0 {
		return m.Origin
	}
	return m.ID.Type
}

// Free calls the owner, if there is one. Use it for memory that was not wrapped.
func (m Memory) Free() {
	if m.Owner != nil {
		m.Owner.Free()
	}
}

// Buffer is memory that tensors share, with a count of references. The memory is freed
// when the last reference is released and all work on it is done. The result of
// [Tensor.Buffer] is borrowed: use it only while the tensor is open, or between Retain and
// Release. A Buffer is safe for concurrent use.
type Buffer struct {
	mem   Memory
	reads bool                  // the tensor that the buffer was made for is read-only
	more  atomic.Int32          // references beyond the first; near the value released when there are none
	order atomic.Pointer[order] // nil until there is work on the memory
}

// released is so far below 0 that concurrent failing calls of Retain, which add 1 for a
// moment, never reach 0.
const released = math.MinInt32 / 2

// order is the work on a buffer.
type order struct {
	busy  atomic.Bool // whether there is anything in ready or uses; changed with mu held
	mu    sync.Mutex
	ready Event         // the last write; nil if it is done and did not fail
	uses  []Event       // other work that may be unfinished
	parts *writtenParts // the writes since Parts; nil if it was not called, or has ended

	origin   *Buffer       // if not nil, it holds the order, and ready and uses here are not used
	at       int64         // bytes from the first byte of origin to the first byte of the buffer
	attached []*attachment // see Attach
	exported atomic.Pointer[Backing]
}

// attachment is something that a buffer frees before its memory.
type attachment struct {
	owner Owner // nil when it was taken back
}

// Memory returns a description of the buffer's memory. The buffer still owns the memory;
// Owner is nil in the result.
func (b *Buffer) Memory() Memory {
	if b == nil {
		return Memory{}
	}
	m := &b.mem
	return Memory{ID: m.ID, Device: m.Device, Handle: m.Handle, Offset: m.Offset, Size: m.Size, Host: m.Host, Backing: m.Backing, Origin: m.Origin, ReadOnly: m.ReadOnly}
}

// ReadOnly reports whether the tensor that the buffer was made for is read-only. The host may then be unable to
// write the memory. Other buffers have memory that the host can write.
func (b *Buffer) ReadOnly() bool { return b != nil && b.reads }

// Retain adds a reference. The caller releases it by one call of Release. Retain returns
// ErrClosed if the last reference was released. The garbage collector does not release
// references: without the call of Release the memory is never freed.
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

// Release releases a reference added by Retain. When the last reference is released, the
// memory is freed after all events that are still pending. Release does not wait for them.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	// The only reference is released in one step: a locked instruction takes as long as some twenty others.
	last := b.more.Load() == 0 && b.more.CompareAndSwap(0, released)
	// A Retain between the two operations makes the second one fail: this reference was then not the last.
	if last || b.more.Add(-1) < 0 && b.more.CompareAndSwap(-1, released) {
		b.free()
	}
}

func (b *Buffer) free() {
	owner := b.mem.Owner
	b.mem.Owner = nil // the memory of b itself is collected later: do not keep the owner alive until then
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
		shardHere().freed.Add(1)
	} else if ordered, ok := owner.(orderedOwner); ok {
		ordered.FreeAfter(pending)
		shardHere().freed.Add(1)
	} else {
		go freeLater(owner, pending)
	}
}

// freeLater frees when all work is over. It ignores errors of the work: the stream reports
// them.
func freeLater(owner Owner, pending []Event) {
	for _, e := range pending {
		_ = e.Wait(context.Background())
	}
	if owner != nil {
		owner.Free()
	}
	shardHere().freed.Add(1)
}

// Ready returns the event of the last write, or nil if that write is done and did not
// fail. Readers of the memory wait for the event. The event of a failed write is returned
// until the memory is written again, so that every reader gets the error.
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

// Pending returns the events of all unfinished work on the memory, including the last
// write. If the last write failed, its event is included too.
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

// Wrote records a write to the memory that is done when e is done. A nil e records a write
// that is already done. Earlier events stay pending, since the writer may not have waited
// for them.
func (b *Buffer) Wrote(e Event) {
	if b == nil {
		return
	}
	o := b.lockOrder()
	defer o.mu.Unlock()
	if o.ready != nil {
		o.uses = append(o.uses, o.ready)
	}
	o.wrote(e)
	o.note()
}

// Used records a read of the memory that is done when e is done. It does nothing if e is
// nil.
func (b *Buffer) Used(e Event) {
	if b == nil || e == nil {
		return
	}
	o := b.lockOrder()
	defer o.mu.Unlock()
	o.uses = append(o.uses, e)
	o.note()
}

// OrderWith declares that b is the memory of origin under another API or address. From
// then on, both buffers have the same events: work recorded on one is recorded on the
// other. The first byte of b is the byte at offset in origin, from which CheckCopy
// computes which bytes they share. The code that made b's memory calls OrderWith before b
// is used or shared. The owner of b must hold a reference to origin until it is freed.
func (b *Buffer) OrderWith(origin *Buffer, offset int64) {
	if b == nil || origin == nil {
		return
	}
	b.order.Store(&order{origin: origin.Origin(), at: origin.originOffset() + offset})
}

// Origin returns the buffer that b shares its events with, as set by [Buffer.OrderWith], or
// b itself. It is open as long as b is.
func (b *Buffer) Origin() *Buffer {
	if b == nil {
		return nil
	}
	if o := b.order.Load(); o != nil && o.origin != nil {
		return o.origin
	}
	return b
}

// originOffset returns the number of bytes from the first byte of [Buffer.Origin] to the
// first byte of b. It is 0 if b is its own origin.
func (b *Buffer) originOffset() int64 {
	if b == nil {
		return 0
	}
	if o := b.order.Load(); o != nil {
		return o.at
	}
	return 0
}

// Exported records that x was exported from b, so that CheckCopy recognizes memory that
// this process imports from x. Implementations of [MemoryExporter] call it. The caller
// keeps the handle of x.
func (b *Buffer) Exported(x ExternalMemory) {
	// A new file replaces an earlier one: the system uses another file for the same
	// memory only when the earlier one is closed.
	if k := x.Backing(); b != nil && k != nil {
		b.ownOrder().exported.Store(k)
		b.noteBacked()
	}
}

// backing returns the identity of the file that holds the memory, nil if it is not known.
func (b *Buffer) backing() *Backing {
	if b.mem.Backing != nil {
		return b.mem.Backing
	}
	if o := b.order.Load(); o != nil {
		return o.exported.Load()
	}
	return nil
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
	if ordered, ok := owner.(orderedOwner); ok {
		return orderedAttached{all, ordered}
	}
	return all
}

// ownOrder returns the order of b itself. It makes the order if there is none.
func (b *Buffer) ownOrder() *order {
	o := b.order.Load()
	if o == nil {
		b.order.CompareAndSwap(nil, new(order))
		o = b.order.Load()
	}
	return o
}

// kept returns the order that holds the events of the memory: that of the origin, or that
// of b. It returns nil if there was no work on the memory.
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

// busy reports whether work on the memory is recorded. That work may be done by now.
func (b *Buffer) busy() bool {
	o := b.kept()
	return o != nil && o.busy.Load()
}

// lockOrder returns the order of the memory, locked and without the events that are done.
func (b *Buffer) lockOrder() *order {
	o := b.Origin().ownOrder()
	o.mu.Lock()
	o.prune()
	return o
}

// prune removes the events that are done, except a last write that failed. o.mu is held.
func (o *order) prune() {
	o.uses = slices.DeleteFunc(o.uses, isDone)
	if o.ready != nil {
		if done, err := o.ready.Done(); done && err == nil {
			o.ready = nil
		}
	}
	o.note()
}

// note updates busy after a change of ready or uses. o.mu is held.
func (o *order) note() { o.busy.Store(o.ready != nil || len(o.uses) > 0) }

func isDone(e Event) bool {
	done, _ := e.Done()
	return done
}
