package opened

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveOpened = live.NewCounter("exchange.Opened")

// Cache holds what is open. It is safe for concurrent use. While its mutex is held
// it calls no device, stream, event or owner.
type Cache struct {
	mu      sync.Mutex
	entries map[Key]*Entry
	imports map[importKey]*importedMemory
	devices map[core.Device]*device // those in use that report when they close
	// blocked counts, for each device, what has to end before it may close: memory that
	// is being freed, and owners that BlockClose returned.
	blocked   map[core.Device]int
	unblocked sync.Cond // a count of blocked went down
}

// New returns an empty cache.
func New() *Cache {
	c := &Cache{
		entries: make(map[Key]*Entry),
		imports: make(map[importKey]*importedMemory),
		devices: make(map[core.Device]*device),
		blocked: make(map[core.Device]int),
	}
	c.unblocked.L = &c.mu
	return c
}

// Key names memory that is open on a device.
type Key struct {
	Root   *core.Buffer // what it was made of
	Device core.Device  // nil for memory that the host views
	Size   int64        // differs between tensors only where Root has no known size
}

// place is where the memory is open.
func (k Key) place() core.DeviceID {
	if k.Device == nil {
		return core.CPU
	}
	return k.Device.ID()
}

// Entry is memory of a device that was made of other memory.
type Entry struct {
	cache *Cache
	key   Key
	ready chan struct{} // closed when the opening has ended
	freed chan struct{} // closed when the memory was freed

	// Final once ready is closed:
	err    error
	memory core.Memory
	kept   bool        // the root keeps the entry, else the last user closes it
	detach func() bool // from the root; of kept entries
	how    any

	// Guarded by the cache's mutex:
	open    bool         // ready is closed, and err nil
	users   int          // tensors, entries made of this one, and the root
	pending []core.Event // work of tensors that were closed
}

var _ core.Owner = (*Entry)(nil)

// Find returns an entry that is open, with one more user, or nil. The caller gives
// the use back by [Entry.Release], or passes it on to [Entry.Tensor].
func (c *Cache) Find(k Key) *Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil || !e.open {
		return nil
	}
	e.users++
	return e
}

// Acquire returns the entry of k with one more user, and whether this call has opened
// it. Of several callers one calls open and the others wait for it; if open fails,
// they fail with the same error, and if it panics, with core.ErrInvalid. The owner of the memory that open returns keeps
// alive what the memory was made of, except k.Root. The caller holds a reference to
// k.Root. The entry keeps how for callers that find it open.
func (c *Cache) Acquire(ctx context.Context, k Key, how any, open func(context.Context) (core.Memory, error)) (*Entry, bool, error) {
	for {
		c.mu.Lock()
		e := c.entries[k]
		switch {
		case e == nil:
			e = &Entry{cache: c, key: k, how: how, ready: make(chan struct{}), freed: make(chan struct{}), users: 1}
			c.entries[k] = e
			c.mu.Unlock()
			err := c.fill(ctx, e, open)
			return e, err == nil, err
		case e.open:
			e.users++
			c.mu.Unlock()
			return e, false, nil
		}
		c.mu.Unlock()
		if err := await(ctx, e.ready); err != nil {
			return nil, false, err
		}
		if failedForAll(e.err) {
			return nil, false, e.err
		}
	}
}

