package vulkan

import (
	"sync"

	"github.com/dlx-go/dlx/core"
)

// Handles name a VkDevice that another library made, for [Wrap]. It stays that
// library's, which keeps it until the device that Wrap returns is closed.
type Handles struct {
	Instance, PhysicalDevice, Device, Queue uintptr // VkInstance, VkPhysicalDevice, VkDevice, VkQueue
	// Family is the index of the queue family of Queue, which must compute.
	Family int
	// Extensions are the device extensions that Device was made with: only those are used.
	Extensions []string
	// Lock is held around each use of Queue. It may be nil if nobody else uses that.
	Lock sync.Locker
	// Index is that of the DeviceID which the device gets.
	Index int32
}

// Buffer says what a tensor on Vulkan stands on: the fields of DLVulkanBuffer in
// dlpack_vulkan.h. Handles are those of Vulkan, as numbers; they are borrowed.
type Buffer struct {
	Instance, PhysicalDevice, Device, Queue uintptr
	QueueFamily                             uint32
	Buffer                                  uint64 // VkBuffer
	Memory                                  uint64 // VkDeviceMemory; 0 if that is not told
	MemoryOffset                            int64  // bytes from the start of Memory to that of Buffer
	MemorySize                              int64  // bytes of Memory
	Size                                    int64  // bytes of Buffer
	Mapped                                  uintptr
	SharedWith                              uint32 // queue family that has it between commands; VK_QUEUE_FAMILY_IGNORED for none
	MemoryType                              uint32
	ExportTypes                             uint32 // VkExternalMemoryHandleTypeFlags that Memory was allocated with
	Dedicated                               bool   // Memory is a dedicated allocation of Buffer
	DeviceUUID, DriverUUID                  core.UUID
}
