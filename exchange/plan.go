package exchange

import (
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange/internal/opened"
)

// plan lists every way there is for a move, the best first. It does not change.
type plan struct {
	names
	bytes int64 // that one copy of the tensor has
	ways  []way
	room  [10]way // for ways: most plans have no more
}

// newPlan plans a move. It looks at what the devices say of themselves and of the memory, and
// opens and copies nothing.
func newPlan(m *move) *plan {
	p := &plan{bytes: m.copyBytes()}
	p.memory, p.to, p.wanted, p.only, p.export = m.from.ID, m.dst.ID(), m.wanted(), m.o.Only, m.o.Alloc.Export
	l := planner{move: m, target: m.dst.Properties()}
	if d := m.from.Device; d != nil {
		l.source = d.Properties()
		p.from = d.ID()
	}
	l.ways = p.room[:0]
	switch {
	case m.isEmpty():
		l.offer(&noElements)
	case m.o.Copy != Always:
		l.share()
		l.copies(nil)
	default:
		l.share()
		shared := slices.Clone(l.ways)
		l.ways = l.ways[:0]
		l.copies(shared)
	}
	for i := range l.ways {
		if w := &l.ways[i]; w.reason == nil {
			w.reason = l.forbids(w.cost())
		}
	}
	p.ways = l.ways
	return p
}

// best returns the index of the first way that may be tried, -1 if there is none.
func (p *plan) best() int {
	return slices.IndexFunc(p.ways, func(w way) bool { return w.reason == nil })
}

// refused is the report of a move that took none of the ways.
func (p *plan) refused(ways []way) Report {
	return Report{From: p.memory, To: p.to, account: &account{plan: p, refused: ways}}
}

// planner collects the ways of a plan in the order of their rank.
type planner struct {
	*move
	source, target core.Properties // source is zero if no opened device owns the source's memory
	ways           []way
}

// offer adds a way.
func (l *planner) offer(m *method) { l.ways = append(l.ways, way{method: m}) }

// offerUnless adds a way that is refused if there is a reason.
func (l *planner) offerUnless(reason reason, m *method) {
	l.ways = append(l.ways, way{method: m, reason: reason})
}

// forbids returns why the options forbid a mechanism, nil if they do not.
func (l *planner) forbids(m Mechanism) reason {
	switch {
	case l.o.Only != 0 && l.o.Only != m:
		return onlyAnother
	case l.o.Copy == Never && m.Copies() > 0:
		return neverCopies
	}
	return nil
}

// unless returns r if a condition is not met.
func unless(ok bool, r reason) reason {
	if ok {
		return nil
	}
	return r
}

// share lists the ways that copy nothing.
func (l *planner) share() {
	owner, memory, to := l.from.Device, l.from.ID, l.target.ID
	onHost := memory.Type.HostAccessible()
	switch {
	case owner == l.dst:
		l.offerUnless(unless(memory.Type == l.wanted(), otherType), &useAsItIs)
		return
	case memory == to && owner == nil || onHost && to.Type.HostAccessible():
		l.shareBy(&importPointer, unless(has[core.PointerImporter](l.dst, &l.target), cannotImportBy))
		return
	}
	l.offerUnless(otherMemory, &useNotOwn)
	if onHost {
		l.shareBy(&mapHostMemory, mapReason(l.dst, &l.target, l.from))
		return
	}
	if owner == nil {
		l.offerUnless(unownedReason(memory.Type), &shareNotOwned)
		return
	}
	viewed := l.viewReason()
	if to.Type.HostAccessible() {
		l.shareBy(&viewOnHost, viewed, unless(has[core.PointerImporter](l.dst, &l.target), cannotImportBy))
		return
	}
	types, reason := commonTypes(owner, l.dst, &l.source, &l.target)
	if reason != nil {
		l.offerUnless(reason, &exportImport)
	}
	for _, h := range types {
		l.shareBy(&exportImport, l.exportReason(h))
		l.ways[len(l.ways)-1].handle = h
	}
	l.shareBy(&mapView, viewed, mapReason(l.dst, &l.target, viewOf(l.from)))
}

// shareBy adds a way that opens the source's memory on the destination. The first of the
// reasons that is not nil refuses it.
func (l *planner) shareBy(m *method, reasons ...reason) {
	for _, reason := range reasons {
		if reason != nil {
			l.offerUnless(reason, m)
			return
		}
	}
	l.offerUnless(unless(l.low >= 0, unknownStart), m)
}

