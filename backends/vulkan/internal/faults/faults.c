//go:build vulkan && linux && cgo

#include "faults.h"

#include <pthread.h>
#include <string.h>

// CALLS lists the functions that can fail: name, parameters, arguments.
#define CALLS(X) \
	X(CreateDevice, (VkPhysicalDevice a, const VkDeviceCreateInfo *b, const VkAllocationCallbacks *c, VkDevice *d), (a, b, c, d)) \
	X(EnumeratePhysicalDevices, (VkInstance a, uint32_t *b, VkPhysicalDevice *c), (a, b, c)) \
	X(EnumerateDeviceExtensionProperties, (VkPhysicalDevice a, const char *b, uint32_t *c, VkExtensionProperties *d), (a, b, c, d)) \
	X(CreateDebugUtilsMessengerEXT, (VkInstance a, const VkDebugUtilsMessengerCreateInfoEXT *b, const VkAllocationCallbacks *c, VkDebugUtilsMessengerEXT *d), (a, b, c, d)) \
	X(CreateBuffer, (VkDevice a, const VkBufferCreateInfo *b, const VkAllocationCallbacks *c, VkBuffer *d), (a, b, c, d)) \
	X(AllocateMemory, (VkDevice a, const VkMemoryAllocateInfo *b, const VkAllocationCallbacks *c, VkDeviceMemory *d), (a, b, c, d)) \
	X(BindBufferMemory, (VkDevice a, VkBuffer b, VkDeviceMemory c, VkDeviceSize d), (a, b, c, d)) \
	X(MapMemory, (VkDevice a, VkDeviceMemory b, VkDeviceSize c, VkDeviceSize d, VkMemoryMapFlags e, void **f), (a, b, c, d, e, f)) \
	X(CreateSemaphore, (VkDevice a, const VkSemaphoreCreateInfo *b, const VkAllocationCallbacks *c, VkSemaphore *d), (a, b, c, d)) \
	X(CreateCommandPool, (VkDevice a, const VkCommandPoolCreateInfo *b, const VkAllocationCallbacks *c, VkCommandPool *d), (a, b, c, d)) \
	X(AllocateCommandBuffers, (VkDevice a, const VkCommandBufferAllocateInfo *b, VkCommandBuffer *c), (a, b, c)) \
	X(BeginCommandBuffer, (VkCommandBuffer a, const VkCommandBufferBeginInfo *b), (a, b)) \
	X(EndCommandBuffer, (VkCommandBuffer a), (a)) \
	X(QueueSubmit, (VkQueue a, uint32_t b, const VkSubmitInfo *c, VkFence d), (a, b, c, d)) \
	X(CreateShaderModule, (VkDevice a, const VkShaderModuleCreateInfo *b, const VkAllocationCallbacks *c, VkShaderModule *d), (a, b, c, d)) \
	X(CreateDescriptorSetLayout, (VkDevice a, const VkDescriptorSetLayoutCreateInfo *b, const VkAllocationCallbacks *c, VkDescriptorSetLayout *d), (a, b, c, d)) \
	X(CreatePipelineLayout, (VkDevice a, const VkPipelineLayoutCreateInfo *b, const VkAllocationCallbacks *c, VkPipelineLayout *d), (a, b, c, d)) \
	X(CreateComputePipelines, (VkDevice a, VkPipelineCache b, uint32_t c, const VkComputePipelineCreateInfo *d, const VkAllocationCallbacks *e, VkPipeline *f), (a, b, c, d, e, f)) \
	X(CreateDescriptorPool, (VkDevice a, const VkDescriptorPoolCreateInfo *b, const VkAllocationCallbacks *c, VkDescriptorPool *d), (a, b, c, d)) \
	X(AllocateDescriptorSets, (VkDevice a, const VkDescriptorSetAllocateInfo *b, VkDescriptorSet *c), (a, b, c)) \
	X(CreateQueryPool, (VkDevice a, const VkQueryPoolCreateInfo *b, const VkAllocationCallbacks *c, VkQueryPool *d), (a, b, c, d)) \
	X(GetQueryPoolResults, (VkDevice a, VkQueryPool b, uint32_t c, uint32_t d, size_t e, void *f, VkDeviceSize g, VkQueryResultFlags h), (a, b, c, d, e, f, g, h)) \
	X(GetSemaphoreCounterValue, (VkDevice a, VkSemaphore b, uint64_t *c), (a, b, c)) \
	X(WaitSemaphores, (VkDevice a, const VkSemaphoreWaitInfo *b, uint64_t c), (a, b, c)) \
	X(SignalSemaphore, (VkDevice a, const VkSemaphoreSignalInfo *b), (a, b)) \
	X(GetMemoryFdKHR, (VkDevice a, const VkMemoryGetFdInfoKHR *b, int *c), (a, b, c)) \
	X(GetMemoryHostPointerPropertiesEXT, (VkDevice a, VkExternalMemoryHandleTypeFlagBits b, const void *c, VkMemoryHostPointerPropertiesEXT *d), (a, b, c, d))

