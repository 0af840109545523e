//go:build gl && linux && cgo

package ext

// #include "calls.h"
import "C"

import (
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
)

// Nothing below looks whether the context has the extension: whoever calls has looked.
// All but the names that are created is reported by glGetError.
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

// function finds the address of a function once for all contexts, which libEGL allows.
func function(name string) func() C.uintptr_t {
	return sync.OnceValue(func() C.uintptr_t { return C.uintptr_t(uintptr(egl.ProcAddress(name))) })
}

// UUIDs returns GL_DEVICE_UUID_EXT of the first device that the context uses, zero if
// it names none, and GL_DRIVER_UUID_EXT.
func UUIDs() (device, driver [C.GL_UUID_SIZE_EXT]byte) {
	if C.dlx_get_integer(getIntegerv(), C.GL_NUM_DEVICE_UUIDS_EXT) > 0 {
		C.dlx_get_uuid_i(getUnsignedByteiv(), C.GL_DEVICE_UUID_EXT, 0, (*C.GLubyte)(unsafe.Pointer(&device)))
	}
	C.dlx_get_uuid(getUnsignedBytev(), C.GL_DRIVER_UUID_EXT, (*C.GLubyte)(unsafe.Pointer(&driver)))
	return device, driver
}

// CreateMemoryObject makes a name for memory that is imported, dedicated to one
// resource or not. It is 0 if that failed.
func CreateMemoryObject(dedicated bool) uint32 {
	name := C.dlx_create_memory(createMemoryObjects())
	if dedicated {
		C.dlx_memory_parameter(memoryObjectParameteriv(), name, C.GL_DEDICATED_MEMORY_OBJECT_EXT, C.GL_TRUE)
	}
	return uint32(name)
}

// DeleteMemoryObject deletes a name, and the memory when no buffer uses it.
func DeleteMemoryObject(name uint32) { C.dlx_delete_memory(deleteMemoryObjects(), C.GLuint(name)) }

// ImportMemoryFD gives the object the memory of size bytes behind an opaque descriptor,
// which is the driver's if no error is reported.
func ImportMemoryFD(name uint32, size int64, fd int) {
	C.dlx_import_memory(importMemoryFd(), C.GLuint(name), C.GLuint64(size), C.GLint(fd))
}

// NamedBufferStorageMem makes the first size bytes of the object a buffer's storage.
func NamedBufferStorageMem(buffer uint32, size int64, memory uint32) {
	C.dlx_buffer_storage(namedBufferStorageMem(), C.GLuint(buffer), C.int64_t(size), C.GLuint(memory), 0)
}

// CreateTimelineSemaphore makes a name for a semaphore of type
// GL_SEMAPHORE_TYPE_TIMELINE_NV. It is 0 if that failed.
func CreateTimelineSemaphore() uint32 {
	name := C.dlx_create_semaphore(createSemaphores())
	C.dlx_semaphore_type(semaphoreParameteriv(), name, C.GL_SEMAPHORE_TYPE_TIMELINE_NV)
	return uint32(name)
}

// DeleteSemaphore deletes a name.
func DeleteSemaphore(name uint32) { C.dlx_delete_semaphore(deleteSemaphores(), C.GLuint(name)) }

// ImportSemaphoreFD makes the semaphore that of an opaque descriptor, which is the
// driver's if no error is reported.
func ImportSemaphoreFD(name uint32, fd int) {
	C.dlx_import_semaphore(importSemaphoreFd(), C.GLuint(name), C.GLint(fd))
}

// SignalSemaphore signals a value when all earlier work of the context is done.
func SignalSemaphore(name uint32, value uint64) {
	C.dlx_semaphore_value(semaphoreParameterui64v(), C.GLuint(name), C.GLuint64(value))
	C.dlx_semaphore(signalSemaphore(), C.GLuint(name))
}

// WaitSemaphore has all later work of the context wait for a value.
func WaitSemaphore(name uint32, value uint64) {
	C.dlx_semaphore_value(semaphoreParameterui64v(), C.GLuint(name), C.GLuint64(value))
	C.dlx_semaphore(waitSemaphore(), C.GLuint(name))
}
