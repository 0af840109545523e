//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

// As in <cudaGL.h>, which needs the headers of OpenGL.
CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, unsigned int buffer, unsigned int flags);

static CUresult dlx_gl_register(uintptr_t context, unsigned int buffer, unsigned int flags, CUgraphicsResource *out) {
	DLX_RELAXED(context, cuGraphicsGLRegisterBuffer(out, buffer, flags));
}

static CUresult dlx_gl_unregister(uintptr_t context, uintptr_t resource) {
	DLX_RELAXED(context, cuGraphicsUnregisterResource((CUgraphicsResource)resource));
}

static CUresult dlx_gl_map(uintptr_t context, uintptr_t resource, uintptr_t stream) {
	CUgraphicsResource one = (CUgraphicsResource)resource;
	DLX_RELAXED(context, cuGraphicsMapResources(1, &one, (CUstream)stream));
}

static CUresult dlx_gl_unmap(uintptr_t context, uintptr_t resource, uintptr_t stream) {
	CUgraphicsResource one = (CUgraphicsResource)resource;
	DLX_RELAXED(context, cuGraphicsUnmapResources(1, &one, (CUstream)stream));
}

static CUresult dlx_gl_pointer(uintptr_t context, uintptr_t resource, CUdeviceptr *p, size_t *size) {
	DLX_RELAXED(context, cuGraphicsResourceGetMappedPointer(p, size, (CUgraphicsResource)resource));
}
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// registerFlags are CUgraphicsRegisterFlags.
var registerFlags = [...]C.uint{
	cudalike.GLReadOnly:     C.CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY,
	cudalike.GLWriteDiscard: C.CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD,
}

func (c context) RegisterGLBuffer(buffer uint32, access cudalike.GLAccess) (resource uintptr, s cudalike.Status) {
	var r C.CUgraphicsResource
	s = answer("cuGraphicsGLRegisterBuffer", C.dlx_gl_register(C.uintptr_t(c), C.uint(buffer), registerFlags[access], &r))
	return uintptr(unsafe.Pointer(r)), glStatus(s)
}

// glStatus returns the status of a function that needs a context of OpenGL. Such a function also fails with
// CUDA_ERROR_OPERATING_SYSTEM if the context belongs to another card.
func glStatus(s cudalike.Status) cudalike.Status {
	if Code(s.Code) == OperatingSystem {
		s.Kind = cudalike.BadDevice
	}
	return s
}

func (c context) UnregisterGL(resource uintptr) cudalike.Status {
	return glStatus(answer("cuGraphicsUnregisterResource", C.dlx_gl_unregister(C.uintptr_t(c), C.uintptr_t(resource))))
}

func (c context) MapGL(resource, stream uintptr) cudalike.Status {
	return glStatus(answer("cuGraphicsMapResources", C.dlx_gl_map(C.uintptr_t(c), C.uintptr_t(resource), C.uintptr_t(stream))))
}

func (c context) UnmapGL(resource, stream uintptr) cudalike.Status {
	return glStatus(answer("cuGraphicsUnmapResources", C.dlx_gl_unmap(C.uintptr_t(c), C.uintptr_t(resource), C.uintptr_t(stream))))
}

func (c context) MappedGL(resource uintptr) (address uintptr, size int64, s cudalike.Status) {
	var p C.CUdeviceptr
	var n C.size_t
	s = answer("cuGraphicsResourceGetMappedPointer", C.dlx_gl_pointer(C.uintptr_t(c), C.uintptr_t(resource), &p, &n))
	return uintptr(p), int64(n), glStatus(s)
}
