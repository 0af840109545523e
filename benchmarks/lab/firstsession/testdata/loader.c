// A loader of Vulkan for tests, around that of the system. With WRITES_ARE_LOST, what the device writes to imported
// memory of the host does not arrive. Else no memory of the host can be imported.

#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <string.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr get;

#ifdef WRITES_ARE_LOST
static PFN_vkCreateBuffer create;
static PFN_vkCmdCopyBuffer copy;
static VkBuffer imported[64];
static int count;

static VkResult create_buffer(VkDevice d, const VkBufferCreateInfo *info, const VkAllocationCallbacks *a, VkBuffer *out) {
	VkResult r = create(d, info, a, out);
	if (!r && info->pNext && count < 64) imported[count++] = *out;
	return r;
}

static void copy_buffer(VkCommandBuffer c, VkBuffer from, VkBuffer to, uint32_t n, const VkBufferCopy *all) {
	for (int i = 0; i < count; i++)
		if (imported[i] == to) return;
	copy(c, from, to, n, all);
}
#else
static VkResult refuse(VkDevice d, VkExternalMemoryHandleTypeFlagBits type, const void *p, VkMemoryHostPointerPropertiesEXT *out) {
	(void)d, (void)type, (void)p, (void)out;
	return VK_ERROR_INVALID_EXTERNAL_HANDLE;
}
#endif

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name) {
	void *library = get ? NULL : dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
	if (library) get = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
	PFN_vkVoidFunction found = get ? get(instance, name) : NULL;
#ifdef WRITES_ARE_LOST
	if (found && !strcmp(name, "vkCreateBuffer")) {
		create = (PFN_vkCreateBuffer)found;
		return (PFN_vkVoidFunction)create_buffer;
	}
	if (found && !strcmp(name, "vkCmdCopyBuffer")) {
		copy = (PFN_vkCmdCopyBuffer)found;
		return (PFN_vkVoidFunction)copy_buffer;
	}
#else
	if (found && !strcmp(name, "vkGetMemoryHostPointerPropertiesEXT")) return (PFN_vkVoidFunction)refuse;
#endif
	return found;
}