// copies lists the ways that copy. shared are the ways to share the memory with the
// destination, if they are not to be its result but what it copies from.
func (l *planner) copies(shared []way) {
	owner := l.from.Device
	onHost, toHost := l.from.ID.Type.HostAccessible(), l.target.ID.Type.HostAccessible()
	if owner == nil && !onHost {
		l.copyShared(shared)
		l.offerUnless(unownedReason(l.from.ID.Type), &copyNotOwned)
		return
	}
	local := owner == l.dst
	if !local && !onHost && !toHost {
		l.offerUnless(l.peerReason(), &peerCopy)
	}
	if local || onHost {
		l.offer(&copyIn)
		if local {
			return
		}
	}
	if toHost && !onHost {
		l.offer(&copyOut)
	}
	l.copyShared(shared)
	if onHost {
		return // no other way is better than the destination's own copy
	}
	if !toHost {
		l.offerUnless(l.viewReason(), &copyFromView)
		l.offerUnless(l.targetViewReason(), &copyIntoView)
		l.importTarget()
	}
	l.offer(&staged)
}

// copyShared adds ways that copy from shared memory.
func (l *planner) copyShared(shared []way) {
	for _, w := range shared {
		l.ways = append(l.ways, w.copyOf())
	}
}

// peerReason returns why the destination cannot copy from the source's device as a peer.
func (l *planner) peerReason() reason {
	c, ok := capability[core.PeerCopier](l.dst, &l.target)
	switch {
	case !ok:
		return noPeers
	case l.source.ID.Type.BackendName() != l.target.ID.Type.BackendName():
		return otherBackend
	}
	if err := c.CanPeer(l.from.Device); err != nil {
		return failure{err}
	}
	return nil
}

// importTarget adds ways that allocate memory which the source's device can import and copy into.
func (l *planner) importTarget() {
	types, reason := commonTypes(l.dst, l.from.Device, &l.target, &l.source)
	if reason != nil {
		l.offerUnless(reason, &copyIntoImport)
	}
	for _, h := range types {
		asked := l.o.Alloc.Export
		l.offerUnless(unless(asked == 0 || asked == h, exportAnother), &copyIntoImport)
		l.ways[len(l.ways)-1].handle = h
	}
}

// unownedReason returns why memory without a device cannot be used. It says what the program can do.
func unownedReason(t core.DeviceType) reason {
	if privateCore.Addressed(t) || t.OpaqueHandle() {
		return notOwned
	}
	return unknownKind
}

// viewOf is the memory that HostView returns for m, as far as a plan needs it.
func viewOf(m core.Memory) core.Memory {
	return core.Memory{ID: core.CPU, Size: m.Size, Origin: m.OriginType(), ReadOnly: m.ReadOnly}
}

// viewReason returns why the host cannot view the source's memory, as far as its device knows.
func (l *planner) viewReason() reason {
	owner := l.from.Device
	if !has[core.HostViewer](owner, &l.source) {
		return cannotView
	}
	if c, ok := owner.(shareChecker); ok {
		if err := c.CanView(l.from); err != nil {
			return failure{err}
		}
	}
	return nil
}

// targetViewReason returns why the host cannot view the memory that is allocated for the result.
func (l *planner) targetViewReason() reason {
	if !has[core.HostViewer](l.dst, &l.target) {
		return cannotViewTo
	}
	if c, ok := l.dst.(shareChecker); ok && !l.o.Alloc.HostVisible {
		if err := c.CanView(core.Memory{ID: l.target.ID}); err != nil {
			return failure{err}
		}
	}
	return nil
}

// exportReason returns why the source's memory cannot be exported as t, as far as its device knows.
func (l *planner) exportReason(t core.HandleType) reason {
	if c, ok := l.from.Device.(shareChecker); ok {
		if err := c.CanExport(l.from, t); err != nil {
			return failure{err}
		}
	}
	return nil
}

// mapReason returns why a device cannot map m, memory of the host.
func mapReason(d core.Device, p *core.Properties, m core.Memory) reason {
	h, ok := capability[core.HostMapper](d, p)
	if !ok {
		return cannotMap
	}
	if err := h.CanMap(m); err != nil {
		return failure{err}
	}
	return nil
}

