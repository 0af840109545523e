//go:build vulkan && linux && cgo

package driver

// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	vk "github.com/vulkan-go/vulkan"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// The extensions that are used where a device has them.
const (
	ExternalMemoryFD    = "VK_KHR_external_memory_fd"
	ExternalMemoryDMA   = "VK_EXT_external_memory_dma_buf"
	ExternalMemoryHost  = "VK_EXT_external_memory_host"
	ExternalSemaphoreFD = "VK_KHR_external_semaphore_fd"
	TimelineSemaphore   = "VK_KHR_timeline_semaphore"
	QueueFamilyForeign  = "VK_EXT_queue_family_foreign"
	pciBusInfo          = "VK_EXT_pci_bus_info"
	driverProperties    = "VK_KHR_driver_properties"
	storage8Bit         = "VK_KHR_8bit_storage"
	maintenance4        = "VK_KHR_maintenance4"
)

// Physical is a physical device and its properties.
type Physical struct {
	Handle     uint64
	Name       string
	Driver     string // name and version
	DriverID   VendorDriver
	API        Version
	Kind       Kind
	DeviceUUID core.UUID
	DriverUUID core.UUID
	PCI        string // empty where unknown
	Timeline   bool   // the feature timelineSemaphore, without which it cannot be opened
	Heaps      []int64
	Memory     []MemoryType
	Family     int // of the queues that are used: compute and transfer; -1 if there is none
	Queues     int // of that family

	TimestampBits   int     // of the timestamps of that family; 0 if it has none
	TimestampPeriod float64 // nanoseconds of a step of timestamps

	HostAlignment       int64 // of imported host pointers; 0 without ExternalMemoryHost
	MaxBuffer           int64 // bytes: maxBufferSize
	MaxStorageRange     int64 // bytes that a shader can reach through one binding
	MaxGroups           [3]uint32
	StorageAlignment    int64
	Storage8, Storage16 bool // a shader can load and store words of 8 and 16 bits

	timestampBits []C.uint32_t // by family
	extensions    []string
	instance      *Instance
	external      C.PFN_vkGetPhysicalDeviceExternalBufferProperties
}

// VendorDriver is a VkDriverId; 0 if the driver does not tell it.
type VendorDriver uint32

// The drivers for the CPU, which differ in what their descriptors stand for.
const (
	Llvmpipe    VendorDriver = C.VK_DRIVER_ID_MESA_LLVMPIPE
	SwiftShader VendorDriver = C.VK_DRIVER_ID_GOOGLE_SWIFTSHADER
)

// Kind is a VkPhysicalDeviceType.
type Kind uint32

// The kinds whose memory is the host's, so that mapping it costs nothing.
const (
	Integrated Kind = C.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
	CPU        Kind = C.VK_PHYSICAL_DEVICE_TYPE_CPU
)

// MemoryType is what one VkMemoryType offers.
type MemoryType struct {
	Heap                                   int
	DeviceLocal, Visible, Coherent, Cached bool
	Protected                              bool // or else not for everyone
}

// Physicals lists the physical devices.
func (i *Instance) Physicals() ([]*Physical, error) {
	defer dl.KeepHandlers()()
	var n uint32
	const call = "vkEnumeratePhysicalDevices"
	if err := failed(C.VkResult(vk.EnumeratePhysicalDevices(i.handle, &n, nil)), call, ""); err != nil || n == 0 {
		return nil, err
	}
	handles := make([]vk.PhysicalDevice, n)
	if err := failed(C.VkResult(vk.EnumeratePhysicalDevices(i.handle, &n, handles)), call, ""); err != nil {
		return nil, err
	}
	found := make([]*Physical, n)
	for k, h := range handles[:n] {
		p, err := i.Physical(number(h))
		if err != nil {
			return nil, err
		}
		found[k] = p
	}
	return found, nil
}

