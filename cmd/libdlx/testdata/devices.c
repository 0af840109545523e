/* Moves, streams and events on every device. The arguments are the devices that there must be; none means the CPU's
 * only, with a reason for each backend that has none. */
#include "check.h"

enum { rows = 37, columns = 41, elements = rows * columns };

static dlx_device *cpu;

static const char *text_of(dlx_text *text) {
	static char copy[1 << 16];
	const char *data;
	size_t length;
	OK(dlx_text_data(text, &data, &length, &err));
	CHECK(strlen(data) == length && length > 0);
	snprintf(copy, sizeof copy, "%s", data);
	OK(dlx_text_close(text, &err));
	return copy;
}

static dlx_tensor *numbers(float first) {
	const int64_t shape[] = {rows, columns};
	dlx_tensor_spec s = spec_of(float32, 2, shape);
	dlx_tensor *t;
	dlx_tensor_info info;
	OK(dlx_tensor_alloc(cpu, &s, NULL, 0, &t, &err));
	OK(dlx_tensor_get_info(t, &info, &err));
	for (int i = 0; i < elements; i++) {
		((float *)info.data)[i] = first + (float)i;
	}
	return t;
}

/* The tensor, on any device, has the numbers from first on. */
static void expect(dlx_tensor *t, float first) {
	dlx_tensor *host;
	dlx_tensor_info info;
	OK(dlx_to(t, cpu, NULL, 0, &host, NULL, &err));
	OK(dlx_tensor_wait_ready(host, 0, &err));
	OK(dlx_tensor_get_info(host, &info, &err));
	CHECK(info.host_accessible && info.shape[0] == rows && info.shape[1] == columns);
	for (int64_t i = 0; i < rows; i++) {
		for (int64_t j = 0; j < columns; j++) {
			CHECK(((float *)info.data)[i * info.strides[0] + j * info.strides[1]] == first + (float)(i * columns + j));
		}
	}
	OK(dlx_tensor_close(host, &err));
}

static void moves(dlx_device *device, const dlx_device_info *info) {
	dlx_tensor *source = numbers(1), *there, *back;
	dlx_report *report;
	dlx_report_info did;
	dlx_move_options always = {.copy = DLX_COPY_ALWAYS};
	OK(dlx_to(source, device, &always, 0, &there, &report, &err));
	OK(dlx_report_get_info(report, &did, &err));
	CHECK(did.from.type == 1 && did.to.type == info->id.type && did.to.index == info->id.index);
	CHECK(did.mechanism >= DLX_MECHANISM_PEER && did.mechanism <= DLX_MECHANISM_STAGED);
	CHECK(did.bytes_copied >= elements * 4 && did.duration_ns > 0);
	dlx_text *text;
	OK(dlx_report_text(report, &text, &err));
	CHECK(strstr(text_of(text), info->id_text));
	OK(dlx_report_json(report, &text, &err));
	CHECK(strstr(text_of(text), "\"bytes_copied\""));
	OK(dlx_report_close(report, &err));
	FAILS(DLX_ERR_CLOSED, dlx_report_close(report, &err));
	OK(dlx_tensor_close(source, &err));
	expect(there, 1);

	dlx_tensor_info where;
	OK(dlx_tensor_get_info(there, &where, &err));
	CHECK(where.device.type == info->id.type && where.device.index == info->id.index && where.bytes == elements * 4);

	/* A route is run twice, and is no longer usable when its tensor is closed. */
	dlx_route *route;
	int32_t mechanism;
	OK(dlx_plan(there, cpu, &always, &route, &err));
	OK(dlx_route_mechanism(route, &mechanism, &err));
	CHECK(mechanism >= DLX_MECHANISM_PEER);
	OK(dlx_route_text(route, &text, &err));
	CHECK(strstr(text_of(text), "-> cpu"));
	OK(dlx_route_json(route, &text, &err));
	CHECK(strstr(text_of(text), "\"steps\""));
	for (int i = 0; i < 2; i++) {
		OK(dlx_route_run(route, 0, &back, NULL, &err));
		expect(back, 1);
		OK(dlx_tensor_close(back, &err));
	}
	OK(dlx_tensor_close(there, &err));
	FAILS(DLX_ERR_CLOSED, dlx_route_run(route, 0, &back, NULL, &err));
	OK(dlx_route_close(route, &err));
}