#define INDEX(name, parameters, arguments) at_##name,
enum { CALLS(INDEX) count };

#define NAME(name, parameters, arguments) "vk" #name,
static const char *const names[] = {CALLS(NAME)};

static struct {
	pthread_mutex_t mu;
	PFN_vkGetInstanceProcAddr instance_proc;
	PFN_vkGetDeviceProcAddr device_proc;
	VkInstance instance; // the newest
	int index;           // of the call that fails, or EVERY or NONE
	uint64_t skip, times;
	VkResult result;
	uint64_t hits;
} state = {.mu = PTHREAD_MUTEX_INITIALIZER, .index = FAULTS_NONE};

static VkResult fault(int index) {
	VkResult r = VK_SUCCESS;
	pthread_mutex_lock(&state.mu);
	if ((state.index == index || state.index == FAULTS_EVERY) && state.times > 0) {
		if (state.skip > 0) {
			state.skip--;
		} else {
			state.times--;
			state.hits++;
			r = state.result;
		}
	}
	pthread_mutex_unlock(&state.mu);
	return r;
}

#define WRAPPER(name, parameters, arguments)               \
	static PFN_vk##name real_##name;                       \
	static VkResult VKAPI_PTR faulty_##name parameters {   \
		VkResult r = fault(at_##name);                     \
		return r ? r : real_##name arguments;              \
	}
CALLS(WRAPPER)

// wrap returns the function that may fail, for those that can; else real.
static PFN_vkVoidFunction wrap(const char *name, PFN_vkVoidFunction real) {
	if (!real) return NULL;
#define CHOOSE(call, parameters, arguments)                                                     \
	if (!strcmp(name, "vk" #call)) {                                                            \
		/* the loader's own function serves every device */                                     \
		PFN_vkVoidFunction any = state.instance_proc(state.instance, name);                     \
		real_##call = (PFN_vk##call)faults_host(name, any ? any : real);                        \
		return (PFN_vkVoidFunction)faulty_##call;                                               \
	}
	CALLS(CHOOSE)
	return faults_host(name, real);
}

static PFN_vkVoidFunction VKAPI_PTR device_proc(VkDevice device, const char *name) {
	pthread_mutex_lock(&state.mu);
	PFN_vkVoidFunction f = wrap(name, state.device_proc(device, name));
	pthread_mutex_unlock(&state.mu);
	return f;
}

static PFN_vkVoidFunction VKAPI_PTR instance_proc(VkInstance instance, const char *name) {
	pthread_mutex_lock(&state.mu);
	PFN_vkVoidFunction f = state.instance_proc(instance, name);
	if (instance) {
		state.instance = instance;
		if (f && !strcmp(name, "vkGetDeviceProcAddr")) {
			state.device_proc = (PFN_vkGetDeviceProcAddr)f;
			f = (PFN_vkVoidFunction)device_proc;
		} else {
			f = wrap(name, f);
		}
	}
	pthread_mutex_unlock(&state.mu);
	return f;
}

void *faults_loader(void *real) {
	state.instance_proc = (PFN_vkGetInstanceProcAddr)real;
	return (void *)instance_proc;
}

int faults_count(void) { return count; }
const char *faults_name(int index) { return names[index]; }

void faults_arm(int index, uint64_t skip, uint64_t times, int result) {
	pthread_mutex_lock(&state.mu);
	state.index = index;
	state.skip = skip;
	state.times = times;
	state.result = (VkResult)result;
	state.hits = 0;
	pthread_mutex_unlock(&state.mu);
}

uint64_t faults_disarm(void) {
	pthread_mutex_lock(&state.mu);
	state.index = FAULTS_NONE;
	uint64_t hits = state.hits;
	pthread_mutex_unlock(&state.mu);
	return hits;
}