// Physical describes the physical device of a handle.
func (i *Instance) Physical(handle uint64) (*Physical, error) {
	defer dl.KeepHandlers()()
	p := &Physical{Handle: handle, instance: i}
	get := function[C.PFN_vkEnumerateDeviceExtensionProperties](i, "vkEnumerateDeviceExtensionProperties")
	var err error
	p.extensions, err = list("vkEnumerateDeviceExtensionProperties", func(n *C.uint32_t, names *C.dlx_name) C.VkResult {
		return C.dlx_device_extensions(get, C.uint64_t(handle), n, names)
	})
	if err != nil {
		return nil, err
	}
	properties := function[C.PFN_vkGetPhysicalDeviceProperties2](i, "vkGetPhysicalDeviceProperties2")
	features := function[C.PFN_vkGetPhysicalDeviceFeatures2](i, "vkGetPhysicalDeviceFeatures2")
	p.external = function[C.PFN_vkGetPhysicalDeviceExternalBufferProperties](i, "vkGetPhysicalDeviceExternalBufferProperties")
	if properties == nil || features == nil || p.external == nil {
		return nil, core.Errorf(core.ErrVersion, backend, "vkGetInstanceProcAddr", "the instance was not made for Vulkan 1.1 or newer: it has no vkGetPhysicalDeviceProperties2")
	}
	var d C.dlx_physical
	C.dlx_describe(properties, features, C.uint64_t(handle), 0, &d)
	p.API = Version(d.api_version)
	C.dlx_describe(properties, features, C.uint64_t(handle), p.chains(), &d)
	p.describe(&d)
	p.describeMemory()
	p.Family, p.Queues, p.timestampBits = family(i, handle)
	p.useFamily(p.Family)
	return p, nil
}

// chains are the structs that the device knows.
func (p *Physical) chains() C.uint32_t {
	var has C.uint32_t
	for _, c := range []struct {
		flag      C.uint32_t
		extension string
		core      bool // since 1.2
	}{
		{C.DLX_HAS_DRIVER, driverProperties, true},
		{C.DLX_HAS_TIMELINE, TimelineSemaphore, true},
		{C.DLX_HAS_STORAGE8, storage8Bit, true},
		{C.DLX_HAS_PCI, pciBusInfo, false},
		{C.DLX_HAS_HOST, ExternalMemoryHost, false},
		{C.DLX_HAS_BUFFER_SIZE, maintenance4, false},
	} {
		if p.Has(c.extension) || c.core && p.API >= Version12 {
			has |= c.flag
		}
	}
	return has
}

func (p *Physical) describe(d *C.dlx_physical) {
	p.Name = C.GoString(&d.name[0])
	p.Driver = C.GoString(&d.driver_name[0])
	if p.Driver == "" {
		p.Driver = fmt.Sprintf("vendor %#x", uint32(d.vendor_id))
	}
	if info := C.GoString(&d.driver_info[0]); info != "" {
		p.Driver += " " + info
	} else {
		p.Driver += fmt.Sprintf(" %v", Version(d.driver_version))
	}
	p.Kind, p.DriverID = Kind(d._type), VendorDriver(d.driver_id)
	for k := range p.DeviceUUID {
		p.DeviceUUID[k], p.DriverUUID[k] = byte(d.device_uuid[k]), byte(d.driver_uuid[k])
	}
	if p.Has(pciBusInfo) {
		p.PCI = fmt.Sprintf("%04x:%02x:%02x.%x", uint32(d.pci_domain), uint32(d.pci_bus), uint32(d.pci_device), uint32(d.pci_function))
	}
	p.TimestampPeriod = float64(d.timestamp_period)
	p.Timeline = d.timeline != 0
	p.HostAlignment = int64(d.host_alignment)
	p.MaxBuffer = clamp(uint64(d.max_buffer))
	if p.MaxBuffer == 0 {
		p.MaxBuffer = unbounded
	}
	p.MaxStorageRange = int64(d.max_storage_range)
	p.StorageAlignment = int64(d.storage_alignment)
	for k := range p.MaxGroups {
		p.MaxGroups[k] = uint32(d.max_groups[k])
	}
	p.Storage8, p.Storage16 = d.storage8 != 0, d.storage16 != 0
}

// clamp makes a size of the driver's an int64.
// unbounded is a size that no device has, and that can still be rounded up.
const unbounded = 1 << 62

func clamp(n uint64) int64 { return int64(min(n, unbounded)) }

