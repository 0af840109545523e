package cudalike

import "github.com/dlx-go/dlx/core"

// alignment is that of every allocation: what dlpack.h asks for.
const alignment = 256

// describe says what a device is and can do.
func (b *Backend) describe(ordinal int32) (Description, core.Properties, error) {
	x, s := b.driver.Describe(ordinal)
	if err := b.check(s, "device %d", ordinal); err != nil {
		return x, core.Properties{}, err
	}
	p := core.Properties{
		ID:           core.DeviceID{Type: b.Device, Index: ordinal},
		Name:         x.Name,
		Driver:       b.API + " " + b.driver.Version(),
		UUID:         x.UUID,
		PCI:          x.PCI,
		TotalMemory:  x.TotalMemory,
		ComputeUnits: x.ComputeUnits,
		Alignment:    alignment,
		Capabilities: core.CapAsync | core.CapStreamWait | core.CapImportPointer |
			core.CapPool | core.CapImportStream | core.CapPeer,
	}
	b.survey(&p, &x)
	return x, p, nil
}

// survey fills in what a device need not have, with the reason for each that is missing.
func (b *Backend) survey(p *core.Properties, x *Description) {
	if b.Managed == 0 {
		x.NoManaged = "DLPack has no type for managed memory of " + b.API
	}
	add := func(name string, capability core.Capabilities, missing string) {
		p.AddFeature(name, capability, missing == "", "%s", missing)
	}
	add("managed", 0, x.NoManaged)
	add("export_opaque_fd", core.CapExportMemory, x.NoDescriptors)
	add("import_opaque_fd", core.CapImportMemory, x.NoDescriptors)
	p.AddFeature("export_dma_buf", 0, false, "dlx exports memory of %s as %v and %v only", b.API, core.HandleOpaqueFD, core.HandleIPC)
	add("ipc", core.CapExportMemory|core.CapImportMemory|core.CapIPCEvents, x.NoIPC)
	add("import_semaphore", core.CapImportSemaphores, x.NoTimelines)
	p.AddFeature("export_semaphore", 0, false, "%s makes no semaphores for others: it imports those of Vulkan", b.API)
	p.AddFeature("map_host", core.CapMapHost, x.Integrated, "memory of the host would be read over the bus each time: allocate %v, which is pinned", b.Host)
}

// handleTypes are the handles of memory that a device exports and imports.
func (b *Backend) handleTypes(x Description) (types []core.HandleType) {
	if x.NoDescriptors == "" {
		types = append(types, core.HandleOpaqueFD)
	}
	if x.NoIPC == "" {
		types = append(types, core.HandleIPC)
	}
	return types
}
