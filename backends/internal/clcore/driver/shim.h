// One function for each call, over the table, with handles as integers: what
// cgo is given. Where a call returns a handle and not its code, code starts as a
// failure, so that a driver that sets neither is not taken for one that succeeded.
#ifndef DLX_CL_SHIM_H
#define DLX_CL_SHIM_H

#include "table.h"

extern struct dlx_cl_table dlx_cl;

typedef uintptr_t dlx_handle;
#define DLX_MEM(h) ((cl_mem)(h))
#define DLX_QUEUE(h) ((cl_command_queue)(h))
#define DLX_EVENT(h) ((cl_event)(h))
#define DLX_NEW(call) cl_int code = CL_OUT_OF_RESOURCES; *out = (dlx_handle)call; return *out ? CL_SUCCESS : code ? code : CL_OUT_OF_RESOURCES

static inline cl_int dlx_platforms(cl_uint n, dlx_handle *out, cl_uint *count) {
	return dlx_cl.clGetPlatformIDs(n, (cl_platform_id *)out, count);
}
static inline cl_int dlx_devices(dlx_handle platform, cl_uint n, dlx_handle *out, cl_uint *count) {
	return dlx_cl.clGetDeviceIDs((cl_platform_id)platform, CL_DEVICE_TYPE_ALL, n, (cl_device_id *)out, count);
}
static inline dlx_handle dlx_extension(dlx_handle platform, const char *name) {
	return (dlx_handle)dlx_cl.clGetExtensionFunctionAddressForPlatform((cl_platform_id)platform, name);
}

// dlx_info asks one of the clGet...Info functions, which take the same arguments.
enum { DLX_PLATFORM, DLX_DEVICE, DLX_CONTEXT, DLX_COMMAND_QUEUE, DLX_MEM_OBJECT, DLX_EVENT_OBJECT };
static inline cl_int dlx_info(int kind, dlx_handle object, cl_uint name, size_t room, void *value, size_t *size) {
	switch (kind) {
	case DLX_PLATFORM: return dlx_cl.clGetPlatformInfo((cl_platform_id)object, name, room, value, size);
	case DLX_DEVICE: return dlx_cl.clGetDeviceInfo((cl_device_id)object, name, room, value, size);
	case DLX_CONTEXT: return dlx_cl.clGetContextInfo((cl_context)object, name, room, value, size);
	case DLX_COMMAND_QUEUE: return dlx_cl.clGetCommandQueueInfo(DLX_QUEUE(object), name, room, value, size);
	case DLX_MEM_OBJECT: return dlx_cl.clGetMemObjectInfo(DLX_MEM(object), name, room, value, size);
	default: return dlx_cl.clGetEventInfo(DLX_EVENT(object), name, room, value, size);
	}
}

static inline cl_int dlx_create_context(dlx_handle platform, dlx_handle device, dlx_handle *out) {
	const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
	cl_device_id id = (cl_device_id)device;
	DLX_NEW(dlx_cl.clCreateContext(properties, 1, &id, NULL, NULL, &code));
}
static inline cl_int dlx_retain_context(dlx_handle c) { return dlx_cl.clRetainContext((cl_context)c); }
static inline cl_int dlx_release_context(dlx_handle c) { return dlx_cl.clReleaseContext((cl_context)c); }

static inline cl_int dlx_create_queue(dlx_handle c, dlx_handle device, uint64_t properties, dlx_handle *out) {
	DLX_NEW(dlx_cl.clCreateCommandQueue((cl_context)c, (cl_device_id)device, properties, &code));
}
static inline cl_int dlx_retain_queue(dlx_handle q) { return dlx_cl.clRetainCommandQueue(DLX_QUEUE(q)); }
static inline cl_int dlx_release_queue(dlx_handle q) { return dlx_cl.clReleaseCommandQueue(DLX_QUEUE(q)); }
static inline cl_int dlx_flush(dlx_handle q) { return dlx_cl.clFlush(DLX_QUEUE(q)); }
static inline cl_int dlx_finish(dlx_handle q) { return dlx_cl.clFinish(DLX_QUEUE(q)); }

