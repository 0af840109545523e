package core

import "fmt"

// optionalInterface is an optional interface of a [Device] with its capability.
type optionalInterface struct {
	capability  Capabilities
	name        string
	pointer     any // a nil pointer to the interface; capabilityOf compares it
	implemented func(Device) bool
}

func optional[I any](capability Capabilities, name string) optionalInterface {
	return optionalInterface{capability, name, (*I)(nil), func(d Device) bool {
		_, ok := d.(I)
		return ok
	}}
}

// optionalInterfaces maps capabilities to interfaces. No other code does.
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
	optional[BatchCopier](CapBatchCopy, "BatchCopier"),
	optional[DeviceClock](CapDeviceClock, "DeviceClock"),
	optional[Converter](CapConvert, "Converter"),
}

// capabilityOf returns the capability of the optional interface to which pointer is a nil
// pointer, and 0 if it has none.
func capabilityOf(pointer any) Capabilities {
	for i := range optionalInterfaces {
		if row := &optionalInterfaces[i]; row.pointer == pointer {
			return row.capability
		}
	}
	return 0
}

// CapabilityOf is capabilityOf.
func (privateCore) CapabilityOf(pointer any) Capabilities { return capabilityOf(pointer) }

// As returns d as the optional interface I, and reports whether d has the capability of I.
// If d implements I but does not declare the capability of I, ok is false. If d is nil,
// ok is false too. For an interface without a capability, such as [FileReader], As is a
// type assertion.
//
//	if m, ok := core.As[core.HostMapper](d); ok {
//		memory, err := m.MapHost(ctx, host)
//	}
func As[I any](d Device) (i I, ok bool) {
	i, ok = d.(I)
	if c := capabilityOf((*I)(nil)); ok && c != 0 {
		ok = d.Properties().Capabilities.Has(c)
	}
	if !ok {
		var none I
		return none, false
	}
	return i, true
}

// CheckCapabilities is CheckCapabilities of package backendkit.
func (privateCore) CheckCapabilities(d Device) error {
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

// AddFeature adds a feature to p.Features. If the feature is available, AddFeature also
// adds capability, which may be 0, to p.Capabilities. If it is not available, reason and
// args format the text that says why.
func (p *Properties) AddFeature(name string, capability Capabilities, available bool, reason string, args ...any) {
	f := Feature{Name: name, Available: available, Capability: capability}
	if available {
		p.Capabilities |= capability
	} else {
		f.Reason = fmt.Sprintf(reason, args...)
	}
	p.Features = append(p.Features, f)
}

// Require returns ErrNotSupported if p lacks some of the capabilities in want. The error
// names the backend and call. It also says why the capability is missing, if
// [Properties.AddFeature] recorded a reason. A device calls Require in the methods of an
// optional interface that it does not always offer.
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
