//go:build cuda && vulkan && linux && cgo

// Imports of host memory by VK_EXT_external_memory_host.

#include "raw.h"
#include "vktable.h"

#include <string.h>

// transfer copies between the imported buffer and one that is mapped, and returns 1 if the bytes are right, 0 if not,
// and -1 if a call failed. Afterwards the memory has the pattern again, even if what the device wrote did not arrive, or
// the next import would seem to be one that the device does not read.
static int transfer(void *p, uint64_t size, VkBuffer imported, int write) {
	VkBuffer own;
	VkDeviceMemory memory;
	VkCommandBuffer cmd;
	VkBufferCopy all = {.size = size};
	void *mapped;
	if (fs_vk_buffer(size, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, &own, &memory) ||
		vk.MapMemory(vk.device, memory, 0, VK_WHOLE_SIZE, 0, &mapped) || fs_vk_begin(0, &cmd))
		return -1;
	if (write) {
		fs_memory_fill(mapped, size);
		memset(p, 0, size);
	} else {
		memset(mapped, 0, size);
	}
	vk.CmdCopyBuffer(cmd, write ? own : imported, write ? imported : own, 1, &all);
	int right = fs_vk_run(0, cmd) ? -1 : fs_memory_wrong(write ? p : mapped, size) == 0;
	if (write) fs_memory_fill(p, size);
	vk.DestroyBuffer(vk.device, own, NULL);
	vk.FreeMemory(vk.device, memory, NULL);
	return right;
}

// The import stays open. vk.GetMemoryHostPointerPropertiesEXT must be there.
void fs_vk_host_import(void *p, uint64_t size, int foreign, int writable, fs_import *out) {
	const VkExternalMemoryHandleTypeFlagBits type = foreign ? VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_MAPPED_FOREIGN_MEMORY_BIT_EXT
	                                                        : VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
	const int untried = -1000000; // no VkResult
	*out = (fs_import){.created = untried, .allocated = untried, .bound = untried, .read = -1, .written = -1};
	VkMemoryHostPointerPropertiesEXT properties = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
	out->properties = vk.GetMemoryHostPointerPropertiesEXT(vk.device, type, p, &properties);
	out->bits = properties.memoryTypeBits;
	if (out->properties) return;

	VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = type};
	VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = &external, .size = size,
		.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
	VkBuffer buffer;
	if ((out->created = vk.CreateBuffer(vk.device, &info, NULL, &buffer))) return;
	VkMemoryRequirements need;
	vk.GetBufferMemoryRequirements(vk.device, buffer, &need);
	int chosen = fs_vk_memory_type(need.memoryTypeBits & out->bits, 0);
	if (chosen < 0) return;
	VkImportMemoryHostPointerInfoEXT import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, .handleType = type, .pHostPointer = p};
	VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &import,
		.allocationSize = size, .memoryTypeIndex = (uint32_t)chosen};
	VkDeviceMemory memory;
	if ((out->allocated = vk.AllocateMemory(vk.device, &allocate, NULL, &memory))) return;
	if ((out->bound = vk.BindBufferMemory(vk.device, buffer, memory, 0))) return;
	out->read = transfer(p, size, buffer, 0);
	if (writable) out->written = transfer(p, size, buffer, 1);
}
