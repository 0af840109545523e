//go:build cuda && linux && cgo

package cuda

import (
	"slices"

	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// alignment is that of every allocation (cuMemAlloc: suitable for any kind of
// variable, which is 256 bytes), and what dlpack.h asks for.
const alignment = 256

// describe says what a device is and can do.
func describe(ordinal int) (core.Properties, error) {
	d, s := driver.Device(ordinal)
	if err := check(s, "cuDeviceGet", "device %d", ordinal); err != nil {
		return core.Properties{}, err
	}
	p := core.Properties{
		ID:           core.DeviceID{Type: core.DeviceCUDA, Index: int32(ordinal)},
		Driver:       "CUDA " + versionText(driver.Version()),
		PCI:          driver.PCI(d),
		ComputeUnits: driver.Attribute(d, driver.Multiprocessors),
		Alignment:    alignment,
		Capabilities: core.CapAsync | core.CapStreamWait | core.CapImportPointer |
			core.CapPool | core.CapImportStream | core.CapPeer,
	}
	var err error
	if p.Name, err = d.Name(); err != nil {
		return p, check(driver.StatusOf(err), "cuDeviceGetName", "device %d", ordinal)
	}
	if p.TotalMemory, err = d.TotalMem(); err != nil {
		return p, check(driver.StatusOf(err), "cuDeviceTotalMem", "device %d", ordinal)
	}
	id, err := d.UUID()
	if err != nil {
		return p, check(driver.StatusOf(err), "cuDeviceGetUuid", "device %d", ordinal)
	}
	p.UUID = core.UUID(id)
	survey(&p, d)
	return p, nil
}

// survey fills in what a device need not have, with the reason for each that is missing.
func survey(p *core.Properties, d cu.Device) {
	has := func(a cu.DeviceAttribute) bool { return driver.Attribute(d, a) != 0 }
	const without = "%s is 0"
	types := handleTypes(d)
	p.AddFeature("managed", 0, hasManaged(d), "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY or CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0")
	fd := slices.Contains(types, core.HandleOpaqueFD)
	p.AddFeature("export_opaque_fd", core.CapExportMemory, fd, without, "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED")
	p.AddFeature("import_opaque_fd", core.CapImportMemory, fd, without, "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED")
	p.AddFeature("export_dma_buf", 0, false, "dlx exports memory of CUDA as %v and %v only", core.HandleOpaqueFD, core.HandleCUDAIPC)
	p.AddFeature("cuda_ipc", core.CapExportMemory|core.CapImportMemory, slices.Contains(types, core.HandleCUDAIPC), "the device is integrated, or the driver has no cuIpcGetMemHandle")
	p.AddFeature("import_semaphore", core.CapImportSemaphores, has(driver.TimelineSemaphore), without, "CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED")
	p.AddFeature("export_semaphore", 0, false, "CUDA makes no semaphores for others: it imports those of Vulkan")
	p.AddFeature("map_host", core.CapMapHost, has(driver.Integrated), "memory of the host would be read over the bus each time: allocate %v, which is pinned", core.DeviceCUDAHost)
}

// hasManaged reports whether a device has managed memory that the host may use while any
// work of the device runs: without CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS that faults.
func hasManaged(d cu.Device) bool {
	return driver.Attribute(d, driver.ManagedMemory) != 0 && driver.Attribute(d, driver.ConcurrentManaged) != 0
}

// handleTypes are the handles of memory that a device exports and imports.
func handleTypes(d cu.Device) (types []core.HandleType) {
	if driver.Attribute(d, driver.VirtualMemory) != 0 && driver.Attribute(d, driver.ExportFD) != 0 {
		types = append(types, core.HandleOpaqueFD)
	}
	if ipcSupported(d) {
		types = append(types, core.HandleCUDAIPC)
	}
	return types
}
