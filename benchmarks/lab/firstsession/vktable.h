// The functions of Vulkan that the experiments call, by the names and types of vulkan.h.
#ifndef DLX_FIRSTSESSION_VKTABLE_H
#define DLX_FIRSTSESSION_VKTABLE_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#define FS_VK_FUNCTIONS(X) \
	X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) X(GetPhysicalDeviceQueueFamilyProperties) \
	X(GetPhysicalDeviceMemoryProperties) X(EnumerateDeviceExtensionProperties) X(GetPhysicalDeviceExternalSemaphoreProperties) \
	X(CreateDevice) X(GetDeviceQueue) X(AllocateMemory) X(FreeMemory) X(MapMemory) X(CreateBuffer) X(DestroyBuffer) \
	X(GetBufferMemoryRequirements) X(BindBufferMemory) X(CreateCommandPool) X(AllocateCommandBuffers) \
	X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdFillBuffer) X(CmdCopyBuffer) X(CmdPipelineBarrier) \
	X(QueueSubmit) X(QueueWaitIdle) X(CreateSemaphore) X(WaitSemaphores) X(SignalSemaphore) X(GetSemaphoreCounterValue)

// Functions of extensions, NULL if the device lacks them.
#define FS_VK_OPTIONAL(X) X(GetMemoryFdKHR) X(GetSemaphoreFdKHR) X(GetMemoryHostPointerPropertiesEXT)

typedef struct {
#define FS_ENTRY(name) PFN_vk##name name;
	FS_VK_FUNCTIONS(FS_ENTRY)
	FS_VK_OPTIONAL(FS_ENTRY)
#undef FS_ENTRY
	VkInstance instance;
	VkPhysicalDevice physical;
	VkPhysicalDeviceMemoryProperties memory;
	VkQueueFamilyProperties families[16];
	uint32_t family_count;
	VkDevice device;
	VkQueue queues[16];         // the first of each family
	VkCommandPool pools[16];    // of each family
	uint64_t host_alignment;    // minImportedHostPointerAlignment; 0 without the extension
	int timelines_export;
	char extensions[5][VK_MAX_EXTENSION_NAME_SIZE]; // those that are enabled
	uint32_t extension_count;
} fs_vulkan;

extern fs_vulkan vk;

// FS_VK returns from the function if a call fails, and keeps the call's name.
#define FS_VK(call)                  \
	do {                             \
		VkResult r_ = (call);        \
		if (r_) {                    \
			fs_what = #call;         \
			return r_;               \
		}                            \
	} while (0)

// fs_vk_memory_type returns the first memory type among bits that has all flags, or -1.
int fs_vk_memory_type(uint32_t bits, VkMemoryPropertyFlags flags);
// fs_vk_buffer makes a buffer with memory of its own. next extends the allocation.
VkResult fs_vk_buffer(uint64_t size, VkMemoryPropertyFlags flags, VkBuffer *buffer, VkDeviceMemory *memory);
// fs_vk_begin makes a command buffer and begins it; fs_vk_end ends it; fs_vk_run also submits it, and waits.
VkResult fs_vk_begin(int family, VkCommandBuffer *cmd);
VkResult fs_vk_end(VkCommandBuffer cmd);
VkResult fs_vk_run(int family, VkCommandBuffer cmd);

#endif
