//go:build vulkan && linux && cgo

#include "shim.h"

#include <stdlib.h>
#include <string.h>

#define HANDLE(type, h) ((type)(uintptr_t)(h))

void *dlx_proc(PFN_vkGetInstanceProcAddr get, uint64_t instance, const char *name) {
	return (void *)get(HANDLE(VkInstance, instance), name);
}

uint32_t dlx_instance_version(PFN_vkEnumerateInstanceVersion get) {
	uint32_t version = VK_API_VERSION_1_0;
	if (get) get(&version);
	return version;
}

// names copies the first member of each property struct, which is its name.
static void names(uint32_t count, dlx_name *to, const void *from, size_t size) {
	for (uint32_t i = 0; i < count; i++) memcpy(to[i], (const char *)from + i * size, sizeof *to);
}

// LIST asks for a list by a call of (..., &n, properties) and copies the names.
#define LIST(type, call)                                 \
	uint32_t n = 0;                                      \
	type *properties = NULL;                             \
	VkResult r = call;                                   \
	if (!r && n) {                                       \
		properties = calloc(n, sizeof *properties);      \
		r = properties ? call : VK_ERROR_OUT_OF_HOST_MEMORY; \
		if (r == VK_INCOMPLETE) r = VK_SUCCESS;          \
		if (!r) names(n < *count ? n : *count, out, properties, sizeof *properties); \
		free(properties);                                \
	}                                                    \
	*count = n;                                          \
	return r

VkResult dlx_layers(PFN_vkEnumerateInstanceLayerProperties get, uint32_t *count, dlx_name *out) {
	LIST(VkLayerProperties, get(&n, properties));
}

VkResult dlx_instance_extensions(PFN_vkEnumerateInstanceExtensionProperties get, const char *layer, uint32_t *count, dlx_name *out) {
	LIST(VkExtensionProperties, get(layer, &n, properties));
}

VkResult dlx_device_extensions(PFN_vkEnumerateDeviceExtensionProperties get, uint64_t physical, uint32_t *count, dlx_name *out) {
	LIST(VkExtensionProperties, get(HANDLE(VkPhysicalDevice, physical), NULL, &n, properties));
}

void dlx_families(PFN_vkGetPhysicalDeviceQueueFamilyProperties get, uint64_t physical, uint32_t *count, uint32_t *flags, uint32_t *queues, uint32_t *bits) {
	enum { MAX = 32 };
	VkQueueFamilyProperties properties[MAX];
	uint32_t n = MAX;
	get(HANDLE(VkPhysicalDevice, physical), &n, properties);
	if (*count > n) *count = n;
	for (uint32_t i = 0; i < *count; i++) {
		queues[i] = properties[i].queueCount;
		flags[i] = queues[i] ? properties[i].queueFlags : 0;
		bits[i] = properties[i].timestampValidBits;
	}
}

