package core

import "fmt"

// optionalInterface is an optional interface of a [Device] and the capability that
// stands for it.
type optionalInterface struct {
	capability  Capabilities
	name        string
	pointer     any // a nil pointer to the interface, by which CapabilityOf finds the row
	implemented func(Device) bool
}

func optional[I any](capability Capabilities, name string) optionalInterface {
	return optionalInterface{capability, name, (*I)(nil), func(d Device) bool {
		_, ok := d.(I)
		return ok
	}}
}

// optionalInterfaces is the one place that says which capability stands for which interface.
var optionalInterfaces = [...]optionalInterface{
	optional[PointerImporter](CapImportPointer, "PointerImporter"),
	optional[HostMapper](CapMapHost, "HostMapper"),
	optional[MemoryExporter](CapExportMemory, "MemoryExporter"),
	optional[MemoryImporter](CapImportMemory, "MemoryImporter"),
	optional[SemaphoreCreator](CapSemaphores, "SemaphoreCreator"),
	optional[SemaphoreExporter](CapExportSemaphores, "SemaphoreExporter"),
	optional[SemaphoreImporter](CapImportSemaphores, "SemaphoreImporter"),
	optional[PeerCopier](CapPeer, "PeerCopier"),
	optional[PoolController](CapPool, "PoolController"),
	optional[HostViewer](CapHostView, "HostViewer"),
	optional[StreamImporter](CapImportStream, "StreamImporter"),
	optional[IPCEventCreator](CapIPCEvents, "IPCEventCreator"),
}

// CapabilityOf returns the capability that stands for the optional interface I:
// CapMapHost for [HostMapper]. It returns 0 for any other type.
func CapabilityOf[I any]() Capabilities {
	for i := range optionalInterfaces {
		if row := &optionalInterfaces[i]; row.pointer == any((*I)(nil)) {
			return row.capability
		}
	}
	return 0
}

// As returns d as the optional interface I, if d has that ability. The capability
// decides: ok is false if d implements I but does not declare the capability of I, and
// for a nil d. For an interface without a capability, such as [CloseNotifier], As is a
// type assertion.
//
//	if m, ok := core.As[core.HostMapper](d); ok {
//		memory, err := m.MapHost(ctx, host)
//	}
//
// Code that holds d's Properties already can test them for [CapabilityOf] I instead.
func As[I any](d Device) (i I, ok bool) {
	i, ok = d.(I)
	if c := CapabilityOf[I](); ok && c != 0 {
		ok = d.Properties().Capabilities.Has(c)
	}
	if !ok {
		var none I
		return none, false
	}
	return i, true
}

// CheckCapabilities fails with ErrNotSupported if d declares a capability and does not
// implement the interface that the capability stands for, and with ErrInvalid for a nil
// d. The conformance suite calls it.
func CheckCapabilities(d Device) error {
	if d == nil {
		return Errorf(ErrInvalid, "core", "CheckCapabilities", "the device is nil")
	}
	p := d.Properties()
	for _, row := range optionalInterfaces {
		if p.Capabilities.Has(row.capability) && !row.implemented(d) {
			return Errorf(ErrNotSupported, "core", "CheckCapabilities", "%v declares capability %v, but %T does not implement core.%s", p.ID, row.capability, d, row.name)
		}
	}
	return nil
}

// AddFeature adds a feature that devices may lack: where it is available the device has
// capability, which may be 0, and where not the format and args say why.
func (p *Properties) AddFeature(name string, capability Capabilities, available bool, reason string, args ...any) {
	f := Feature{Name: name, Available: available, Capability: capability}
	if available {
		p.Capabilities |= capability
	} else {
		f.Reason = fmt.Sprintf(reason, args...)
	}
	p.Features = append(p.Features, f)
}

// Require fails with ErrNotSupported if the device does not have all of want. The error
// names backend and call, and gives the reason of a feature that would have brought what
// is missing (see [Properties.AddFeature]). A device calls it in the methods of an optional interface
// that it does not always offer.
func (p *Properties) Require(want Capabilities, call string) error {
	missing := want &^ p.Capabilities
	if missing == 0 {
		return nil
	}
	for _, f := range p.Features {
		if !f.Available && f.Capability&missing != 0 {
			return Errorf(ErrNotSupported, p.ID.Type.BackendName(), call, "%v lacks the capability %v: %s", p.ID, missing, f.Reason)
		}
	}
	return Errorf(ErrNotSupported, p.ID.Type.BackendName(), call, "%v lacks the capability %v", p.ID, missing)
}
