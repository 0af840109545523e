//go:build cgo

/* The functions of dlx.h. Each one checks that the process is no child of fork, sets its results to NULL or 0, and
 * calls the function of Go with the same name. Go has no pointers to const, hence the casts. */
#include "_cgo_export.h"
#include "entry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Set in a child of fork. Go's threads, its locks and its timers are not there: no call may enter Go. */
static atomic_int forked;

static void note_fork(void) { atomic_store(&forked, 1); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

static dlx_status refuse(dlx_error *error) {
	if (error != NULL) {
		memset(error, 0, sizeof *error);
		error->status = DLX_ERR_FORKED;
		strcpy(error->origin, "libdlx");
		strcpy(error->text, "libdlx: this process is a child of fork, where the library cannot work: call exec, or start "
			"the process in another way (in Python: multiprocessing with the start method spawn)");
	}
	return DLX_ERR_FORKED;
}

void dlx_call_release(uintptr_t release, uintptr_t context) { ((void (*)(void *))release)((void *)context); }

int32_t dlx_call_progress(const dlx_load_options *options, int64_t done, int64_t total) {
	return options->progress(options->progress_context, done, total);
}

int32_t dlx_call_poll(uintptr_t poll, uintptr_t context) {
	return ((dlx_poll)poll)((void *)context);
}

#define CLEAR(result) \
	if ((result) != NULL) { \
		*(result) = 0; \
	}
#define CLEAR_STRUCT(result) \
	if ((result) != NULL) { \
		memset(result, 0, sizeof *(result)); \
	}
#define NOTHING

/* ENTRY(name, parameters, what to clear, arguments) defines dlx_name, which calls dlxgo_name. */
#define ENTRY(name, parameters, clear, arguments) \
	dlx_status dlx_##name parameters { \
		clear if (atomic_load_explicit(&forked, memory_order_relaxed)) return refuse(error); \
		return dlxgo_##name arguments; \
	}

uint32_t dlx_abi_version(void) { return DLX_ABI_VERSION; }

uint32_t dlx_version_minor(void) { return DLX_VERSION_MINOR; }

const char *dlx_version(void) { return atomic_load(&forked) ? "" : dlxgo_version(); }

const char *dlx_status_text(dlx_status status) {
	static const char *const texts[] = {
		[DLX_OK] = "no error",
		[DLX_ERR_INTERNAL] = "a defect of dlx",
		[DLX_ERR_INVALID] = "invalid argument",
		[DLX_ERR_NOT_SUPPORTED] = "not supported",
		[DLX_ERR_CLOSED] = "closed",
		[DLX_ERR_VERSION] = "incompatible version",
		[DLX_ERR_LAYOUT] = "bad layout",
		[DLX_ERR_DTYPE] = "bad element type",
		[DLX_ERR_READ_ONLY] = "read-only",
		[DLX_ERR_DEVICE] = "wrong device",
		[DLX_ERR_DEVICE_LOST] = "device lost",
		[DLX_ERR_OUT_OF_MEMORY] = "out of memory",
		[DLX_ERR_EXISTS] = "already exists",
		[DLX_ERR_TIMEOUT] = "timeout",
		[DLX_ERR_FORKED] = "not usable in a child of fork",
		[DLX_ERR_CANCELED] = "canceled by the program",
	};
	if (status < 0 || (size_t)status >= sizeof texts / sizeof *texts) {
		return "unknown status";
	}
	return texts[status];
}

ENTRY(live, (const char *name, int64_t *count, dlx_error *error), CLEAR(count), ((char *)name, count, error))
ENTRY(live_json, (dlx_text **text, dlx_error *error), CLEAR(text), (text, error))
ENTRY(metrics_json, (dlx_text **text, dlx_error *error), CLEAR(text), (text, error))
ENTRY(flush, (dlx_error *error), NOTHING, (error))

ENTRY(text_data, (dlx_text *text, const char **data, size_t *length, dlx_error *error),
	CLEAR(data) CLEAR(length), (text, (char **)data, length, error))
ENTRY(text_close, (dlx_text *text, dlx_error *error), NOTHING, (text, error))