func (p *Physical) describeMemory() {
	info := newInfos()
	defer freeInfos(info)
	vk.GetPhysicalDeviceMemoryProperties(as[vk.PhysicalDevice](p.Handle), vk.NewPhysicalDeviceMemoryPropertiesRef(unsafe.Pointer(&info.memory_properties)))
	m := &info.memory_properties
	for _, h := range m.memoryHeaps[:m.memoryHeapCount] {
		p.Heaps = append(p.Heaps, clamp(uint64(h.size)))
	}
	for _, t := range m.memoryTypes[:m.memoryTypeCount] {
		has := func(flag C.VkMemoryPropertyFlags) bool { return t.propertyFlags&flag != 0 }
		p.Memory = append(p.Memory, MemoryType{
			Heap:        int(t.heapIndex),
			DeviceLocal: has(C.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT),
			Visible:     has(C.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT),
			Coherent:    has(C.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT),
			Cached:      has(C.VK_MEMORY_PROPERTY_HOST_CACHED_BIT),
			Protected: has(C.VK_MEMORY_PROPERTY_PROTECTED_BIT | C.VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
				C.VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | C.VK_MEMORY_PROPERTY_RDMA_CAPABLE_BIT_NV),
		})
	}
}

// family chooses the queues: those that compute and do not draw, since they run
// beside the drawing of others, else any that compute; -1 if there are none. A
// family that computes can transfer too. It also returns how many queues the family has, and the bits of the
// timestamps of all families.
func family(i *Instance, physical uint64) (chosen, queues int, bits []C.uint32_t) {
	get := function[C.PFN_vkGetPhysicalDeviceQueueFamilyProperties](i, "vkGetPhysicalDeviceQueueFamilyProperties")
	var flags, counts, valid [32]C.uint32_t
	n := C.uint32_t(len(flags))
	C.dlx_families(get, C.uint64_t(physical), &n, &flags[0], &counts[0], &valid[0])
	for _, without := range []C.uint32_t{C.VK_QUEUE_GRAPHICS_BIT, 0} {
		chosen := slices.IndexFunc(flags[:n], func(f C.uint32_t) bool {
			return f&C.VK_QUEUE_COMPUTE_BIT != 0 && f&without == 0
		})
		if chosen >= 0 {
			return chosen, int(counts[chosen]), valid[:n]
		}
	}
	return -1, 0, nil
}

// useFamily sets what depends on the family of the queues.
func (p *Physical) useFamily(family int) {
	p.TimestampBits = 0
	if 0 <= family && family < len(p.timestampBits) {
		p.TimestampBits = int(p.timestampBits[family])
	}
}

// Has reports whether the device has an extension.
func (p *Physical) Has(extension string) bool { return slices.Contains(p.extensions, extension) }

// OneClock reports whether the timestamps of all queues are of one time domain, VK_TIME_DOMAIN_DEVICE.
func (p *Physical) OneClock() bool {
	return p.Has("VK_KHR_calibrated_timestamps") || p.Has("VK_EXT_calibrated_timestamps")
}

// External says what the driver can do with a handle type.
type External struct {
	Export, Import bool
	Dedicated      bool // each needs an allocation of its own and says so
}

// ExternalBuffers returns what the driver can do with buffers in memory of a handle type.
func (p *Physical) ExternalBuffers(t Handles) External {
	var f C.uint32_t
	C.dlx_external_buffer(p.external, C.uint64_t(p.Handle), usage, C.uint32_t(t), &f)
	return External{
		Export:    f&C.VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT != 0,
		Import:    f&C.VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT != 0,
		Dedicated: f&C.VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT != 0,
	}
}

// ExternalSemaphores returns what the driver can do with timeline semaphores, or with binary ones, as opaque
// descriptors.
func (p *Physical) ExternalSemaphores(binary bool) External {
	kind := C.int(0)
	if binary {
		kind = 1
	}
	get := function[C.PFN_vkGetPhysicalDeviceExternalSemaphoreProperties](p.instance, "vkGetPhysicalDeviceExternalSemaphoreProperties")
	var f C.uint32_t
	C.dlx_external_semaphore(get, C.uint64_t(p.Handle), C.VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT, kind, &f)
	return External{
		Export: f&C.VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT != 0,
		Import: f&C.VK_EXTERNAL_SEMAPHORE_FEATURE_IMPORTABLE_BIT != 0,
	}
}
