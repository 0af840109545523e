// Package vulkan is the backend for Vulkan 1.1 and later with timeline semaphores. It is built with the tag
// vulkan, on Linux with cgo. libvulkan is opened on first use, so a program starts without it.
//
// # Tensors on kDLVulkan
//
// DLPack defines only the number of kDLVulkan. In dlx, the data pointer of such a tensor (core.Memory.Handle)
// is the address of a struct DLVulkanBuffer. The header dlpack_vulkan.h in this folder defines it for other
// languages. It names
//
//   - the VkBuffer, its VkDeviceMemory and the offset in it;
//   - the VkDevice with its VkInstance and VkPhysicalDevice;
//   - a VkQueue with its family and its lock;
//   - the UUIDs of device and driver;
//   - the address at which the host sees the memory, if it does.
//
// byte_offset counts bytes from the start of the VkBuffer; it is core.Memory.Offset plus the offset of the
// tensor. The struct lives as long as the memory. BufferOf reads it in Go.
//
// # Order
//
// A stream is a timeline semaphore. All streams of a device submit to its one queue. An event is a value of
// the timeline. A stream waits for an event of the same device by its place on the queue; for all other
// events the host waits. Work that waits for something not yet submitted is held on the host, since a queue
// that waits holds up everything behind it.
//
// A program that submits work of its own on a tensor first waits for core.Tensor.Ready. Afterwards it calls
// Wrote or Used of the tensor's buffer, with an event that is reached after its work.
//
// # Shared memory
//
// Between commands, exported and imported memory belongs to VK_QUEUE_FAMILY_EXTERNAL, and a dma-buf to
// VK_QUEUE_FAMILY_FOREIGN_EXT where the device supports that. Each copy of dlx acquires the memory and
// releases it, and commands of others must do so too. At the end of each copy, memory that the host can reach
// is made visible to the host.
package vulkan