ENTRY(registry_open, (dlx_registry **registry, dlx_error *error), CLEAR(registry), (registry, error))
ENTRY(registry_close, (dlx_registry *registry, dlx_error *error), NOTHING, (registry, error))
ENTRY(registry_devices, (dlx_registry *registry, int64_t timeout_ns, dlx_device_info *devices, size_t capacity,
	size_t *count, dlx_error *error), CLEAR(count), (registry, timeout_ns, devices, capacity, count, error))
ENTRY(registry_json, (dlx_registry *registry, int64_t timeout_ns, dlx_text **text, dlx_error *error), CLEAR(text),
	(registry, timeout_ns, text, error))
ENTRY(device_open, (dlx_registry *registry, const char *name, int64_t timeout_ns, dlx_device **device,
	dlx_error *error), CLEAR(device), (registry, (char *)name, timeout_ns, device, error))
ENTRY(device_close, (dlx_device *device, dlx_error *error), NOTHING, (device, error))
ENTRY(device_get_info, (dlx_device *device, dlx_device_info *info, dlx_error *error), CLEAR_STRUCT(info),
	(device, info, error))
ENTRY(device_json, (dlx_device *device, dlx_text **text, dlx_error *error), CLEAR(text), (device, text, error))
ENTRY(oneapi_adopt, (uintptr_t context, uintptr_t device, dlx_error *error), NOTHING, (context, device, error))

ENTRY(tensor_alloc, (dlx_device *device, const dlx_tensor_spec *spec, const dlx_alloc_options *options,
	int64_t timeout_ns, dlx_tensor **tensor, dlx_error *error), CLEAR(tensor),
	(device, (dlx_tensor_spec *)spec, (dlx_alloc_options *)options, timeout_ns, tensor, error))
ENTRY(tensor_wrap, (void *data, int64_t size, int64_t offset, const dlx_tensor_spec *spec, void (*release)(void *),
	void *context, dlx_tensor **tensor, dlx_error *error), CLEAR(tensor),
	(data, size, offset, (dlx_tensor_spec *)spec, (uintptr_t)release, (uintptr_t)context, tensor, error))
ENTRY(tensor_view, (dlx_tensor *tensor, int32_t rank, const int64_t *shape, const int64_t *strides, int64_t offset,
	dlx_tensor **view, dlx_error *error), CLEAR(view),
	(tensor, rank, (int64_t *)shape, (int64_t *)strides, offset, view, error))
ENTRY(tensor_with_lanes, (dlx_tensor *tensor, uint16_t lanes, dlx_tensor **view, dlx_error *error), CLEAR(view),
	(tensor, lanes, view, error))
ENTRY(tensor_as_type, (dlx_tensor *tensor, const dlx_dtype *dtype, int64_t timeout_ns, dlx_tensor **result,
	dlx_error *error), CLEAR(result), (tensor, (dlx_dtype *)dtype, timeout_ns, result, error))
ENTRY(tensor_close, (dlx_tensor *tensor, dlx_error *error), NOTHING, (tensor, error))
ENTRY(tensor_get_info, (dlx_tensor *tensor, dlx_tensor_info *info, dlx_error *error), CLEAR_STRUCT(info),
	(tensor, info, error))
ENTRY(tensor_wait_ready, (dlx_tensor *tensor, int64_t timeout_ns, dlx_error *error), NOTHING,
	(tensor, timeout_ns, error))
ENTRY(tensor_wait_idle, (dlx_tensor *tensor, int64_t timeout_ns, dlx_error *error), NOTHING,
	(tensor, timeout_ns, error))
ENTRY(tensor_ready, (dlx_tensor *tensor, dlx_event **event, dlx_error *error), CLEAR(event), (tensor, event, error))
ENTRY(tensor_wrote, (dlx_tensor *tensor, dlx_event *event, dlx_error *error), NOTHING, (tensor, event, error))
ENTRY(tensor_used, (dlx_tensor *tensor, dlx_event *event, dlx_error *error), NOTHING, (tensor, event, error))
ENTRY(tensor_handoff, (dlx_tensor *tensor, dlx_stream *from, dlx_stream *to, int64_t timeout_ns, int32_t *wait,
	dlx_error *error), CLEAR(wait), (tensor, from, to, timeout_ns, wait, error))

