#include <string.h>

#include "abi.h"

typedef void *(*function)(void *args);

static function at(const void *api, int32_t offset) { return *(const function *)((const char *)api + offset); }

bool dlx_pjrt_ok(const void *api) {
	static const int32_t all[] = {
		off_PJRT_Error_Destroy, off_PJRT_Error_Message, off_PJRT_Error_GetCode, off_PJRT_Event_Destroy,
		off_PJRT_Event_IsReady, off_PJRT_Event_Await, off_PJRT_Buffer_GetMemoryLayout,
		off_PJRT_Buffer_OnDeviceSizeInBytes, off_PJRT_Buffer_IsOnCpu, off_PJRT_Buffer_ReadyEvent,
		off_PJRT_Buffer_IncreaseExternalReferenceCount, off_PJRT_Buffer_DecreaseExternalReferenceCount,
	};
	if (api == NULL || *(const size_t *)api < off_PJRT_Buffer_DecreaseExternalReferenceCount + sizeof(function))
		return false;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (at(api, all[i]) == NULL)
			return false;
	return true;
}

int32_t dlx_pjrt_code(const void *api, void *error) {
	dlx_pjrt_args args = {offsetof(dlx_pjrt_args, out) + sizeof(int32_t), NULL, error, {0}};
	void *failed = at(api, off_PJRT_Error_GetCode)(&args);
	if (failed != NULL)
		dlx_pjrt_destroy_error(api, failed);
	return args.out.code;
}

const char *dlx_pjrt_message(const void *api, void *error, size_t *size) {
	dlx_pjrt_message_args args = {sizeof args, NULL, error, NULL, 0};
	((void (*)(void *))at(api, off_PJRT_Error_Message))(&args);
	*size = args.message == NULL ? 0 : args.message_size;
	return args.message;
}

void dlx_pjrt_destroy_error(const void *api, void *error) {
	dlx_pjrt_args args = {offsetof(dlx_pjrt_args, out), NULL, error, {0}};
	((void (*)(void *))at(api, off_PJRT_Error_Destroy))(&args);
}

void *dlx_pjrt_call(const void *api, int32_t offset, size_t size, void *object, dlx_pjrt_args *args) {
	memset(args, 0, sizeof *args);
	args->struct_size = offsetof(dlx_pjrt_args, out) + size;
	args->object = object;
	return at(api, offset)(args);
}

void *dlx_pjrt_layout(const void *api, void *buffer, size_t rank, int64_t *values, int32_t *type) {
	dlx_pjrt_layout_args args;
	memset(&args, 0, sizeof args);
	args.struct_size = sizeof args;
	args.buffer = buffer;
	args.layout.struct_size = sizeof args.layout;
	void *error = at(api, off_PJRT_Buffer_GetMemoryLayout)(&args);
	if (error != NULL)
		return error;

	const int64_t *found = NULL;
	size_t count = 0;
	*type = dlx_pjrt_malformed;
	if (args.layout.type == 0 && args.layout.tiled.num_tiles > 0) {
		*type = dlx_pjrt_tiles;
		return NULL;
	}
	if (args.layout.type == 0) {
		found = args.layout.tiled.minor_to_major;
		count = args.layout.tiled.minor_to_major_size;
	} else if (args.layout.type == 1) {
		found = args.layout.strides.byte_strides;
		count = args.layout.strides.num_byte_strides;
	}
	if (count == rank && (found != NULL || rank == 0) && (args.layout.type == 0 || args.layout.type == 1)) {
		*type = args.layout.type == 0 ? dlx_pjrt_order : dlx_pjrt_strides;
		if (rank > 0)
			memcpy(values, found, rank * sizeof *values);
	}
	return NULL;
}
