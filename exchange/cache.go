package exchange

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/core"
)

var liveOpened = core.NewLiveCounter("exchange.Opened")

// opened is the process's cache of memory that was opened on another device.
var opened = newCache()

func newCache() *cache {
	c := &cache{
		entries: make(map[key]*entry),
		devices: make(map[core.Device]*deviceState),
		foreign: make(map[foreignKey]*foreign),
		owed:    make(map[core.Device]int),
	}
	c.settled.L = &c.mu
	return c
}

// cache holds what is open. Nothing foreign is called while its mutex is held.
type cache struct {
	mu      sync.Mutex
	entries map[key]*entry
	devices map[core.Device]*deviceState // those in use that tell when they close
	foreign map[foreignKey]*foreign
	owed    map[core.Device]int // what is being freed, or used by copies that free it when they are done
	settled sync.Cond           // some of owed was freed
}

// key names memory opened on a device.
type key struct {
	root   *core.Buffer
	device core.Device // nil for a view of the host
	size   int64       // differs between tensors only where root has no known size
}

// entry is memory of a device that was made of other memory.
type entry struct {
	key   key
	ready chan struct{} // closed when the opening has ended
	gone  chan struct{} // closed when the memory was freed

	// Final once ready is closed:
	err     error
	memory  core.Memory
	kept    bool        // the root keeps the entry, else the last user closes it
	detach  func() bool // from the root; of kept entries
	way     sharedBy    // how it was opened, whether to be a result or to be copied from
	refused []Refusal   // ways to share it that rank before that, and why they were not taken

	// Guarded by the cache's mutex:
	open    bool         // ready is closed, and err nil
	users   int          // tensors, entries made of this one, and the root
	pending []core.Event // work of tensors that were closed
}

var _ core.Owner = (*entry)(nil)

// sharedBy is a way to share memory.
type sharedBy struct {
	mechanism Mechanism
	steps     []Step
}

// opener opens the source's memory on the destination. The memory's owner keeps
// what it was made of, but for the source's memory.
type opener func(ctx context.Context, r *run) (core.Memory, error)

// find returns an entry that is open, with one user more, or nil.
func (c *cache) find(k key) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil || !e.open {
		return nil
	}
	e.users++
	return e
}

// acquire returns the entry of k with one user more, which it opens where nobody
// has, as by describes. Of several callers one opens and the others wait for it; where it fails,
// they fail with the same error. The caller holds a reference to k.root.
func (r *run) acquire(ctx context.Context, k key, by sharedBy, open opener) (*entry, error) {
	c := opened
	for {
		c.mu.Lock()
		e := c.entries[k]
		switch {
		case e == nil:
			e = &entry{key: k, way: by, refused: slices.Clone(r.unshared), ready: make(chan struct{}), gone: make(chan struct{}), users: 1}
			c.entries[k] = e
			c.mu.Unlock()
			return e, c.fill(ctx, e, r, open)
		case e.open:
			e.users++
			c.mu.Unlock()
			return e, nil
		}
		c.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// That another caller's ctx has ended is nothing to this one.
		if e.err != nil && !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, context.DeadlineExceeded) {
			return nil, e.err
		}
	}
}

// fill opens the memory of a fresh entry.
func (c *cache) fill(ctx context.Context, e *entry, r *run, open opener) error {
	defer close(e.ready)
	e.kept = e.key.device == nil || c.watch(e.key.device)
	e.memory, e.err = open(ctx, r)
	if e.err == nil {
		r.opened = true
		liveOpened.Add(1)
		if e.kept {
			e.detach = e.key.root.Attach(e)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.err != nil {
		delete(c.entries, e.key)
		return e.err
	}
	e.open = true
	if e.kept {
		e.users++
	}
	return nil
}

// Free is called by the root before its memory is freed.
func (e *entry) Free() { e.release() }

// release gives back one use of the entry. With the last one its memory is freed.
func (e *entry) release() {
	c := opened
	c.mu.Lock()
	e.users--
	last := e.users == 0
	if last {
		if c.entries[e.key] == e {
			delete(c.entries, e.key)
		}
		c.owed[e.key.device]++ // which may be about to close
	}
	c.mu.Unlock()
	if last {
		e.memory.Free()
		liveOpened.Add(-1)
		close(e.gone)
		c.paid(e.key.device)
	}
}

// tensor makes a tensor on the entry, which takes over one use of it, on failure
// too. It keeps root alive and shares its order.
func (e *entry) tensor(root *core.Buffer, s core.Spec) (*core.Tensor, error) {
	m := e.memory
	m.Owner = lease{e, root}
	if e.kept {
		m.Owner = keptLease{lease{e, root}}
	}
	return wrapOver(m, root, s)
}

// wrapOver makes a tensor on memory that is that of origin, from its first byte on, and whose owner
// releases a reference to it, which is taken here. On failure the owner is freed.
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

// wrapBorrowed makes a tensor on m, which is the memory of origin under another
// name. It owns m, on failure too. None of the devices closes before it is freed.
func wrapBorrowed(m core.Memory, origin *core.Buffer, s core.Spec, devices ...core.Device) (*core.Tensor, error) {
	borrowed := m
	m.Owner = opened.owe(core.FreeFunc(func() {
		borrowed.Free()
		origin.Release()
	}), devices...)
	return wrapOver(m, origin, s)
}

// lease is a tensor's use of an entry.
type lease struct {
	entry *entry
	root  *core.Buffer
}

func (l lease) Free() {
	l.entry.release()
	l.root.Release()
}

// keptLease is a lease of an entry that lives as long as its root. The root waits
// for unfinished work on the memory, so the lease need not.
type keptLease struct{ lease }

var _ core.OrderedOwner = keptLease{}

// FreeAfter leaves the waiting to the root, or to the device if that closes first.
func (l keptLease) FreeAfter(pending []core.Event) {
	l.entry.await(pending)
	l.Free()
}

// await has the entry's memory freed after pending.
func (e *entry) await(pending []core.Event) {
	c := opened
	c.mu.Lock()
	before := e.pending
	e.pending = nil
	c.mu.Unlock()
	pending = slices.DeleteFunc(append(before, pending...), func(v core.Event) bool {
		done, _ := v.Done()
		return done
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	e.pending = append(e.pending, pending...)
}

// Opened is how many memories are open on a device other than the one that they
// belong to: what moves have opened and [Open] has.
func Opened() int {
	c := opened
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries) + len(c.foreign)
}
