//go:build vulkan && linux && cgo

#include "gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#define INSTANCE_FUNCTIONS(X)                                                                                  \
	X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) X(GetPhysicalDeviceFeatures2) \
	X(GetPhysicalDeviceMemoryProperties) X(CreateDevice) X(CreateDebugUtilsMessengerEXT)                       \
	X(DestroyDebugUtilsMessengerEXT)

#define DEVICE_FUNCTIONS(X)                                                                                    \
	X(DestroyDevice) X(GetDeviceQueue) X(CreateCommandPool) X(DestroyCommandPool) X(AllocateCommandBuffers)     \
	X(CreateFence) X(DestroyFence) X(ResetFences) X(WaitForFences) X(CreateDescriptorSetLayout)                 \
	X(DestroyDescriptorSetLayout) X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateShaderModule)        \
	X(DestroyShaderModule) X(CreateComputePipelines) X(DestroyPipeline) X(CreateBuffer) X(DestroyBuffer)        \
	X(GetBufferMemoryRequirements) X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory)             \
	X(BeginCommandBuffer) X(EndCommandBuffer) X(QueueSubmit) X(CmdBindPipeline) X(CmdPushConstants)             \
	X(CreateDescriptorPool) X(DestroyDescriptorPool) X(AllocateDescriptorSets) X(UpdateDescriptorSets)          \
	X(CmdBindDescriptorSets) X(CmdDispatch) X(CmdCopyBuffer) X(CmdPipelineBarrier)

enum { MAX_PIPELINES = 32 };

struct gpu {
	void *library;
	VkInstance instance;
	VkDebugUtilsMessengerEXT messenger;
	uint32_t messages;
	char message[2048];
	VkPhysicalDevice physical;
	VkPhysicalDeviceProperties properties;
	uint32_t storage8, storage16;
	VkDevice device;
	VkQueue queue;
	VkCommandPool pool;
	VkCommandBuffer commands;
	VkFence fence;
	VkDescriptorSetLayout set;
	VkPipelineLayout layout;
	VkPipeline pipelines[MAX_PIPELINES];
	uint32_t made;
#define DECLARE(name) PFN_vk##name name;
	INSTANCE_FUNCTIONS(DECLARE)
	DEVICE_FUNCTIONS(DECLARE)
};

static VKAPI_ATTR VkBool32 VKAPI_CALL told(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
	const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
	gpu *g = user;
	if (g->messages++ == 0)
		strncpy(g->message, data->pMessage, sizeof g->message - 1);
	return VK_FALSE;
}

uint32_t gpu_messages(gpu *g, const char **text) {
	*text = g->message;
	return g->messages;
}

#define TRY(call)                    \
	do {                             \
		*step = #call;               \
		VkResult r_ = (call);        \
		if (r_ != VK_SUCCESS)        \
			return r_;               \
	} while (0)

static int open_instance(gpu *g, int validate, const char **step) {
	*step = "dlopen(libvulkan.so.1)";
	g->library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!g->library)
		return VK_ERROR_INITIALIZATION_FAILED;
	PFN_vkGetInstanceProcAddr proc = (PFN_vkGetInstanceProcAddr)dlsym(g->library, "vkGetInstanceProcAddr");
	PFN_vkCreateInstance create = (PFN_vkCreateInstance)proc(NULL, "vkCreateInstance");
	const char *layers[] = {"VK_LAYER_KHRONOS_validation"}, *extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
	VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
	VkDebugUtilsMessengerCreateInfoEXT tell = {
		.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
		.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
		.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
		.pfnUserCallback = told,
		.pUserData = g,
	};
	VkInstanceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
		.pNext = validate ? &tell : NULL,
		.pApplicationInfo = &app,
		.enabledLayerCount = validate ? 1 : 0,
		.ppEnabledLayerNames = layers,
		.enabledExtensionCount = validate ? 1 : 0,
		.ppEnabledExtensionNames = extensions,
	};
	TRY(create(&info, NULL, &g->instance));
#define LOAD(name) g->name = (PFN_vk##name)proc(g->instance, "vk" #name);
	INSTANCE_FUNCTIONS(LOAD)
	DEVICE_FUNCTIONS(LOAD)
	if (validate)
		TRY(g->CreateDebugUtilsMessengerEXT(g->instance, &tell, NULL, &g->messenger));
	return VK_SUCCESS;
}