// await waits for a channel to be closed, at most until ctx ends.
func await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failedForAll reports whether err, which another caller got from opening, is an error
// for the callers that waited as well. The end of the other caller's ctx is not.
func failedForAll(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// errPanicked is the error of callers that wait for another one to open memory, if that panics.
var errPanicked = core.Errorf(core.ErrInvalid, "exchange", "Open", "another call panicked while it opened the memory")

// fill opens the memory of a fresh entry.
func (c *Cache) fill(ctx context.Context, e *Entry, open func(context.Context) (core.Memory, error)) error {
	e.err = errPanicked // unless open returns
	defer c.filled(e)
	e.kept = e.key.Device == nil || c.watch(e.key.Device)
	e.memory, e.err = open(ctx)
	if e.err == nil {
		liveOpened.Add(1)
		privateCore.Opened(e.key.place())
		if e.kept {
			e.detach = privateCore.Attach(e.key.Root, e)
		}
	}
	return e.err
}

// filled makes an entry known as open, or forgets it if that failed.
func (c *Cache) filled(e *Entry) {
	defer close(e.ready)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.err != nil {
		delete(c.entries, e.key)
		return
	}
	e.open = true
	if e.kept {
		e.users++
	}
}

// Memory returns the memory, which stays the entry's.
func (e *Entry) Memory() core.Memory { return e.memory }

// How returns the how of the call of [Cache.Acquire] that opened the entry.
func (e *Entry) How() any { return e.how }

// Free implements [core.Owner]: the root calls it before its memory is freed.
func (e *Entry) Free() { e.Release() }

// Release gives back one use of the entry. With the last one its memory is freed.
func (e *Entry) Release() {
	c := e.cache
	c.mu.Lock()
	e.users--
	last := e.users == 0
	if last {
		if c.entries[e.key] == e {
			delete(c.entries, e.key)
		}
		c.blocked[e.key.Device]++ // which may be about to close
	}
	c.mu.Unlock()
	if last {
		e.memory.Free()
		liveOpened.Add(-1)
		privateCore.Closed(e.key.place())
		close(e.freed)
		c.unblock(e.key.Device)
	}
}

// Tensor makes a tensor on the entry, which takes over one use of it, on failure
// too. The tensor keeps root alive and shares its order.
func (e *Entry) Tensor(root *core.Buffer, s core.Spec) (*core.Tensor, error) {
	m := e.memory
	m.Owner = use{e, root}
	if e.kept {
		m.Owner = keptUse{use{e, root}}
	}
	return wrapOver(m, root, s)
}

// wrapOver makes a tensor on memory that is that of origin under another name, from
// its first byte on. It takes a reference to origin, which m's owner releases. On
// failure it frees m.
func wrapOver(m core.Memory, origin *core.Buffer, s core.Spec) (*core.Tensor, error) {
	err := origin.Retain()
	if err != nil { // cannot be: the caller holds it
		return nil, err
	}
	t, err := core.Wrap(m, s)
	if err != nil {
		m.Free()
		return nil, err
	}
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	b.OrderWith(origin, 0)
	return t, nil
}

// WrapBorrowed makes a tensor on m, which is the memory of origin under another
// name. It owns m, on failure too. None of the devices closes before m is freed.
func (c *Cache) WrapBorrowed(m core.Memory, origin *core.Buffer, s core.Spec, devices ...core.Device) (*core.Tensor, error) {
	borrowed := m
	m.Owner = c.blockClose(core.FreeFunc(func() {
		borrowed.Free()
		origin.Release()
	}), devices...)
	return wrapOver(m, origin, s)
}

// use is a tensor's use of an entry. It owns the tensor's memory.
type use struct {
	entry *Entry
	root  *core.Buffer
}

func (u use) Free() {
	u.entry.Release()
	u.root.Release()
}

// keptUse is a use of an entry that lives as long as its root. The root waits for
// unfinished work on the memory, so the use need not.
type keptUse struct{ use }

var _ orderedOwner = keptUse{}

// FreeAfter leaves the waiting to the root, or to the device if that closes first.
func (u keptUse) FreeAfter(pending []core.Event) {
	u.entry.freeAfter(pending)
	u.Free()
}

// freeAfter delays the freeing of the entry's memory until pending is done.
func (e *Entry) freeAfter(pending []core.Event) {
	c := e.cache
	c.mu.Lock()
	before := e.pending
	e.pending = nil
	c.mu.Unlock()
	pending = unfinished(append(before, pending...))
	c.mu.Lock()
	defer c.mu.Unlock()
	e.pending = append(e.pending, pending...)
}

// unfinished returns the events that are not done. It changes events.
func unfinished(events []core.Event) []core.Event {
	return slices.DeleteFunc(events, func(e core.Event) bool {
		done, _ := e.Done()
		return done
	})
}
