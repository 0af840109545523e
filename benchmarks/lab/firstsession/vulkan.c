//go:build cuda && vulkan && linux && cgo

#include "raw.h"
#include "vktable.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fs_vulkan vk;

const char *fs_vk_code(int code) {
	switch (code) {
#define CODE(name) case name: return #name;
	CODE(VK_NOT_READY) CODE(VK_TIMEOUT) CODE(VK_INCOMPLETE) CODE(VK_ERROR_OUT_OF_HOST_MEMORY) CODE(VK_ERROR_OUT_OF_DEVICE_MEMORY)
	CODE(VK_ERROR_INITIALIZATION_FAILED) CODE(VK_ERROR_DEVICE_LOST) CODE(VK_ERROR_MEMORY_MAP_FAILED) CODE(VK_ERROR_LAYER_NOT_PRESENT)
	CODE(VK_ERROR_EXTENSION_NOT_PRESENT) CODE(VK_ERROR_FEATURE_NOT_PRESENT) CODE(VK_ERROR_INCOMPATIBLE_DRIVER)
	CODE(VK_ERROR_TOO_MANY_OBJECTS) CODE(VK_ERROR_INVALID_EXTERNAL_HANDLE) CODE(VK_ERROR_UNKNOWN)
	}
	return "an unknown code";
}

static const char *because(const char *call, VkResult r) {
	static char why[256];
	snprintf(why, sizeof why, "%s: %s (%d)", call, fs_vk_code(r), r);
	return why;
}

static VkResult find(const uint8_t *uuid) {
	VkPhysicalDevice all[16];
	uint32_t n = 16;
	VkResult r = vk.EnumeratePhysicalDevices(vk.instance, &n, all);
	if (r && r != VK_INCOMPLETE) return r;
	for (uint32_t i = 0; i < n && !vk.physical; i++) {
		VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
		VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
		vk.GetPhysicalDeviceProperties2(all[i], &p);
		if (p.properties.apiVersion >= VK_API_VERSION_1_2 && (!uuid || !memcmp(uuid, id.deviceUUID, sizeof id.deviceUUID)))
			vk.physical = all[i];
	}
	return VK_SUCCESS;
}

static void look(void) {
	VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
	VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &host};
	vk.GetPhysicalDeviceProperties2(vk.physical, &p);
	vk.host_alignment = host.minImportedHostPointerAlignment;
	vk.GetPhysicalDeviceMemoryProperties(vk.physical, &vk.memory);
	vk.family_count = 16;
	vk.GetPhysicalDeviceQueueFamilyProperties(vk.physical, &vk.family_count, vk.families);

	static const char *wanted[] = {"VK_KHR_external_memory_fd", "VK_EXT_external_memory_host", "VK_KHR_external_semaphore_fd"};
	uint32_t n = 0;
	vk.EnumerateDeviceExtensionProperties(vk.physical, NULL, &n, NULL);
	VkExtensionProperties *all = calloc(n + 1, sizeof *all);
	if (!all) return;
	vk.EnumerateDeviceExtensionProperties(vk.physical, NULL, &n, all);
	for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++)
		for (uint32_t i = 0; i < n; i++)
			if (!strcmp(all[i].extensionName, wanted[w])) strcpy(vk.extensions[vk.extension_count++], wanted[w]);
	free(all);

	VkSemaphoreTypeCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	VkPhysicalDeviceExternalSemaphoreInfo info = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO,
		.pNext = &timeline, .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
	VkExternalSemaphoreProperties out = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
	vk.GetPhysicalDeviceExternalSemaphoreProperties(vk.physical, &info, &out);
	vk.timelines_export = fs_vk_has("VK_KHR_external_semaphore_fd") && (out.externalSemaphoreFeatures & VK_EXTERNAL_SEMAPHORE_FEATURE_EXPORTABLE_BIT);
}

static VkResult open_device(void) {
	const float priority = 1;
	VkDeviceQueueCreateInfo queues[16];
	for (uint32_t i = 0; i < vk.family_count; i++)
		queues[i] = (VkDeviceQueueCreateInfo){.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
			.queueFamilyIndex = i, .queueCount = 1, .pQueuePriorities = &priority};
	const char *names[5];
	for (uint32_t i = 0; i < vk.extension_count; i++) names[i] = vk.extensions[i];
	VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, .timelineSemaphore = VK_TRUE};
	VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &timeline,
		.queueCreateInfoCount = vk.family_count, .pQueueCreateInfos = queues,
		.enabledExtensionCount = vk.extension_count, .ppEnabledExtensionNames = names};
	VkResult r = vk.CreateDevice(vk.physical, &info, NULL, &vk.device);
	for (uint32_t i = 0; !r && i < vk.family_count; i++) {
		vk.GetDeviceQueue(vk.device, i, 0, &vk.queues[i]);
		VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = i};
		r = vk.CreateCommandPool(vk.device, &pool, NULL, &vk.pools[i]);
	}
	return r;
}

