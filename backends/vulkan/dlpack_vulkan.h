/*
 * What `data` of a DLTensor on kDLVulkan points to, as dlx defines it.
 *
 * DLPack says of kDLVulkan nothing but its number. A VkBuffer alone would not do: who gets
 * one must know the VkDevice it belongs to, the memory below it to share it further, and a
 * queue to use it on. So `data` is the address of this struct, which the producer owns and
 * keeps unchanged until the tensor's deleter is called; `byte_offset` counts from the first
 * byte of the VkBuffer. `device_id` is the producer's index and means nothing to others:
 * the UUIDs tell which device it is.
 *
 * Order. DLPack's stream argument has no meaning for Vulkan: the producer has waited on the
 * host for its writes before it hands the tensor over, unless both agreed on something else.
 *
 * Ownership between queue families. A buffer with `shared_with` other than
 * VK_QUEUE_FAMILY_IGNORED belongs to that family (VK_QUEUE_FAMILY_EXTERNAL or
 * VK_QUEUE_FAMILY_FOREIGN_EXT) between commands: each user acquires it before its commands,
 * and releases it after them. Any other buffer is used on `queue_family` only.
 *
 * Host. Where `mapped` is not NULL, it is the address of the first byte of the VkBuffer in
 * this process, in coherent memory. Work that writes what the host reads ends with a barrier
 * to VK_PIPELINE_STAGE_HOST_BIT.
 *
 * A consumer on the same VkDevice binds the elements to its shader like this:
 *
 *     const DLVulkanBuffer *b = tensor->data;
 *     if (b->magic != DLPACK_VULKAN_MAGIC || b->version_major != DLPACK_VULKAN_MAJOR) return REFUSED;
 *     VkDescriptorBufferInfo info = {(VkBuffer)b->buffer, tensor->byte_offset, size_of_elements};
 *
 * One on another VkDevice with the same UUIDs, or in another API, exports `memory` by
 * vkGetMemoryFdKHR as one of `export_types`, and imports it with `memory_size`,
 * `memory_type` and the dedicated flag; its buffer is bound at `memory_offset`.
 *
 * Other libraries let `data` point to structs of their own (TVM does): that a tensor has
 * this one must be agreed on, and `magic` is the check that both kept to it.
 *
 * Where `queue_lock` is NULL, the VkQueue belongs to the application, which says how its
 * users take turns.
 *
 * A struct of a newer minor version may be longer: `struct_size` says how long it is. Fields
 * are only added at the end. Another `magic` or a major version above one's own is refused.
 */
#ifndef DLX_DLPACK_VULKAN_H
#define DLX_DLPACK_VULKAN_H

#include <stdint.h>

#define DLPACK_VULKAN_MAGIC 0x4b4c5656584c44ULL /* "DLXVVLK" in little endian */
#define DLPACK_VULKAN_MAJOR 1
#define DLPACK_VULKAN_MINOR 0
#define DLPACK_VULKAN_DEDICATED 1u /* memory is a dedicated allocation of buffer: importers must say so too */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct DLVulkanBuffer {
	uint64_t magic;              /* DLPACK_VULKAN_MAGIC */
	uint32_t version_major;
	uint32_t version_minor;
	uint32_t struct_size;        /* bytes */
	uint32_t queue_family;       /* index of the family of queue */
	void *instance;              /* VkInstance */
	void *physical_device;       /* VkPhysicalDevice */
	void *device;                /* VkDevice */
	void *queue;                 /* VkQueue: compute and transfer */
	uint64_t buffer;             /* VkBuffer: transfer source and destination, storage */
	uint64_t memory;             /* VkDeviceMemory that the buffer is bound to; 0 if that is not told */
	uint64_t memory_offset;      /* bytes from the start of memory to the first byte of buffer */
	uint64_t memory_size;        /* bytes of memory, which its importers must name; 0 if memory is 0 */
	uint64_t size;               /* bytes of buffer */
	void *mapped;                /* see above; NULL where the host cannot reach the memory */
	uint32_t shared_with;        /* see above; VK_QUEUE_FAMILY_IGNORED (~0u) if nobody else has it */
	uint32_t memory_type;        /* index of the memory type */
	uint32_t export_types;       /* VkExternalMemoryHandleTypeFlags that memory was allocated with; 0: not for export */
	uint32_t flags;              /* DLPACK_VULKAN_DEDICATED */
	uint8_t device_uuid[16];     /* VkPhysicalDeviceIDProperties */
	uint8_t driver_uuid[16];
	/* The lock of queue (vkQueueSubmit is externally synchronized): whoever submits calls
	 * queue_lock(queue_context) before and queue_unlock(queue_context) after. */
	void (*queue_lock)(void *context);
	void (*queue_unlock)(void *context);
	void *queue_context;
} DLVulkanBuffer;

#ifdef __cplusplus
}
#endif

#endif