static inline cl_int dlx_create_buffer(dlx_handle c, uint64_t flags, size_t size, uintptr_t host, dlx_handle *out) {
	DLX_NEW(dlx_cl.clCreateBuffer((cl_context)c, flags, size, (void *)host, &code));
}
static inline cl_int dlx_import_fd(dlx_handle c, uint64_t kind, int fd, size_t size, dlx_handle *out) {
	const cl_mem_properties properties[] = {kind, (cl_mem_properties)fd, 0};
	DLX_NEW(dlx_cl.clCreateBufferWithProperties((cl_context)c, properties, CL_MEM_READ_WRITE, size, NULL, &code));
}
static inline cl_int dlx_create_sub_buffer(dlx_handle m, size_t origin, size_t size, dlx_handle *out) {
	cl_buffer_region region = {origin, size};
	// Flags 0 inherits those of the buffer (clCreateSubBuffer).
	DLX_NEW(dlx_cl.clCreateSubBuffer(DLX_MEM(m), 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
}
static inline cl_int dlx_retain_mem(dlx_handle m) { return dlx_cl.clRetainMemObject(DLX_MEM(m)); }
static inline cl_int dlx_release_mem(dlx_handle m) { return dlx_cl.clReleaseMemObject(DLX_MEM(m)); }
static inline uintptr_t dlx_svm_alloc(dlx_handle c, size_t size) {
	return (uintptr_t)dlx_cl.clSVMAlloc((cl_context)c, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, size, 0);
}
static inline void dlx_svm_free(dlx_handle c, uintptr_t p) { dlx_cl.clSVMFree((cl_context)c, (void *)p); }

static inline cl_int dlx_read(dlx_handle q, dlx_handle m, size_t at, size_t n, uintptr_t host) {
	return dlx_cl.clEnqueueReadBuffer(DLX_QUEUE(q), DLX_MEM(m), CL_FALSE, at, n, (void *)host, 0, NULL, NULL);
}
static inline cl_int dlx_write(dlx_handle q, dlx_handle m, size_t at, size_t n, uintptr_t host) {
	return dlx_cl.clEnqueueWriteBuffer(DLX_QUEUE(q), DLX_MEM(m), CL_FALSE, at, n, (const void *)host, 0, NULL, NULL);
}
static inline cl_int dlx_copy(dlx_handle q, dlx_handle dst, size_t to, dlx_handle src, size_t from, size_t n) {
	return dlx_cl.clEnqueueCopyBuffer(DLX_QUEUE(q), DLX_MEM(src), DLX_MEM(dst), from, to, n, 0, NULL, NULL);
}

struct dlx_box { size_t row, rows, slices, dst_row, dst_slice, src_row, src_slice, dst_at, src_at; };
static inline cl_int dlx_read_box(dlx_handle q, dlx_handle m, uintptr_t host, const struct dlx_box *b) {
	size_t to[] = {b->dst_at, 0, 0}, from[] = {b->src_at, 0, 0}, region[] = {b->row, b->rows, b->slices};
	return dlx_cl.clEnqueueReadBufferRect(DLX_QUEUE(q), DLX_MEM(m), CL_FALSE, from, to, region,
		b->src_row, b->src_slice, b->dst_row, b->dst_slice, (void *)host, 0, NULL, NULL);
}
static inline cl_int dlx_write_box(dlx_handle q, dlx_handle m, uintptr_t host, const struct dlx_box *b) {
	size_t to[] = {b->dst_at, 0, 0}, from[] = {b->src_at, 0, 0}, region[] = {b->row, b->rows, b->slices};
	return dlx_cl.clEnqueueWriteBufferRect(DLX_QUEUE(q), DLX_MEM(m), CL_FALSE, to, from, region,
		b->dst_row, b->dst_slice, b->src_row, b->src_slice, (const void *)host, 0, NULL, NULL);
}
static inline cl_int dlx_copy_box(dlx_handle q, dlx_handle dst, dlx_handle src, const struct dlx_box *b) {
	size_t to[] = {b->dst_at, 0, 0}, from[] = {b->src_at, 0, 0}, region[] = {b->row, b->rows, b->slices};
	return dlx_cl.clEnqueueCopyBufferRect(DLX_QUEUE(q), DLX_MEM(src), DLX_MEM(dst), from, to, region,
		b->src_row, b->src_slice, b->dst_row, b->dst_slice, 0, NULL, NULL);
}

static inline cl_int dlx_map(dlx_handle q, dlx_handle m, uint64_t flags, size_t at, size_t n, uintptr_t *out) {
	DLX_NEW(dlx_cl.clEnqueueMapBuffer(DLX_QUEUE(q), DLX_MEM(m), CL_FALSE, flags, at, n, 0, NULL, NULL, &code));
}
static inline cl_int dlx_unmap(dlx_handle q, dlx_handle m, uintptr_t p) {
	return dlx_cl.clEnqueueUnmapMemObject(DLX_QUEUE(q), DLX_MEM(m), (void *)p, 0, NULL, NULL);
}

static inline cl_int dlx_marker(dlx_handle q, dlx_handle *event) {
	return dlx_cl.clEnqueueMarkerWithWaitList(DLX_QUEUE(q), 0, NULL, (cl_event *)event);
}
static inline cl_int dlx_barrier(dlx_handle q, dlx_handle event) {
	cl_event wait = DLX_EVENT(event);
	return dlx_cl.clEnqueueBarrierWithWaitList(DLX_QUEUE(q), event ? 1 : 0, event ? &wait : NULL, NULL);
}
static inline cl_int dlx_wait(dlx_handle event) {
	cl_event wait = DLX_EVENT(event);
	return dlx_cl.clWaitForEvents(1, &wait);
}
static inline cl_int dlx_end_time(dlx_handle event, cl_ulong *ns) {
	return dlx_cl.clGetEventProfilingInfo(DLX_EVENT(event), CL_PROFILING_COMMAND_END, sizeof *ns, ns, NULL);
}
static inline cl_int dlx_retain_event(dlx_handle e) { return dlx_cl.clRetainEvent(DLX_EVENT(e)); }
static inline cl_int dlx_release_event(dlx_handle e) { return dlx_cl.clReleaseEvent(DLX_EVENT(e)); }
static inline cl_int dlx_create_user_event(dlx_handle c, dlx_handle *out) {
	DLX_NEW(dlx_cl.clCreateUserEvent((cl_context)c, &code));
}
static inline cl_int dlx_complete(dlx_handle e) { return dlx_cl.clSetUserEventStatus(DLX_EVENT(e), CL_COMPLETE); }

static inline cl_int dlx_create_program(dlx_handle c, const char *source, size_t size, dlx_handle *out) {
	DLX_NEW(dlx_cl.clCreateProgramWithSource((cl_context)c, 1, &source, &size, &code));
}
static inline cl_int dlx_build(dlx_handle p, dlx_handle device) {
	cl_device_id id = (cl_device_id)device;
	return dlx_cl.clBuildProgram((cl_program)p, 1, &id, "", NULL, NULL);
}
static inline cl_int dlx_build_log(dlx_handle p, dlx_handle device, size_t room, void *value, size_t *size) {
	return dlx_cl.clGetProgramBuildInfo((cl_program)p, (cl_device_id)device, CL_PROGRAM_BUILD_LOG, room, value, size);
}
static inline cl_int dlx_release_program(dlx_handle p) { return dlx_cl.clReleaseProgram((cl_program)p); }
static inline cl_int dlx_create_kernel(dlx_handle p, const char *name, dlx_handle *out) {
	DLX_NEW(dlx_cl.clCreateKernel((cl_program)p, name, &code));
}
static inline cl_int dlx_release_kernel(dlx_handle k) { return dlx_cl.clReleaseKernel((cl_kernel)k); }
static inline cl_int dlx_set_arg(dlx_handle k, cl_uint index, size_t size, const void *value) {
	return dlx_cl.clSetKernelArg((cl_kernel)k, index, size, value);
}
static inline cl_int dlx_launch(dlx_handle q, dlx_handle k, size_t global, size_t local) {
	return dlx_cl.clEnqueueNDRangeKernel(DLX_QUEUE(q), (cl_kernel)k, 1, NULL, &global, &local, 0, NULL, NULL);
}

// Functions of extensions belong to a platform, so their address is an argument.
static inline cl_int dlx_external(uintptr_t f, dlx_handle q, dlx_handle m) {
	cl_mem mem = DLX_MEM(m);
	return ((clEnqueueAcquireExternalMemObjectsKHR_fn)f)(DLX_QUEUE(q), 1, &mem, 0, NULL, NULL);
}

static inline cl_int dlx_usm_device(const struct dlx_usm_table *t, dlx_handle c, dlx_handle device, size_t size, cl_uint align, dlx_handle *out) {
	DLX_NEW(t->clDeviceMemAllocINTEL((cl_context)c, (cl_device_id)device, NULL, size, align, &code));
}
static inline cl_int dlx_usm_shared(const struct dlx_usm_table *t, dlx_handle c, dlx_handle device, size_t size, cl_uint align, dlx_handle *out) {
	DLX_NEW(t->clSharedMemAllocINTEL((cl_context)c, (cl_device_id)device, NULL, size, align, &code));
}
static inline cl_int dlx_usm_host(const struct dlx_usm_table *t, dlx_handle c, size_t size, cl_uint align, dlx_handle *out) {
	DLX_NEW(t->clHostMemAllocINTEL((cl_context)c, NULL, size, align, &code));
}
static inline cl_int dlx_usm_free(const struct dlx_usm_table *t, dlx_handle c, uintptr_t p) {
	return t->clMemFreeINTEL((cl_context)c, (void *)p);
}
static inline cl_int dlx_usm_info(const struct dlx_usm_table *t, dlx_handle c, uintptr_t p, cl_uint name, size_t room, void *value) {
	return t->clGetMemAllocInfoINTEL((cl_context)c, (const void *)p, name, room, value, NULL);
}
static inline cl_int dlx_usm_arg(const struct dlx_usm_table *t, dlx_handle k, cl_uint index, uintptr_t p) {
	return t->clSetKernelArgMemPointerINTEL((cl_kernel)k, index, (const void *)p);
}
static inline cl_int dlx_usm_copy(const struct dlx_usm_table *t, dlx_handle q, uintptr_t dst, uintptr_t src, size_t n) {
	return t->clEnqueueMemcpyINTEL(DLX_QUEUE(q), CL_FALSE, (void *)dst, (const void *)src, n, 0, NULL, NULL);
}

#endif