const char *fs_vk_open(const char *library, const uint8_t *uuid) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) return dlerror();
	PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)dlsym(handle, "vkGetInstanceProcAddr");
	PFN_vkCreateInstance create = get ? (PFN_vkCreateInstance)get(NULL, "vkCreateInstance") : NULL;
	if (!create) return "the library has no vkCreateInstance";
	VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
	VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
	VkResult r = create(&info, NULL, &vk.instance);
	if (r) return because("vkCreateInstance", r);
#define LOAD(name) vk.name = (PFN_vk##name)get(vk.instance, "vk" #name);
#define NEED(name) LOAD(name) if (!vk.name) return "the library has no vk" #name;
	FS_VK_FUNCTIONS(NEED)
	FS_VK_OPTIONAL(LOAD)
	if ((r = find(uuid))) return because("vkEnumeratePhysicalDevices", r);
	if (!vk.physical) return uuid ? "no device of Vulkan 1.2 has the UUID of CUDA's" : "there is no device of Vulkan 1.2";
	look();
	if ((r = open_device())) return because("vkCreateDevice", r);
	return NULL;
}

void fs_vk_describe(char name[256], uint8_t uuid[16], uint32_t *type, uint32_t *api, uint32_t *driver) {
	VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
	VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
	vk.GetPhysicalDeviceProperties2(vk.physical, &p);
	snprintf(name, 256, "%s", p.properties.deviceName);
	memcpy(uuid, id.deviceUUID, 16);
	*type = p.properties.deviceType;
	*api = p.properties.apiVersion;
	*driver = p.properties.driverVersion;
}

int fs_vk_has(const char *extension) {
	for (uint32_t i = 0; i < vk.extension_count; i++)
		if (!strcmp(vk.extensions[i], extension)) return 1;
	return 0;
}

int fs_vk_timelines_export(void) { return vk.timelines_export; }
uint64_t fs_vk_host_alignment(void) { return fs_vk_has("VK_EXT_external_memory_host") ? vk.host_alignment : 0; }

int fs_vk_memory_type(uint32_t bits, VkMemoryPropertyFlags flags) {
	for (uint32_t i = 0; i < vk.memory.memoryTypeCount; i++)
		if ((bits >> i & 1) && (vk.memory.memoryTypes[i].propertyFlags & flags) == flags) return (int)i;
	return -1;
}

VkResult fs_vk_buffer(uint64_t size, VkMemoryPropertyFlags flags, VkBuffer *buffer, VkDeviceMemory *memory) {
	VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size,
		.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
	FS_VK(vk.CreateBuffer(vk.device, &info, NULL, buffer));
	VkMemoryRequirements need;
	vk.GetBufferMemoryRequirements(vk.device, *buffer, &need);
	int type = fs_vk_memory_type(need.memoryTypeBits, flags);
	VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = need.size, .memoryTypeIndex = (uint32_t)type};
	if (type < 0) {
		fs_what = "no memory type has the wanted flags";
		return VK_ERROR_FEATURE_NOT_PRESENT;
	}
	FS_VK(vk.AllocateMemory(vk.device, &allocate, NULL, memory));
	FS_VK(vk.BindBufferMemory(vk.device, *buffer, *memory, 0));
	return VK_SUCCESS;
}

VkResult fs_vk_begin(int family, VkCommandBuffer *cmd) {
	VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
		.commandPool = vk.pools[family], .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
	VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
	FS_VK(vk.AllocateCommandBuffers(vk.device, &allocate, cmd));
	FS_VK(vk.BeginCommandBuffer(*cmd, &begin));
	return VK_SUCCESS;
}

VkResult fs_vk_end(VkCommandBuffer cmd) {
	VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_READ_BIT};
	vk.CmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &all, 0, NULL, 0, NULL);
	FS_VK(vk.EndCommandBuffer(cmd));
	return VK_SUCCESS;
}

VkResult fs_vk_run(int family, VkCommandBuffer cmd) {
	VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &cmd};
	FS_VK(fs_vk_end(cmd));
	FS_VK(vk.QueueSubmit(vk.queues[family], 1, &submit, VK_NULL_HANDLE));
	FS_VK(vk.QueueWaitIdle(vk.queues[family]));
	return VK_SUCCESS;
}

int fs_vk_export_memory(uint64_t size, int *fd, uint64_t *allocated) {
	if (!vk.GetMemoryFdKHR || !fs_vk_has("VK_KHR_external_memory_fd")) {
		fs_what = "the device has no VK_KHR_external_memory_fd";
		return VK_ERROR_EXTENSION_NOT_PRESENT;
	}
	VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
		.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
	VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = &external, .size = size,
		.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
	VkBuffer buffer;
	VkDeviceMemory memory;
	VkMemoryRequirements need;
	FS_VK(vk.CreateBuffer(vk.device, &info, NULL, &buffer));
	vk.GetBufferMemoryRequirements(vk.device, buffer, &need);
	VkExportMemoryAllocateInfo export = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
		.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
	VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &export, .allocationSize = need.size,
		.memoryTypeIndex = (uint32_t)fs_vk_memory_type(need.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)};
	FS_VK(vk.AllocateMemory(vk.device, &allocate, NULL, &memory));
	FS_VK(vk.BindBufferMemory(vk.device, buffer, memory, 0));
	VkMemoryGetFdInfoKHR get = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, .memory = memory,
		.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
	FS_VK(vk.GetMemoryFdKHR(vk.device, &get, fd));
	*allocated = need.size;
	return 0;
}

