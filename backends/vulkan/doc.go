// Package vulkan is the backend for Vulkan 1.1 and newer with timeline semaphores.
// Its code is built with the tag vulkan, on Linux with cgo; libvulkan is opened
// when it is first needed, so that a program starts without it.
//
// # A tensor on kDLVulkan
//
// DLPack gives Vulkan a number and no more. Here the data pointer of such a tensor,
// which is [core.Memory].Handle, is the address of a struct DLVulkanBuffer, that
// the header dlpack_vulkan.h in this folder defines for other languages: it names the
// VkBuffer, its VkDeviceMemory and the offset in that, the VkDevice with its instance
// and physical device, a VkQueue with its family and lock, the UUIDs of device and
// driver, and where the host sees the memory. byte_offset, which is
// core.Memory.Offset plus that of the tensor, counts bytes from the start of the
// VkBuffer. The struct lives as long as the memory. [BufferOf] reads it in Go.
//
// # Order
//
// A stream is a timeline semaphore and a turn on the device's one queue. An
// event is a value of that timeline: streams of one device wait for each other's
// events by their place on the queue, everybody else on the host. What waits for
// something that was not yet submitted is kept back on the host, since a queue that
// waits holds up all that is behind it.
//
// Whoever submits work of its own that uses a tensor waits for [core.Tensor.Ready]
// before, and tells the tensor's buffer by Wrote or Used an event that ends after it.
//
// # Memory that others see too
//
// Exported and imported memory belongs to VK_QUEUE_FAMILY_EXTERNAL between commands (a
// dma-buf to VK_QUEUE_FAMILY_FOREIGN_EXT, where the device knows that): each copy of
// dlx acquires it and releases it, and commands of others must do so, too. Memory
// that the host can reach is made visible to the host at the end of each copy.
package vulkan