static int open_device(gpu *g, const char **step) {
	uint32_t n = 1;
	*step = "vkEnumeratePhysicalDevices";
	if (g->EnumeratePhysicalDevices(g->instance, &n, &g->physical) < 0 || n == 0)
		return VK_ERROR_INITIALIZATION_FAILED;
	g->GetPhysicalDeviceProperties(g->physical, &g->properties);
	VkPhysicalDevice8BitStorageFeatures f8 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
	VkPhysicalDevice16BitStorageFeatures f16 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, .pNext = &f8};
	VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f16};
	g->GetPhysicalDeviceFeatures2(g->physical, &all);
	all.features = (VkPhysicalDeviceFeatures){0};
	g->storage8 = f8.storageBuffer8BitAccess;
	g->storage16 = f16.storageBuffer16BitAccess;
	float priority = 1;
	VkDeviceQueueCreateInfo queue = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
	VkDeviceCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
		.pNext = &all,
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queue,
	};
	TRY(g->CreateDevice(g->physical, &info, NULL, &g->device));
	g->GetDeviceQueue(g->device, 0, 0, &g->queue);
	VkCommandPoolCreateInfo pool = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
	TRY(g->CreateCommandPool(g->device, &pool, NULL, &g->pool));
	VkCommandBufferAllocateInfo commands = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = g->pool, .commandBufferCount = 1};
	TRY(g->AllocateCommandBuffers(g->device, &commands, &g->commands));
	VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
	TRY(g->CreateFence(g->device, &fence, NULL, &g->fence));
	return VK_SUCCESS;
}

static int make_layout(gpu *g, const char **step) {
	VkDescriptorSetLayoutBinding bindings[2];
	for (uint32_t i = 0; i < 2; i++)
		bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
	VkDescriptorSetLayoutCreateInfo set = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
		.bindingCount = 2,
		.pBindings = bindings,
	};
	TRY(g->CreateDescriptorSetLayout(g->device, &set, NULL, &g->set));
	VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof((gpu_dispatch *)0)->constants};
	VkPipelineLayoutCreateInfo layout = {
		.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
		.setLayoutCount = 1,
		.pSetLayouts = &g->set,
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &push,
	};
	TRY(g->CreatePipelineLayout(g->device, &layout, NULL, &g->layout));
	return VK_SUCCESS;
}

int gpu_open(gpu **out, int validate, const char **step) {
	gpu *g = *out = calloc(1, sizeof *g);
	*step = "calloc";
	if (!g)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	int r = open_instance(g, validate, step);
	if (r == VK_SUCCESS)
		r = open_device(g, step);
	if (r == VK_SUCCESS)
		r = make_layout(g, step);
	return r;
}

void gpu_close(gpu *g) {
	if (g->device) {
		for (uint32_t i = 0; i < g->made; i++)
			g->DestroyPipeline(g->device, g->pipelines[i], NULL);
		g->DestroyPipelineLayout(g->device, g->layout, NULL);
		g->DestroyDescriptorSetLayout(g->device, g->set, NULL);
		g->DestroyFence(g->device, g->fence, NULL);
		g->DestroyCommandPool(g->device, g->pool, NULL);
		g->DestroyDevice(g->device, NULL);
	}
	if (g->messenger)
		g->DestroyDebugUtilsMessengerEXT(g->instance, g->messenger, NULL);
	if (g->instance)
		g->DestroyInstance(g->instance, NULL);
	free(g); // the library stays: drivers keep threads
}

void gpu_get_limits(gpu *g, gpu_limits *out) {
	VkPhysicalDeviceLimits *l = &g->properties.limits;
	*out = (gpu_limits){
		.storage_range = l->maxStorageBufferRange,
		.offset_alignment = l->minStorageBufferOffsetAlignment,
		.storage8 = g->storage8,
		.storage16 = g->storage16,
		.is_cpu = g->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU,
	};
	memcpy(out->groups, l->maxComputeWorkGroupCount, sizeof out->groups);
}

int gpu_make_buffer(gpu *g, uint64_t size, gpu_buffer *out) {
	VkBufferCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
		.size = size,
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
	};
	VkBuffer buffer;
	VkResult r = g->CreateBuffer(g->device, &info, NULL, &buffer);
	if (r != VK_SUCCESS)
		return r;
	VkMemoryRequirements need;
	g->GetBufferMemoryRequirements(g->device, buffer, &need);
	VkPhysicalDeviceMemoryProperties types;
	g->GetPhysicalDeviceMemoryProperties(g->physical, &types);
	const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	uint32_t type = 0;
	while (type < types.memoryTypeCount &&
		   (!(need.memoryTypeBits >> type & 1) || (types.memoryTypes[type].propertyFlags & host) != host))
		type++;
	VkMemoryAllocateInfo allocate = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = need.size, .memoryTypeIndex = type};
	VkDeviceMemory memory;
	r = g->AllocateMemory(g->device, &allocate, NULL, &memory);
	if (r != VK_SUCCESS) {
		g->DestroyBuffer(g->device, buffer, NULL);
		return r;
	}
	*out = (gpu_buffer){(uint64_t)buffer, (uint64_t)memory, NULL};
	r = g->BindBufferMemory(g->device, buffer, memory, 0);
	if (r == VK_SUCCESS)
		r = g->MapMemory(g->device, memory, 0, VK_WHOLE_SIZE, 0, &out->host);
	if (r != VK_SUCCESS)
		gpu_free_buffer(g, out);
	return r;
}

