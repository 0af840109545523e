// The part of ONNX Runtime's C API that this package calls itself. OrtApi is a table of functions to which new
// versions only append, so a function is known by its position. TestPositions compares them with the real header.

#ifndef DLX_ONNXRUNTIME_ABI_H
#define DLX_ONNXRUNTIME_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
	ort_GetErrorCode = 1,
	ort_GetErrorMessage = 2,
	ort_CreateTensorWithDataAsOrtValue = 49,
	ort_IsTensor = 50,
	ort_GetTensorMutableData = 51,
	ort_GetTensorElementType = 60,
	ort_GetDimensionsCount = 61,
	ort_GetDimensions = 62,
	ort_GetTensorTypeAndShape = 65,
	ort_CreateMemoryInfo = 68,
	ort_MemoryInfoGetName = 71,
	ort_MemoryInfoGetId = 72,
	ort_AllocatorFree = 76,
	ort_GetAllocatorWithDefaultOptions = 78,
	ort_ReleaseStatus = 93,
	ort_ReleaseMemoryInfo = 94,
	ort_ReleaseValue = 96,
	ort_ReleaseTensorTypeAndShapeInfo = 99,
	ort_BindOutputToDevice = 138,
	ort_GetBoundOutputValues = 140,
	ort_GetTensorMemoryInfo = 194,
	ort_GetTensorSizeInBytes = 318, // the newest of them, of version 1.23
};

// The version of the table that has all of these functions.
enum { dlx_ort_api_version = 23 };

// The description of a tensor.
typedef struct {
	int32_t is_tensor;
	int32_t type; // ONNXTensorElementDataType
	size_t rank;
	size_t bytes;
	uintptr_t data;
	const char *place; // the name in OrtMemoryInfo, which the value owns
	int32_t id;
} dlx_ort_tensor;

// dlx_ort_open returns the table of the library at path, and *handle for dlx_ort_close. It fails if the program has not
// loaded that library. *version is the library's, or what dlerror says.
const void *dlx_ort_open(const char *path, void **handle, const char **version);
void dlx_ort_close(void *handle);

// A function that returns void * returns an OrtStatus, which the caller releases: NULL if the call succeeded.
int32_t dlx_ort_code(const void *api, void *status);
const char *dlx_ort_message(const void *api, void *status);
void dlx_ort_release_status(const void *api, void *status);

void *dlx_ort_memory_info(const void *api, const char *name, int32_t id, void **info);
void dlx_ort_release_memory_info(const void *api, void *info);
void *dlx_ort_tensor_on(const void *api, const void *info, uintptr_t data, size_t bytes, const int64_t *shape, size_t rank,
	int32_t type, void **value);
void dlx_ort_release_value(const void *api, void *value);
// dlx_ort_describe writes at most *room extents to shape. *call names the function that failed.
void *dlx_ort_describe(const void *api, const void *value, dlx_ort_tensor *tensor, int64_t *shape, size_t room,
	const char **call);
void *dlx_ort_bind_output_to(const void *api, void *binding, const char *name, const void *info);
// dlx_ort_bound_outputs returns an array of values that the caller releases, and its allocator, which ONNX Runtime owns.
// The caller passes both to dlx_ort_free.
void *dlx_ort_bound_outputs(const void *api, const void *binding, void **allocator, void ***values, size_t *count);
void dlx_ort_free(const void *api, void *allocator, void *array);

#endif