static void order(dlx_device *device) {
	dlx_stream *stream, *second;
	dlx_event *event, *ready;
	int32_t done = 0, wait = -1;
	uintptr_t native;
	OK(dlx_stream_open(device, 0, &stream, &err));
	OK(dlx_stream_open(device, 0, &second, &err));
	OK(dlx_stream_native(stream, &native, &err));
	dlx_tensor *source = numbers(7), *there;
	OK(dlx_to(source, device, &(dlx_move_options){.copy = DLX_COPY_ALWAYS, .stream = stream}, 0, &there, NULL, &err));
	OK(dlx_stream_record(stream, &event, &err));
	dlx_status status = dlx_stream_wait(second, event, &err);
	CHECK(status == DLX_OK || status == DLX_ERR_NOT_SUPPORTED);
	OK(dlx_tensor_ready(there, &ready, &err));
	OK(dlx_event_wait(ready, INT64_C(60000000000), &err));
	OK(dlx_event_done(ready, &done, &err));
	CHECK(done == 1);
	OK(dlx_event_close(ready, &err));
	OK(dlx_event_wait(event, 0, &err));
	OK(dlx_event_done(event, &done, &err));
	CHECK(done == 1);
	FAILS(DLX_ERR_INVALID, dlx_event_wait(event, -1, &err));
	/* Work of the program on its own stream, as far as dlx knows. */
	OK(dlx_tensor_wrote(there, event, &err));
	OK(dlx_tensor_used(there, event, &err));
	OK(dlx_event_close(event, &err));
	FAILS(DLX_ERR_CLOSED, dlx_event_wait(event, 0, &err));
	OK(dlx_tensor_handoff(there, stream, second, 0, &wait, &err));
	CHECK(wait >= DLX_WAIT_NONE && wait <= DLX_WAIT_HOST);
	OK(dlx_tensor_handoff(there, NULL, NULL, 0, NULL, &err));
	OK(dlx_tensor_wait_idle(there, INT64_C(60000000000), &err));
	OK(dlx_stream_synchronize(stream, 0, &err));
	expect(there, 7);
	OK(dlx_tensor_close(there, &err));
	OK(dlx_tensor_close(source, &err));
	OK(dlx_stream_close(second, &err));
	OK(dlx_stream_close(stream, &err));
}

static void memory(dlx_device *device, const dlx_device_info *info) {
	const int64_t shape[] = {rows, columns};
	dlx_tensor_spec s = spec_of(float32, 2, shape);
	dlx_alloc_options o = {.share_with = cpu};
	dlx_tensor *t, *u;
	OK(dlx_tensor_alloc(device, &s, &o, 0, &t, &err));
	OK(dlx_tensor_close(t, &err));
	o = (dlx_alloc_options){.host_visible = 1};
	if (info->capabilities & (DLX_CAN_HOST_VIEW | DLX_CAN_HOST_MEMORY)) {
		OK(dlx_tensor_alloc(device, &s, &o, 0, &t, &err));
		OK(dlx_to(t, cpu, &(dlx_move_options){.copy = DLX_COPY_NEVER}, 0, &u, NULL, &err));
		OK(dlx_tensor_close(u, &err));
		OK(dlx_tensor_close(t, &err));
	}
}

