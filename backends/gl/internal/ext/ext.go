//go:build gl && linux && cgo

package ext

// #include "calls.h"
import "C"

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
)

// Callers must have checked that the context has the extension. Errors are reported by glGetError, and
// by a name of 0 where one is created.
var (
	getIntegerv             = function("glGetIntegerv")
	getUnsignedByteiv       = function("glGetUnsignedBytei_vEXT")
	getUnsignedBytev        = function("glGetUnsignedBytevEXT")
	createMemoryObjects     = function("glCreateMemoryObjectsEXT")
	deleteMemoryObjects     = function("glDeleteMemoryObjectsEXT")
	memoryObjectParameteriv = function("glMemoryObjectParameterivEXT")
	importMemoryFd          = function("glImportMemoryFdEXT")
	namedBufferStorageMem   = function("glNamedBufferStorageMemEXT")
	createSemaphores        = function("glCreateSemaphoresNV")
	deleteSemaphores        = function("glDeleteSemaphoresEXT")
	semaphoreParameteriv    = function("glSemaphoreParameterivNV")
	semaphoreParameterui64v = function("glSemaphoreParameterui64vEXT")
	importSemaphoreFd       = function("glImportSemaphoreFdEXT")
	signalSemaphore         = function("glSignalSemaphoreEXT")
	waitSemaphore           = function("glWaitSemaphoreEXT")
)

// function finds the address of a function once for all contexts; libEGL permits this.
func function(name string) func() C.uintptr_t {
	return sync.OnceValue(func() C.uintptr_t { return C.uintptr_t(uintptr(egl.ProcAddress(name))) })
}

// UUIDs returns GL_DEVICE_UUID_EXT of the first device of the context, or zeros if it reports none, and
// GL_DRIVER_UUID_EXT.
func UUIDs() (device, driver [C.GL_UUID_SIZE_EXT]byte) {
	if C.dlx_get_integer(getIntegerv(), C.GL_NUM_DEVICE_UUIDS_EXT) > 0 {
		C.dlx_get_uuid_i(getUnsignedByteiv(), C.GL_DEVICE_UUID_EXT, 0, (*C.GLubyte)(unsafe.Pointer(&device)))
	}
	C.dlx_get_uuid(getUnsignedBytev(), C.GL_DRIVER_UUID_EXT, (*C.GLubyte)(unsafe.Pointer(&driver)))
	return device, driver
}

// CreateMemoryObject creates a memory object for import, dedicated to one resource or not. It returns 0 if
// that fails.
func CreateMemoryObject(dedicated bool) uint32 {
	name := C.dlx_create_memory(createMemoryObjects())
	if dedicated {
		C.dlx_memory_parameter(memoryObjectParameteriv(), name, C.GL_DEDICATED_MEMORY_OBJECT_EXT, C.GL_TRUE)
	}
	return uint32(name)
}

// DeleteMemoryObject deletes a memory object. Its memory is freed when no buffer uses it.
func DeleteMemoryObject(name uint32) { C.dlx_delete_memory(deleteMemoryObjects(), C.GLuint(name)) }

// ImportMemoryFD imports size bytes of memory from an opaque descriptor into the object. If no error is
// reported, the driver owns the descriptor.
func ImportMemoryFD(name uint32, size int64, fd int) {
	C.dlx_import_memory(importMemoryFd(), C.GLuint(name), C.GLuint64(size), C.GLint(fd))
}

// NamedBufferStorageMem makes the first size bytes of the memory object the storage of a buffer.
func NamedBufferStorageMem(buffer uint32, size int64, memory uint32) {
	C.dlx_buffer_storage(namedBufferStorageMem(), C.GLuint(buffer), C.int64_t(size), C.GLuint(memory), 0)
}

// CreateTimelineSemaphore creates a semaphore of type GL_SEMAPHORE_TYPE_TIMELINE_NV. It returns 0 if that
// fails.
func CreateTimelineSemaphore() uint32 {
	name := C.dlx_create_semaphore(createSemaphores())
	C.dlx_semaphore_type(semaphoreParameteriv(), name, C.GL_SEMAPHORE_TYPE_TIMELINE_NV)
	return uint32(name)
}

// DeleteSemaphore deletes a semaphore.
func DeleteSemaphore(name uint32) { C.dlx_delete_semaphore(deleteSemaphores(), C.GLuint(name)) }

// ImportSemaphoreFD imports the payload of an opaque descriptor into the semaphore. If no error is reported,
// the driver owns the descriptor.
func ImportSemaphoreFD(name uint32, fd int) {
	C.dlx_import_semaphore(importSemaphoreFd(), C.GLuint(name), C.GLint(fd))
}

// SignalSemaphore signals a value when all earlier work of the context is done.
func SignalSemaphore(name uint32, value uint64) {
	C.dlx_semaphore_value(semaphoreParameterui64v(), C.GLuint(name), C.GLuint64(value))
	C.dlx_semaphore(signalSemaphore(), C.GLuint(name))
}

// WaitSemaphore makes all later work of the context wait for a value.
func WaitSemaphore(name uint32, value uint64) {
	C.dlx_semaphore_value(semaphoreParameterui64v(), C.GLuint(name), C.GLuint64(value))
	C.dlx_semaphore(waitSemaphore(), C.GLuint(name))
}
