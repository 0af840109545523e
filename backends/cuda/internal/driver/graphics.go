//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

// As <cudaGL.h> has it, which would ask for the headers of OpenGL.
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

import "unsafe"

// The flags of RegisterGLBuffer: CUgraphicsRegisterFlags.
const (
	GraphicsReadOnly     = C.CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY
	GraphicsWriteDiscard = C.CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD
)

// Graphics is a CUgraphicsResource. Its context of OpenGL is current in all of these calls.
type Graphics uintptr

// RegisterGLBuffer registers a buffer of the context of OpenGL that is current.
func (c Context) RegisterGLBuffer(buffer, flags uint32) (Graphics, Status) {
	var r C.CUgraphicsResource
	s := Status(C.dlx_gl_register(C.uintptr_t(c), C.uint(buffer), C.uint(flags), &r))
	return Graphics(unsafe.Pointer(r)), s
}

// Unregister gives the resource back.
func (c Context) Unregister(r Graphics) Status {
	return Status(C.dlx_gl_unregister(C.uintptr_t(c), C.uintptr_t(r)))
}

// Map lets CUDA use the resource: work enqueued on the stream later comes after what
// the graphics API was told to do before.
func (c Context) Map(r Graphics, stream uintptr) Status {
	return Status(C.dlx_gl_map(C.uintptr_t(c), C.uintptr_t(r), C.uintptr_t(stream)))
}

// Unmap is the reverse of Map: what the graphics API is told to do later comes after
// the work enqueued on the stream before.
func (c Context) Unmap(r Graphics, stream uintptr) Status {
	return Status(C.dlx_gl_unmap(C.uintptr_t(c), C.uintptr_t(r), C.uintptr_t(stream)))
}

// MappedPointer is where a mapped buffer lies.
func (c Context) MappedPointer(r Graphics) (address uintptr, size int64, s Status) {
	var p C.CUdeviceptr
	var n C.size_t
	s = Status(C.dlx_gl_pointer(C.uintptr_t(c), C.uintptr_t(r), &p, &n))
	return uintptr(p), int64(n), s
}
