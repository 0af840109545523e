//go:build vulkan && linux && cgo

package driver

// #include "shim.h"
import "C"

import (
	"unsafe"

	vk "github.com/vulkan-go/vulkan"
)

// Usage is what every buffer of this package may be used for: the source and
// destination of copies, and storage of shaders.
const Usage = usage

const usage = C.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | C.VK_BUFFER_USAGE_TRANSFER_DST_BIT | C.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT

// Handles is a VkExternalMemoryHandleTypeFlagBits; 0 is none.
type Handles uint32

// The kinds of handle of memory that are known.
const (
	OpaqueFD Handles = C.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
	DMABuf   Handles = C.VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT
	// Addresses of the host: of memory that the host allocated, and of memory of a device that is mapped for the host.
	HostPointer Handles = C.VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT
	HostForeign Handles = C.VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_MAPPED_FOREIGN_MEMORY_BIT_EXT
)

// IsPointer reports whether the handles are addresses of the host.
func (h Handles) IsPointer() bool { return h == HostPointer || h == HostForeign }

// The families that own a buffer between the commands of this device.
const (
	OwnNone     uint32 = C.VK_QUEUE_FAMILY_IGNORED // it is not shared
	OwnExternal uint32 = C.VK_QUEUE_FAMILY_EXTERNAL
	OwnForeign  uint32 = C.VK_QUEUE_FAMILY_FOREIGN_EXT
)

// Requirements are the memory that a buffer needs.
type Requirements struct {
	Size      int64
	Alignment int64
	Types     uint32 // a bit for each suitable memory type
}

// NewBuffer makes a buffer without memory. handles says how its memory will be shared.
func (d *Device) NewBuffer(size int64, handles Handles) (uint64, Requirements, error) {
	info := newInfos()
	defer freeInfos(info)
	info.buffer.sType = C.VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO
	info.buffer.size = C.VkDeviceSize(size)
	info.buffer.usage = usage
	info.buffer.sharingMode = C.VK_SHARING_MODE_EXCLUSIVE
	if handles != 0 {
		info.external.sType = C.VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO
		info.external.handleTypes = C.VkExternalMemoryHandleTypeFlags(handles)
		info.buffer.pNext = unsafe.Pointer(&info.external)
	}
	var buffer vk.Buffer
	r := vk.CreateBuffer(d.handle, vk.NewBufferCreateInfoRef(unsafe.Pointer(&info.buffer)), nil, &buffer)
	if err := failed(C.VkResult(r), "vkCreateBuffer", "%d bytes", size); err != nil {
		return 0, Requirements{}, err
	}
	vk.GetBufferMemoryRequirements(d.handle, buffer, vk.NewMemoryRequirementsRef(unsafe.Pointer(&info.requirements)))
	return number(buffer), Requirements{
		Size:      clamp(uint64(info.requirements.size)),
		Alignment: clamp(uint64(info.requirements.alignment)),
		Types:     uint32(info.requirements.memoryTypeBits),
	}, nil
}

// DestroyBuffer destroys a buffer. No work may use it.
func (d *Device) DestroyBuffer(buffer uint64) { vk.DestroyBuffer(d.handle, as[vk.Buffer](buffer), nil) }

// Request describes memory to allocate or import.
type Request struct {
	Size      int64
	Type      int     // index of the memory type
	Export    Handles // how it will be shared; 0: not
	Import    Handles // what it is made of; 0: new memory
	FD        int     // for Import of a descriptor: the driver's on success
	Pointer   uintptr // for Import of an address
	Dedicated uint64  // the one buffer that it is for; 0: any
}

