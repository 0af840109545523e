// The calls that vulkan-go lacks or that are too frequent for it: structs are
// filled on the C stack, handles are passed as 64-bit numbers, as Go keeps them.

#ifndef DLX_VULKAN_SHIM_H
#define DLX_VULKAN_SHIM_H

#define VK_NO_PROTOTYPES
#include <pthread.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

// Functions that every device of Vulkan 1.1 with timeline semaphores has.
#define DLX_DEVICE_FUNCTIONS(X) \
	X(QueueSubmit)              \
	X(BeginCommandBuffer)       \
	X(EndCommandBuffer)         \
	X(ResetCommandBuffer)       \
	X(CmdCopyBuffer)            \
	X(CmdPipelineBarrier)       \
	X(CmdResetQueryPool)        \
	X(CmdWriteTimestamp)        \
	X(CreateQueryPool)          \
	X(DestroyQueryPool)         \
	X(GetQueryPoolResults)      \
	X(CmdBindPipeline)          \
	X(CmdBindDescriptorSets)    \
	X(CmdPushConstants)         \
	X(CmdDispatch)              \
	X(UpdateDescriptorSets)     \
	X(CreateShaderModule)       \
	X(DestroyShaderModule)      \
	X(CreateDescriptorSetLayout) \
	X(DestroyDescriptorSetLayout) \
	X(CreatePipelineLayout)     \
	X(DestroyPipelineLayout)    \
	X(CreateComputePipelines)   \
	X(DestroyPipeline)          \
	X(CreateDescriptorPool)     \
	X(DestroyDescriptorPool)    \
	X(AllocateDescriptorSets)

// Functions that are in core from Vulkan 1.2 on and have the suffix KHR before.
#define DLX_TIMELINE_FUNCTIONS(X)  \
	X(GetSemaphoreCounterValue)    \
	X(WaitSemaphores)              \
	X(SignalSemaphore)

// Functions of extensions that may be missing: NULL then, and nobody calls them.
#define DLX_OPTIONAL_FUNCTIONS(X)          \
	X(GetMemoryFdKHR)                      \
	X(GetMemoryFdPropertiesKHR)            \
	X(GetMemoryHostPointerPropertiesEXT)   \
	X(GetSemaphoreFdKHR)                   \
	X(ImportSemaphoreFdKHR)

// dlx_device is a VkDevice with its functions and the lock of its queue.
typedef struct dlx_device {
#define DLX_ENTRY(name) PFN_vk##name name;
	DLX_DEVICE_FUNCTIONS(DLX_ENTRY)
	DLX_TIMELINE_FUNCTIONS(DLX_ENTRY)
	DLX_OPTIONAL_FUNCTIONS(DLX_ENTRY)
#undef DLX_ENTRY
	VkDevice device;
	VkQueue queue; // the first one
	uint32_t family;
	pthread_mutex_t mu; // of queue
} dlx_device;

// dlx_physical is what dlx_describe tells of a physical device.
typedef struct dlx_physical {
	char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
	char driver_name[VK_MAX_DRIVER_NAME_SIZE];
	char driver_info[VK_MAX_DRIVER_INFO_SIZE];
	uint32_t api_version, driver_version, vendor_id, type;
	uint32_t driver_id;        // a VkDriverId; 0 if not told
	uint8_t device_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE];
	uint32_t pci_domain, pci_bus, pci_device, pci_function;
	uint64_t host_alignment;   // of imported host pointers
	uint64_t max_buffer;       // bytes of one VkBuffer; 0 if not told
	uint64_t storage_alignment;
	uint32_t max_storage_range;
	uint32_t max_groups[3];
	float timestamp_period;    // nanoseconds of a step of timestamps
	uint32_t timeline;         // the feature timelineSemaphore
	uint32_t storage8, storage16; // shaders can load and store words of 8 and 16 bits
} dlx_physical;

// The extensions that dlx_describe may chain a struct for.
enum { DLX_HAS_DRIVER = 1, DLX_HAS_PCI = 2, DLX_HAS_HOST = 4, DLX_HAS_TIMELINE = 8, DLX_HAS_STORAGE8 = 16, DLX_HAS_BUFFER_SIZE = 32 };

