#ifdef __linux__
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

#include "abi.h"

// FN is the function at a position of the table, as a pointer to a function that returns R.
#define FN(R, name, ...) ((R (*)(__VA_ARGS__))((void *const *)api)[ort_##name])

typedef struct {
	const void *(*get_api)(uint32_t version);
	const char *(*version)(void);
} api_base;

const void *dlx_ort_open(const char *path, void **handle, const char **version) {
	dlerror();
	*handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (*handle == NULL) {
		*version = dlerror();
		return NULL;
	}
	const api_base *(*get)(void) = (const api_base *(*)(void))dlsym(*handle, "OrtGetApiBase");
	const api_base *base = get == NULL ? NULL : get();
	const void *api = base == NULL ? NULL : base->get_api(dlx_ort_api_version);
	*version = base == NULL ? "no OrtGetApiBase" : base->version();
	if (api == NULL) {
		dlclose(*handle);
		*handle = NULL;
	}
	return api;
}

void dlx_ort_close(void *handle) { dlclose(handle); }

int32_t dlx_ort_code(const void *api, void *status) { return FN(int, GetErrorCode, const void *)(status); }

const char *dlx_ort_message(const void *api, void *status) {
	return FN(const char *, GetErrorMessage, const void *)(status);
}

void dlx_ort_release_status(const void *api, void *status) { FN(void, ReleaseStatus, void *)(status); }

// OrtDeviceAllocator is 0: memory of the program is in no arena. OrtMemTypeDefault is 0.
void *dlx_ort_memory_info(const void *api, const char *name, int32_t id, void **info) {
	return FN(void *, CreateMemoryInfo, const char *, int, int, int, void **)(name, 0, id, 0, info);
}

void dlx_ort_release_memory_info(const void *api, void *info) { FN(void, ReleaseMemoryInfo, void *)(info); }

void *dlx_ort_tensor_on(const void *api, const void *info, uintptr_t data, size_t bytes, const int64_t *shape, size_t rank,
		int32_t type, void **value) {
	return FN(void *, CreateTensorWithDataAsOrtValue, const void *, void *, size_t, const int64_t *, size_t, int, void **)(
		info, (void *)data, bytes, shape, rank, type, value);
}

void dlx_ort_release_value(const void *api, void *value) { FN(void, ReleaseValue, void *)(value); }

void *dlx_ort_describe(const void *api, const void *value, dlx_ort_tensor *tensor, int64_t *shape, size_t room,
		const char **call) {
	int is_tensor = 0, type = 0, id = 0;
	void *info = NULL, *status;
	const void *place = NULL;

	*call = "IsTensor";
	if ((status = FN(void *, IsTensor, const void *, int *)(value, &is_tensor)) != NULL)
		return status;
	tensor->is_tensor = is_tensor;
	if (!is_tensor)
		return NULL;

	*call = "GetTensorTypeAndShape";
	if ((status = FN(void *, GetTensorTypeAndShape, const void *, void **)(value, &info)) != NULL)
		return status;
	*call = "GetTensorElementType";
	status = FN(void *, GetTensorElementType, const void *, int *)(info, &type);
	if (status == NULL) {
		*call = "GetDimensionsCount";
		status = FN(void *, GetDimensionsCount, const void *, size_t *)(info, &tensor->rank);
	}
	if (status == NULL && tensor->rank > 0 && tensor->rank <= room) {
		*call = "GetDimensions";
		status = FN(void *, GetDimensions, const void *, int64_t *, size_t)(info, shape, tensor->rank);
	}
	FN(void, ReleaseTensorTypeAndShapeInfo, void *)(info);
	if (status != NULL)
		return status;
	tensor->type = type;

	*call = "GetTensorMemoryInfo";
	if ((status = FN(void *, GetTensorMemoryInfo, const void *, const void **)(value, &place)) != NULL)
		return status;
	*call = "MemoryInfoGetName";
	if ((status = FN(void *, MemoryInfoGetName, const void *, const char **)(place, &tensor->place)) != NULL)
		return status;
	*call = "MemoryInfoGetId";
	if ((status = FN(void *, MemoryInfoGetId, const void *, int *)(place, &id)) != NULL)
		return status;
	tensor->id = id;
	*call = "GetTensorSizeInBytes"; // fails for strings, which have no such memory
	if ((status = FN(void *, GetTensorSizeInBytes, const void *, size_t *)(value, &tensor->bytes)) != NULL)
		return status;
	*call = "GetTensorMutableData";
	return FN(void *, GetTensorMutableData, const void *, uintptr_t *)(value, &tensor->data);
}

void *dlx_ort_bind_output_to(const void *api, void *binding, const char *name, const void *info) {
	return FN(void *, BindOutputToDevice, void *, const char *, const void *)(binding, name, info);
}

void *dlx_ort_bound_outputs(const void *api, const void *binding, void **allocator, void ***values, size_t *count) {
	void *status = FN(void *, GetAllocatorWithDefaultOptions, void **)(allocator);
	if (status != NULL)
		return status;
	return FN(void *, GetBoundOutputValues, const void *, void *, void ***, size_t *)(binding, *allocator, values, count);
}

void dlx_ort_free(const void *api, void *allocator, void *array) {
	void *status = array == NULL ? NULL : FN(void *, AllocatorFree, void *, void *)(allocator, array);
	if (status != NULL)
		dlx_ort_release_status(api, status);
}