static void borrowing(dlx_device *device, const dlx_device_info *info) {
	dlx_stream *stream;
	FAILS(info->id.type == 2 || info->id.type == 10 || info->id.type == 1 ? DLX_ERR_INVALID : DLX_ERR_NOT_SUPPORTED,
		dlx_stream_borrow(device, -1, 0, &stream, &err));
	if (info->id.type == 2) {
		uintptr_t native;
		FAILS(DLX_ERR_INVALID, dlx_stream_borrow(device, 0, 0, &stream, &err));
		OK(dlx_stream_borrow(device, 1, 0, &stream, &err));
		OK(dlx_stream_native(stream, &native, &err));
		CHECK(native == 1);
		dlx_tensor *source = numbers(3), *there;
		OK(dlx_to(source, device, &(dlx_move_options){.copy = DLX_COPY_ALWAYS, .stream = stream}, 0, &there, NULL, &err));
		OK(dlx_stream_synchronize(stream, 0, &err));
		expect(there, 3);
		OK(dlx_tensor_close(there, &err));
		OK(dlx_tensor_close(source, &err));
		OK(dlx_stream_close(stream, &err));
	}
}

/* A plan goes the way that the move goes, or both fail alike. */
static void agree(dlx_tensor *t, dlx_device *to) {
	dlx_tensor_info from;
	dlx_device_info target;
	OK(dlx_tensor_get_info(t, &from, &err));
	OK(dlx_device_get_info(to, &target, &err));
	if ((from.device.type == 2 && target.id.type == 10) || (from.device.type == 10 && target.id.type == 2)) {
		return; /* only the drivers can tell that the memory is another vendor's */
	}
	for (int32_t copy = DLX_COPY_IF_NEEDED; copy <= DLX_COPY_ALWAYS; copy++) {
		dlx_move_options options = {.copy = copy};
		dlx_route *route;
		dlx_report *report;
		dlx_report_info did = {.mechanism = DLX_MECHANISM_NONE};
		dlx_tensor *moved;
		int32_t mechanism = DLX_MECHANISM_NONE;
		dlx_status planned = dlx_plan(t, to, &options, &route, NULL);
		if (planned == DLX_OK) {
			OK(dlx_route_mechanism(route, &mechanism, &err));
			OK(dlx_route_close(route, &err));
		}
		dlx_status status = dlx_to(t, to, &options, 0, &moved, &report, &err);
		if (status == DLX_OK) {
			OK(dlx_report_get_info(report, &did, &err));
			OK(dlx_report_close(report, &err));
			OK(dlx_tensor_close(moved, &err));
		}
		if (planned != status || mechanism != did.mechanism) {
			fprintf(stderr, "device type %d, memory at %p, to %s, copy %d: planned %d, status %d; moved by %d, status %d: %s\n",
				from.device.type, from.data, target.id_text, copy, mechanism, planned, did.mechanism, status, err.text);
			exit(1);
		}
	}
}

/* Plans of all kinds of memory of a device to every device. */
static void plans(dlx_device *device, dlx_device *const *all, size_t count) {
	const int64_t shape[] = {rows, columns}, few[] = {rows - 2, columns / 3}, steps[] = {columns, 3};
	dlx_tensor_spec s = spec_of(float32, 2, shape);
	dlx_alloc_options kinds[8 + 32] = {{0}, {.host_visible = 1}, {.memory_type = 3}, {.memory_type = 11}, {.memory_type = 13}};
	size_t n = 5;
	for (size_t i = 0; i < count; i++) {
		kinds[n++] = (dlx_alloc_options){.share_with = all[i]};
	}
	for (size_t k = 0; k < n; k++) {
		dlx_tensor *t, *view;
		dlx_status status = dlx_tensor_alloc(device, &s, &kinds[k], 0, &t, &err);
		CHECK(status == DLX_OK || status == DLX_ERR_NOT_SUPPORTED || status == DLX_ERR_INVALID);
		if (status != DLX_OK) {
			continue;
		}
		OK(dlx_tensor_view(t, 2, few, steps, columns, &view, &err));
		for (size_t i = 0; i < count; i++) {
			agree(t, all[i]);
			agree(view, all[i]);
		}
		OK(dlx_tensor_close(view, &err));
		OK(dlx_tensor_close(t, &err));
	}
}