// commonTypes returns the handle types by which memory of one device can be opened on
// another, or the reason why there are none.
func commonTypes(exporter, importer core.Device, ep, ip *core.Properties) ([]core.HandleType, reason) {
	e, ok := capability[core.MemoryExporter](exporter, ep)
	if !ok {
		return nil, lacks(ep, core.CapExportMemory, cannotExport)
	}
	i, ok := capability[core.MemoryImporter](importer, ip)
	if !ok {
		return nil, lacks(ip, core.CapImportMemory, cannotImport)
	}
	exported, known := e.ExportTypes(), i.ImportTypes()
	var common []core.HandleType
	driver := true // no type failed for being bound to another device or driver
	for _, h := range exported {
		if !slices.Contains(known, h) {
			continue
		}
		if !understood(h, ep, ip) {
			driver = false
			continue
		}
		common = append(common, h)
	}
	switch {
	case len(common) > 0:
		return common, nil
	case !driver:
		return nil, &otherDriver{ep.ID, ip.ID, ep.UUID, ip.UUID, ep.DriverUUID, ip.DriverUUID, core.SamePhysicalDevice(*ep, *ip)}
	default:
		return nil, &otherTypes{ep.ID, ip.ID, exported, known}
	}
}

// lacks returns r, with what the device with properties p says of the capability that it lacks.
func lacks(p *core.Properties, c core.Capabilities, r reason) reason {
	i := slices.IndexFunc(p.Features, func(f core.Feature) bool { return !f.Available && f.Capability&c != 0 && f.Reason != "" })
	if i < 0 {
		return r
	}
	return &explained{r, p.Features[i].Reason}
}

// explained is a reason with what the device says of it.
type explained struct {
	reason
	why string
}

func (e *explained) text(n *names, w way) string { return e.reason.text(n, w) + ": " + e.why }

// understood reports whether the device with properties ip can open handles of a type that the device with properties
// ep exported. Opaque descriptors and IPC handles are understood by the same device and driver only, and IPC handles by one API. A dma-buf
// belongs to one device, too, if that has a UUID.
func understood(t core.HandleType, ep, ip *core.Properties) bool {
	switch t {
	case core.HandleIPC:
		return ep.ID.Type.BackendName() == ip.ID.Type.BackendName() && opened.SameDriver(*ep, *ip)
	case core.HandleOpaqueFD:
		return opened.SameDriver(*ep, *ip)
	case core.HandleDMABuf:
		return ep.UUID == core.UUID{} || core.SamePhysicalDevice(*ep, *ip)
	}
	return true
}

// otherDriver says that two devices are not the same hardware under the same driver.
type otherDriver struct {
	from, to         core.DeviceID
	uuid, toUUID     core.UUID
	driver, toDriver core.UUID
	same             bool // the same hardware
}

func (e *otherDriver) text(*names, way) string {
	switch none := (core.UUID{}); {
	case e.same && (e.driver == none || e.toDriver == none):
		return fmt.Sprintf("%v and %v are of different APIs, whose handles have nothing in common", e.from, e.to)
	case e.same:
		return fmt.Sprintf("%v and %v have different drivers: UUID %v and %v", e.from, e.to, e.driver, e.toDriver)
	case e.uuid == none || e.toUUID == none:
		return fmt.Sprintf("it is unknown whether %v and %v are the same device: one of them has no UUID", e.from, e.to)
	default:
		return fmt.Sprintf("%v and %v are different devices: UUID %v and %v", e.from, e.to, e.uuid, e.toUUID)
	}
}

// otherTypes says that one device exports no type of handles that the other imports.
type otherTypes struct {
	from, to           core.DeviceID
	exported, imported []core.HandleType
}

func (e *otherTypes) text(*names, way) string {
	return fmt.Sprintf("%v exports %v, %v imports %v", e.from, e.exported, e.to, e.imported)
}

// capability is core.As for a device whose properties are known.
func capability[T any](d core.Device, p *core.Properties) (T, bool) {
	t, ok := d.(T)
	return t, ok && p.Capabilities.Has(privateCore.CapabilityOf((*T)(nil)))
}

// has reports whether a device has the capability of an interface.
func has[T any](d core.Device, p *core.Properties) bool {
	_, ok := capability[T](d, p)
	return ok
}
