// A layer of Vulkan that gives each device several queues in its first family, on top of one queue of the driver.
//
// Each queue has a thread, which takes one submission after the other. It waits until the semaphores of the submission
// have their values, passes it on, and waits until it is done. So a queue that waits, or works, holds up only what was
// submitted to the same queue, and work in different queues has no order. Every semaphore must be a timeline, and no fence is
// supported. So a device exports and imports no binary semaphores.

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

enum { QUEUES = 4 };

#define EXPORT __attribute__((visibility("default")))

typedef struct device device;

// job is what one VkSubmitInfo says.
typedef struct job {
	struct job *next;
	uint32_t waits, signals, commands;
	VkSemaphore *wait, *signal;
	uint64_t *wait_values, *signal_values;
	VkCommandBuffer *command;
} job;

typedef struct queue {
	void *loader; // the loader's, and must be first: its functions find the device by it
	device *of;
	pthread_t thread;
	pthread_mutex_t mu;
	pthread_cond_t changed;
	job *first, **last;
	int busy, end;
	VkSemaphore done; // its value counts the jobs
	uint64_t count;
} queue;

struct device {
	device *next;
	VkDevice handle;
	VkQueue below;
	pthread_mutex_t mu; // of below
	queue queues[QUEUES];
	PFN_vkGetDeviceProcAddr get;
	PFN_vkDestroyDevice destroy;
	PFN_vkDeviceWaitIdle wait_idle;
	PFN_vkQueueSubmit submit;
	PFN_vkWaitSemaphores wait;
	PFN_vkCreateSemaphore create_semaphore;
	PFN_vkDestroySemaphore destroy_semaphore;
	PFN_vkSetDeviceLoaderData set_loader_data;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static device *devices;
// The functions below this layer are the same for all instances. They are asked for while an instance is made: afterwards
// loaders may return those on top.
static struct {
	PFN_vkGetInstanceProcAddr get;
	PFN_vkCreateDevice create_device;
	PFN_vkGetPhysicalDeviceQueueFamilyProperties families;
	PFN_vkGetPhysicalDeviceQueueFamilyProperties2 families2;
	PFN_vkGetPhysicalDeviceExternalSemaphoreProperties external;
} below;

static device *find(VkDevice handle) {
	pthread_mutex_lock(&mu);
	device *d = devices;
	while (d && d->handle != handle) d = d->next;
	pthread_mutex_unlock(&mu);
	return d;
}

// dup_array copies an array, and leaves room for one element more.
static void *dup_array(const void *from, size_t count, size_t size) {
	void *to = calloc(count + 1, size);
	if (count) memcpy(to, from, count * size);
	return to;
}

static const void *chained(const void *next, VkStructureType type) {
	const VkBaseInStructure *s = next;
	while (s && s->sType != type) s = s->pNext;
	return s;
}

static VkResult run(queue *q, const job *j) {
	device *d = q->of;
	VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = j->waits,
		.pSemaphores = j->wait, .pValues = j->wait_values};
	VkResult r = j->waits ? d->wait(d->handle, &info, UINT64_MAX) : VK_SUCCESS;
	if (r) return r;
	j->signal[j->signals] = q->done;
	j->signal_values[j->signals] = ++q->count;
	VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
		.signalSemaphoreValueCount = j->signals + 1, .pSignalSemaphoreValues = j->signal_values};
	VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &timeline,
		.commandBufferCount = j->commands, .pCommandBuffers = j->command,
		.signalSemaphoreCount = j->signals + 1, .pSignalSemaphores = j->signal};
	pthread_mutex_lock(&d->mu);
	r = d->submit(d->below, 1, &submit, VK_NULL_HANDLE);
	pthread_mutex_unlock(&d->mu);
	VkSemaphoreWaitInfo done = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
		.pSemaphores = &q->done, .pValues = &q->count};
	return r ? r : d->wait(d->handle, &done, UINT64_MAX);
}

static void *work(void *p) {
	queue *q = p;
	unsigned seed = (unsigned)(uintptr_t)q;
	pthread_mutex_lock(&q->mu);
	for (;;) {
		while (!q->first && !q->end) pthread_cond_wait(&q->changed, &q->mu);
		job *j = q->first;
		if (!j) break;
		q->first = j->next;
		if (!q->first) q->last = &q->first;
		q->busy = 1;
		pthread_mutex_unlock(&q->mu);
		if (rand_r(&seed) % 4 == 0) usleep(rand_r(&seed) % 200); // queues have no order
		if (run(q, j)) abort(); // no test makes a call below this layer fail
		free(j->wait), free(j->signal), free(j->wait_values), free(j->signal_values), free(j->command), free(j);
		pthread_mutex_lock(&q->mu);
		q->busy = 0;
		pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->mu);
	return NULL;
}