// Allocate allocates or imports memory.
func (d *Device) Allocate(q Request) (uint64, error) {
	info := newInfos()
	defer freeInfos(info)
	info.allocate.sType = C.VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO
	info.allocate.allocationSize = C.VkDeviceSize(q.Size)
	info.allocate.memoryTypeIndex = C.uint32_t(q.Type)
	next := &info.allocate.pNext
	if q.Export != 0 {
		info.export_memory.sType = C.VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO
		info.export_memory.handleTypes = C.VkExternalMemoryHandleTypeFlags(q.Export)
		*next, next = unsafe.Pointer(&info.export_memory), &info.export_memory.pNext
	}
	switch {
	case q.Import == 0:
	case q.Import.IsPointer():
		info.import_host.sType = C.VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT
		info.import_host.handleType = C.VkExternalMemoryHandleTypeFlagBits(q.Import)
		*(*uintptr)(unsafe.Pointer(&info.import_host.pHostPointer)) = q.Pointer
		*next, next = unsafe.Pointer(&info.import_host), &info.import_host.pNext
	default:
		info.import_fd.sType = C.VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR
		info.import_fd.handleType = C.VkExternalMemoryHandleTypeFlagBits(q.Import)
		info.import_fd.fd = C.int(q.FD)
		*next, next = unsafe.Pointer(&info.import_fd), &info.import_fd.pNext
	}
	if q.Dedicated != 0 {
		info.dedicated.sType = C.VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO
		info.dedicated.buffer = as[C.VkBuffer](q.Dedicated)
		*next = unsafe.Pointer(&info.dedicated)
	}
	var memory vk.DeviceMemory
	r := vk.AllocateMemory(d.handle, vk.NewMemoryAllocateInfoRef(unsafe.Pointer(&info.allocate)), nil, &memory)
	return number(memory), failed(C.VkResult(r), "vkAllocateMemory", "%d bytes of memory type %d", q.Size, q.Type)
}

// Free frees memory and ends its mapping. Its buffers must be destroyed.
func (d *Device) Free(memory uint64) { vk.FreeMemory(d.handle, as[vk.DeviceMemory](memory), nil) }

// Bind binds a buffer to its memory. It is called once for a buffer.
func (d *Device) Bind(buffer, memory uint64, offset int64) error {
	r := vk.BindBufferMemory(d.handle, as[vk.Buffer](buffer), as[vk.DeviceMemory](memory), vk.DeviceSize(offset))
	return failed(C.VkResult(r), "vkBindBufferMemory", "")
}

// Map maps all of some host-visible memory and returns its address.
func (d *Device) Map(memory uint64) (uintptr, error) {
	var p unsafe.Pointer
	r := vk.MapMemory(d.handle, as[vk.DeviceMemory](memory), 0, vk.DeviceSize(C.VK_WHOLE_SIZE), 0, &p)
	// Without address space, lavapipe of Mesa 25.0 says that it succeeded, and returns mmap's MAP_FAILED.
	if r == vk.Success && uintptr(p) == ^uintptr(0) {
		r = vk.ErrorMemoryMapFailed
	}
	return uintptr(p), failed(C.VkResult(r), "vkMapMemory", "")
}

// ExportMemory returns a new descriptor of memory, which the caller closes.
func (d *Device) ExportMemory(memory uint64, t Handles) (int, error) {
	var fd C.int
	err := failed(C.dlx_memory_fd(d.shim, C.uint64_t(memory), C.uint32_t(t), &fd), "vkGetMemoryFdKHR", "")
	return int(fd), err
}

// FDTypes returns the memory types as which a descriptor can be imported. The descriptor must not be an
// opaque one.
func (d *Device) FDTypes(fd int, t Handles) (uint32, error) {
	var bits C.uint32_t
	err := failed(C.dlx_memory_fd_types(d.shim, C.uint32_t(t), C.int(fd), &bits), "vkGetMemoryFdPropertiesKHR", "FD %d", fd)
	return uint32(bits), err
}

// HostTypes returns the memory types as which an address can be imported by handles of type t.
func (d *Device) HostTypes(address uintptr, t Handles) (uint32, error) {
	var bits C.uint32_t
	err := failed(C.dlx_host_types(d.shim, C.uint32_t(t), C.uintptr_t(address), &bits), "vkGetMemoryHostPointerPropertiesEXT", "address %#x", address)
	return uint32(bits), err
}
