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
// Alloc ignores core.AllocOptions.Stream: freed memory is used again when the work on it is done.
//
// # Order
//
// A stream is a timeline semaphore, and an event is a value of it. All streams of a device submit their work
// to the first queue of the device. The work of a stream therefore waits on the device for events of streams of
// the same device. For all other events the host waits. If work must wait for work that is not submitted yet,
// the backend submits it later, because a queue that waits also holds up the work of other streams. A stream that
// waits for a semaphore gets a queue for itself, as long as the device has one left; the device then waits.
//
// A program that submits its own work on a tensor first waits for core.Tensor.Ready. Afterwards it calls
// Wrote or Used of the tensor's buffer, with an event that is done when its work is done.
//
// # Renderers
//
// Wrap opens a device over the VkDevice of a renderer, ImportBuffer makes a tensor of its VkBuffer, and ImportTimeline a
// semaphore of its timeline. All of them stay the renderer's.
//
// # Shared memory
//
// Host memory is imported by VK_EXT_external_memory_host: as a host allocation, or as host mapped foreign memory if a
// device allocated it. The driver may refuse any import, above all a second one of the same pages. Memory that the
// host cannot write is not imported, because drivers pin pages to write to them.
//
// Between commands, exported and imported memory belongs to VK_QUEUE_FAMILY_EXTERNAL, and a dma-buf to
// VK_QUEUE_FAMILY_FOREIGN_EXT where the device supports that. Each copy of dlx acquires the memory and
// releases it, and commands of others must do so too. At the end of each copy, memory that the host can reach
// is made visible to the host.
package vulkan