static VkResult VKAPI_CALL queue_submit(VkQueue handle, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
	queue *q = (queue *)handle;
	if (fence) return VK_ERROR_FEATURE_NOT_PRESENT;
	pthread_mutex_lock(&q->mu);
	for (const VkSubmitInfo *s = infos; s < infos + count; s++) {
		const VkTimelineSemaphoreSubmitInfo *t = chained(s->pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
		if (!t) t = &(VkTimelineSemaphoreSubmitInfo){0};
		job *j = calloc(1, sizeof *j);
		*j = (job){.waits = s->waitSemaphoreCount, .signals = s->signalSemaphoreCount, .commands = s->commandBufferCount,
			.wait = dup_array(s->pWaitSemaphores, s->waitSemaphoreCount, sizeof(VkSemaphore)),
			.signal = dup_array(s->pSignalSemaphores, s->signalSemaphoreCount, sizeof(VkSemaphore)),
			.wait_values = dup_array(t->pWaitSemaphoreValues, t->waitSemaphoreValueCount, sizeof(uint64_t)),
			.signal_values = dup_array(t->pSignalSemaphoreValues, t->signalSemaphoreValueCount, sizeof(uint64_t)),
			.command = dup_array(s->pCommandBuffers, s->commandBufferCount, sizeof(VkCommandBuffer))};
		*q->last = j;
		q->last = &j->next;
	}
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->mu);
	return VK_SUCCESS;
}

static VkResult VKAPI_CALL queue_wait_idle(VkQueue handle) {
	queue *q = (queue *)handle;
	pthread_mutex_lock(&q->mu);
	while (q->first || q->busy) pthread_cond_wait(&q->changed, &q->mu);
	pthread_mutex_unlock(&q->mu);
	pthread_mutex_lock(&q->of->mu);
	VkResult r = q->of->wait_idle(q->of->handle);
	pthread_mutex_unlock(&q->of->mu);
	return r;
}

static VkResult VKAPI_CALL device_wait_idle(VkDevice handle) {
	device *d = find(handle);
	VkResult r = VK_SUCCESS;
	for (int i = 0; i < QUEUES && !r; i++) r = queue_wait_idle((VkQueue)&d->queues[i]);
	return r;
}

static void VKAPI_CALL get_queue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *out) {
	(void)family;
	*out = (VkQueue)&find(handle)->queues[index];
}

