//go:build vulkan && linux && cgo

package vulkan

/*
#include <stdlib.h>
#include <string.h>
#include "dlpack_vulkan.h"

// In C, since Go must not have a pointer to an address from another library.
static void dlx_copy_descriptor(DLVulkanBuffer *to, uintptr_t from) {
	memcpy(to, (const void *)from, sizeof *to);
}
*/
import "C"

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

func bufferOf(t *core.Tensor) (b Buffer, offset int64, err error) {
	const call = "BufferOf"
	if t == nil {
		return b, 0, errorf(core.ErrInvalid, call, "the tensor is nil")
	}
	buffer, err := t.Buffer()
	if err != nil {
		return b, 0, err
	}
	if t.DeviceID().Type != core.DeviceVulkan {
		return b, 0, errorf(core.ErrDevice, call, "the tensor lies on %v", t.DeviceID())
	}
	m := buffer.Memory()
	if m.Handle == 0 {
		return b, 0, errorf(core.ErrInvalid, call, "the tensor has no elements, so it has no VkBuffer")
	}
	b, err = readDescriptor(call, m.Handle)
	return b, t.Offset(), err
}

// descriptorBytes is the size of a DLVulkanBuffer.
const descriptorBytes = C.sizeof_DLVulkanBuffer

// descriptor is a DLVulkanBuffer in C memory.
type descriptor = *C.DLVulkanBuffer

// newDescriptor makes a descriptor, to be freed by freeDescriptor.
func newDescriptor(d *driver.Device, o *object) descriptor {
	c := (descriptor)(C.calloc(1, C.sizeof_DLVulkanBuffer))
	c.magic = C.DLPACK_VULKAN_MAGIC
	c.version_major, c.version_minor = C.DLPACK_VULKAN_MAJOR, C.DLPACK_VULKAN_MINOR
	c.struct_size = C.sizeof_DLVulkanBuffer
	c.queue_family = C.uint32_t(d.Family)
	setNumber(&c.instance, uintptr(d.Instance()))
	setNumber(&c.physical_device, uintptr(d.Physical.Handle))
	setNumber(&c.device, uintptr(d.Handle()))
	setNumber(&c.queue, uintptr(d.Queue))
	c.buffer, c.memory = C.uint64_t(o.buffer), C.uint64_t(o.memory)
	c.memory_offset, c.memory_size = C.uint64_t(o.offset), C.uint64_t(o.whole)
	c.size = C.uint64_t(o.size)
	setNumber(&c.mapped, o.host)
	c.shared_with = C.uint32_t(o.sharedWith)
	c.memory_type = C.uint32_t(o.memoryType)
	c.export_types = C.uint32_t(o.exports)
	if o.dedicated {
		c.flags = C.DLPACK_VULKAN_DEDICATED
	}
	for i := range d.Physical.DeviceUUID {
		c.device_uuid[i] = C.uint8_t(d.Physical.DeviceUUID[i])
		c.driver_uuid[i] = C.uint8_t(d.Physical.DriverUUID[i])
	}
	lock, unlock, context := d.QueueLock()
	*(*uintptr)(unsafe.Pointer(&c.queue_lock)) = lock
	*(*uintptr)(unsafe.Pointer(&c.queue_unlock)) = unlock
	setNumber(&c.queue_context, context)
	return c
}

func freeDescriptor(c descriptor) { C.free(unsafe.Pointer(c)) }

// readDescriptor copies the struct at an address that another library may have given, and checks it as far as
// possible. It does not assume that there is memory at the address.
func readDescriptor(call string, handle uintptr) (Buffer, error) {
	fail := func(sentinel error, format string, args ...any) (Buffer, error) {
		return Buffer{}, errorf(sentinel, call, format, args...)
	}
	// In C memory: a pointer field from another library must not lie where the garbage collector looks for pointers.
	c := (descriptor)(C.calloc(1, C.sizeof_DLVulkanBuffer))
	defer freeDescriptor(c)
	room := unsafe.Slice((*byte)(unsafe.Pointer(c)), descriptorBytes)
	switch err := readMemory(handle, room); {
	case handle == 0 || handle%8 != 0 || errors.Is(err, unix.EFAULT):
		return fail(core.ErrInvalid, "%#x is not the address of a DLVulkanBuffer: there is no memory; for a VkBuffer, call vulkan.ImportBuffer", handle)
	case err != nil: // the system forbids process_vm_readv
		C.dlx_copy_descriptor(c, C.uintptr_t(handle))
	}
	switch {
	case c.magic != C.DLPACK_VULKAN_MAGIC:
		return fail(core.ErrInvalid, "%#x is not the address of a DLVulkanBuffer: magic is %#x; for a VkBuffer, call vulkan.ImportBuffer", handle, uint64(c.magic))
	case c.version_major != C.DLPACK_VULKAN_MAJOR || c.struct_size < C.sizeof_DLVulkanBuffer:
		return fail(core.ErrVersion, "the DLVulkanBuffer has version %d.%d and %d bytes; version %d.x with at least %d bytes can be read",
			c.version_major, c.version_minor, c.struct_size, C.DLPACK_VULKAN_MAJOR, C.sizeof_DLVulkanBuffer)
	case number(&c.device) == 0 || c.buffer == 0:
		return fail(core.ErrInvalid, "device or buffer of the DLVulkanBuffer is 0")
	case c.size > 1<<62 || c.memory_offset > 1<<62 || c.memory_size > 1<<62:
		return fail(core.ErrInvalid, "size %d, memory_offset %d or memory_size %d of the DLVulkanBuffer is above 1<<62", uint64(c.size), uint64(c.memory_offset), uint64(c.memory_size))
	}
	b := Buffer{
		Instance: number(&c.instance), PhysicalDevice: number(&c.physical_device), Device: number(&c.device), Queue: number(&c.queue),
		QueueFamily: uint32(c.queue_family), Buffer: uint64(c.buffer), Memory: uint64(c.memory),
		MemoryOffset: int64(c.memory_offset), MemorySize: int64(c.memory_size), Size: int64(c.size), Mapped: number(&c.mapped),
		SharedWith: uint32(c.shared_with), MemoryType: uint32(c.memory_type),
		ExportTypes: uint32(c.export_types), Dedicated: c.flags&C.DLPACK_VULKAN_DEDICATED != 0,
		Usage: driver.Usage, // the header asks for it
	}
	for i := range b.DeviceUUID {
		b.DeviceUUID[i], b.DriverUUID[i] = byte(c.device_uuid[i]), byte(c.driver_uuid[i])
	}
	return b, nil
}

// readMemory reads bytes at an address of this process, and fails with EFAULT if there is no memory.
func readMemory(address uintptr, into []byte) error {
	local := unix.Iovec{Base: unsafe.SliceData(into)}
	local.SetLen(len(into))
	n, err := unix.ProcessVMReadv(unix.Getpid(), []unix.Iovec{local}, []unix.RemoteIovec{{Base: address, Len: len(into)}}, 0)
	if err == nil && n < len(into) {
		return unix.EFAULT
	}
	return err
}

// cAddress is the address of a descriptor.
func cAddress(c descriptor) unsafe.Pointer { return unsafe.Pointer(c) }

// number reads a pointer field of a C struct as a number. It is a handle, or an address at which there may be an
// object of Go that was freed: the garbage collector ends the program if it finds a pointer to such an object.
func number(p *unsafe.Pointer) uintptr { return *(*uintptr)(unsafe.Pointer(p)) }

// setNumber writes such a field.
func setNumber(p *unsafe.Pointer, value uintptr) { *(*uintptr)(unsafe.Pointer(p)) = value }
