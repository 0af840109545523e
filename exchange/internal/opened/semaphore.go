package opened

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// semaphore is a timeline semaphore that two devices share, kept until one of them
// closes. It is kept with the device that signals.
type semaphore struct {
	*stream.SharedSemaphore
	waits     core.Device // the other device
	signalled core.Stream // that signals, or signalled last
	last      core.Event  // of the stream that waited last
}

// done reports whether all work that signals or waits is done.
func (s *semaphore) done() bool {
	done, _ := s.last.Done()
	return done
}

// Semaphore returns a semaphore by which the stream to can wait for the stream from,
// or nil if their devices share none. The caller gives it back by calling giveBack
// when to waits for it.
func (c *Cache) Semaphore(ctx context.Context, from, to core.Stream) (s *stream.SharedSemaphore, giveBack func(), err error) {
	a, b := from.Device(), to.Device()
	if a == b || !c.watch(a) || !c.watch(b) {
		return nil, nil, nil
	}
	taken := c.takeSemaphore(a, b, from)
	if taken == nil {
		if taken, err = newSemaphore(ctx, a, b); taken == nil {
			return nil, nil, err
		}
	}
	taken.signalled = from
	return taken.SharedSemaphore, func() { c.giveSemaphore(a, taken, to) }, nil
}

// takeSemaphore finds a semaphore whose next value can only come after the one
// before: one that the same stream signalled, or one without unfinished work, which is
// the only possibility for a binary one.
func (c *Cache) takeSemaphore(a, b core.Device, from core.Stream) *semaphore {
	for _, s := range c.idleSemaphores(a, b, from) {
		if !s.Reusable() || !c.takeIdle(a, s) {
			continue
		}
		if s.signalled == from || s.done() {
			return s
		}
		c.keepSemaphore(a, s)
		break
	}
	return nil
}

// idleSemaphores returns the idle semaphores that a signals and b waits for, those first that from signalled last.
func (c *Cache) idleSemaphores(a, b core.Device, from core.Stream) []*semaphore {
	c.mu.Lock()
	defer c.mu.Unlock()
	var own, others []*semaphore
	if kept := c.devices[a]; kept != nil {
		for _, s := range kept.semaphores {
			switch {
			case s.waits != b:
			case s.signalled == from:
				own = append(own, s)
			default:
				others = append(others, s)
			}
		}
	}
	return append(own, others...)
}

// takeIdle takes an idle semaphore that a signals. It reports false if another call has taken it.
func (c *Cache) takeIdle(a core.Device, s *semaphore) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.devices[a]
	if kept == nil {
		return false
	}
	i := slices.Index(kept.semaphores, s)
	if i < 0 {
		return false
	}
	kept.semaphores = slices.Delete(kept.semaphores, i, i+1)
	return true
}

// giveSemaphore takes a semaphore back, on which the stream to has waited last.
func (c *Cache) giveSemaphore(a core.Device, s *semaphore, to core.Stream) {
	e, err := to.Record()
	if err != nil { // nothing reports when its work is done: it closes then, and the devices wait for that
		go c.blockClose(core.FreeFunc(func() { _ = s.Close() }), a, s.waits).Free()
		return
	}
	s.last = e
	c.keepSemaphore(a, s)
}

// keepSemaphore makes a semaphore idle, or closes it if a device was closed meanwhile.
func (c *Cache) keepSemaphore(a core.Device, s *semaphore) {
	c.mu.Lock()
	kept := c.devices[a]
	keep := kept != nil && c.devices[s.waits] != nil
	if keep {
		kept.semaphores = append(kept.semaphores, s)
	}
	c.mu.Unlock()
	if !keep {
		s.closeWhenDone()
	}
}

// closeWhenDone closes a semaphore after its last work.
func (s *semaphore) closeWhenDone() {
	_ = s.last.Wait(context.Background()) // whether the work failed does not matter here
	_ = s.Close()
}

// closeSemaphores closes the idle semaphores between d and other devices.
func (c *Cache) closeSemaphores(d core.Device) {
	var idle []*semaphore
	c.mu.Lock()
	for a, kept := range c.devices {
		kept.semaphores = slices.DeleteFunc(kept.semaphores, func(s *semaphore) bool {
			if a != d && s.waits != d {
				return false
			}
			idle = append(idle, s)
			return true
		})
	}
	c.mu.Unlock()
	for _, s := range idle {
		s.closeWhenDone()
	}
}

// newSemaphore makes a semaphore that a signals and b waits for: of a, imported by
// b, or the other way round, since CUDA imports semaphores and makes none. It
// returns nil if they share no handle type.
func newSemaphore(ctx context.Context, a, b core.Device) (*semaphore, error) {
	signal, wait, err := makeAndImport(ctx, a, b)
	if signal == nil && err == nil {
		wait, signal, err = makeAndImport(ctx, b, a)
	}
	if signal == nil {
		return nil, err
	}
	return &semaphore{SharedSemaphore: stream.NewSharedSemaphore(signal, wait), waits: b}, nil
}

// makeAndImport makes a semaphore of owner and has importer import it. It returns nil
// if they share no handle type.
func makeAndImport(ctx context.Context, owner, importer core.Device) (own, imported core.Semaphore, err error) {
	e, exports := core.As[core.SemaphoreExporter](owner)
	n, creates := core.As[core.SemaphoreCreator](owner)
	i, imports := core.As[core.SemaphoreImporter](importer)
	if !exports || !creates || !imports || !SameDriver(owner.Properties(), importer.Properties()) {
		return nil, nil, nil
	}
	known := i.SemaphoreImportTypes()
	for _, t := range e.SemaphoreExportTypes() {
		if !slices.Contains(known, t) {
			continue
		}
		if own, err = n.NewSemaphore(ctx, t); err != nil {
			return nil, nil, err
		}
		if imported, err = exportAndImport(ctx, e, own, t, i, owner.Properties(), importer.Properties()); err != nil {
			_ = own.Close()
			return nil, nil, err
		}
		return own, imported, nil
	}
	return nil, nil, nil
}

// SameDriver reports whether two devices are the same hardware under the same driver,
// so that each understands the handles of the other that are bound to both.
func SameDriver(a, b core.Properties) bool {
	none := core.UUID{}
	return core.SamePhysicalDevice(a, b) && (a.DriverUUID == none || b.DriverUUID == none || a.DriverUUID == b.DriverUUID)
}

// exportAndImport exports s and imports it into another device. p and q are the properties of the devices.
func exportAndImport(ctx context.Context, from core.SemaphoreExporter, s core.Semaphore, t core.HandleType, to core.SemaphoreImporter, p, q core.Properties) (core.Semaphore, error) {
	x, err := from.ExportSemaphore(s, t)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	// APIs may give one card different UUIDs. SameDriver has compared the PCI addresses too.
	if x.DeviceUUID != q.UUID && core.SamePhysicalDevice(p, q) {
		x.DeviceUUID = q.UUID
	}
	return to.ImportSemaphore(ctx, x)
}