void gpu_free_buffer(gpu *g, gpu_buffer *b) {
	g->DestroyBuffer(g->device, (VkBuffer)b->buffer, NULL);
	g->FreeMemory(g->device, (VkDeviceMemory)b->memory, NULL);
}

int gpu_make_pipeline(gpu *g, const uint32_t *code, size_t bytes, uint64_t *out) {
	if (g->made == MAX_PIPELINES)
		return VK_ERROR_TOO_MANY_OBJECTS;
	VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
	VkShaderModule module;
	VkResult r = g->CreateShaderModule(g->device, &info, NULL, &module);
	if (r != VK_SUCCESS)
		return r;
	VkComputePipelineCreateInfo pipeline = {
		.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
		.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = module, .pName = "main"},
		.layout = g->layout,
	};
	r = g->CreateComputePipelines(g->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &g->pipelines[g->made]);
	g->DestroyShaderModule(g->device, module, NULL);
	if (r == VK_SUCCESS)
		*out = (uint64_t)g->pipelines[g->made++];
	return r;
}

static void record(gpu *g, VkDescriptorSet set, const gpu_buffer *dst, const gpu_buffer *src, const gpu_dispatch *d) {
	VkDescriptorBufferInfo buffers[2] = {
		{(VkBuffer)dst->buffer, d->dst_offset, d->dst_size},
		{(VkBuffer)src->buffer, d->src_offset, d->src_size},
	};
	VkWriteDescriptorSet write = {
		.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
		.dstSet = set,
		.descriptorCount = 2,
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
		.pBufferInfo = buffers,
	};
	g->UpdateDescriptorSets(g->device, 1, &write, 0, NULL);
	g->CmdBindPipeline(g->commands, VK_PIPELINE_BIND_POINT_COMPUTE, (VkPipeline)d->pipeline);
	g->CmdBindDescriptorSets(g->commands, VK_PIPELINE_BIND_POINT_COMPUTE, g->layout, 0, 1, &set, 0, NULL);
	g->CmdPushConstants(g->commands, g->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof d->constants, d->constants);
	g->CmdDispatch(g->commands, d->groups[0], d->groups[1], d->groups[2]);
}

// make_pool makes a pool with room for a number of sets. Push descriptors would do without, and not every driver has them.
static int make_pool(gpu *g, uint32_t sets, VkDescriptorPool *pool) {
	VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2 * sets};
	VkDescriptorPoolCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = sets, .poolSizeCount = 1, .pPoolSizes = &size};
	*pool = VK_NULL_HANDLE;
	return sets ? g->CreateDescriptorPool(g->device, &info, NULL, pool) : VK_SUCCESS;
}

static int run(gpu *g, VkDescriptorPool pool, const gpu_buffer *dst, const gpu_buffer *src, const gpu_dispatch *d,
	uint32_t dispatches, const gpu_region *regions, uint32_t count) {
	const char *at, **step = &at;
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
	TRY(g->BeginCommandBuffer(g->commands, &begin));
	VkDescriptorSetAllocateInfo one = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
		.descriptorPool = pool,
		.descriptorSetCount = 1,
		.pSetLayouts = &g->set,
	};
	for (uint32_t i = 0; i < dispatches; i++) {
		VkDescriptorSet set;
		TRY(g->AllocateDescriptorSets(g->device, &one, &set));
		record(g, set, dst, src, &d[i]);
	}
	if (count > 0)
		g->CmdCopyBuffer(g->commands, (VkBuffer)src->buffer, (VkBuffer)dst->buffer, count, (const VkBufferCopy *)regions);
	VkMemoryBarrier seen = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_HOST_READ_BIT,
	};
	g->CmdPipelineBarrier(g->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
		VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &seen, 0, NULL, 0, NULL);
	TRY(g->EndCommandBuffer(g->commands));
	VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &g->commands};
	TRY(g->QueueSubmit(g->queue, 1, &submit, g->fence));
	TRY(g->WaitForFences(g->device, 1, &g->fence, VK_TRUE, UINT64_MAX));
	TRY(g->ResetFences(g->device, 1, &g->fence));
	return VK_SUCCESS;
}

int gpu_run(gpu *g, const gpu_buffer *dst, const gpu_buffer *src, const gpu_dispatch *d, uint32_t dispatches,
	const gpu_region *regions, uint32_t count) {
	VkDescriptorPool pool;
	int r = make_pool(g, dispatches, &pool);
	if (r == VK_SUCCESS)
		r = run(g, pool, dst, src, d, dispatches, regions, count);
	if (pool)
		g->DestroyDescriptorPool(g->device, pool, NULL);
	return r;
}
