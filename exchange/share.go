package exchange

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// candidates lists every way there is, the best first.
func (m *move) candidates() []candidate {
	l := list{move: m, target: m.dst.Properties()}
	if d := m.from.Device; d != nil {
		l.source = d.Properties()
	}
	if m.low >= m.high || m.src.IsEmpty() {
		l.offer(Alias, "no elements: a tensor without memory", nil, empty)
		return l.all
	}
	l.before = m.o.Copy == Always
	l.share()
	shared := slices.Clone(l.all)
	for i := range l.all {
		l.all[i].shares = &shared[i]
	}
	if m.o.Copy != Always {
		l.copies(nil)
		return l.all
	}
	l.before, l.all = false, nil
	l.copies(shared)
	return l.all
}

// list collects candidates in the order of their rank.
type list struct {
	*move
	source, target core.Properties // of the devices of the two sides; source is zero where there is none
	before         bool            // what is offered comes before a copy: Options.Only is about that
	all            []candidate
}

// refuse adds a way that cannot be taken.
func (l *list) refuse(mechanism Mechanism, what, format string, args ...any) {
	l.all = append(l.all, candidate{mechanism: mechanism, what: what, reason: fmt.Sprintf(format, args...)})
}

// offer adds a way, if the options allow it. Without steps, what is the only one.
func (l *list) offer(mechanism Mechanism, what string, steps []Step, run func(context.Context, *run) (*core.Tensor, error)) {
	switch o := l.o; {
	case o.Only != 0 && o.Only != mechanism && !l.before:
		l.refuse(mechanism, what, "Options.Only asks for %v", o.Only)
	case o.Copy == Never && mechanism.Copies() > 0:
		l.refuse(mechanism, what, "it copies, and Options.Copy is %v", Never)
	default:
		if steps == nil {
			steps = []Step{{What: what}}
		}
		l.all = append(l.all, candidate{mechanism: mechanism, what: what, steps: steps, run: run})
	}
}

// empty makes a tensor without elements, which needs no memory.
func empty(_ context.Context, r *run) (*core.Tensor, error) {
	s := r.spec
	s.Offset = 0
	if r.o.Copy == Always {
		s.Flags &^= core.FlagReadOnly
	}
	return core.Wrap(core.Memory{ID: r.dst.ID(), Device: r.dst}, s)
}

// wanted is the type of memory that the move is to end in.
func (m *move) wanted() core.DeviceType {
	if t := m.o.Alloc.Type; t != 0 {
		return t
	}
	return m.dst.ID().Type
}

// aliasSteps are those of a move within a device.
var aliasSteps = []Step{{What: "use the memory as it is: it belongs to the device already"}}

// share offers the ways that copy nothing.
func (l *list) share() {
	from, to := l.source.ID, l.target.ID
	place := l.from.ID
	onHost := place.Type.HostAccessible()
	switch {
	case l.from.Device == l.dst && place.Type != l.wanted():
		l.refuse(Alias, aliasSteps[0].What, "it is memory of %v, and memory of type %v is wanted: Options.Alloc.Type says which", place, l.wanted())
		return
	case l.from.Device == l.dst:
		l.offer(Alias, aliasSteps[0].What, aliasSteps, alias)
		return
	case place == to && l.from.Device == nil || onHost && to.Type.HostAccessible():
		l.sharing(Alias, fmt.Sprintf("%v takes the memory over as it is", to), cannotAdopt(l.dst, l.target), nil, openPointer)
		return
	default:
		l.refuse(Alias, "use the memory as it is", "it is memory of %v", place)
	}
	if onHost {
		l.sharing(Map, "map the host memory into "+to.String(), cannotMap(l.dst, l.target), nil, openMapped)
		return
	}
	if l.from.Device == nil {
		l.refuse(Map, "share the memory", "no opened device owns it: import it through a device of %v first", place)
		return
	}
	hidden := cannotView(l.from.Device, l.source)
	if to.Type.HostAccessible() {
		l.sharing(Map, fmt.Sprintf("the host uses memory of %v in place", from), cmp.Or(hidden, cannotAdopt(l.dst, l.target)), nil, openView)
		return
	}
	l.imported()
	l.sharing(Map, fmt.Sprintf("the host views memory of %v, and that view is mapped into %v", from, to), cmp.Or(hidden, cannotMap(l.dst, l.target)), []Step{
		{What: fmt.Sprintf("view memory of %v from the host", from)},
		{What: fmt.Sprintf("map the view into %v", to)},
	}, openMappedView)
}

