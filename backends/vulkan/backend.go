//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

func messages(first uint64) (count uint64, texts []string) { return driver.Messages(first) }

// options are Options, and what only the environment and tests ask for.
type options struct {
	validation bool
	strict     bool // Close of a device fails if the validation layer has reported anything
	separate   bool // treat memory as if the host could not reach it, for tests
}

// backend has no state. The library belongs to the process, and all else to opened devices.
type backend struct{ options }

var _ core.Backend = backend{}

func newBackend(o options) core.Backend { return backend{o} }

func (backend) Name() string { return name }

func (b backend) Probe(ctx context.Context) core.Probe {
	var p core.Probe
	err := b.visit(ctx, func(i *driver.Instance, usable []*driver.Physical) error {
		first := describe(usable[0], b.options, 0, usable[0].Has)
		p = core.Probe{Available: true, Version: i.Version().String(), Features: first.Features}
		return nil
	})
	if err != nil {
		return core.Probe{Reason: err.Error()}
	}
	return p
}

func (b backend) Devices(ctx context.Context) ([]core.Properties, error) {
	var all []core.Properties
	err := b.visit(ctx, func(_ *driver.Instance, usable []*driver.Physical) error {
		for i, p := range usable {
			all = append(all, describe(p, b.options, int32(i), p.Has))
		}
		return nil
	})
	return all, err
}

func (b backend) Open(ctx context.Context, id core.DeviceID) (core.Device, error) {
	i, usable, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if id.Type != core.DeviceVulkan || id.Index < 0 || int(id.Index) >= len(usable) {
		i.Close()
		return nil, errorf(core.ErrDevice, "Open", "there is no device %v: this machine has vulkan:0 to vulkan:%d", id, len(usable)-1)
	}
	v, err := driver.NewDevice(usable[id.Index])
	if err != nil {
		i.Close()
		return nil, err
	}
	return openDevice(i, v, b.options, id.Index)
}

// visit calls f with an instance, and closes that.
func (b backend) visit(ctx context.Context, f func(*driver.Instance, []*driver.Physical) error) error {
	i, usable, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer i.Close()
	return f(i, usable)
}

// open makes an instance, which the caller closes, and lists the devices that can be used: at least one.
func (b backend) open(ctx context.Context) (*driver.Instance, []*driver.Physical, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	i, err := driver.NewInstance(b.validation)
	if err != nil {
		return nil, nil, err
	}
	all, err := i.Physicals()
	if err == nil && len(all) == 0 {
		err = errorf(core.ErrNotSupported, "vkEnumeratePhysicalDevices", "no driver has a device: VK_DRIVER_FILES and VK_ICD_FILENAMES can name the manifests of drivers")
	}
	var usable []*driver.Physical
	var reason error
	for _, p := range all {
		if why := p.Usable(); why == nil {
			usable = append(usable, p)
		} else {
			reason = why
		}
	}
	if err == nil && len(usable) == 0 {
		err = reason
	}
	if err != nil {
		i.Close()
		return nil, nil, err
	}
	return i, usable, nil
}