ENTRY(tensor_import, (struct DLManagedTensorVersioned *managed, const dlx_import_options *options,
	dlx_tensor **tensor, dlx_error *error), CLEAR(tensor), (managed, (dlx_import_options *)options, tensor, error))
ENTRY(tensor_import_legacy, (struct DLManagedTensor *managed, const dlx_import_options *options, dlx_tensor **tensor,
	dlx_error *error), CLEAR(tensor), (managed, (dlx_import_options *)options, tensor, error))
ENTRY(tensor_export, (dlx_tensor *tensor, struct DLManagedTensorVersioned **managed, dlx_error *error),
	CLEAR(managed), (tensor, managed, error))
ENTRY(tensor_export_copied, (dlx_tensor *tensor, struct DLManagedTensorVersioned **managed, dlx_error *error),
	CLEAR(managed), (tensor, managed, error))
ENTRY(tensor_export_legacy, (dlx_tensor *tensor, struct DLManagedTensor **managed, dlx_error *error), CLEAR(managed),
	(tensor, managed, error))
ENTRY(dlpack_exchange_api, (const struct DLPackExchangeAPI **table, dlx_error *error), CLEAR(table),
	((struct DLPackExchangeAPI **)table, error))

ENTRY(file_open, (const char *path, dlx_file **file, dlx_error *error), CLEAR(file), ((char *)path, file, error))
ENTRY(file_open_with, (const char *path, const dlx_open_options *options, dlx_file **file, dlx_error *error),
	CLEAR(file), ((char *)path, (dlx_open_options *)options, file, error))
ENTRY(file_close, (dlx_file *file, dlx_error *error), NOTHING, (file, error))
ENTRY(file_json, (dlx_file *file, dlx_text **text, dlx_error *error), CLEAR(text), (file, text, error))
ENTRY(file_tensor, (dlx_file *file, const char *name, dlx_tensor **tensor, dlx_error *error), CLEAR(tensor),
	(file, (char *)name, tensor, error))
ENTRY(file_save, (const char *path, dlx_tensor *const *tensors, const char *const *names, size_t count,
	int32_t compress, int64_t timeout_ns, dlx_error *error), NOTHING,
	((char *)path, (dlx_tensor **)tensors, (char **)names, count, compress, timeout_ns, error))
ENTRY(file_save_metadata, (const char *path, dlx_tensor *const *tensors, const char *const *names, size_t count,
	const char *const *keys, const char *const *values, size_t pairs, int64_t timeout_ns, dlx_error *error), NOTHING,
	((char *)path, (dlx_tensor **)tensors, (char **)names, count, (char **)keys, (char **)values, pairs, timeout_ns,
		error))

ENTRY(load, (const char *const *paths, size_t count, dlx_device *device, const dlx_load_options *options,
	int64_t timeout_ns, dlx_loaded **loaded, dlx_error *error), CLEAR(loaded),
	((char **)paths, count, device, (dlx_load_options *)options, timeout_ns, loaded, error))
ENTRY(loaded_json, (dlx_loaded *loaded, dlx_text **text, dlx_error *error), CLEAR(text), (loaded, text, error))
ENTRY(loaded_tensor, (dlx_loaded *loaded, const char *name, dlx_tensor **tensor, dlx_error *error), CLEAR(tensor),
	(loaded, (char *)name, tensor, error))
ENTRY(loaded_at, (dlx_loaded *loaded, size_t index, dlx_tensor **tensor, dlx_error *error), CLEAR(tensor),
	(loaded, index, tensor, error))
ENTRY(loaded_close, (dlx_loaded *loaded, dlx_error *error), NOTHING, (loaded, error))

ENTRY(to, (dlx_tensor *tensor, dlx_device *device, const dlx_move_options *options, int64_t timeout_ns,
	dlx_tensor **result, dlx_report **report, dlx_error *error), CLEAR(result) CLEAR(report),
	(tensor, device, (dlx_move_options *)options, timeout_ns, result, report, error))
ENTRY(plan, (dlx_tensor *tensor, dlx_device *device, const dlx_move_options *options, dlx_route **route,
	dlx_error *error), CLEAR(route), (tensor, device, (dlx_move_options *)options, route, error))
ENTRY(route_run, (dlx_route *route, int64_t timeout_ns, dlx_tensor **result, dlx_report **report, dlx_error *error),
	CLEAR(result) CLEAR(report), (route, timeout_ns, result, report, error))
