package exchange

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// link is a semaphore that two devices share, kept until one of them closes.
type link struct {
	*stream.SharedSemaphore
	to   core.Device
	from core.Stream // that signalled last
	last core.Event  // of the stream that waited last
}

// done reports whether nobody signals or waits any more.
func (l *link) done() bool {
	done, _ := l.last.Done()
	return done
}

// link takes a semaphore by which to can wait for from, nil if their devices share
// none. The caller gives it back by calling done.
func (c *cache) link(ctx context.Context, from, to core.Stream) (l *link, done func(), err error) {
	a, b := from.Device(), to.Device()
	if a == b || !c.watch(a) || !c.watch(b) {
		return nil, nil, nil
	}
	if l = c.takeLink(a, b, from); l == nil {
		if l, err = newLink(ctx, a, b); l == nil {
			return nil, nil, err
		}
	}
	l.from = from
	return l, func() { c.giveLink(a, l, to) }, nil
}

// takeLink finds a link whose next value can only come after the one before: that
// of the same stream, or one that is done.
func (c *cache) takeLink(a, b core.Device, from core.Stream) *link {
	var l *link
	c.mu.Lock()
	if state := c.devices[a]; state != nil {
		i := slices.IndexFunc(state.links, func(l *link) bool { return l.to == b && l.from == from })
		if i < 0 {
			i = slices.IndexFunc(state.links, func(l *link) bool { return l.to == b })
		}
		if i >= 0 {
			l = state.links[i]
			state.links = slices.Delete(state.links, i, i+1)
		}
	}
	c.mu.Unlock()
	if l == nil || l.from == from || l.done() {
		return l
	}
	c.keepLink(a, l)
	return nil
}

// giveLink takes a link back, on which to has waited last.
func (c *cache) giveLink(a core.Device, l *link, to core.Stream) {
	e, err := to.Record()
	if err != nil { // nobody tells when the link is idle again: it closes when it is, and the devices wait for that
		go c.owe(core.FreeFunc(func() { _ = l.Close() }), a, l.to).Free()
		return
	}
	l.last = e
	c.keepLink(a, l)
}

// keepLink makes a link idle, or closes it if a device was closed meanwhile.
func (c *cache) keepLink(a core.Device, l *link) {
	c.mu.Lock()
	state := c.devices[a]
	keep := state != nil && c.devices[l.to] != nil
	if keep {
		state.links = append(state.links, l)
	}
	c.mu.Unlock()
	if !keep {
		l.end()
	}
}

// end closes a link when its last work is done.
func (l *link) end() {
	_ = l.last.Wait(context.Background()) // over is over, and its error is not ours
	_ = l.Close()
}

// closeLinks closes the links of d, to and from others.
func (c *cache) closeLinks(d core.Device) {
	var ended []*link
	c.mu.Lock()
	for a, state := range c.devices {
		state.links = slices.DeleteFunc(state.links, func(l *link) bool {
			if a != d && l.to != d {
				return false
			}
			ended = append(ended, l)
			return true
		})
	}
	c.mu.Unlock()
	for _, l := range ended {
		l.end()
	}
}

// newLink makes a semaphore that a signals and b waits for: of a, imported by b, or
// the reverse, since CUDA imports semaphores and makes none. It is nil where they
// share no handle type.
func newLink(ctx context.Context, a, b core.Device) (*link, error) {
	signal, wait, err := sharedSemaphore(ctx, a, b)
	if signal == nil && err == nil {
		wait, signal, err = sharedSemaphore(ctx, b, a)
	}
	if signal == nil {
		return nil, err
	}
	return &link{SharedSemaphore: stream.NewSharedSemaphore(signal, wait), to: b}, nil
}

// sharedSemaphore makes a semaphore of owner and has other import it, nil where they
// share no handle type.
func sharedSemaphore(ctx context.Context, owner, other core.Device) (own, imported core.Semaphore, err error) {
	op, ip := owner.Properties(), other.Properties()
	e, exports := ability[core.SemaphoreExporter](owner, op)
	n, creates := ability[core.SemaphoreCreator](owner, op)
	i, imports := ability[core.SemaphoreImporter](other, ip)
	if !exports || !creates || !imports || unequal(op, ip) != "" {
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
		if imported, err = transferSemaphore(ctx, e, own, t, i); err != nil {
			_ = own.Close()
			return nil, nil, err
		}
		return own, imported, nil
	}
	return nil, nil, nil
}

// transferSemaphore exports s from one device and imports it into another.
func transferSemaphore(ctx context.Context, from core.SemaphoreExporter, s core.Semaphore, t core.HandleType, to core.SemaphoreImporter) (core.Semaphore, error) {
	x, err := from.ExportSemaphore(s, t)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	return to.ImportSemaphore(ctx, x)
}