/* Plans of host memory that dlx did not allocate. */
static void plans_of_others(dlx_device *const *all, size_t count) {
	static float memory[elements];
	const int64_t shape[] = {rows, columns};
	dlx_tensor_spec s = spec_of(float32, 2, shape);
	for (int flags = 0; flags <= DLX_FLAG_READ_ONLY; flags++) {
		struct DLManagedTensorVersioned *managed;
		dlx_tensor *wrapped, *imported;
		s.flags = (uint64_t)flags;
		OK(dlx_tensor_wrap(memory, sizeof memory, 0, &s, NULL, NULL, &wrapped, &err));
		OK(dlx_tensor_export(wrapped, &managed, &err));
		OK(dlx_tensor_import(managed, NULL, &imported, &err));
		for (size_t i = 0; i < count; i++) {
			agree(wrapped, all[i]);
			agree(imported, all[i]);
		}
		OK(dlx_tensor_close(imported, &err));
		OK(dlx_tensor_close(wrapped, &err));
	}
}

int main(int argc, char **argv) {
	dlx_registry *registry;
	dlx_device_info list[32], info;
	dlx_text *text;
	size_t count, same;
	OK(dlx_registry_open(&registry, &err));
	OK(dlx_registry_devices(registry, 0, NULL, 0, &count, &err));
	OK(dlx_registry_devices(registry, 0, list, 32, &same, &err));
	CHECK(count == same && count >= 1 && count <= 32 && strcmp(list[0].id_text, "cpu") == 0);
	memset(&list[1], 1, sizeof list[1]);
	OK(dlx_registry_devices(registry, 0, list, 1, &same, &err));
	CHECK(same == count && list[1].id.type == 0x01010101); /* nothing was written there */
	OK(dlx_registry_devices(registry, 0, list, 32, &same, &err));
	OK(dlx_registry_json(registry, 0, &text, &err));
	const char *json = text_of(text);
	CHECK(strstr(json, "\"id\":\"cpu\""));
	if (argc == 1) {
		CHECK(count == 1 && strstr(json, "\"reason\""));
	}
	for (int i = 1; i < argc; i++) {
		int found = 0;
		for (size_t j = 0; j < count; j++) {
			found |= strcmp(argv[i], list[j].id_text) == 0;
		}
		if (!found) {
			fprintf(stderr, "there is no device %s: %s\n", argv[i], json);
			return 1;
		}
	}
	OK(dlx_device_open(registry, "cpu", 0, &cpu, &err));
	for (size_t i = 0; i < count; i++) {
		dlx_device *device;
		OK(dlx_device_open(registry, list[i].id_text, 0, &device, &err));
		OK(dlx_device_get_info(device, &info, &err));
		CHECK(strcmp(info.id_text, list[i].id_text) == 0 && info.alignment > 0 && info.capabilities == list[i].capabilities);
		OK(dlx_device_json(device, &text, &err));
		CHECK(strstr(text_of(text), info.id_text));
		moves(device, &info);
		order(device);
		memory(device, &info);
		borrowing(device, &info);
		OK(dlx_flush(&err));
		OK(dlx_device_close(device, &err));
		printf("%s\n", info.id_text);
	}
	dlx_device *all[32];
	for (size_t i = 0; i < count; i++) {
		OK(dlx_device_open(registry, list[i].id_text, 0, &all[i], &err));
	}
	for (size_t i = 0; i < count; i++) {
		plans(all[i], all, count);
	}
	plans_of_others(all, count);
	OK(dlx_flush(&err));
	for (size_t i = 0; i < count; i++) {
		OK(dlx_device_close(all[i], &err));
	}
	OK(dlx_metrics_json(&text, &err));
	json = text_of(text);
	CHECK(strstr(json, "\"devices\":[") && strstr(json, "\"moves\":[{\"from\":\"cpu\"") && strstr(json, "\"allocs\":"));
	OK(dlx_device_close(cpu, &err));
	OK(dlx_registry_close(registry, &err));
	check_nothing_open();
	return 0;
}