ENTRY(route_mechanism, (dlx_route *route, int32_t *mechanism, dlx_error *error), CLEAR(mechanism),
	(route, mechanism, error))
ENTRY(route_text, (dlx_route *route, dlx_text **text, dlx_error *error), CLEAR(text), (route, text, error))
ENTRY(route_json, (dlx_route *route, dlx_text **text, dlx_error *error), CLEAR(text), (route, text, error))
ENTRY(route_close, (dlx_route *route, dlx_error *error), NOTHING, (route, error))
ENTRY(report_get_info, (dlx_report *report, dlx_report_info *info, dlx_error *error), CLEAR_STRUCT(info),
	(report, info, error))
ENTRY(report_text, (dlx_report *report, dlx_text **text, dlx_error *error), CLEAR(text), (report, text, error))
ENTRY(report_json, (dlx_report *report, dlx_text **text, dlx_error *error), CLEAR(text), (report, text, error))
ENTRY(report_close, (dlx_report *report, dlx_error *error), NOTHING, (report, error))

ENTRY(stream_open, (dlx_device *device, int64_t timeout_ns, dlx_stream **stream, dlx_error *error), CLEAR(stream),
	(device, timeout_ns, stream, error))
ENTRY(stream_borrow, (dlx_device *device, int64_t number, int64_t timeout_ns, dlx_stream **stream, dlx_error *error),
	CLEAR(stream), (device, number, timeout_ns, stream, error))
ENTRY(stream_native, (dlx_stream *stream, uintptr_t *native, dlx_error *error), CLEAR(native),
	(stream, native, error))
ENTRY(stream_synchronize, (dlx_stream *stream, int64_t timeout_ns, dlx_error *error), NOTHING,
	(stream, timeout_ns, error))
ENTRY(stream_record, (dlx_stream *stream, dlx_event **event, dlx_error *error), CLEAR(event), (stream, event, error))
ENTRY(stream_wait, (dlx_stream *stream, dlx_event *event, dlx_error *error), NOTHING, (stream, event, error))
ENTRY(stream_close, (dlx_stream *stream, dlx_error *error), NOTHING, (stream, error))
ENTRY(event_done, (dlx_event *event, int32_t *done, dlx_error *error), CLEAR(done), (event, done, error))
ENTRY(event_wait, (dlx_event *event, int64_t timeout_ns, dlx_error *error), NOTHING, (event, timeout_ns, error))
ENTRY(event_close, (dlx_event *event, dlx_error *error), NOTHING, (event, error))

ENTRY(share_listen, (const char *path, const dlx_share_options *options, dlx_listener **listener, dlx_error *error),
	CLEAR(listener), ((char *)path, (dlx_share_options *)options, listener, error))
ENTRY(listener_accept, (dlx_listener *listener, int64_t timeout_ns, dlx_connection **connection, dlx_error *error),
	CLEAR(connection), (listener, timeout_ns, connection, error))
ENTRY(listener_close, (dlx_listener *listener, dlx_error *error), NOTHING, (listener, error))
ENTRY(share_connect, (const char *path, const dlx_share_options *options, int64_t timeout_ns,
	dlx_connection **connection, dlx_error *error), CLEAR(connection),
	((char *)path, (dlx_share_options *)options, timeout_ns, connection, error))
ENTRY(share_adopt, (int32_t fd, const dlx_share_options *options, dlx_connection **connection, dlx_error *error),
	CLEAR(connection), (fd, (dlx_share_options *)options, connection, error))
ENTRY(share_alloc, (dlx_device *device, const dlx_tensor_spec *spec, int64_t timeout_ns, dlx_tensor **tensor,
	dlx_error *error), CLEAR(tensor), (device, (dlx_tensor_spec *)spec, timeout_ns, tensor, error))
ENTRY(share_copy, (dlx_tensor *tensor, dlx_device *device, int64_t timeout_ns, dlx_tensor **result, dlx_report **report,
	dlx_error *error), CLEAR(result) CLEAR(report), (tensor, device, timeout_ns, result, report, error))
ENTRY(share_memory, (dlx_tensor *tensor, int32_t *fd, int64_t *offset, dlx_error *error),
	if (fd != NULL) { *fd = -1; } CLEAR(offset), (tensor, fd, offset, error))