void dlx_describe(PFN_vkGetPhysicalDeviceProperties2 properties, PFN_vkGetPhysicalDeviceFeatures2 features,
	uint64_t physical, uint32_t has, dlx_physical *out) {
	VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
	VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
	VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
	VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
	VkPhysicalDeviceExternalMemoryHostPropertiesEXT host = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
	VkPhysicalDeviceMaintenance4Properties buffers = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
	p.pNext = &id;
#define CHAIN(head, flag, s) if (has & (flag)) { (s).pNext = (head).pNext; (head).pNext = &(s); }
	CHAIN(p, DLX_HAS_DRIVER, driver)
	CHAIN(p, DLX_HAS_PCI, pci)
	CHAIN(p, DLX_HAS_HOST, host)
	CHAIN(p, DLX_HAS_BUFFER_SIZE, buffers)
	properties(HANDLE(VkPhysicalDevice, physical), &p);

	VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
	VkPhysicalDevice16BitStorageFeatures storage16 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
	VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
	VkPhysicalDevice8BitStorageFeatures storage8 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
	f.pNext = &storage16;
	CHAIN(f, DLX_HAS_TIMELINE, timeline)
	CHAIN(f, DLX_HAS_STORAGE8, storage8)
	features(HANDLE(VkPhysicalDevice, physical), &f);

	const VkPhysicalDeviceProperties *q = &p.properties;
	memcpy(out->name, q->deviceName, sizeof out->name);
	memcpy(out->driver_name, driver.driverName, sizeof out->driver_name);
	memcpy(out->driver_info, driver.driverInfo, sizeof out->driver_info);
	out->api_version = q->apiVersion;
	out->driver_version = q->driverVersion;
	out->vendor_id = q->vendorID;
	out->type = q->deviceType;
	out->driver_id = driver.driverID;
	memcpy(out->device_uuid, id.deviceUUID, VK_UUID_SIZE);
	memcpy(out->driver_uuid, id.driverUUID, VK_UUID_SIZE);
	out->pci_domain = pci.pciDomain;
	out->pci_bus = pci.pciBus;
	out->pci_device = pci.pciDevice;
	out->pci_function = pci.pciFunction;
	out->host_alignment = host.minImportedHostPointerAlignment;
	out->max_buffer = buffers.maxBufferSize;
	out->max_storage_range = q->limits.maxStorageBufferRange;
	out->storage_alignment = q->limits.minStorageBufferOffsetAlignment;
	memcpy(out->max_groups, q->limits.maxComputeWorkGroupCount, sizeof out->max_groups);
	out->timestamp_period = q->limits.timestampPeriod;
	out->timeline = timeline.timelineSemaphore;
	out->storage8 = storage8.storageBuffer8BitAccess;
	out->storage16 = storage16.storageBuffer16BitAccess;
}

void dlx_external_buffer(PFN_vkGetPhysicalDeviceExternalBufferProperties get, uint64_t physical, uint32_t usage,
	uint32_t type, uint32_t *features) {
	VkPhysicalDeviceExternalBufferInfo info = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO, .usage = usage, .handleType = type};
	VkExternalBufferProperties out = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
	get(HANDLE(VkPhysicalDevice, physical), &info, &out);
	*features = out.externalMemoryProperties.externalMemoryFeatures;
}

void dlx_external_semaphore(PFN_vkGetPhysicalDeviceExternalSemaphoreProperties get, uint64_t physical,
	uint32_t type, int binary, uint32_t *features) {
	VkSemaphoreTypeCreateInfo timeline = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
		.semaphoreType = binary ? VK_SEMAPHORE_TYPE_BINARY : VK_SEMAPHORE_TYPE_TIMELINE};
	VkPhysicalDeviceExternalSemaphoreInfo info = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_SEMAPHORE_INFO, .pNext = &timeline, .handleType = type};
	VkExternalSemaphoreProperties out = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_SEMAPHORE_PROPERTIES};
	get(HANDLE(VkPhysicalDevice, physical), &info, &out);
	*features = out.externalSemaphoreFeatures;
}

dlx_device *dlx_device_new(PFN_vkGetDeviceProcAddr get, uint64_t device, uint64_t queue, uint32_t family, const char **missing) {
	dlx_device *d = calloc(1, sizeof *d);
	*missing = "calloc";
	if (!d) return NULL;
	d->device = HANDLE(VkDevice, device);
	d->queue = HANDLE(VkQueue, queue);
	d->family = family;
	*missing = NULL;
#define LOAD(name, suffix) (PFN_vk##name)get(d->device, "vk" #name suffix)
#define LOAD_OPTIONAL(name) d->name = LOAD(name, "");
#define LOAD_DEVICE(name) if (!(d->name = LOAD(name, ""))) *missing = "vk" #name;
#define LOAD_TIMELINE(name) if (!(d->name = LOAD(name, "")) && !(d->name = LOAD(name, "KHR"))) *missing = "vk" #name;
	DLX_DEVICE_FUNCTIONS(LOAD_DEVICE)
	DLX_TIMELINE_FUNCTIONS(LOAD_TIMELINE)
	DLX_OPTIONAL_FUNCTIONS(LOAD_OPTIONAL)
	if (*missing) {
		free(d);
		return NULL;
	}
	pthread_mutex_init(&d->mu, NULL);
	return d;
}

void dlx_device_free(dlx_device *d) {
	pthread_mutex_destroy(&d->mu);
	free(d);
}