int fs_vk_mapped(uint64_t size, int device_local, void **p) {
	VkBuffer buffer;
	VkDeviceMemory memory;
	VkMemoryPropertyFlags flags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	FS_VK(fs_vk_buffer(size, flags | (device_local ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT : 0), &buffer, &memory));
	FS_VK(vk.MapMemory(vk.device, memory, 0, VK_WHOLE_SIZE, 0, p));
	return 0;
}

int fs_vk_semaphore(int exported, uint64_t *semaphore, int *fd) {
	VkExportSemaphoreCreateInfo export = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
		.handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
	VkSemaphoreTypeCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.pNext = exported ? &export : NULL, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
	VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &timeline};
	VkSemaphore made;
	FS_VK(vk.CreateSemaphore(vk.device, &info, NULL, &made));
	*semaphore = (uint64_t)(uintptr_t)made;
	if (!exported) return 0;
	VkSemaphoreGetFdInfoKHR get = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR, .semaphore = made,
		.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
	FS_VK(vk.GetSemaphoreFdKHR(vk.device, &get, fd));
	return 0;
}

int fs_vk_signal(uint64_t semaphore, uint64_t value) {
	VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = (VkSemaphore)(uintptr_t)semaphore, .value = value};
	FS_VK(vk.SignalSemaphore(vk.device, &info));
	return 0;
}

int fs_vk_wait(uint64_t semaphore, uint64_t value, uint64_t timeout_ns) {
	VkSemaphore s = (VkSemaphore)(uintptr_t)semaphore;
	VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &s, .pValues = &value};
	FS_VK(vk.WaitSemaphores(vk.device, &info, timeout_ns));
	return 0;
}

int fs_vk_counter(uint64_t semaphore, uint64_t *value) {
	FS_VK(vk.GetSemaphoreCounterValue(vk.device, (VkSemaphore)(uintptr_t)semaphore, value));
	return 0;
}

int fs_vk_forward(int family, uint64_t from, uint64_t value, uint64_t to, uint64_t to_value) {
	VkSemaphore wait = (VkSemaphore)(uintptr_t)from, signal = (VkSemaphore)(uintptr_t)to;
	VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.waitSemaphoreValueCount = 1, .pWaitSemaphoreValues = &value, .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &to_value};
	VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &values, .waitSemaphoreCount = 1, .pWaitSemaphores = &wait,
		.pWaitDstStageMask = &stage, .signalSemaphoreCount = 1, .pSignalSemaphores = &signal};
	FS_VK(vk.QueueSubmit(vk.queues[family], 1, &submit, VK_NULL_HANDLE));
	return 0;
}

int fs_vk_families(void) { return (int)vk.family_count; }

// copies times n copies between two buffers on a family's queue.
static VkResult copies(int family, VkBuffer from, VkBuffer to, uint64_t size, int n, int64_t *ns) {
	VkBufferCopy region = {.size = size};
	VkCommandBuffer cmd;
	for (int warm = 1; warm >= 0; warm--) { // the first time is not counted
		FS_VK(fs_vk_begin(family, &cmd));
		for (int i = 0; i < (warm ? 1 : n); i++) vk.CmdCopyBuffer(cmd, from, to, 1, &region);
		int64_t start = fs_now();
		FS_VK(fs_vk_run(family, cmd));
		*ns = (fs_now() - start) / n;
	}
	return VK_SUCCESS;
}

int fs_vk_copies(int family, uint64_t size, int n, fs_family *out) {
	const VkQueueFamilyProperties *f = &vk.families[family];
	*out = (fs_family){.flags = f->queueFlags, .count = f->queueCount, .timestamp_bits = f->timestampValidBits,
		.granularity = {f->minImageTransferGranularity.width, f->minImageTransferGranularity.height, f->minImageTransferGranularity.depth}};
	if (!(f->queueFlags & (VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT))) {
		fs_what = "the family has no transfers";
		return VK_ERROR_FEATURE_NOT_PRESENT;
	}
	VkBuffer host, device;
	VkDeviceMemory memory;
	void *p;
	FS_VK(fs_vk_buffer(size, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, &host, &memory));
	FS_VK(vk.MapMemory(vk.device, memory, 0, VK_WHOLE_SIZE, 0, &p));
	memset(p, 1, size);
	FS_VK(fs_vk_buffer(size, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, &device, &memory));
	FS_VK(copies(family, host, device, size, n, &out->up));
	FS_VK(copies(family, device, host, size, n, &out->down));
	return 0;
}