ENTRY(connection_send, (dlx_connection *connection, dlx_tensor *tensor, const char *label, int64_t timeout_ns,
	dlx_report **report, dlx_error *error), CLEAR(report),
	(connection, tensor, (char *)label, timeout_ns, report, error))
ENTRY(connection_receive_described, (dlx_connection *connection, dlx_device *device, int64_t timeout_ns,
	dlx_tensor **tensor, dlx_tensor_info *info, dlx_report **report, dlx_error *error),
	CLEAR(tensor) CLEAR_STRUCT(info) CLEAR(report), (connection, device, timeout_ns, tensor, info, report, error))
ENTRY(connection_receive, (dlx_connection *connection, dlx_device *device, int64_t timeout_ns, dlx_tensor **tensor,
	dlx_report **report, dlx_error *error), CLEAR(tensor) CLEAR(report),
	(connection, device, timeout_ns, tensor, report, error))
ENTRY(connection_wait_released, (dlx_connection *connection, int64_t timeout_ns, dlx_error *error), NOTHING,
	(connection, timeout_ns, error))
ENTRY(connection_error, (dlx_connection *connection, dlx_error *error), NOTHING, (connection, error))
ENTRY(connection_get_info, (dlx_connection *connection, dlx_connection_info *info, dlx_error *error),
	CLEAR_STRUCT(info), (connection, info, error))
ENTRY(connection_json, (dlx_connection *connection, dlx_text **text, dlx_error *error), CLEAR(text),
	(connection, text, error))
ENTRY(connection_close, (dlx_connection *connection, dlx_error *error), NOTHING, (connection, error))
ENTRY(report_label, (dlx_report *report, dlx_text **text, dlx_error *error), CLEAR(text), (report, text, error))
ENTRY(connection_publish, (dlx_connection *connection, const char *name, const dlx_ring *ring, int64_t timeout_ns,
	dlx_publisher **publisher, dlx_error *error), CLEAR(publisher),
	(connection, (char *)name, (dlx_ring *)ring, timeout_ns, publisher, error))
ENTRY(publisher_offer, (dlx_publisher *publisher, dlx_connection *connection, int64_t timeout_ns, dlx_error *error),
	NOTHING, (publisher, connection, timeout_ns, error))
ENTRY(publisher_loan, (dlx_publisher *publisher, int64_t timeout_ns, dlx_tensor **tensor, dlx_error *error),
	CLEAR(tensor), (publisher, timeout_ns, tensor, error))
ENTRY(publisher_loan_exported, (dlx_publisher *publisher, int64_t timeout_ns, dlx_tensor **tensor,
	struct DLManagedTensorVersioned **managed, int32_t *unfinished, dlx_error *error),
	CLEAR(tensor) CLEAR(managed) CLEAR(unfinished), (publisher, timeout_ns, tensor, managed, unfinished, error))
ENTRY(publisher_send, (dlx_publisher *publisher, dlx_tensor *tensor, int64_t timeout_ns, uint64_t *sequence,
	dlx_error *error), CLEAR(sequence), (publisher, tensor, timeout_ns, sequence, error))
ENTRY(publisher_wait_readers, (dlx_publisher *publisher, int32_t count, int64_t timeout_ns, dlx_error *error), NOTHING,
	(publisher, count, timeout_ns, error))
ENTRY(publisher_wait_released, (dlx_publisher *publisher, int64_t timeout_ns, dlx_error *error), NOTHING,
	(publisher, timeout_ns, error))
ENTRY(publisher_json, (dlx_publisher *publisher, dlx_text **text, dlx_error *error), CLEAR(text),
	(publisher, text, error))
ENTRY(publisher_close, (dlx_publisher *publisher, dlx_error *error), NOTHING, (publisher, error))
ENTRY(connection_subscribe, (dlx_connection *connection, const char *name, dlx_device *device, int32_t hold,
	int64_t timeout_ns, dlx_subscription **subscription, dlx_error *error), CLEAR(subscription),
	(connection, (char *)name, device, hold, timeout_ns, subscription, error))
ENTRY(subscription_receive, (dlx_subscription *subscription, int64_t timeout_ns, dlx_frame **frame, int32_t *ended,
	dlx_error *error), CLEAR(frame) CLEAR(ended), (subscription, timeout_ns, frame, ended, error))