void dlx_queue_lock(void *device) { pthread_mutex_lock(&((dlx_device *)device)->mu); }
void dlx_queue_unlock(void *device) { pthread_mutex_unlock(&((dlx_device *)device)->mu); }

// transfer fills a barrier that moves a buffer between queue families, and returns
// whether there is one to move.
static int transfer(VkBufferMemoryBarrier *b, uint64_t buffer, uint32_t from, uint32_t to, VkAccessFlags before, VkAccessFlags after) {
	if (from == to || from == VK_QUEUE_FAMILY_IGNORED || to == VK_QUEUE_FAMILY_IGNORED) return 0;
	*b = (VkBufferMemoryBarrier){.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER, .srcAccessMask = before, .dstAccessMask = after,
		.srcQueueFamilyIndex = from, .dstQueueFamilyIndex = to, .buffer = HANDLE(VkBuffer, buffer), .size = VK_WHOLE_SIZE};
	return 1;
}

static void dispatch(dlx_device *d, VkCommandBuffer cmd, const dlx_job *j, uint32_t push_size, const void *push) {
	VkDescriptorBufferInfo buffers[2] = {
		{HANDLE(VkBuffer, j->dst), j->dst_offset, j->dst_range},
		{HANDLE(VkBuffer, j->src), j->src_offset, j->src_range},
	};
	VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = HANDLE(VkDescriptorSet, j->set),
		.descriptorCount = 2, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = buffers};
	d->UpdateDescriptorSets(d->device, 1, &write, 0, NULL);
	VkPipelineLayout layout = HANDLE(VkPipelineLayout, j->layout);
	VkDescriptorSet set = write.dstSet;
	d->CmdBindPipeline(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, HANDLE(VkPipeline, j->pipeline));
	d->CmdBindDescriptorSets(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, NULL);
	d->CmdPushConstants(cmd, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, push_size, push);
	d->CmdDispatch(cmd, j->groups[0], j->groups[1], j->groups[2]);
}

VkResult dlx_record(dlx_device *d, const dlx_job *j, uint32_t count, const void *regions, uint32_t push_size, const void *push) {
	VkCommandBuffer cmd = HANDLE(VkCommandBuffer, j->command);
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
	VkResult r = d->BeginCommandBuffer(cmd, &begin);
	if (r) return r;
	VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT;
	VkAccessFlags read = VK_ACCESS_TRANSFER_READ_BIT, write = VK_ACCESS_TRANSFER_WRITE_BIT;
	if (j->pipeline) {
		stage = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
		read = VK_ACCESS_SHADER_READ_BIT;
		write = VK_ACCESS_SHADER_WRITE_BIT;
	}
	// What was submitted to the queue before comes first, whatever it was.
	VkMemoryBarrier before = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT, .dstAccessMask = read | write};
	VkBufferMemoryBarrier owners[2];
	uint32_t n = transfer(&owners[0], j->src, j->src_owner, d->family, 0, read | write);
	if (j->dst != j->src) n += transfer(&owners[n], j->dst, j->dst_owner, d->family, 0, read | write);
	d->CmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, stage, 0, 1, &before, n, owners, 0, NULL);

	if (j->pipeline)
		dispatch(d, cmd, j, push_size, push);
	else
		d->CmdCopyBuffer(cmd, HANDLE(VkBuffer, j->src), HANDLE(VkBuffer, j->dst), count, regions);

	// The host may look at the memory through a mapping when the work is done.
	VkMemoryBarrier after = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
		.srcAccessMask = write, .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
	n = transfer(&owners[0], j->src, d->family, j->src_owner, read | write, 0);
	if (j->dst != j->src) n += transfer(&owners[n], j->dst, d->family, j->dst_owner, read | write, 0);
	d->CmdPipelineBarrier(cmd, stage, VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 1, &after, n, owners, 0, NULL);
	r = d->EndCommandBuffer(cmd);
	if (r) d->ResetCommandBuffer(cmd, 0); // it is used again
	return r;
}