// Lists that vulkan-go would keep in memory it frees too early: names are those of
// extensions or layers, families are the queue families' flags, with the numbers of
// queues and the bits of timestamps. They write at most
// *count entries and set *count to how many there are.
typedef char dlx_name[VK_MAX_EXTENSION_NAME_SIZE];
VkResult dlx_layers(PFN_vkEnumerateInstanceLayerProperties get, uint32_t *count, dlx_name *names);
VkResult dlx_instance_extensions(PFN_vkEnumerateInstanceExtensionProperties get, const char *layer, uint32_t *count, dlx_name *names);
VkResult dlx_device_extensions(PFN_vkEnumerateDeviceExtensionProperties get, uint64_t physical, uint32_t *count, dlx_name *names);
void dlx_families(PFN_vkGetPhysicalDeviceQueueFamilyProperties get, uint64_t physical, uint32_t *count, uint32_t *flags, uint32_t *queues, uint32_t *bits);
uint32_t dlx_instance_version(PFN_vkEnumerateInstanceVersion get);
void *dlx_proc(PFN_vkGetInstanceProcAddr get, uint64_t instance, const char *name);

void dlx_describe(PFN_vkGetPhysicalDeviceProperties2 properties, PFN_vkGetPhysicalDeviceFeatures2 features,
	uint64_t physical, uint32_t has, dlx_physical *out);
void dlx_external_buffer(PFN_vkGetPhysicalDeviceExternalBufferProperties get, uint64_t physical, uint32_t usage,
	uint32_t type, uint32_t *features);
void dlx_external_semaphore(PFN_vkGetPhysicalDeviceExternalSemaphoreProperties get, uint64_t physical,
	uint32_t type, int binary, uint32_t *features);

// dlx_device_new returns NULL and the missing function's name if there is one.
dlx_device *dlx_device_new(PFN_vkGetDeviceProcAddr get, uint64_t device, uint64_t queue, uint32_t family, const char **missing);
void dlx_device_free(dlx_device *d);
// The lock of the queue, in the form that dlpack_vulkan.h gives to others.
void dlx_queue_lock(void *device);
void dlx_queue_unlock(void *device);

enum { DLX_QUEUES = 8 }; // the most queues that a device is made with

// dlx_infos is room for the structs of one call of vulkan-go's, and for what their
// pNext chains need, in C memory: vulkan-go's own copies of Go structs are freed by
// finalizers that may run too early.
typedef struct dlx_infos {
	VkApplicationInfo application;
	VkInstanceCreateInfo instance;
	VkDebugUtilsMessengerCreateInfoEXT messenger;

	VkDeviceCreateInfo device;
	VkDeviceQueueCreateInfo queue;
	float priorities[DLX_QUEUES];
	VkPhysicalDeviceFeatures2 features;
	VkPhysicalDeviceTimelineSemaphoreFeatures timeline_feature;
	VkPhysicalDevice8BitStorageFeatures storage8;
	VkPhysicalDevice16BitStorageFeatures storage16;
	VkPhysicalDeviceMemoryProperties memory_properties;

	VkBufferCreateInfo buffer;
	VkExternalMemoryBufferCreateInfo external;
	VkMemoryRequirements requirements;
	VkMemoryAllocateInfo allocate;
	VkExportMemoryAllocateInfo export_memory;
	VkImportMemoryFdInfoKHR import_fd;
	VkImportMemoryHostPointerInfoEXT import_host;
	VkMemoryDedicatedAllocateInfo dedicated;

	VkSemaphoreCreateInfo semaphore;
	VkSemaphoreTypeCreateInfo timeline;
	VkExportSemaphoreCreateInfo export_semaphore;

	VkCommandPoolCreateInfo pool;
	VkCommandBufferAllocateInfo commands;
} dlx_infos;

// dlx_job is one command buffer: a copy of regions, or a dispatch if pipeline is
// not 0. A buffer whose *_owner is not VK_QUEUE_FAMILY_IGNORED is acquired from
// that family before and released to it after.
typedef struct dlx_job {
	uint64_t command, dst, src;
	uint32_t dst_owner, src_owner;
	uint64_t pipeline, layout, set;
	uint64_t dst_offset, dst_range, src_offset, src_range; // bound by a dispatch
	uint32_t groups[3];
} dlx_job;

