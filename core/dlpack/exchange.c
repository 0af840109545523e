//go:build cgo && !windows

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "exchange.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { cpu = 1, max_rank = 64, alignment = 256 };

static _Atomic int64_t allocations;

int64_t dlx_allocations(void) { return atomic_load(&allocations); }

/* A tensor of the allocator: the struct, its dims, and data in a block of its own. */
struct allocation {
	DLManagedTensorVersioned managed;
	void *data;
	int64_t dims[];
};

static void delete_allocation(DLManagedTensorVersioned *self) {
	struct allocation *a = (struct allocation *)self;
	free(a->data);
	free(a);
	atomic_fetch_sub(&allocations, 1);
}

/* count_bytes gives the size of a row-major tensor, and fills in its strides;
 * false if the shape is bad or the size overflows. */
static int count_bytes(const DLTensor *t, int64_t *strides, size_t *bytes) {
	int64_t elements = 1; /* of the axes behind, where empty ones count as 1 */
	int empty = 0;
	for (int32_t i = t->ndim - 1; i >= 0; i--) {
		int64_t extent = t->shape[i];
		if (extent < 0) {
			return 0;
		}
		strides[i] = elements;
		empty |= extent == 0;
		if (__builtin_mul_overflow(elements, extent == 0 ? 1 : extent, &elements)) {
			return 0;
		}
	}
	int64_t bits;
	if (__builtin_mul_overflow(elements, (int64_t)t->dtype.bits * t->dtype.lanes, &bits) || bits > INT64_MAX - 8 * alignment) {
		return 0;
	}
	*bytes = empty ? 0 : ((size_t)bits + 7) / 8;
	return 1;
}

static int allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx, dlx_set_error set_error) {
	if (out == NULL || prototype == NULL) {
		set_error(error_ctx, "ValueError", "prototype or out is NULL");
		return -1;
	}
	*out = NULL;
	if (prototype->device.device_type != cpu) {
		set_error(error_ctx, "NotImplementedError", "device: this allocator has CPU memory only");
		return -1;
	}
	if (prototype->ndim < 0 || prototype->ndim > max_rank || (prototype->ndim > 0 && prototype->shape == NULL) ||
	    prototype->dtype.bits == 0 || prototype->dtype.lanes == 0) {
		set_error(error_ctx, "ValueError", "ndim, shape or dtype is malformed");
		return -1;
	}
	size_t ndim = (size_t)prototype->ndim;
	struct allocation *a = calloc(1, sizeof *a + 2 * ndim * sizeof(int64_t));
	size_t bytes;
	if (a == NULL) {
		set_error(error_ctx, "MemoryError", "no memory for the struct");
		return -1;
	}
	if (!count_bytes(prototype, a->dims + ndim, &bytes)) {
		free(a);
		set_error(error_ctx, "ValueError", "shape: an extent is negative, or the size overflows");
		return -1;
	}
	if (bytes > 0 && posix_memalign(&a->data, alignment, (bytes + alignment - 1) / alignment * alignment) != 0) {
		free(a);
		set_error(error_ctx, "MemoryError", "no memory for the elements");
		return -1;
	}
	for (size_t i = 0; i < ndim; i++) {
		a->dims[i] = prototype->shape[i];
	}
	a->managed = (DLManagedTensorVersioned){
		.version = {1, 3},
		.deleter = delete_allocation,
		.dl_tensor = {
			.data = a->data,
			.device = prototype->device,
			.ndim = prototype->ndim,
			.dtype = prototype->dtype,
			.shape = a->dims,
			.strides = a->dims + ndim,
		},
	};
	atomic_fetch_add(&allocations, 1);
	*out = &a->managed;
	return 0;
}

/* refuse sets a BufferError if this process runs Python, as the callers of the
 * functions below expect; they hold the interpreter's lock. */
static int refuse(const char *message) {
	void (*set_string)(void *, const char *) = (void (*)(void *, const char *))dlsym(RTLD_DEFAULT, "PyErr_SetString");
	void **buffer_error = dlsym(RTLD_DEFAULT, "PyExc_BufferError");
	if (set_string != NULL && buffer_error != NULL) {
		set_string(*buffer_error, message);
	}
	return -1;
}

static int from_py_object(void *py_object, DLManagedTensorVersioned **out) {
	(void)py_object;
	*out = NULL;
	return refuse("dlx has no Python tensor type: use __dlpack__ of the object");
}

static int to_py_object(DLManagedTensorVersioned *tensor, void **out_py_object) {
	(void)tensor;
	*out_py_object = NULL;
	return refuse("dlx has no Python tensor type: use from_dlpack of another library");
}

static int current_work_stream(int32_t device_type, int32_t device_id, void **out_stream) {
	(void)device_id;
	*out_stream = NULL;
	return device_type == cpu ? 0 : refuse("dlx has no current stream: streams are passed explicitly");
}

DLPackExchangeAPI dlx_exchange_api = {
	.header = {.version = {1, 3}},
	.managed_tensor_allocator = allocate,
	.managed_tensor_from_py_object_no_sync = from_py_object,
	.managed_tensor_to_py_object_no_sync = to_py_object,
	.current_work_stream = current_work_stream,
};

static void keep_error(void *error_ctx, const char *kind, const char *message) {
	struct dlx_error *e = error_ctx;
	snprintf(e->kind, sizeof e->kind, "%s", kind != NULL ? kind : "");
	snprintf(e->message, sizeof e->message, "%s", message != NULL ? message : "");
}

uintptr_t dlx_allocate(uintptr_t api, DLDevice device, DLDataType dtype, int32_t ndim, int64_t *shape, struct dlx_error *error) {
	DLTensor prototype = {.device = device, .ndim = ndim, .dtype = dtype, .shape = shape};
	DLManagedTensorVersioned *out = NULL;
	if (((DLPackExchangeAPI *)api)->managed_tensor_allocator(&prototype, &out, error, keep_error) != 0) {
		return 0;
	}
	return (uintptr_t)out;
}

int dlx_current_work_stream(uintptr_t api, DLDevice device, uintptr_t *stream) {
	void *out = NULL;
	int code = ((DLPackExchangeAPI *)api)->current_work_stream(device.device_type, device.device_id, &out);
	*stream = (uintptr_t)out;
	return code;
}