// sharing offers a way that opens memory of the destination, which the cache then
// keeps, unless there is a reason against it.
func (l *list) sharing(mechanism Mechanism, what, reason string, steps []Step, open opener) {
	if reason == "" && l.low < 0 {
		reason = "the source's memory has no known size, and elements lie before its start"
	}
	if reason != "" {
		l.refuse(mechanism, what, "%s", reason)
		return
	}
	if steps == nil {
		steps = []Step{{What: what}}
	}
	by := sharedBy{mechanism, steps}
	l.offer(mechanism, what, steps, func(ctx context.Context, r *run) (*core.Tensor, error) { return r.shared(ctx, by, open) })
}

// imported offers, for each handle type that both sides know, to export the memory there and import it here.
func (l *list) imported() {
	from, to := l.source.ID, l.target.ID
	what := fmt.Sprintf("export memory of %v, import it into %v", from, to)
	types, reason := commonTypes(l.from.Device, l.dst, l.source, l.target)
	if reason != "" {
		l.refuse(Map, what, "%s", reason)
	}
	for _, t := range types {
		what := fmt.Sprintf("export memory of %v as %v, import it into %v", from, t, to)
		l.sharing(Map, what, "", []Step{
			{What: fmt.Sprintf("export memory of %v as %v", from, t)},
			{What: fmt.Sprintf("import it into %v", to)},
		}, func(ctx context.Context, r *run) (core.Memory, error) {
			return transfer(ctx, r.from.Device.(core.MemoryExporter), r.root, t, r.dst.(core.MemoryImporter))
		})
	}
}

// commonTypes lists the handle types by which memory of one device can be opened
// on another, or says why there are none.
func commonTypes(from, to core.Device, fp, tp core.Properties) ([]core.HandleType, string) {
	e, ok := ability[core.MemoryExporter](from, fp)
	if !ok {
		return nil, fmt.Sprintf("%v cannot export memory", fp.ID)
	}
	i, ok := ability[core.MemoryImporter](to, tp)
	if !ok {
		return nil, fmt.Sprintf("%v cannot import memory", tp.ID)
	}
	known := i.ImportTypes()
	offered := e.ExportTypes()
	types := slices.DeleteFunc(slices.Clone(offered), func(t core.HandleType) bool { return !slices.Contains(known, t) })
	if len(types) == 0 {
		return nil, fmt.Sprintf("%v exports %v, %v imports %v", fp.ID, offered, tp.ID, known)
	}
	fit := slices.DeleteFunc(types, func(t core.HandleType) bool { return bound(t) && unequal(fp, tp) != "" })
	if len(fit) == 0 {
		return nil, unequal(fp, tp)
	}
	return fit, ""
}

// bound reports whether handles of a type are understood by the same device and driver only.
func bound(t core.HandleType) bool { return t == core.HandleOpaqueFD || t == core.HandleIPC }

// unequal says why two devices are not the same hardware under the same driver,
// "" if they are. Where an API has UUIDs of its own making, as HIP does, the PCI
// address tells instead.
func unequal(a, b core.Properties) string {
	none := core.UUID{}
	switch {
	case a.UUID != none && a.UUID == b.UUID || a.PCI != "" && a.PCI == b.PCI:
		if a.DriverUUID == none || b.DriverUUID == none || a.DriverUUID == b.DriverUUID {
			return ""
		}
		return fmt.Sprintf("%v and %v have different drivers: UUID %v and %v", a.ID, b.ID, a.DriverUUID, b.DriverUUID)
	case a.UUID == none || b.UUID == none:
		return fmt.Sprintf("whether %v and %v are the same device cannot be told: one of them has no UUID", a.ID, b.ID)
	default:
		return fmt.Sprintf("%v and %v are different devices: UUID %v and %v", a.ID, b.ID, a.UUID, b.UUID)
	}
}

// cannotView says why the host cannot view memory of a device, "" if it may.
func cannotView(d core.Device, p core.Properties) string {
	return lacks[core.HostViewer](d, p, "the host cannot use memory of %v in place")
}

// cannotMap says why a device cannot map memory of the host, "" if it may.
func cannotMap(d core.Device, p core.Properties) string {
	return lacks[core.HostMapper](d, p, "%v cannot map host memory")
}

// cannotAdopt says why a device cannot take memory over by its address, "" if it may.
func cannotAdopt(d core.Device, p core.Properties) string {
	return lacks[core.PointerImporter](d, p, "%v cannot adopt memory that others allocated")
}

// lacks is a reason with the device's name in it, "" if d has the ability.
func lacks[T any](d core.Device, p core.Properties, reason string) string {
	if _, ok := ability[T](d, p); ok {
		return ""
	}
	return fmt.Sprintf(reason, p.ID)
}

// ability is core.As for a device whose properties are known.
func ability[T any](d core.Device, p core.Properties) (T, bool) {
	t, ok := d.(T)
	return t, ok && p.Capabilities.Has(core.CapabilityOf[T]())
}