// regions are triples of source offset, destination offset and size.
VkResult dlx_record(dlx_device *d, const dlx_job *job, uint32_t count, const void *regions, uint32_t push_size, const void *push);
// dlx_region is a part of a buffer that is copied to another one.
typedef struct { uint64_t dst, src, src_offset, dst_offset, size; } dlx_region;
// dlx_record_copies records regions of several buffers that no other family owns.
VkResult dlx_record_copies(dlx_device *d, uint64_t command, uint32_t count, const dlx_region *regions);

// A pool of timestamps. dlx_record_time records the reading of one of them, which dlx_time returns when it is done.
VkResult dlx_times_new(dlx_device *d, uint32_t count, uint64_t *pool);
void dlx_times_free(dlx_device *d, uint64_t pool);
VkResult dlx_record_time(dlx_device *d, uint64_t command, uint64_t pool, uint32_t index);
VkResult dlx_time(dlx_device *d, uint64_t pool, uint32_t index, uint64_t *out);

// dlx_point is a value of a timeline.
typedef struct dlx_point {
	uint64_t timeline, value;
} dlx_point;

// dlx_submission is a command buffer, or nothing if that is 0. It runs when the waits are over, and so does all that is
// submitted to the queue later. When it and all work before are done, the timeline of first gets its value, if it is not 0,
// and then that of signal.
typedef struct dlx_submission {
	uint64_t queue; // 0 for the first one, whose lock dlx_submit then takes
	uint64_t command;
	dlx_point first, signal;
} dlx_submission;
// locked says that the caller holds the queue's lock by other means.
VkResult dlx_submit(dlx_device *d, int locked, const dlx_submission *s, uint32_t count, const dlx_point *waits);

// dlx_pipeline is a compute pipeline over two storage buffers and push constants.
typedef struct dlx_pipeline {
	uint64_t sets, layout, pipeline;
} dlx_pipeline;
VkResult dlx_pipeline_new(dlx_device *d, uint64_t size, const void *code, uint32_t push_size, dlx_pipeline *out);
void dlx_pipeline_free(dlx_device *d, const dlx_pipeline *p);
// dlx_set_new makes a pool with one descriptor set of the pipeline's.
VkResult dlx_set_new(dlx_device *d, const dlx_pipeline *p, uint64_t *pool, uint64_t *set);
void dlx_set_free(dlx_device *d, uint64_t pool);

VkResult dlx_counter(dlx_device *d, uint64_t semaphore, uint64_t *value);
VkResult dlx_wait(dlx_device *d, uint64_t semaphore, uint64_t value, uint64_t timeout);
VkResult dlx_signal(dlx_device *d, uint64_t semaphore, uint64_t value);

VkResult dlx_memory_fd(dlx_device *d, uint64_t memory, uint32_t type, int *fd);
VkResult dlx_memory_fd_types(dlx_device *d, uint32_t type, int fd, uint32_t *bits);
VkResult dlx_host_types(dlx_device *d, uint32_t type, uintptr_t address, uint32_t *bits);
VkResult dlx_semaphore_fd(dlx_device *d, uint64_t semaphore, int *fd);
VkResult dlx_import_semaphore(dlx_device *d, uint64_t semaphore, int fd);

// What the validation layer reported: the newest messages, and how many in all.
enum { DLX_MESSAGES = 32, DLX_MESSAGE_SIZE = 2048 };
void dlx_messenger_info(VkDebugUtilsMessengerCreateInfoEXT *info);
VkResult dlx_messenger_new(PFN_vkCreateDebugUtilsMessengerEXT create, uint64_t instance, uint64_t *messenger);
void dlx_messenger_free(PFN_vkDestroyDebugUtilsMessengerEXT destroy, uint64_t instance, uint64_t messenger);
// dlx_messages copies message number i out of those kept and returns their total count.
uint64_t dlx_messages(uint64_t i, char out[DLX_MESSAGE_SIZE]);

#endif
