package exchange

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// copies offers the ways that copy. shared are those that share the memory with
// the destination, where they are not to be its result but what it copies from.
func (l *list) copies(shared []candidate) {
	from, to := l.source.ID, l.target.ID
	owner, place := l.from.Device, l.from.ID
	onHost := place.Type.HostAccessible()
	toHost := to.Type.HostAccessible()
	if owner == nil && !onHost {
		for _, c := range shared {
			l.copyShared(c)
		}
		l.refuse(Direct, "copy", "no opened device owns the memory: import it through a device of %v first", place)
		return
	}
	local := owner == l.dst
	if !local && !onHost && !toHost {
		l.peer()
	}
	if local || onHost {
		l.copying(Direct, fmt.Sprintf("%v copies from %v", to, place), func(ctx context.Context, r *run, p *parcel) error {
			return r.withSource(p, func(src *core.Tensor) error { return r.copyBy(ctx, r.dst, p.fresh, src) })
		})
		if local {
			return
		}
	}
	if toHost && !onHost {
		l.copying(Direct, fmt.Sprintf("%v copies to the host", from), func(ctx context.Context, r *run, p *parcel) error {
			return r.withSource(p, func(src *core.Tensor) error { return r.copyBy(ctx, r.from.Device, p.fresh, src) })
		})
	}
	for _, c := range shared {
		l.copyShared(c)
	}
	if onHost {
		return // no other way is better than the destination's own copy
	}
	if !toHost {
		l.copyView()
		l.copyIntoView()
		l.copyIntoImport()
	}
	l.staged()
}

// copying offers a way that fills fresh memory of the destination.
func (l *list) copying(mechanism Mechanism, what string, fill func(context.Context, *run, *parcel) error) {
	l.offer(mechanism, what, []Step{{What: what, Bytes: l.parcel().bytes}}, func(ctx context.Context, r *run) (*core.Tensor, error) {
		return r.copied(ctx, r.o.Alloc, fill)
	})
}

// copyShared offers to copy, on the destination, from memory that is shared with it.
func (l *list) copyShared(c candidate) {
	copying := Step{What: fmt.Sprintf("%v copies from there", l.target.ID), Bytes: l.parcel().bytes}
	what := copyOf(c.refusal(""), Direct, copying).What
	defer func() { l.all[len(l.all)-1].shares = &c }()
	if c.reason != "" {
		l.refuse(Direct, what, "%s", c.reason)
		return
	}
	l.offer(Direct, what, append(slices.Clone(c.steps), copying), func(ctx context.Context, r *run) (*core.Tensor, error) {
		near, err := c.run(ctx, r)
		if err != nil {
			return nil, err
		}
		defer near.Close()
		return r.copied(ctx, r.o.Alloc, func(ctx context.Context, r *run, p *parcel) error {
			b, err := near.Buffer()
			if err != nil {
				return err
			}
			return on(b, p.source, func(src *core.Tensor) error { return r.copyBy(ctx, r.dst, p.fresh, src) })
		})
	})
}

// peer offers a copy between two devices of a backend.
func (l *list) peer() {
	from, to := l.source.ID, l.target.ID
	what := fmt.Sprintf("%v copies from its peer %v", to, from)
	c, ok := ability[core.PeerCopier](l.dst, l.target)
	if !ok {
		l.refuse(Peer, what, "%v has no peer copies", to)
		return
	}
	if from.Type.BackendName() != to.Type.BackendName() {
		l.refuse(Peer, what, "they are of different backends")
		return
	}
	if err := c.CanPeer(l.from.Device); err != nil {
		l.refuse(Peer, what, "%v", err)
		return
	}
	l.copying(Peer, what, func(ctx context.Context, r *run, p *parcel) error {
		return r.withSource(p, func(src *core.Tensor) error {
			return r.onLane(ctx, r.dst, func(s core.Stream) error {
				return c.CopyPeer(ctx, s, p.fresh, src, r.from.Device)
			})
		})
	})
}

// copyView offers to copy, on the destination, from the host's view of the source.
func (l *list) copyView() {
	what := fmt.Sprintf("the host views memory of %v, %v copies from there", l.source.ID, l.target.ID)
	if reason := cannotView(l.from.Device, l.source); reason != "" {
		l.refuse(Direct, what, "%s", reason)
		return
	}
	l.copying(Direct, what, func(ctx context.Context, r *run, p *parcel) error {
		v, err := r.hostView(ctx)
		if err != nil {
			return err
		}
		src, err := v.tensor(r.root, p.source)
		if err != nil {
			return err
		}
		defer src.Close()
		return r.copyBy(ctx, r.dst, p.fresh, src)
	})
}

// copyIntoView offers to copy, on the source's device, into the host's view of the result.
func (l *list) copyIntoView() {
	what := fmt.Sprintf("the host views memory of %v, %v copies into it", l.target.ID, l.source.ID)
	if reason := cannotView(l.dst, l.target); reason != "" {
		l.refuse(Direct, what, "%s", reason)
		return
	}
	l.copying(Direct, what, func(ctx context.Context, r *run, p *parcel) error {
		b, err := p.fresh.Buffer()
		if err != nil {
			return err
		}
		m, err := r.dst.(core.HostViewer).HostView(ctx, b)
		if err != nil {
			return err
		}
		return r.copyInto(ctx, m, b, p)
	})
}

// copyIntoImport offers to allocate memory that the source's device can import and copy into.
func (l *list) copyIntoImport() {
	from, to := l.source.ID, l.target.ID
	what := fmt.Sprintf("allocate memory of %v for export, %v imports it and copies into it", to, from)
	types, reason := commonTypes(l.dst, l.from.Device, l.target, l.source)
	if reason != "" {
		l.refuse(Direct, what, "%s", reason)
	}
	for _, t := range types {
		what := fmt.Sprintf("allocate memory of %v for export as %v, %v imports it and copies into it", to, t, from)
		if e := l.o.Alloc.Export; e != 0 && e != t {
			l.refuse(Direct, what, "Options.Alloc asks for export as %v", e)
			continue
		}
		l.offer(Direct, what, []Step{
			{What: fmt.Sprintf("allocate memory of %v for export as %v", to, t)},
			{What: fmt.Sprintf("import it into %v", from)},
			{What: fmt.Sprintf("%v copies into it", from), Bytes: l.parcel().bytes},
		}, func(ctx context.Context, r *run) (*core.Tensor, error) {
			alloc := r.o.Alloc
			alloc.Export = t
			return r.copied(ctx, alloc, func(ctx context.Context, r *run, p *parcel) error {
				b, err := p.fresh.Buffer()
				if err != nil {
					return err
				}
				m, err := transfer(ctx, r.dst.(core.MemoryExporter), b, t, r.from.Device.(core.MemoryImporter))
				if err != nil {
					return err
				}
				return r.copyInto(ctx, m, b, p)
			})
		})
	}
}

// staged offers two copies through the host.
func (l *list) staged() {
	bytes := l.parcel().bytes
	l.offer(Staged, fmt.Sprintf("copy through host memory in pieces of %d KiB", chunkBytes>>10), []Step{
		{What: fmt.Sprintf("%v copies to the host, piece by piece", l.source.ID), Bytes: bytes},
		{What: fmt.Sprintf("%v copies from the host, while the next piece arrives", l.target.ID), Bytes: bytes},
	}, func(ctx context.Context, r *run) (*core.Tensor, error) {
		return r.copied(ctx, r.o.Alloc, stage)
	})
}