static void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *c) {
	if (!handle) return;
	pthread_mutex_lock(&mu);
	device **p = &devices;
	while ((*p)->handle != handle) p = &(*p)->next;
	device *d = *p;
	*p = d->next;
	pthread_mutex_unlock(&mu);
	for (queue *q = d->queues; q < d->queues + QUEUES; q++) {
		pthread_mutex_lock(&q->mu);
		q->end = 1;
		pthread_cond_broadcast(&q->changed);
		pthread_mutex_unlock(&q->mu);
		pthread_join(q->thread, NULL);
		d->destroy_semaphore(handle, q->done, NULL);
		pthread_cond_destroy(&q->changed);
		pthread_mutex_destroy(&q->mu);
	}
	d->destroy(handle, c);
	pthread_mutex_destroy(&d->mu);
	free(d);
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
	const VkAllocationCallbacks *c, VkDevice *out) {
	VkLayerDeviceCreateInfo *link = NULL;
	PFN_vkSetDeviceLoaderData set_loader_data = NULL;
	for (VkLayerDeviceCreateInfo *s = (VkLayerDeviceCreateInfo *)info->pNext; s; s = (VkLayerDeviceCreateInfo *)s->pNext) {
		if (s->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO) continue;
		if (s->function == VK_LAYER_LINK_INFO) link = s;
		if (s->function == VK_LOADER_DATA_CALLBACK) set_loader_data = s->u.pfnSetDeviceLoaderData;
	}
	if (!link || !set_loader_data) return VK_ERROR_INITIALIZATION_FAILED;
	PFN_vkGetDeviceProcAddr get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	float priority = 1;
	VkDeviceQueueCreateInfo one = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
	VkDeviceCreateInfo changed = *info;
	changed.queueCreateInfoCount = 1;
	changed.pQueueCreateInfos = &one;
	VkResult r = below.create_device(physical, &changed, c, out);
	if (r) return r;
	device *d = calloc(1, sizeof *d);
	d->handle = *out;
	d->get = get;
	d->set_loader_data = set_loader_data;
#define LOAD(field, name) d->field = (PFN_vk##name)get(d->handle, "vk" #name)
	LOAD(destroy, DestroyDevice);
	LOAD(wait_idle, DeviceWaitIdle);
	LOAD(submit, QueueSubmit);
	LOAD(wait, WaitSemaphores);
	LOAD(create_semaphore, CreateSemaphore);
	LOAD(destroy_semaphore, DestroySemaphore);
	((PFN_vkGetDeviceQueue)get(d->handle, "vkGetDeviceQueue"))(d->handle, 0, 0, &d->below);
	set_loader_data(d->handle, d->below);
	pthread_mutex_init(&d->mu, NULL);
	for (queue *q = d->queues; q < d->queues + QUEUES; q++) {
		set_loader_data(d->handle, q);
		q->of = d;
		q->last = &q->first;
		VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
		VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
		if (d->create_semaphore(d->handle, &semaphore, NULL, &q->done)) abort();
		pthread_mutex_init(&q->mu, NULL);
		pthread_cond_init(&q->changed, NULL);
		if (pthread_create(&q->thread, NULL, work, q)) abort();
	}
	pthread_mutex_lock(&mu);
	d->next = devices;
	devices = d;
	pthread_mutex_unlock(&mu);
	return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *c, VkInstance *out) {
	VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
	while (link && !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
		link = (VkLayerInstanceCreateInfo *)link->pNext;
	if (!link) return VK_ERROR_INITIALIZATION_FAILED;
	PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
	link->u.pLayerInfo = link->u.pLayerInfo->pNext;
	VkResult r = ((PFN_vkCreateInstance)get(NULL, "vkCreateInstance"))(info, c, out);
	if (r) return r;
	pthread_mutex_lock(&mu);
	below.get = get;
	below.create_device = (PFN_vkCreateDevice)get(*out, "vkCreateDevice");
	below.families = (PFN_vkGetPhysicalDeviceQueueFamilyProperties)get(*out, "vkGetPhysicalDeviceQueueFamilyProperties");
	below.families2 = (PFN_vkGetPhysicalDeviceQueueFamilyProperties2)get(*out, "vkGetPhysicalDeviceQueueFamilyProperties2");
	below.external = (PFN_vkGetPhysicalDeviceExternalSemaphoreProperties)get(*out, "vkGetPhysicalDeviceExternalSemaphoreProperties");
	pthread_mutex_unlock(&mu);
	return VK_SUCCESS;
}

static void VKAPI_CALL external(VkPhysicalDevice physical, const VkPhysicalDeviceExternalSemaphoreInfo *info,
	VkExternalSemaphoreProperties *out) {
	below.external(physical, info, out);
	const VkSemaphoreTypeCreateInfo *type = chained(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
	if (!type || type->semaphoreType != VK_SEMAPHORE_TYPE_TIMELINE)
		out->exportFromImportedHandleTypes = out->compatibleHandleTypes = out->externalSemaphoreFeatures = 0;
}

static void VKAPI_CALL families(VkPhysicalDevice physical, uint32_t *count, VkQueueFamilyProperties *out) {
	below.families(physical, count, out);
	if (out && *count) out[0].queueCount = QUEUES;
}

static void VKAPI_CALL families2(VkPhysicalDevice physical, uint32_t *count, VkQueueFamilyProperties2 *out) {
	below.families2(physical, count, out);
	if (out && *count) out[0].queueFamilyProperties.queueCount = QUEUES;
}

EXPORT PFN_vkVoidFunction VKAPI_CALL dlx_queues_device(VkDevice handle, const char *name);
EXPORT PFN_vkVoidFunction VKAPI_CALL dlx_queues_instance(VkInstance handle, const char *name);

static const struct {
	const char *name;
	PFN_vkVoidFunction function;
	int device;
} functions[] = {
#define FUNCTION(name, function, device) {name, (PFN_vkVoidFunction)(void *)(function), device}
	FUNCTION("vkGetInstanceProcAddr", dlx_queues_instance, 0),
	FUNCTION("vkCreateInstance", create_instance, 0),
	FUNCTION("vkCreateDevice", create_device, 0),
	FUNCTION("vkGetPhysicalDeviceQueueFamilyProperties", families, 0),
	FUNCTION("vkGetPhysicalDeviceQueueFamilyProperties2", families2, 0),
	FUNCTION("vkGetPhysicalDeviceQueueFamilyProperties2KHR", families2, 0),
	FUNCTION("vkGetPhysicalDeviceExternalSemaphoreProperties", external, 0),
	FUNCTION("vkGetPhysicalDeviceExternalSemaphorePropertiesKHR", external, 0),
	FUNCTION("vkGetDeviceProcAddr", dlx_queues_device, 1),
	FUNCTION("vkDestroyDevice", destroy_device, 1),
	FUNCTION("vkDeviceWaitIdle", device_wait_idle, 1),
	FUNCTION("vkGetDeviceQueue", get_queue, 1),
	FUNCTION("vkQueueSubmit", queue_submit, 1),
	FUNCTION("vkQueueWaitIdle", queue_wait_idle, 1),
};

EXPORT PFN_vkVoidFunction VKAPI_CALL dlx_queues_device(VkDevice handle, const char *name) {
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (functions[i].device && !strcmp(name, functions[i].name)) return functions[i].function;
	device *d = find(handle);
	return d ? d->get(handle, name) : NULL;
}

EXPORT PFN_vkVoidFunction VKAPI_CALL dlx_queues_instance(VkInstance handle, const char *name) {
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(name, functions[i].name)) return functions[i].function;
	pthread_mutex_lock(&mu);
	PFN_vkVoidFunction f = below.get ? below.get(handle, name) : NULL;
	pthread_mutex_unlock(&mu);
	return f;
}