// describe returns the properties of a device. has reports which extensions are enabled.
func describe(p *driver.Physical, o options, index int32, has func(string) bool) core.Properties {
	out := core.Properties{
		ID:         core.DeviceID{Type: core.DeviceVulkan, Index: index},
		Name:       p.Name,
		Driver:     p.Driver,
		UUID:       p.DeviceUUID,
		DriverUUID: p.DriverUUID,
		PCI:        p.PCI,
		Queues:     p.Queues,
		Alignment:  alignment,
		Capabilities: core.CapAsync | core.CapStreamWait | core.CapImportPointer |
			core.CapSemaphores | core.CapPool | core.CapHostView | core.CapBatchCopy | core.CapConvert,
	}
	for i, size := range p.Heaps {
		if slices.ContainsFunc(p.Memory, func(t driver.MemoryType) bool { return t.Heap == i && t.DeviceLocal }) {
			out.TotalMemory += size
		}
	}
	const without = "the driver does not have %s"
	probe := &device{physical: p, options: o}
	out.AddFeature("map_host", core.CapMapHost, has(driver.ExternalMemoryHost) && p.ExternalBuffers(driver.HostPointer).Import, without, driver.ExternalMemoryHost)
	out.AddFeature("map_foreign_host", 0, importsForeign(p, has), "the driver does not import memory of other devices that is mapped for the host")
	exports, imports := memoryTypes(p, has)
	for _, t := range [...]core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf} {
		extension := handleExtensions[t]
		out.AddFeature("export_"+t.String(), core.CapExportMemory, slices.Contains(exports, t), without, extension+", or does not export buffers by it")
		out.AddFeature("import_"+t.String(), core.CapImportMemory, slices.Contains(imports, t), without, extension+", or does not import buffers by it")
	}
	semaphores := semaphoreType(p, has)
	const notShared = "the driver does not have VK_KHR_external_semaphore_fd, neither for timeline semaphores nor for binary ones, or shares no memory"
	out.AddFeature("export_semaphore", core.CapExportSemaphores, semaphores != 0, notShared)
	out.AddFeature("import_semaphore", core.CapImportSemaphores, semaphores != 0, notShared)
	out.AddFeature("device_clock", core.CapDeviceClock, p.TimestampBits > 0 && p.TimestampPeriod > 0, "timestampValidBits of the queue family is 0")
	out.AddFeature("pci_bus_info", 0, p.PCI != "", without, "VK_EXT_pci_bus_info")
	if probe.reachesPlain() {
		out.Capabilities |= core.CapSubByte
	}
	return out
}

// semaphoreType returns the handle type of the semaphores that the driver exports and imports: timelines, or else binary
// semaphores; 0 if it shares neither, or no memory, since alone they have nothing to order.
func semaphoreType(p *driver.Physical, has func(string) bool) core.HandleType {
	if exports, _ := memoryTypes(p, has); !has(driver.ExternalSemaphoreFD) || len(exports) == 0 {
		return 0
	}
	if can := p.ExternalSemaphores(false); can.Export && can.Import {
		return core.HandleOpaqueFD
	}
	if can := p.ExternalSemaphores(true); can.Export && can.Import {
		return core.HandleBinaryFD
	}
	return 0
}

// importsForeign reports whether the driver imports addresses of memory of other devices.
func importsForeign(p *driver.Physical, has func(string) bool) bool {
	return has(driver.ExternalMemoryHost) && p.ExternalBuffers(driver.HostForeign).Import
}

// reachesPlain reports whether the host accesses plain memory as fast as its own.
func (d *device) reachesPlain() bool {
	t := d.findType(local, ^uint32(0))
	return t >= 0 && d.inReach(d.physical.Memory[t])
}

// handleExtensions is what each kind of handle needs, externalHandles Vulkan's name of it.
var (
	handleExtensions = map[core.HandleType]string{
		core.HandleOpaqueFD: driver.ExternalMemoryFD,
		core.HandleDMABuf:   driver.ExternalMemoryDMA,
	}
	externalHandles = map[core.HandleType]driver.Handles{
		core.HandleOpaqueFD: driver.OpaqueFD,
		core.HandleDMABuf:   driver.DMABuf,
	}
)

// memoryTypes lists the handle types by which memory can be exported, and imported. If one list is empty,
// both are, which is the case for no known driver.
func memoryTypes(p *driver.Physical, has func(string) bool) (exports, imports []core.HandleType) {
	for _, t := range [...]core.HandleType{core.HandleOpaqueFD, core.HandleDMABuf} {
		if !has(driver.ExternalMemoryFD) || !has(handleExtensions[t]) {
			continue
		}
		can := p.ExternalBuffers(externalHandles[t])
		if can.Export {
			exports = append(exports, t)
		}
		if can.Import {
			imports = append(imports, t)
		}
	}
	if len(exports) == 0 || len(imports) == 0 {
		return nil, nil
	}
	return exports, imports
}
