package cudalike

import "github.com/dlx-go/dlx/core"

// alignment is the alignment of every allocation, which dlpack.h asks for.
const alignment = 256

// describe describes a device.
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
			core.CapPool | core.CapImportStream | core.CapPeer | core.CapBatchCopy | core.CapDeviceClock | core.CapConvert,
	}
	b.addFeatures(&p, &x)
	return x, p, nil
}

// addFeatures adds the optional features of a device, and the reason for each one that it lacks.
func (b *Backend) addFeatures(p *core.Properties, x *Description) {
	add := func(name string, capability core.Capabilities, missing string) {
		p.AddFeature(name, capability, missing == "", "%s", missing)
	}
	if b.Managed != 0 {
		add("managed", 0, x.NoManaged)
	} else {
		add("host_view", core.CapHostView, x.NoManaged)
	}
	add("export_opaque_fd", core.CapExportMemory, x.NoDescriptors)
	add("import_opaque_fd", core.CapImportMemory, x.NoExternal)
	add("export_dma_buf", core.CapExportMemory, x.NoDMABufs)
	add("ipc", core.CapExportMemory|core.CapImportMemory, x.NoIPC)
	add("ipc_events", core.CapIPCEvents, x.NoIPCEvents)
	add("import_semaphore", core.CapImportSemaphores, x.NoTimelines)
	if x.NoTimelines == "" {
		p.AddFeature("export_semaphore", 0, false, "%s cannot make semaphores for other APIs: it imports those of Vulkan", b.API)
	} else {
		p.AddFeature("export_semaphore", 0, false, "%s cannot make semaphores for other APIs", b.API)
	}
	p.AddFeature("map_host", core.CapMapHost, x.Integrated, "the device would read host memory over the bus each time: allocate pinned memory, %v", b.Host)
	if x.Integrated {
		add("map_read_only_host", 0, x.NoReadOnlyHost)
	}
}

// handleTypes returns the types of handles that a device can import memory as, and those that it can export memory as.
func handleTypes(x Description) (imported, exported []core.HandleType) {
	if x.NoExternal == "" {
		imported = append(imported, core.HandleOpaqueFD)
	}
	if x.NoDescriptors == "" {
		exported = append(exported, core.HandleOpaqueFD)
	}
	if x.NoIPC == "" {
		imported, exported = append(imported, core.HandleIPC), append(exported, core.HandleIPC)
	}
	if x.NoDMABufs == "" { // the last, since other drivers import it without a rule about who may
		exported = append(exported, core.HandleDMABuf)
	}
	return imported, exported
}