ENTRY(subscription_receive_described, (dlx_subscription *subscription, int64_t timeout_ns, dlx_frame **frame,
	uint64_t *sequence, dlx_tensor_info *info, int32_t *ended, dlx_error *error),
	CLEAR(frame) CLEAR(sequence) CLEAR_STRUCT(info) CLEAR(ended),
	(subscription, timeout_ns, frame, sequence, info, ended, error))
ENTRY(subscription_close, (dlx_subscription *subscription, dlx_error *error), NOTHING, (subscription, error))
ENTRY(frame_tensor, (dlx_frame *frame, dlx_tensor **tensor, dlx_error *error), CLEAR(tensor), (frame, tensor, error))
ENTRY(frame_sequence, (dlx_frame *frame, uint64_t *sequence, dlx_error *error), CLEAR(sequence),
	(frame, sequence, error))
ENTRY(frame_error, (dlx_frame *frame, dlx_error *error), NOTHING, (frame, error))
ENTRY(frame_release, (dlx_frame *frame, dlx_error *error), NOTHING, (frame, error))

ENTRY(remote_available, (dlx_text **version, dlx_error *error), CLEAR(version), (version, error))
ENTRY(remote_listen, (const char *address, const dlx_remote_options *options, dlx_remote_listener **listener,
	dlx_error *error), CLEAR(listener), ((char *)address, (dlx_remote_options *)options, listener, error))
ENTRY(remote_listener_address, (dlx_remote_listener *listener, dlx_text **text, dlx_error *error), CLEAR(text),
	(listener, text, error))
ENTRY(remote_listener_accept, (dlx_remote_listener *listener, int64_t timeout_ns, dlx_remote_connection **connection,
	dlx_error *error), CLEAR(connection), (listener, timeout_ns, connection, error))
ENTRY(remote_listener_serve, (dlx_remote_listener *listener, int64_t timeout_ns, dlx_error *error), NOTHING,
	(listener, timeout_ns, error))
ENTRY(remote_listener_close, (dlx_remote_listener *listener, dlx_error *error), NOTHING, (listener, error))
ENTRY(remote_connect, (const char *address, const dlx_remote_options *options, int64_t timeout_ns,
	dlx_remote_connection **connection, dlx_error *error), CLEAR(connection),
	((char *)address, (dlx_remote_options *)options, timeout_ns, connection, error))
ENTRY(remote_send, (dlx_remote_connection *connection, dlx_tensor *tensor, const char *label, int64_t timeout_ns,
	dlx_report **report, dlx_error *error), CLEAR(report),
	(connection, tensor, (char *)label, timeout_ns, report, error))
ENTRY(remote_receive, (dlx_remote_connection *connection, dlx_device *device, int64_t timeout_ns, dlx_tensor **tensor,
	dlx_report **report, dlx_error *error), CLEAR(tensor) CLEAR(report),
	(connection, device, timeout_ns, tensor, report, error))
ENTRY(remote_wait_received, (dlx_remote_connection *connection, int64_t timeout_ns, dlx_error *error), NOTHING,
	(connection, timeout_ns, error))
ENTRY(remote_connection_error, (dlx_remote_connection *connection, dlx_error *error), NOTHING, (connection, error))
ENTRY(remote_connection_get_info, (dlx_remote_connection *connection, dlx_remote_connection_info *info,
	dlx_error *error), CLEAR_STRUCT(info), (connection, info, error))
ENTRY(remote_connection_json, (dlx_remote_connection *connection, dlx_text **text, dlx_error *error), CLEAR(text),
	(connection, text, error))
ENTRY(remote_connection_close, (dlx_remote_connection *connection, dlx_error *error), NOTHING, (connection, error))
ENTRY(remote_listener_offer, (dlx_remote_listener *listener, dlx_tensor *tensor, const dlx_offer_options *options,
	dlx_remote_offer **offer, dlx_error *error), CLEAR(offer),
	(listener, tensor, (dlx_offer_options *)options, offer, error))
ENTRY(remote_connection_offer, (dlx_remote_connection *connection, dlx_tensor *tensor,
	const dlx_offer_options *options, dlx_remote_offer **offer, dlx_error *error), CLEAR(offer),
	(connection, tensor, (dlx_offer_options *)options, offer, error))