VkResult dlx_record_copies(dlx_device *d, uint64_t command, uint32_t count, const dlx_region *regions) {
	VkCommandBuffer cmd = HANDLE(VkCommandBuffer, command);
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
	VkResult r = d->BeginCommandBuffer(cmd, &begin);
	if (r) return r;
	VkMemoryBarrier before = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
	d->CmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &before, 0, NULL, 0, NULL);
	for (uint32_t i = 0; i < count; i++) {
		VkBufferCopy region = {regions[i].src_offset, regions[i].dst_offset, regions[i].size};
		d->CmdCopyBuffer(cmd, HANDLE(VkBuffer, regions[i].src), HANDLE(VkBuffer, regions[i].dst), 1, &region);
	}
	VkMemoryBarrier after = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
		.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
	d->CmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &after, 0, NULL, 0, NULL);
	r = d->EndCommandBuffer(cmd);
	if (r) d->ResetCommandBuffer(cmd, 0); // it is used again
	return r;
}

VkResult dlx_times_new(dlx_device *d, uint32_t count, uint64_t *pool) {
	VkQueryPoolCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = count};
	VkQueryPool made = VK_NULL_HANDLE;
	VkResult r = d->CreateQueryPool(d->device, &info, NULL, &made);
	*pool = (uint64_t)(uintptr_t)made;
	return r;
}

void dlx_times_free(dlx_device *d, uint64_t pool) { d->DestroyQueryPool(d->device, HANDLE(VkQueryPool, pool), NULL); }

VkResult dlx_record_time(dlx_device *d, uint64_t command, uint64_t pool, uint32_t index) {
	VkCommandBuffer cmd = HANDLE(VkCommandBuffer, command);
	VkCommandBufferBeginInfo begin = {
		.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
	VkResult r = d->BeginCommandBuffer(cmd, &begin);
	if (r) return r;
	d->CmdResetQueryPool(cmd, HANDLE(VkQueryPool, pool), index, 1);
	VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	d->CmdPipelineBarrier(cmd, all, all, 0, 0, NULL, 0, NULL, 0, NULL);
	d->CmdWriteTimestamp(cmd, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, HANDLE(VkQueryPool, pool), index);
	r = d->EndCommandBuffer(cmd);
	if (r) d->ResetCommandBuffer(cmd, 0); // it is used again
	return r;
}

VkResult dlx_time(dlx_device *d, uint64_t pool, uint32_t index, uint64_t *out) {
	return d->GetQueryPoolResults(d->device, HANDLE(VkQueryPool, pool), index, 1, sizeof *out, out, sizeof *out, VK_QUERY_RESULT_64_BIT);
}

VkResult dlx_submit(dlx_device *d, int locked, const dlx_submission *s, uint32_t count, const dlx_point *waits) {
	VkCommandBuffer cmd = HANDLE(VkCommandBuffer, s->command);
	VkSemaphore semaphores[count + 1]; // one more, since no array has no elements
	uint64_t values[count + 1];
	VkPipelineStageFlags stages[count + 1];
	for (uint32_t i = 0; i < count; i++) {
		semaphores[i] = HANDLE(VkSemaphore, waits[i].timeline);
		values[i] = waits[i].value;
		stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
	}
	// Only the signals of different infos have an order.
	dlx_point points[2] = {s->first, s->signal};
	uint32_t skip = s->first.timeline == 0;
	VkSemaphore signals[2];
	VkTimelineSemaphoreSubmitInfo timelines[2];
	VkSubmitInfo submits[2];
	for (uint32_t i = skip; i < 2; i++) {
		signals[i] = HANDLE(VkSemaphore, points[i].timeline);
		timelines[i] = (VkTimelineSemaphoreSubmitInfo){.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
			.signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &points[i].value};
		submits[i] = (VkSubmitInfo){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &timelines[i],
			.signalSemaphoreCount = 1, .pSignalSemaphores = &signals[i]};
	}
	timelines[skip].waitSemaphoreValueCount = submits[skip].waitSemaphoreCount = count;
	timelines[skip].pWaitSemaphoreValues = values;
	submits[skip].pWaitSemaphores = semaphores;
	submits[skip].pWaitDstStageMask = stages;
	submits[skip].commandBufferCount = cmd != NULL;
	submits[skip].pCommandBuffers = &cmd;
	if (s->queue) return d->QueueSubmit(HANDLE(VkQueue, s->queue), 2 - skip, &submits[skip], VK_NULL_HANDLE);
	if (!locked) dlx_queue_lock(d);
	VkResult r = d->QueueSubmit(d->queue, 2 - skip, &submits[skip], VK_NULL_HANDLE);
	if (!locked) dlx_queue_unlock(d);
	return r;
}

VkResult dlx_pipeline_new(dlx_device *d, uint64_t size, const void *code, uint32_t push_size, dlx_pipeline *out) {
	VkShaderModuleCreateInfo module_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = code};
	VkShaderModule module;
	VkResult r = d->CreateShaderModule(d->device, &module_info, NULL, &module);
	if (r) return r;
	VkDescriptorSetLayoutBinding bindings[2];
	for (uint32_t i = 0; i < 2; i++)
		bindings[i] = (VkDescriptorSetLayoutBinding){
			.binding = i, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1, .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
	VkDescriptorSetLayoutCreateInfo sets_info = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 2, .pBindings = bindings};
	VkDescriptorSetLayout sets = VK_NULL_HANDLE;
	VkPipelineLayout layout = VK_NULL_HANDLE;
	VkPipeline pipeline = VK_NULL_HANDLE;
	r = d->CreateDescriptorSetLayout(d->device, &sets_info, NULL, &sets);
	if (!r) {
		VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push_size};
		VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
			.setLayoutCount = 1, .pSetLayouts = &sets, .pushConstantRangeCount = 1, .pPushConstantRanges = &range};
		r = d->CreatePipelineLayout(d->device, &layout_info, NULL, &layout);
	}
	if (!r) {
		VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = layout,
			.stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = module, .pName = "main"}};
		r = d->CreateComputePipelines(d->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
	}
	d->DestroyShaderModule(d->device, module, NULL);
	*out = (dlx_pipeline){(uint64_t)(uintptr_t)sets, (uint64_t)(uintptr_t)layout, (uint64_t)(uintptr_t)pipeline};
	if (r) dlx_pipeline_free(d, out);
	return r;
}

