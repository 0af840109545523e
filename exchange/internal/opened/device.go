package opened

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// device is what is kept for a device until it closes. The cache's mutex guards it.
type device struct {
	cancel     func() // ends the watch
	streams    int    // copy streams that are open
	idle       []copyStream
	semaphores []*semaphore // that are idle
	staging    []Staging    // at most StagingBuffers
}

// watch has the cache called before d closes. It reports whether d can do that.
func (c *Cache) watch(d core.Device) bool {
	c.mu.Lock()
	known := c.devices[d] != nil
	c.mu.Unlock()
	if known {
		return true
	}
	n, ok := d.(closeNotifier)
	if !ok {
		return false
	}
	cancel := n.BeforeClose(func() { c.closing(d) })
	c.mu.Lock()
	known = c.devices[d] != nil
	if !known {
		c.devices[d] = &device{cancel: cancel}
	}
	c.mu.Unlock()
	if known {
		cancel()
	}
	return true
}

// closing gives back what is open on d, or for it, and has no user any more. As the
// device's own Close does, it waits for unfinished work on what it gives back.
func (c *Cache) closing(d core.Device) {
	c.mu.Lock()
	var streams []copyStream
	kept := c.devices[d]
	if kept != nil {
		streams, kept.idle = kept.idle, nil
		kept.streams -= len(streams)
	}
	var unused []*Entry
	for k, e := range c.entries {
		if k.Device == d && e.open && e.kept && e.users == 1 {
			unused = append(unused, e)
		}
	}
	c.mu.Unlock()

	for _, s := range streams {
		_ = s.Close() // the events of its work report the errors
	}
	c.closeSemaphores(d)
	c.waitUnblocked(d)
	for _, e := range unused {
		c.evict(e)
	}
	c.waitUnblocked(d) // also for memory that roots are freeing meanwhile

	c.Unwatch(d)
}

// Unwatch forgets d, unless something of it is still open: then d cannot close, and
// will call again. A device that was closed before it was watched never calls.
func (c *Cache) Unwatch(d core.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.entries {
		if k.Device == d {
			return
		}
	}
	for _, kept := range c.devices {
		if slices.ContainsFunc(kept.semaphores, func(s *semaphore) bool { return s.waits == d }) {
			return
		}
	}
	if kept := c.devices[d]; kept != nil && c.blocked[d] == 0 && kept.streams == 0 && len(kept.semaphores) == 0 {
		delete(c.devices, d)
		kept.cancel()
	}
}

// blockClose returns an owner that frees what o does. Until then the devices do not
// close: only this package knows of the memory and could wait for the work on it.
func (c *Cache) blockClose(o core.Owner, devices ...core.Device) core.Owner {
	c.mu.Lock()
	for _, d := range devices {
		c.blocked[d]++
	}
	c.mu.Unlock()
	for _, d := range devices {
		c.watch(d)
	}
	return core.FreeFunc(func() {
		o.Free()
		c.unblock(devices...)
	})
}

// unblock takes back what blockClose, or an entry that is being freed, has counted.
func (c *Cache) unblock(devices ...core.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range devices {
		if c.blocked[d]--; c.blocked[d] == 0 {
			delete(c.blocked, d)
		}
	}
	c.unblocked.Broadcast()
}

// waitUnblocked waits until nothing blocks the closing of d. It closes d's staging
// memory, which would block it for ever.
func (c *Cache) waitUnblocked(d core.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.blocked[d] > 0 {
		kept := c.devices[d]
		if kept == nil || len(kept.staging) == 0 {
			c.unblocked.Wait()
			continue
		}
		staging := kept.staging
		kept.staging = nil
		c.mu.Unlock()
		for _, s := range staging {
			s.close()
		}
		c.mu.Lock()
	}
}

// evict closes an entry that only its root uses.
func (c *Cache) evict(e *Entry) {
	c.mu.Lock()
	pending := slices.Clone(e.pending)
	c.mu.Unlock()
	for _, v := range pending {
		_ = v.Wait(context.Background()) // whether the work failed does not matter here
	}
	c.mu.Lock()
	if e.users > 1 || c.entries[e.key] != e { // used again, or gone
		c.mu.Unlock()
		return
	}
	delete(c.entries, e.key)
	c.mu.Unlock()
	if e.detach() {
		e.Release()
	} else {
		<-e.freed // the root is freeing it
	}
}