ENTRY(remote_offer_descriptor, (dlx_remote_offer *offer, void *buffer, size_t capacity, size_t *size,
	dlx_error *error), CLEAR(size), (offer, buffer, capacity, size, error))
ENTRY(remote_offer_ended, (dlx_remote_offer *offer, int32_t *ended, dlx_error *error), CLEAR(ended),
	(offer, ended, error))
ENTRY(remote_offer_close, (dlx_remote_offer *offer, dlx_error *error), NOTHING, (offer, error))
ENTRY(remote_describe, (const void *descriptor, size_t size, dlx_text **text, dlx_error *error), CLEAR(text),
	((void *)descriptor, size, text, error))
ENTRY(remote_connection_list, (dlx_remote_connection *connection, int64_t timeout_ns, dlx_remote_list **list,
	size_t *count, dlx_error *error), CLEAR(list) CLEAR(count), (connection, timeout_ns, list, count, error))
ENTRY(remote_list_at, (dlx_remote_list *list, size_t index, dlx_text **name, void *buffer, size_t capacity, size_t *size,
	dlx_error *error), CLEAR(name) CLEAR(size), (list, index, name, buffer, capacity, size, error))
ENTRY(remote_list_json, (dlx_remote_list *list, size_t start, size_t stop, dlx_text **text, dlx_error *error), CLEAR(text),
	(list, start, stop, text, error))
ENTRY(remote_list_close, (dlx_remote_list *list, dlx_error *error), NOTHING, (list, error))
ENTRY(remote_connection_fetch, (dlx_remote_connection *connection, const void *descriptor, size_t size, int64_t start,
	int64_t stop, dlx_device *device, int64_t timeout_ns, dlx_tensor **tensor, dlx_report **report, dlx_error *error),
	CLEAR(tensor) CLEAR(report),
	(connection, (void *)descriptor, size, start, stop, device, timeout_ns, tensor, report, error))
ENTRY(remote_fetch, (const void *descriptor, size_t size, int64_t start, int64_t stop, dlx_device *device,
	const dlx_remote_options *options, int64_t timeout_ns, dlx_tensor **tensor, dlx_report **report, dlx_error *error),
	CLEAR(tensor) CLEAR(report),
	((void *)descriptor, size, start, stop, device, (dlx_remote_options *)options, timeout_ns, tensor, report, error))
ENTRY(remote_connection_put, (dlx_remote_connection *connection, const void *descriptor, size_t size, int64_t start,
	dlx_tensor *tensor, int64_t timeout_ns, dlx_report **report, dlx_error *error), CLEAR(report),
	(connection, (void *)descriptor, size, start, tensor, timeout_ns, report, error))
ENTRY(remote_connection_checksum, (dlx_remote_connection *connection, const void *descriptor, size_t size, int64_t start,
	int64_t stop, int64_t timeout_ns, uint8_t *sum, dlx_error *error), NOTHING,
	(connection, (void *)descriptor, size, start, stop, timeout_ns, sum, error))
ENTRY(remote_checksum, (dlx_tensor *tensor, dlx_poll poll, void *poll_context, int64_t timeout_ns, uint8_t *sum,
	dlx_error *error), NOTHING, (tensor, poll, poll_context, timeout_ns, sum, error))
ENTRY(remote_gather, (const dlx_remote_part *parts, size_t count, dlx_device *device, const dlx_remote_options *options,
	int64_t timeout_ns, dlx_tensor **tensor, dlx_report **report, dlx_error *error), CLEAR(tensor) CLEAR(report),
	((dlx_remote_part *)parts, count, device, (dlx_remote_options *)options, timeout_ns, tensor, report, error))
ENTRY(remote_listener_relay, (dlx_remote_listener *listener, const dlx_remote_fanout *fanout, size_t self,
	dlx_device *device, int64_t timeout_ns, dlx_tensor **tensor, dlx_remote_offer **offer, dlx_report **report,
	dlx_error *error), CLEAR(tensor) CLEAR(offer) CLEAR(report),
	(listener, (dlx_remote_fanout *)fanout, self, device, timeout_ns, tensor, offer, report, error))