void dlx_pipeline_free(dlx_device *d, const dlx_pipeline *p) { // NULL handles are ignored
	d->DestroyPipeline(d->device, HANDLE(VkPipeline, p->pipeline), NULL);
	d->DestroyPipelineLayout(d->device, HANDLE(VkPipelineLayout, p->layout), NULL);
	d->DestroyDescriptorSetLayout(d->device, HANDLE(VkDescriptorSetLayout, p->sets), NULL);
}

VkResult dlx_set_new(dlx_device *d, const dlx_pipeline *p, uint64_t *pool, uint64_t *set) {
	VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
	VkDescriptorPoolCreateInfo info = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
	VkDescriptorPool made;
	VkResult r = d->CreateDescriptorPool(d->device, &info, NULL, &made);
	if (r) return r;
	VkDescriptorSetLayout layout = HANDLE(VkDescriptorSetLayout, p->sets);
	VkDescriptorSetAllocateInfo allocate = {
		.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = made, .descriptorSetCount = 1, .pSetLayouts = &layout};
	VkDescriptorSet s;
	r = d->AllocateDescriptorSets(d->device, &allocate, &s);
	if (r) {
		d->DestroyDescriptorPool(d->device, made, NULL);
		return r;
	}
	*pool = (uint64_t)(uintptr_t)made;
	*set = (uint64_t)(uintptr_t)s;
	return VK_SUCCESS;
}

void dlx_set_free(dlx_device *d, uint64_t pool) { d->DestroyDescriptorPool(d->device, HANDLE(VkDescriptorPool, pool), NULL); }

VkResult dlx_counter(dlx_device *d, uint64_t semaphore, uint64_t *value) {
	return d->GetSemaphoreCounterValue(d->device, HANDLE(VkSemaphore, semaphore), value);
}

VkResult dlx_wait(dlx_device *d, uint64_t semaphore, uint64_t value, uint64_t timeout) {
	VkSemaphore s = HANDLE(VkSemaphore, semaphore);
	VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1, .pSemaphores = &s, .pValues = &value};
	return d->WaitSemaphores(d->device, &info, timeout);
}

VkResult dlx_signal(dlx_device *d, uint64_t semaphore, uint64_t value) {
	VkSemaphoreSignalInfo info = {
		.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = HANDLE(VkSemaphore, semaphore), .value = value};
	return d->SignalSemaphore(d->device, &info);
}

