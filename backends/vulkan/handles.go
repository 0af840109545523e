package vulkan

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Handles describes a VkDevice that another library made, for [Wrap]. That library still owns the objects,
// and must keep them until the device that Wrap returned is closed.
type Handles struct {
	Instance, PhysicalDevice, Device, Queue uintptr // VkInstance, VkPhysicalDevice, VkDevice, VkQueue
	// Family is the index of the queue family of Queue, which must support compute.
	Family int
	// Extensions are the device extensions that were enabled for Device. No others are used.
	Extensions []string
	// Lock is held during each use of Queue. It may be nil if nothing else uses Queue. dlx locks it while it holds locks of its
	// own: whoever holds Lock must not call dlx.
	Lock sync.Locker
	// Index is the index in the DeviceID of the device.
	Index int32
}

// Buffer describes a VkBuffer: the fields of DLVulkanBuffer in dlpack_vulkan.h. The objects belong to the
// tensor that [BufferOf] was called for, or to the library that calls [ImportBuffer].
type Buffer struct {
	Instance, PhysicalDevice, Device, Queue uintptr   // VkInstance, VkPhysicalDevice, VkDevice, VkQueue
	QueueFamily                             uint32    // the index of the queue family of Queue
	Buffer                                  uint64    // VkBuffer
	Memory                                  uint64    // VkDeviceMemory; 0 if it is unknown
	MemoryOffset                            int64     // bytes from the start of Memory to that of Buffer
	MemorySize                              int64     // bytes of Memory: allocationSize of VkMemoryAllocateInfo
	Size                                    int64     // bytes of Buffer
	Mapped                                  uintptr   // the address of Buffer's first byte on the host; 0 if the host cannot reach it
	SharedWith                              uint32    // the queue family that owns it between commands; VK_QUEUE_FAMILY_IGNORED for none
	MemoryType                              uint32    // the memoryTypeIndex of Memory
	ExportTypes                             uint32    // VkExternalMemoryHandleTypeFlags that Memory was allocated with
	Dedicated                               bool      // Memory is a dedicated allocation of Buffer
	Usage                                   uint32    // VkBufferUsageFlags that Buffer has at least
	DeviceUUID, DriverUUID                  core.UUID // of the physical device and its driver
}
