//go:build (opencl || oneapi) && linux && cgo

package driver

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/internal/live"
)

// References that this process holds, by kind.
var (
	liveContexts = live.NewCounter("opencl.cl_context")
	liveQueues   = live.NewCounter("opencl.cl_command_queue")
	liveMems     = live.NewCounter("opencl.cl_mem")
	liveSVM      = live.NewCounter("opencl.svm")
	livePrograms = live.NewCounter("opencl.cl_program")
	liveKernels  = live.NewCounter("opencl.cl_kernel")
)

// counted adds a reference that a call made or took, if it succeeded.
func counted(kind *live.Counter, s C.cl_int) Status {
	if s == 0 {
		kind.Add(1)
	}
	return Status(s)
}

// dropped removes a reference. If the release fails, it counts as released: the driver says that the handle
// is invalid, and nothing more can be done.
func dropped(kind *live.Counter, s C.cl_int) Status {
	kind.Add(-1)
	return Status(s)
}

// CreateContext calls clCreateContext for one device.
func CreateContext(p Platform, d Device) (c Context, s Status) {
	defer dl.KeepHandlers()()
	s = counted(liveContexts, C.dlx_create_context(C.dlx_handle(p), C.dlx_handle(d), out(&c)))
	return c, s
}

// RetainContext calls clRetainContext.
func RetainContext(c Context) Status {
	return counted(liveContexts, C.dlx_retain_context(C.dlx_handle(c)))
}

// ReleaseContext calls clReleaseContext.
func ReleaseContext(c Context) Status {
	defer dl.KeepHandlers()()
	return dropped(liveContexts, C.dlx_release_context(C.dlx_handle(c)))
}

// CreateQueue calls clCreateCommandQueue with properties: 0, or QueueOutOfOrder and QueueTimed.
func CreateQueue(c Context, d Device, properties uint64) (q Queue, s Status) {
	defer dl.KeepHandlers()()
	s = counted(liveQueues, C.dlx_create_queue(C.dlx_handle(c), C.dlx_handle(d), C.uint64_t(properties), out(&q)))
	return q, s
}

// RetainQueue calls clRetainCommandQueue.
func RetainQueue(q Queue) Status {
	return counted(liveQueues, C.dlx_retain_queue(C.dlx_handle(q)))
}

// ReleaseQueue calls clReleaseCommandQueue.
func ReleaseQueue(q Queue) Status {
	return dropped(liveQueues, C.dlx_release_queue(C.dlx_handle(q)))
}

// CreateBuffer calls clCreateBuffer for memory of the device.
func CreateBuffer(c Context, size int64) (m Mem, s Status) {
	s = counted(liveMems, C.dlx_create_buffer(C.dlx_handle(c), C.CL_MEM_READ_WRITE, C.size_t(size), 0, out(&m)))
	return m, s
}

// CreateBufferOver calls clCreateBuffer with CL_MEM_USE_HOST_PTR.
func CreateBufferOver(c Context, host uintptr, size int64) (m Mem, s Status) {
	s = counted(liveMems, C.dlx_create_buffer(C.dlx_handle(c), C.CL_MEM_READ_WRITE|C.CL_MEM_USE_HOST_PTR, C.size_t(size), C.uintptr_t(host), out(&m)))
	return m, s
}

// ImportFD calls clCreateBufferWithProperties with a descriptor of external
// memory, which it owns on success. See [HasProperties].
func ImportFD(c Context, kind uint64, fd int, size int64) (m Mem, s Status) {
	s = counted(liveMems, C.dlx_import_fd(C.dlx_handle(c), C.uint64_t(kind), C.int(fd), C.size_t(size), out(&m)))
	return m, s
}

// CreateSubBuffer calls clCreateSubBuffer.
func CreateSubBuffer(m Mem, origin, size int64) (sub Mem, s Status) {
	s = counted(liveMems, C.dlx_create_sub_buffer(C.dlx_handle(m), C.size_t(origin), C.size_t(size), out(&sub)))
	return sub, s
}

// RetainMem calls clRetainMemObject.
func RetainMem(m Mem) Status { return counted(liveMems, C.dlx_retain_mem(C.dlx_handle(m))) }

// ReleaseMem calls clReleaseMemObject.
func ReleaseMem(m Mem) Status { return dropped(liveMems, C.dlx_release_mem(C.dlx_handle(m))) }

// SVMAlloc calls clSVMAlloc for fine-grained memory with the default alignment. It
// returns 0 if there is none. See [HasSVM].
func SVMAlloc(c Context, size int64) uintptr {
	p := uintptr(C.dlx_svm_alloc(C.dlx_handle(c), C.size_t(size)))
	if p != 0 {
		liveSVM.Add(1)
	}
	return p
}

// SVMFree calls clSVMFree.
func SVMFree(c Context, p uintptr) {
	C.dlx_svm_free(C.dlx_handle(c), C.uintptr_t(p))
	liveSVM.Add(-1)
}

// CreateProgram calls clCreateProgramWithSource.
func CreateProgram(c Context, source string) (p Program, s Status) {
	defer dl.KeepHandlers()()
	text := C.CString(source)
	defer C.free(unsafe.Pointer(text))
	s = counted(livePrograms, C.dlx_create_program(C.dlx_handle(c), text, C.size_t(len(source)), out(&p)))
	return p, s
}

// Build calls clBuildProgram.
func Build(p Program, d Device) Status {
	defer dl.KeepHandlers()()
	return Status(C.dlx_build(C.dlx_handle(p), C.dlx_handle(d)))
}

// BuildLog is the compiler's output, empty if there is none.
func BuildLog(p Program, d Device) string {
	var size C.size_t
	if C.dlx_build_log(C.dlx_handle(p), C.dlx_handle(d), 0, nil, &size) != 0 || size == 0 {
		return ""
	}
	log := (*C.char)(C.calloc(1, size+1))
	defer C.free(unsafe.Pointer(log))
	C.dlx_build_log(C.dlx_handle(p), C.dlx_handle(d), size, unsafe.Pointer(log), nil)
	return C.GoString(log)
}

// ReleaseProgram calls clReleaseProgram.
func ReleaseProgram(p Program) Status {
	defer dl.KeepHandlers()()
	return dropped(livePrograms, C.dlx_release_program(C.dlx_handle(p)))
}

// CreateKernel calls clCreateKernel.
func CreateKernel(p Program, name string) (k Kernel, s Status) {
	defer dl.KeepHandlers()()
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	s = counted(liveKernels, C.dlx_create_kernel(C.dlx_handle(p), cname, out(&k)))
	return k, s
}

// ReleaseKernel calls clReleaseKernel.
func ReleaseKernel(k Kernel) Status {
	return dropped(liveKernels, C.dlx_release_kernel(C.dlx_handle(k)))
}

// Argument is a value that a kernel can be given.
type Argument interface {
	Mem | uint64 | [8]uint64 | [8]int64
}

// SetStruct is SetArg for a struct, of which b are the bytes.
func SetStruct(k Kernel, index int, b []byte) Status {
	return Status(C.dlx_set_arg(C.dlx_handle(k), C.cl_uint(index), C.size_t(len(b)), unsafe.Pointer(unsafe.SliceData(b))))
}

// SetArg calls clSetKernelArg.
func SetArg[A Argument](k Kernel, index int, value A) Status {
	return Status(C.dlx_set_arg(C.dlx_handle(k), C.cl_uint(index), C.size_t(unsafe.Sizeof(value)), unsafe.Pointer(&value)))
}