VkResult dlx_memory_fd(dlx_device *d, uint64_t memory, uint32_t type, int *fd) {
	VkMemoryGetFdInfoKHR info = {
		.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR, .memory = HANDLE(VkDeviceMemory, memory), .handleType = type};
	return d->GetMemoryFdKHR(d->device, &info, fd);
}

VkResult dlx_memory_fd_types(dlx_device *d, uint32_t type, int fd, uint32_t *bits) {
	VkMemoryFdPropertiesKHR out = {.sType = VK_STRUCTURE_TYPE_MEMORY_FD_PROPERTIES_KHR};
	VkResult r = d->GetMemoryFdPropertiesKHR(d->device, type, fd, &out);
	*bits = out.memoryTypeBits;
	return r;
}

VkResult dlx_host_types(dlx_device *d, uint32_t type, uintptr_t address, uint32_t *bits) {
	VkMemoryHostPointerPropertiesEXT out = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
	VkResult r = d->GetMemoryHostPointerPropertiesEXT(
		d->device, (VkExternalMemoryHandleTypeFlagBits)type, (const void *)address, &out);
	*bits = out.memoryTypeBits;
	return r;
}

VkResult dlx_semaphore_fd(dlx_device *d, uint64_t semaphore, int *fd) {
	VkSemaphoreGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
		.semaphore = HANDLE(VkSemaphore, semaphore), .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
	return d->GetSemaphoreFdKHR(d->device, &info, fd);
}

VkResult dlx_import_semaphore(dlx_device *d, uint64_t semaphore, int fd) {
	VkImportSemaphoreFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
		.semaphore = HANDLE(VkSemaphore, semaphore), .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT, .fd = fd};
	return d->ImportSemaphoreFdKHR(d->device, &info);
}

static struct {
	pthread_mutex_t mu;
	uint64_t count;
	char text[DLX_MESSAGES][DLX_MESSAGE_SIZE];
} messages = {.mu = PTHREAD_MUTEX_INITIALIZER};

static VkBool32 VKAPI_PTR keep_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
	const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
	(void)severity, (void)types, (void)user;
	/* The layer says so when its own threads waited 10 s for each other, one for each of several queues: "most likely a
	   validation bug". The semaphore itself has its value. */
	if (data->pMessageIdName && !strcmp(data->pMessageIdName, "UNASSIGNED-VkSemaphore-state-timeout"))
		return VK_FALSE;
	pthread_mutex_lock(&messages.mu);
	char *text = messages.text[messages.count++ % DLX_MESSAGES];
	strncpy(text, data->pMessage ? data->pMessage : "", DLX_MESSAGE_SIZE - 1);
	pthread_mutex_unlock(&messages.mu);
	return VK_FALSE;
}

uint64_t dlx_messages(uint64_t i, char out[DLX_MESSAGE_SIZE]) {
	pthread_mutex_lock(&messages.mu);
	memcpy(out, messages.text[i % DLX_MESSAGES], DLX_MESSAGE_SIZE);
	uint64_t count = messages.count;
	pthread_mutex_unlock(&messages.mu);
	return count;
}

void dlx_messenger_info(VkDebugUtilsMessengerCreateInfoEXT *info) {
	*info = (VkDebugUtilsMessengerCreateInfoEXT){.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
		.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
		.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
		.pfnUserCallback = keep_message};
}

VkResult dlx_messenger_new(PFN_vkCreateDebugUtilsMessengerEXT create, uint64_t instance, uint64_t *messenger) {
	VkDebugUtilsMessengerCreateInfoEXT info;
	dlx_messenger_info(&info);
	VkDebugUtilsMessengerEXT m;
	VkResult r = create(HANDLE(VkInstance, instance), &info, NULL, &m);
	*messenger = r ? 0 : (uint64_t)(uintptr_t)m;
	return r;
}

void dlx_messenger_free(PFN_vkDestroyDebugUtilsMessengerEXT destroy, uint64_t instance, uint64_t messenger) {
	destroy(HANDLE(VkInstance, instance), HANDLE(VkDebugUtilsMessengerEXT, messenger), NULL);
}
