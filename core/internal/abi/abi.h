/* The structs of DLPack 1.3 for the C code of this module, under their own names
 * so that one probe can measure these and the standard's header alike. What the
 * fields mean is said in abi.go. The enumerations are plain integers here: both
 * are open, and a value that is not in a C enum must still be carried. */
#ifndef DLX_ABI_H
#define DLX_ABI_H

#include <stdint.h>

typedef struct { uint32_t major, minor; } DLPackVersion;

typedef struct { int32_t device_type, device_id; } DLDevice;

typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;

typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
	DLTensor dl_tensor;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
	DLPackVersion version;
	void *manager_ctx;
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags;
	DLTensor dl_tensor;
} DLManagedTensorVersioned;

typedef void (*dlx_set_error)(void *error_ctx, const char *kind, const char *message);

typedef struct DLPackExchangeAPIHeader {
	DLPackVersion version;
	struct DLPackExchangeAPIHeader *prev_api;
} DLPackExchangeAPIHeader;

typedef struct DLPackExchangeAPI {
	DLPackExchangeAPIHeader header;
	int (*managed_tensor_allocator)(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx, dlx_set_error set_error);
	int (*managed_tensor_from_py_object_no_sync)(void *py_object, DLManagedTensorVersioned **out);
	int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned *tensor, void **out_py_object);
	int (*dltensor_from_py_object_no_sync)(void *py_object, DLTensor *out);
	int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out_stream);
} DLPackExchangeAPI;

#endif
