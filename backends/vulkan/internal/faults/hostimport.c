//go:build vulkan && linux && cgo

#include "faults.h"

#include <pthread.h>
#include <string.h>

enum {
	ALLOCATION = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
	FOREIGN = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_MAPPED_FOREIGN_MEMORY_BIT_EXT,
};

static struct {
	PFN_vkCreateBuffer create_buffer;
	PFN_vkAllocateMemory allocate;
	PFN_vkFreeMemory free;
	PFN_vkGetMemoryHostPointerPropertiesEXT properties;
	PFN_vkGetPhysicalDeviceExternalBufferProperties buffers;

	pthread_mutex_t mu; // guards what follows
	int foreign;        // FAULTS_AS_DRIVER, FAULTS_ACCEPT or FAULTS_REFUSE
	int refuse_again;
	faults_host_import last;
	size_t count;
	struct {
		VkDeviceMemory memory;
		uintptr_t first, end;
	} imports[4096];
} host = {.mu = PTHREAD_MUTEX_INITIALIZER};

// chained finds the struct of a type in a chain. The structs are the program's own, which owns them during the call.
static void *chained(const void *next, VkStructureType type) {
	VkBaseOutStructure *s = (VkBaseOutStructure *)next;
	while (s && s->sType != type) s = s->pNext;
	return s;
}

// understood returns the handle types that the real driver gets for some.
static uint32_t understood(uint32_t types) {
	if (host.foreign == FAULTS_ACCEPT && (types & FOREIGN)) types = (types & ~(uint32_t)FOREIGN) | ALLOCATION;
	return types;
}

static VkResult VKAPI_PTR create_buffer(VkDevice d, const VkBufferCreateInfo *info, const VkAllocationCallbacks *c, VkBuffer *out) {
	VkExternalMemoryBufferCreateInfo *e = chained(info->pNext, VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
	if (!e || !(e->handleTypes & (ALLOCATION | FOREIGN))) return host.create_buffer(d, info, c, out);
	pthread_mutex_lock(&host.mu);
	uint32_t types = e->handleTypes;
	host.last.buffer = types;
	e->handleTypes = understood(types);
	VkResult r = host.create_buffer(d, info, c, out);
	e->handleTypes = types;
	pthread_mutex_unlock(&host.mu);
	return r;
}

static VkResult VKAPI_PTR properties(VkDevice d, VkExternalMemoryHandleTypeFlagBits type, const void *p, VkMemoryHostPointerPropertiesEXT *out) {
	pthread_mutex_lock(&host.mu);
	host.last.asked = type;
	type = (VkExternalMemoryHandleTypeFlagBits)understood(type);
	pthread_mutex_unlock(&host.mu);
	return host.properties(d, type, p, out);
}

// imported reports whether memory that is imported now has some of the bytes.
static int imported(uintptr_t first, uintptr_t end) {
	for (size_t i = 0; i < host.count; i++)
		if (host.imports[i].first < end && first < host.imports[i].end) return 1;
	return 0;
}

static VkResult VKAPI_PTR allocate(VkDevice d, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *c, VkDeviceMemory *out) {
	VkImportMemoryHostPointerInfoEXT *import = chained(info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT);
	if (!import) return host.allocate(d, info, c, out);
	uintptr_t first = (uintptr_t)import->pHostPointer, end = first + info->allocationSize;
	pthread_mutex_lock(&host.mu);
	host.last.imported = import->handleType;
	VkResult r = VK_ERROR_INVALID_EXTERNAL_HANDLE;
	if (!(host.refuse_again && imported(first, end)) && host.count < sizeof host.imports / sizeof host.imports[0]) {
		VkExternalMemoryHandleTypeFlagBits type = import->handleType;
		import->handleType = (VkExternalMemoryHandleTypeFlagBits)understood(type);
		r = host.allocate(d, info, c, out);
		import->handleType = type;
	}
	if (r == VK_SUCCESS) {
		host.imports[host.count].memory = *out;
		host.imports[host.count].first = first;
		host.imports[host.count++].end = end;
	}
	pthread_mutex_unlock(&host.mu);
	return r;
}

static void VKAPI_PTR free_memory(VkDevice d, VkDeviceMemory memory, const VkAllocationCallbacks *c) {
	pthread_mutex_lock(&host.mu); // until it is freed, since a driver may give the handle to other memory at once
	host.free(d, memory, c);
	for (size_t i = 0; i < host.count; i++)
		if (host.imports[i].memory == memory) {
			host.imports[i] = host.imports[--host.count];
			break;
		}
	pthread_mutex_unlock(&host.mu);
}

static void VKAPI_PTR buffers(VkPhysicalDevice d, const VkPhysicalDeviceExternalBufferInfo *info, VkExternalBufferProperties *out) {
	pthread_mutex_lock(&host.mu);
	int foreign = host.foreign;
	pthread_mutex_unlock(&host.mu);
	VkPhysicalDeviceExternalBufferInfo asked = *info;
	if (info->handleType == FOREIGN && foreign == FAULTS_ACCEPT) asked.handleType = ALLOCATION;
	host.buffers(d, &asked, out);
	if (info->handleType == FOREIGN && foreign == FAULTS_REFUSE)
		out->externalMemoryProperties = (VkExternalMemoryProperties){0};
}

PFN_vkVoidFunction faults_host(const char *name, PFN_vkVoidFunction real) {
#define IN_FRONT(field, hook, call)                \
	if (!strcmp(name, #call)) {                    \
		host.field = (PFN_##call)real;             \
		return (PFN_vkVoidFunction)(PFN_##call)hook; \
	}
	IN_FRONT(create_buffer, create_buffer, vkCreateBuffer)
	IN_FRONT(allocate, allocate, vkAllocateMemory)
	IN_FRONT(free, free_memory, vkFreeMemory)
	IN_FRONT(properties, properties, vkGetMemoryHostPointerPropertiesEXT)
	IN_FRONT(buffers, buffers, vkGetPhysicalDeviceExternalBufferProperties)
	return real;
}

void faults_host_rules(int foreign, int refuse_again) {
	pthread_mutex_lock(&host.mu);
	host.foreign = foreign;
	host.refuse_again = refuse_again;
	pthread_mutex_unlock(&host.mu);
}

faults_host_import faults_last_host_import(void) {
	pthread_mutex_lock(&host.mu);
	faults_host_import last = host.last;
	memset(&host.last, 0, sizeof host.last);
	pthread_mutex_unlock(&host.mu);
	return last;
}
