package handoff

import (
	"slices"

	"github.com/dlx-go/dlx/core"
)

// AllocFor says how to allocate memory on from so that next can use it in place.
// It is the zero value where plain memory does, or nothing helps.
func AllocFor(from, next core.Device) core.AllocOptions {
	if from == next || from.ID().Type.HostAccessible() {
		return core.AllocOptions{}
	}
	fp, np := from.Properties(), next.Properties()
	_, shows := from.(core.HostViewer)
	visible := core.AllocOptions{HostVisible: shows && fp.Capabilities.Has(core.CapHostView)}
	if next.ID().Type.HostAccessible() {
		return visible
	}
	if t := commonHandle(from, next); t != 0 {
		return core.AllocOptions{Export: t}
	}
	if _, maps := next.(core.HostMapper); maps && np.Capabilities.Has(core.CapMapHost) {
		return visible
	}
	return core.AllocOptions{}
}

// commonHandle is the first type of handle that from exports and next can open, 0
// if there is none. An opaque descriptor is understood by the same device and
// driver only.
func commonHandle(from, next core.Device) core.HandleType {
	e, exports := from.(core.MemoryExporter)
	i, imports := next.(core.MemoryImporter)
	fp, np := from.Properties(), next.Properties()
	if !exports || !imports || !fp.Capabilities.Has(core.CapExportMemory) || !np.Capabilities.Has(core.CapImportMemory) {
		return 0
	}
	same := fp.UUID != core.UUID{} && fp.UUID == np.UUID && fp.DriverUUID == np.DriverUUID
	for _, t := range e.ExportTypes() {
		if (same || t != core.HandleOpaqueFD) && slices.Contains(i.ImportTypes(), t) {
			return t
		}
	}
	return 0
}
