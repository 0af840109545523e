/* Wrong arguments of every function are errors, and change nothing. */
#include <errno.h>
#include <pthread.h>

#include "check.h"

#define HANDLE(type, value) ((type *)(uintptr_t)(value))

/* Each function that takes a handle, called with a wrong one. */
static void wrong_handle(void *h, dlx_status want, dlx_device *device, dlx_tensor *tensor, dlx_stream *stream) {
	void *out = &out;
	size_t n = 7;
	int32_t i = 7;
	uintptr_t u = 7;
	const char *data = "x";
	const int64_t shape[] = {1};
	dlx_device_info device_info;
	dlx_tensor_info tensor_info;
	dlx_report_info report_info;
	dlx_tensor_spec spec = spec_of(float32, 1, shape);
#define TENSOR (dlx_tensor **)&out
	FAILS(want, dlx_text_data(h, &data, &n, &err));
	CHECK(data == NULL && n == 0);
	FAILS(want, dlx_text_close(h, &err));
	FAILS(want, dlx_registry_close(h, &err));
	FAILS(want, dlx_registry_devices(h, 0, NULL, 0, &n, &err));
	FAILS(want, dlx_registry_json(h, 0, (dlx_text **)&out, &err));
	CHECK(out == NULL);
	FAILS(want, dlx_device_open(h, "cpu", 0, (dlx_device **)&out, &err));
	FAILS(want, dlx_device_close(h, &err));
	memset(&device_info, 1, sizeof device_info);
	FAILS(want, dlx_device_get_info(h, &device_info, &err));
	CHECK(device_info.alignment == 0 && device_info.name[0] == 0);
	FAILS(want, dlx_device_json(h, (dlx_text **)&out, &err));
	FAILS(want, dlx_tensor_alloc(h, &spec, NULL, 0, TENSOR, &err));
	FAILS(want, dlx_tensor_view(h, 1, shape, NULL, 0, TENSOR, &err));
	FAILS(want, dlx_tensor_with_lanes(h, 2, TENSOR, &err));
	FAILS(want, dlx_tensor_as_type(h, &float32, 0, TENSOR, &err));
	FAILS(want, dlx_tensor_close(h, &err));
	FAILS(want, dlx_tensor_get_info(h, &tensor_info, &err));
	FAILS(want, dlx_tensor_wait_ready(h, 0, &err));
	FAILS(want, dlx_tensor_wait_idle(h, 0, &err));
	FAILS(want, dlx_tensor_ready(h, (dlx_event **)&out, &err));
	FAILS(want, dlx_tensor_wrote(h, NULL, &err));
	FAILS(want, dlx_tensor_used(h, NULL, &err));
	FAILS(want, dlx_tensor_handoff(h, NULL, NULL, 0, &i, &err));
	FAILS(want, dlx_tensor_export(h, (struct DLManagedTensorVersioned **)&out, &err));
	FAILS(want, dlx_tensor_export_copied(h, (struct DLManagedTensorVersioned **)&out, &err));
	FAILS(want, dlx_tensor_export_legacy(h, (struct DLManagedTensor **)&out, &err));
	FAILS(want, dlx_file_close(h, &err));
	FAILS(want, dlx_file_json(h, (dlx_text **)&out, &err));
	FAILS(want, dlx_file_tensor(h, "x", TENSOR, &err));
	FAILS(want, dlx_file_save("/nonexistent/x.npy", (dlx_tensor **)&h, NULL, 1, 0, 0, &err));
	FAILS(want, dlx_file_save_metadata("/nonexistent/x.safetensors", (dlx_tensor **)&h, NULL, 1, NULL, NULL, 0, 0,
		&err));
	FAILS(want, dlx_load((const char *[]){"/nonexistent/x.npy"}, 1, h, NULL, 0, (dlx_loaded **)&out, &err));
	FAILS(want, dlx_loaded_json(h, (dlx_text **)&out, &err));
	FAILS(want, dlx_loaded_tensor(h, "x", TENSOR, &err));
	FAILS(want, dlx_loaded_at(h, 0, TENSOR, &err));
	FAILS(want, dlx_loaded_close(h, &err));
	FAILS(want, dlx_to(h, device, NULL, 0, TENSOR, NULL, &err));
	FAILS(want, dlx_to(tensor, h, NULL, 0, TENSOR, (dlx_report **)&out, &err));
	FAILS(want, dlx_plan(h, device, NULL, (dlx_route **)&out, &err));
	FAILS(want, dlx_plan(tensor, h, NULL, (dlx_route **)&out, &err));
	FAILS(want, dlx_route_run(h, 0, TENSOR, NULL, &err));
	FAILS(want, dlx_route_mechanism(h, &i, &err));
	FAILS(want, dlx_route_text(h, (dlx_text **)&out, &err));
	FAILS(want, dlx_route_json(h, (dlx_text **)&out, &err));
	FAILS(want, dlx_route_close(h, &err));
	FAILS(want, dlx_report_get_info(h, &report_info, &err));
	FAILS(want, dlx_report_text(h, (dlx_text **)&out, &err));
	FAILS(want, dlx_report_json(h, (dlx_text **)&out, &err));
	FAILS(want, dlx_report_close(h, &err));
	FAILS(want, dlx_stream_open(h, 0, (dlx_stream **)&out, &err));
	FAILS(want, dlx_stream_borrow(h, 3, 0, (dlx_stream **)&out, &err));
	FAILS(want, dlx_stream_native(h, &u, &err));
	FAILS(want, dlx_stream_synchronize(h, 0, &err));
	FAILS(want, dlx_stream_record(h, (dlx_event **)&out, &err));
	FAILS(want, dlx_stream_wait(h, NULL, &err));
	FAILS(want, dlx_stream_wait(stream, h, &err));
	FAILS(want, dlx_stream_close(h, &err));
	FAILS(want, dlx_event_done(h, &i, &err));
	FAILS(want, dlx_event_wait(h, 0, &err));
	FAILS(want, dlx_event_close(h, &err));
	CHECK(out == NULL && n == 0 && i == 0 && u == 0);
	if (h != NULL) { /* NULL is allowed here */
		dlx_alloc_options alloc = {.share_with = h};
		FAILS(want, dlx_tensor_alloc(device, &spec, &alloc, 0, TENSOR, &err));
		alloc = (dlx_alloc_options){.stream = h};
		FAILS(want, dlx_tensor_alloc(device, &spec, &alloc, 0, TENSOR, &err));
		dlx_move_options move = {.stream = h};
		FAILS(want, dlx_to(tensor, device, &move, 0, TENSOR, NULL, &err));
		move = (dlx_move_options){.source_stream = h};
		FAILS(want, dlx_to(tensor, device, &move, 0, TENSOR, NULL, &err));
		FAILS(want, dlx_tensor_handoff(tensor, h, NULL, 0, NULL, &err));
		FAILS(want, dlx_tensor_handoff(tensor, NULL, h, 0, NULL, &err));
	}
}

/* Results that are NULL. */
static void no_result(dlx_registry *registry, dlx_device *device, dlx_tensor *tensor, dlx_stream *stream) {
	const dlx_status want = DLX_ERR_INVALID;
	const int64_t shape[] = {1};
	dlx_tensor_spec spec = spec_of(float32, 1, shape);
	FAILS(want, dlx_live(NULL, NULL, &err));
	FAILS(want, dlx_live_json(NULL, &err));
	FAILS(want, dlx_metrics_json(NULL, &err));
	FAILS(want, dlx_registry_open(NULL, &err));
	FAILS(want, dlx_registry_devices(registry, 0, NULL, 0, NULL, &err));
	FAILS(want, dlx_registry_json(registry, 0, NULL, &err));
	FAILS(want, dlx_device_open(registry, "cpu", 0, NULL, &err));
	FAILS(want, dlx_device_get_info(device, NULL, &err));
	FAILS(want, dlx_device_json(device, NULL, &err));
	CHECK(dlx_oneapi_adopt(0, 0, &err) != DLX_OK && err.text[0] != 0);
	FAILS(want, dlx_tensor_alloc(device, &spec, NULL, 0, NULL, &err));
	FAILS(want, dlx_tensor_wrap(NULL, 0, 0, &spec, NULL, NULL, NULL, &err));
	FAILS(want, dlx_tensor_view(tensor, 1, shape, NULL, 0, NULL, &err));
	FAILS(want, dlx_tensor_with_lanes(tensor, 1, NULL, &err));
	FAILS(want, dlx_tensor_get_info(tensor, NULL, &err));
	FAILS(want, dlx_tensor_ready(tensor, NULL, &err));
	FAILS(want, dlx_tensor_export(tensor, NULL, &err));
	FAILS(want, dlx_tensor_export_copied(tensor, NULL, &err));
	FAILS(want, dlx_tensor_export_legacy(tensor, NULL, &err));
	FAILS(want, dlx_dlpack_exchange_api(NULL, &err));
	FAILS(want, dlx_file_open("x.npy", NULL, &err));
	FAILS(want, dlx_load((const char *[]){"/nonexistent/x.npy"}, 1, device, NULL, 0, NULL, &err));
	FAILS(want, dlx_to(tensor, device, NULL, 0, NULL, NULL, &err));
	FAILS(want, dlx_plan(tensor, device, NULL, NULL, &err));
	FAILS(want, dlx_stream_open(device, 0, NULL, &err));
	FAILS(want, dlx_stream_borrow(device, 3, 0, NULL, &err));
	FAILS(want, dlx_stream_native(stream, NULL, &err));
	FAILS(want, dlx_stream_record(stream, NULL, &err));
}

static void bad_specs(dlx_device *device) {
	dlx_tensor *t;
	const int64_t shape[64] = {2, 3}, huge[] = {INT64_C(1) << 40, INT64_C(1) << 40}, negative[] = {2, -1};
	int64_t ones[65];
	for (int i = 0; i < 65; i++) {
		ones[i] = 1;
	}
#define ALLOC(want, changes) \
	do { \
		dlx_tensor_spec s = spec_of(float32, 2, shape); \
		changes; \
		FAILS(want, dlx_tensor_alloc(device, &s, NULL, 0, &t, &err)); \
		CHECK(t == NULL); \
	} while (0)
	ALLOC(DLX_ERR_LAYOUT, s.shape = huge);
	ALLOC(DLX_ERR_LAYOUT, s.shape = negative);
	ALLOC(DLX_ERR_LAYOUT, s.rank = -1);
	ALLOC(DLX_ERR_LAYOUT, (s.rank = 65, s.shape = ones));
	ALLOC(DLX_ERR_LAYOUT, s.rank = INT32_MAX);
	ALLOC(DLX_ERR_INVALID, s.shape = NULL);
	ALLOC(DLX_ERR_INVALID, s.strides = shape);
	ALLOC(DLX_ERR_INVALID, s.flags = DLX_FLAG_READ_ONLY);
	ALLOC(DLX_ERR_INVALID, s.flags = 8);
	ALLOC(DLX_ERR_INVALID, s.reserved[3] = 1);
	ALLOC(DLX_ERR_DTYPE, s.dtype.bits = 0);
	ALLOC(DLX_ERR_DTYPE, s.dtype.lanes = 0);
	FAILS(DLX_ERR_INVALID, dlx_tensor_alloc(device, NULL, NULL, 0, &t, &err));

	dlx_tensor_spec s = spec_of(float32, 2, shape);
	FAILS(DLX_ERR_INVALID, dlx_tensor_alloc(device, &s, NULL, -1, &t, &err));
	dlx_alloc_options o = {.reserved = {1}};
	FAILS(DLX_ERR_INVALID, dlx_tensor_alloc(device, &s, &o, 0, &t, &err));
	o = (dlx_alloc_options){.host_visible = 2};
	FAILS(DLX_ERR_INVALID, dlx_tensor_alloc(device, &s, &o, 0, &t, &err));
	o = (dlx_alloc_options){.memory_type = 12345};
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_tensor_alloc(device, &s, &o, 0, &t, &err));
	s.rank = 64;
	s.shape = ones;
	OK(dlx_tensor_alloc(device, &s, NULL, 0, &t, &err));
	OK(dlx_tensor_close(t, &err));
	s.rank = 0;
	s.shape = NULL;
	OK(dlx_tensor_alloc(device, &s, NULL, 0, &t, &err));
	OK(dlx_tensor_close(t, &err));
}

static int released;
static void release(void *context) { released += *(int *)context; }

static void views_and_wraps(void) {
	float values[6] = {0, 1, 2, 3, 4, 5};
	int one = 1;
	int64_t shape[] = {2, 3};
	dlx_tensor_spec s = spec_of(float32, 2, shape);
	dlx_tensor *t, *v;
	dlx_tensor_info info;
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_wrap(values, 23, 0, &s, release, &one, &t, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_wrap(values, 24, 4, &s, release, &one, &t, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_wrap(values, 24, -4, &s, release, &one, &t, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_wrap(values, -1, 0, &s, release, &one, &t, &err));
	FAILS(DLX_ERR_INVALID, dlx_tensor_wrap(NULL, 24, 0, &s, release, &one, &t, &err));
	CHECK(released == 0);
	OK(dlx_tensor_wrap(values, sizeof values, 0, &s, release, &one, &t, &err));

	const int64_t transposed[] = {3, 2}, strides[] = {1, 3}, last[] = {2}, six[] = {6}, seven[] = {7};
	const int64_t back[] = {-1}, far[] = {INT64_MAX}, zero[] = {0};
	OK(dlx_tensor_view(t, 2, transposed, strides, 0, &v, &err));
	OK(dlx_tensor_get_info(v, &info, &err));
	CHECK(info.rank == 2 && info.shape[0] == 3 && info.shape[1] == 2 && info.strides[0] == 1 && info.strides[1] == 3);
	CHECK(info.shape[2] == 0 && info.data == values && info.is_address == 1 && info.host_accessible == 1);
	CHECK(info.bytes == 24 && info.elements == 6 && info.device.type == 1 && info.dtype.bits == 32);
	OK(dlx_tensor_close(v, &err));
	OK(dlx_tensor_view(t, 1, last, NULL, 4, &v, &err));
	OK(dlx_tensor_get_info(v, &info, &err));
	CHECK(info.data == &values[4]);
	dlx_tensor *of_view;
	OK(dlx_tensor_view(v, 1, last, back, 1, &of_view, &err)); /* 5, 4 */
	OK(dlx_tensor_get_info(of_view, &info, &err));
	CHECK(info.data == &values[5] && info.strides[0] == -1);
	OK(dlx_tensor_close(of_view, &err));
	/* Inside of the memory, but not of the view. */
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(v, 1, last, NULL, -1, &of_view, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(v, 1, last, NULL, 1, &of_view, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(v, 1, last, back, 0, &of_view, &err));
	OK(dlx_tensor_view(t, 1, zero, NULL, 6, &of_view, &err)); /* no elements, at the end */
	OK(dlx_tensor_close(of_view, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(t, 1, zero, NULL, 7, &of_view, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(t, 1, seven, NULL, 0, &of_view, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(t, 1, six, NULL, INT64_MAX, &of_view, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(t, 1, six, NULL, INT64_MIN, &of_view, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(t, 1, last, far, 0, &of_view, &err));
	FAILS(DLX_ERR_INVALID, dlx_tensor_view(t, 1, NULL, NULL, 0, &of_view, &err));

	OK(dlx_tensor_close(t, &err));
	CHECK(released == 0); /* the view keeps the memory */
	OK(dlx_tensor_close(v, &err));
	CHECK(released == 1);

	/* Packed elements of 4 bits: a view begins on a byte. */
	uint8_t packed[4] = {0};
	const int64_t eight[] = {8}, two[] = {2};
	s = spec_of((dlx_dtype){0, 4, 1}, 1, eight);
	OK(dlx_tensor_wrap(packed, 4, 0, &s, NULL, NULL, &t, &err));
	OK(dlx_tensor_view(t, 1, two, NULL, 6, &v, &err));
	OK(dlx_tensor_get_info(v, &info, &err));
	CHECK(info.data == &packed[3]);
	OK(dlx_tensor_close(v, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_view(t, 1, two, NULL, 5, &v, &err));
	OK(dlx_tensor_close(t, &err));

	s.flags = DLX_FLAG_READ_ONLY;
	OK(dlx_tensor_wrap(packed, 4, 0, &s, NULL, NULL, &t, &err));
	OK(dlx_tensor_view(t, 1, two, NULL, 0, &v, &err));
	OK(dlx_tensor_get_info(v, &info, &err));
	CHECK(info.flags == DLX_FLAG_READ_ONLY);
	dlx_event *event;
	OK(dlx_tensor_ready(v, &event, &err));
	FAILS(DLX_ERR_READ_ONLY, dlx_tensor_wrote(v, event, &err));
	OK(dlx_tensor_used(v, event, &err));
	OK(dlx_event_close(event, &err));
	OK(dlx_tensor_close(v, &err));
	OK(dlx_tensor_close(t, &err));
}

static void lanes(dlx_device *device) {
	dlx_tensor *t, *pairs, *back, *none;
	dlx_tensor_info info;
	dlx_tensor_spec spec = spec_of((dlx_dtype){17, 4, 1}, 2, (const int64_t[]){2, 8});
	OK(dlx_tensor_alloc(device, &spec, NULL, 0, &t, &err));
	FAILS(DLX_ERR_DTYPE, dlx_tensor_with_lanes(t, 0, &none, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_with_lanes(t, 3, &none, &err));
	OK(dlx_tensor_with_lanes(t, 2, &pairs, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_tensor_get_info(pairs, &info, &err));
	CHECK(info.dtype.lanes == 2 && info.shape[0] == 2 && info.shape[1] == 4 && info.bytes == 8 && info.strides[0] == 4);
	OK(dlx_tensor_with_lanes(pairs, 1, &back, &err));
	OK(dlx_tensor_get_info(back, &info, &err));
	CHECK(info.dtype.lanes == 1 && info.shape[1] == 8 && info.bytes == 8);
	OK(dlx_tensor_close(pairs, &err));
	OK(dlx_tensor_close(back, &err));
}

static void files(dlx_device *device, const char *folder) {
	dlx_file *f;
	dlx_tensor *t, *u;
	dlx_text *text;
	const char *data;
	char path[4096], missing[4096];
	snprintf(path, sizeof path, "%s/two.npz", folder);
	snprintf(missing, sizeof missing, "%s/missing.npy", folder);
	FAILS(DLX_ERR_INVALID, dlx_file_open(NULL, &f, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_open_with(NULL, NULL, &f, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_open_with(missing, NULL, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_open(missing, &f, &err));
	CHECK(err.native_code == ENOENT && strcmp(err.origin, "npy") == 0);

	const int64_t shape[] = {3};
	dlx_tensor_spec s = spec_of(float32, 1, shape);
	dlx_tensor_info info;
	OK(dlx_tensor_alloc(device, &s, NULL, 0, &t, &err));
	OK(dlx_tensor_get_info(t, &info, &err));
	memcpy(info.data, (float[]){1, 2, 3}, 12);
	dlx_tensor *const list[] = {t, t};
	const char *const names[] = {"a", "b"}, *const hole[] = {"a", NULL};
	FAILS(DLX_ERR_INVALID, dlx_file_save(path, NULL, names, 2, 0, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save(path, list, hole, 2, 0, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save(path, list, NULL, 2, 0, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save(path, list, names, 2, 2, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save(missing, list, names, 2, 0, 0, &err)); /* .npy has one */
	FAILS(DLX_ERR_INVALID, dlx_file_open(missing, &f, &err));
	OK(dlx_file_save(path, list, names, 2, 1, 0, &err));

	const char *const keys[] = {"k", "l"}, *const twice[] = {"k", "k"}, *const values[] = {"v", "w"};
	char safe[4096];
	snprintf(safe, sizeof safe, "%s/two.safetensors", folder);
	FAILS(DLX_ERR_INVALID, dlx_file_save_metadata(NULL, list, names, 2, keys, values, 2, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save_metadata(safe, NULL, names, 2, keys, values, 2, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save_metadata(safe, list, names, 2, NULL, values, 2, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save_metadata(safe, list, names, 2, keys, NULL, 2, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save_metadata(safe, list, names, 2, hole, values, 2, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save_metadata(safe, list, names, 2, keys, hole, 2, 0, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_save_metadata(safe, list, names, 2, twice, values, 2, 0, &err));
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_file_save_metadata(path, list, names, 2, keys, values, 2, 0, &err));
	OK(dlx_file_save_metadata(safe, list, names, 2, keys, values, 2, 0, &err));
	OK(dlx_file_open(safe, &f, &err));
	OK(dlx_file_json(f, &text, &err));
	OK(dlx_text_data(text, &data, NULL, &err));
	CHECK(strstr(data, "\"k\":\"v\"") && strstr(data, "\"l\":\"w\""));
	OK(dlx_text_close(text, &err));
	OK(dlx_file_close(f, &err));
	const dlx_dtype int8 = {0, 8, 1}, none = {0, 0, 1};
	FAILS(DLX_ERR_INVALID, dlx_tensor_as_type(t, NULL, 0, &u, &err));
	FAILS(DLX_ERR_INVALID, dlx_tensor_as_type(t, &int8, 0, NULL, &err));
	FAILS(DLX_ERR_DTYPE, dlx_tensor_as_type(t, &none, 0, &u, &err));
	OK(dlx_tensor_as_type(t, &int8, 0, &u, &err));
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(info.bytes == 3 && ((int8_t *)info.data)[2] == 3);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_tensor_close(t, &err));

	OK(dlx_file_open(path, &f, &err));
	OK(dlx_file_json(f, &text, &err));
	OK(dlx_text_data(text, &data, NULL, &err));
	CHECK(strstr(data, "\"format\":\"npz\"") && strstr(data, "\"name\":\"b\""));
	OK(dlx_text_close(text, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_tensor(f, NULL, &u, &err));
	FAILS(DLX_ERR_INVALID, dlx_file_tensor(f, "c", &u, &err));
	OK(dlx_file_tensor(f, "b", &u, &err));
	OK(dlx_file_close(f, &err));
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(info.elements == 3 && ((float *)info.data)[2] == 3);
	snprintf(missing, sizeof missing, "%s/one.npy", folder);
	OK(dlx_file_save(missing, &u, NULL, 1, 0, 0, &err));
	OK(dlx_tensor_close(u, &err));
	OK(dlx_file_open(missing, &f, &err));
	OK(dlx_file_tensor(f, NULL, &u, &err));
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(((float *)info.data)[0] == 1 && info.flags == DLX_FLAG_READ_ONLY);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_file_close(f, &err));
}

static void load(dlx_device *device, const char *folder) {
	char safe[4096], one[4096];
	snprintf(safe, sizeof safe, "%s/two.safetensors", folder);
	snprintf(one, sizeof one, "%s/one.npy", folder);
	const char *const paths[] = {safe, one}, *const hole[] = {safe, NULL}, *const missing[] = {safe, "/nonexistent/x.npy"};
	const char *const none[] = {"c"}, *const some[] = {"[bc]", "o*"};
	dlx_loaded *l;
	FAILS(DLX_ERR_INVALID, dlx_load(NULL, 1, device, NULL, 0, &l, &err));
	FAILS(DLX_ERR_INVALID, dlx_load(paths, 0, device, NULL, 0, &l, &err));
	FAILS(DLX_ERR_INVALID, dlx_load(hole, 2, device, NULL, 0, &l, &err));
	FAILS(DLX_ERR_INVALID, dlx_load(paths, 2, device, NULL, -1, &l, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_load(paths, 2, device, NULL, 1, &l, &err));
	FAILS(DLX_ERR_INVALID, dlx_load(missing, 2, device, NULL, 0, &l, &err));
	CHECK(err.native_code == ENOENT);
	const dlx_slice whole = {.count = 1}, tenth = {.count = 1, .axis = 9}, odd = {.count = 1, .reserved32 = 1};
	const struct {
		dlx_status want;
		dlx_load_options options;
	} wrong[] = {
		{DLX_ERR_INVALID, {.reserved = {0, 0, 0, 1}}},
		{DLX_ERR_INVALID, {.void_count = 1}},
		{DLX_ERR_INVALID, {.only_count = 1}},
		{DLX_ERR_INVALID, {.only = hole, .only_count = 2}},
		{DLX_ERR_INVALID, {.only = none, .only_count = 1}},
		{DLX_ERR_INVALID, {.slice_count = 1}},
		{DLX_ERR_INVALID, {.slices = &odd, .slice_count = 1}},
		{DLX_ERR_INVALID, {.slices = (dlx_slice[]){{.count = 0}}, .slice_count = 1}},
		{DLX_ERR_LAYOUT, {.slices = &tenth, .slice_count = 1}},
		{DLX_ERR_DTYPE, {.dtype = {3, 64, 1}}},
		{DLX_ERR_INVALID, {.row_major = 2}},
		{DLX_ERR_INVALID, {.writable = -1}},
		{DLX_ERR_INVALID, {.threads = -1}},
		{DLX_ERR_INVALID, {.read = "slowly"}},
		{DLX_ERR_NOT_SUPPORTED, {.read = "cufile"}},
		{DLX_ERR_INVALID, {.checksum = "md5"}},
		{DLX_ERR_INVALID, {.budget = 1}},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		FAILS(wrong[i].want, dlx_load(paths, 2, device, &wrong[i].options, 0, &l, &err));
		CHECK(l == NULL);
	}

	dlx_text *text;
	dlx_tensor *t, *u, *closed;
	dlx_tensor_info info;
	const char *data;
	dlx_slice last = {.name = "b", .index = 2, .count = 3};
	dlx_load_options o = {.only = some, .only_count = 2, .slices = &last, .slice_count = 1, .dtype = {2, 64, 1},
		.read = "direct", .checksum = "crc32c", .threads = 2, .budget = 1 << 20, .writable = 1};
	OK(dlx_load(paths, 2, device, &o, 0, &l, &err));
	OK(dlx_loaded_json(l, &text, &err));
	OK(dlx_text_data(text, &data, NULL, &err));
	CHECK(strstr(data, "\"names\":[\"b\",\"one\"]") && strstr(data, "\"checksums\":{\"b\":\"") && strstr(data, "\"bytes_read\":"));
	OK(dlx_text_close(text, &err));
	FAILS(DLX_ERR_INVALID, dlx_loaded_json(l, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_loaded_tensor(l, "a", &t, &err));
	FAILS(DLX_ERR_INVALID, dlx_loaded_tensor(l, NULL, &t, &err));
	FAILS(DLX_ERR_INVALID, dlx_loaded_tensor(l, "b", NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_loaded_at(l, 2, &t, &err));
	FAILS(DLX_ERR_INVALID, dlx_loaded_at(l, SIZE_MAX, &t, &err));
	FAILS(DLX_ERR_INVALID, dlx_loaded_at(l, 0, NULL, &err));
	OK(dlx_loaded_tensor(l, "b", &t, &err));
	OK(dlx_loaded_at(l, 1, &u, &err));
	OK(dlx_loaded_close(l, &err));
	FAILS(DLX_ERR_CLOSED, dlx_loaded_at(l, 0, &closed, &err));
	OK(dlx_tensor_get_info(t, &info, &err));
	CHECK(info.elements == 1 && *(double *)info.data == 3 && info.flags == 0);
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(info.elements == 3 && ((double *)info.data)[1] == 2);
	OK(dlx_tensor_close(t, &err));
	OK(dlx_tensor_close(u, &err));

	o = (dlx_load_options){.slices = &whole, .slice_count = 1, .read = "map"};
	OK(dlx_load(paths, 2, device, &o, 0, &l, &err));
	OK(dlx_loaded_tensor(l, "a", &t, &err));
	OK(dlx_tensor_get_info(t, &info, &err));
	CHECK(info.flags == DLX_FLAG_READ_ONLY && ((float *)info.data)[2] == 3);
	OK(dlx_tensor_close(t, &err));
	OK(dlx_loaded_close(l, &err));
}

/* seen is what progress was told, and what it shall return. */
struct seen {
	pthread_t thread;
	int64_t calls, done, total;
	int32_t result;
};

static int32_t see(void *context, int64_t done, int64_t total) {
	struct seen *s = context;
	CHECK(pthread_equal(s->thread, pthread_self()));
	CHECK(done >= s->done && done <= total && (s->calls == 0 || total == s->total));
	int64_t open;
	CHECK(dlx_live(NULL, &open, NULL) == DLX_OK); /* it may call dlx */
	s->calls++;
	s->done = done;
	s->total = total;
	return s->result;
}

static void progress(dlx_device *device, const char *folder) {
	char safe[4096], one[4096];
	snprintf(safe, sizeof safe, "%s/two.safetensors", folder);
	snprintf(one, sizeof one, "%s/one.npy", folder);
	const char *const paths[] = {safe, one}, *const missing[] = {safe, "/nonexistent/x.npy"};
	const char *const ways[] = {"map", "direct"};
	dlx_loaded *l;
	for (size_t i = 0; i < 2; i++) {
		struct seen s = {.thread = pthread_self()};
		dlx_load_options o = {.progress = see, .progress_context = &s, .read = ways[i], .writable = 1};
		OK(dlx_load(paths, 2, device, &o, 0, &l, &err));
		OK(dlx_loaded_close(l, &err));
		CHECK(s.calls > 0 && s.done == 36 && s.total == 36);
		s = (struct seen){.thread = pthread_self()};
		FAILS(DLX_ERR_INVALID, dlx_load(missing, 2, device, &o, 0, &l, &err));
		s = (struct seen){.thread = pthread_self(), .result = -7};
		FAILS(DLX_ERR_CANCELED, dlx_load(paths, 2, device, &o, 0, &l, &err));
		CHECK(l == NULL && s.calls == 1 && strstr(err.text, "-7"));
	}
}

/* Elements of raw void, as NumPy writes bfloat16. */
static void voids(dlx_device *device, const char *folder) {
	char path[4096];
	snprintf(path, sizeof path, "%s/void.npy", folder);
	FILE *out = fopen(path, "wb");
	CHECK(out != NULL && fwrite("\x93NUMPY\1\0\x76\0", 1, 10, out) == 10);
	fprintf(out, "%-117s\n", "{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }");
	const uint16_t bits[] = {0x3f80, 0xc000}; /* 1 and -2 */
	CHECK(fwrite(bits, 2, 2, out) == 2 && fclose(out) == 0);

	const dlx_dtype types[] = {{2, 32, 1}, {4, 16, 1}, {2, 16, 1}}, packed[] = {{17, 4, 1}};
	const char *const paths[] = {path};
	dlx_file *f;
	dlx_loaded *l;
	dlx_tensor *t;
	dlx_tensor_info info;
	dlx_open_options open = {0};
	dlx_load_options options = {0};
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_file_open(path, &f, &err));
	CHECK(strstr(err.text, "void_as"));
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_file_open_with(path, &open, &f, &err));
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_load(paths, 1, device, &options, 0, &l, &err));
	open.void_as = options.void_as = types;
	open.void_count = options.void_count = 1; /* of another size */
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_file_open_with(path, &open, &f, &err));
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_load(paths, 1, device, &options, 0, &l, &err));
	open.void_count = options.void_count = 3;
	OK(dlx_file_open_with(path, &open, &f, &err));
	OK(dlx_file_tensor(f, NULL, &t, &err));
	OK(dlx_file_close(f, &err));
	OK(dlx_tensor_get_info(t, &info, &err));
	CHECK(info.dtype.code == 4 && info.dtype.bits == 16 && ((uint16_t *)info.data)[1] == 0xc000);
	OK(dlx_tensor_close(t, &err));
	options.dtype = float32;
	OK(dlx_load(paths, 1, device, &options, 0, &l, &err));
	OK(dlx_loaded_tensor(l, "void", &t, &err));
	OK(dlx_loaded_close(l, &err));
	OK(dlx_tensor_get_info(t, &info, &err));
	CHECK(info.dtype.code == 2 && ((float *)info.data)[0] == 1 && ((float *)info.data)[1] == -2);
	OK(dlx_tensor_close(t, &err));

	open = (dlx_open_options){.reserved = {0, 0, 0, 1}};
	FAILS(DLX_ERR_INVALID, dlx_file_open_with(path, &open, &f, &err));
	open = (dlx_open_options){.void_count = 1};
	FAILS(DLX_ERR_INVALID, dlx_file_open_with(path, &open, &f, &err));
	open = (dlx_open_options){.void_as = packed, .void_count = 1};
	FAILS(DLX_ERR_INVALID, dlx_file_open_with(path, &open, &f, &err));
	CHECK(f == NULL);
}

int main(int argc, char **argv) {
	CHECK(argc == 2);
	CHECK(dlx_abi_version() == DLX_ABI_VERSION && dlx_version_minor() == DLX_VERSION_MINOR && dlx_version() != NULL);
	CHECK(strcmp(dlx_status_text(DLX_ERR_OUT_OF_MEMORY), "out of memory") == 0);
	CHECK(strcmp(dlx_status_text(-1), "unknown status") == 0 && strcmp(dlx_status_text(99), "unknown status") == 0);

	dlx_registry *registry;
	dlx_device *device, *second;
	dlx_tensor *tensor, *closed;
	dlx_stream *stream;
	const int64_t shape[] = {1};
	dlx_tensor_spec spec = spec_of(float32, 1, shape);
	OK(dlx_registry_open(&registry, &err));
	FAILS(DLX_ERR_DEVICE, dlx_device_open(registry, "gpu", 0, &device, &err));
	FAILS(DLX_ERR_DEVICE, dlx_device_open(registry, "cpu:5", 0, &device, &err));
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_device_open(registry, "hexagon:0", 0, &device, &err));
	/* A backend that the library was built without is named with the build tag that adds it. */
	const char *backends[] = {"cuda", "rocm", "opencl", "oneapi", "vulkan", "gl", "metal"};
	int missing = 0;
	for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
		char tag[32];
		snprintf(tag, sizeof tag, "-tags %s", backends[i]);
		if (dlx_device_open(registry, backends[i], 0, &device, &err) == DLX_OK) {
			OK(dlx_device_close(device, &err));
		} else if (strstr(err.text, "has no backend")) {
			CHECK(err.status == DLX_ERR_NOT_SUPPORTED && strstr(err.text, tag));
			missing++;
		}
	}
	CHECK(missing > 0); /* no library has both metal and the others */
	FAILS(DLX_ERR_INVALID, dlx_device_open(registry, NULL, 0, &device, &err));
	CHECK(device == NULL && strcmp(err.origin, "libdlx") == 0);
	/* A text that does not fit is cut between two characters: this one has two bytes. */
	char name[4002];
	for (int shift = 0; shift < 2; shift++) {
		name[0] = 'x';
		for (int i = shift; i < 4000; i += 2) {
			memcpy(&name[i], "\xc3\xa9", 3);
		}
		FAILS(DLX_ERR_DEVICE, dlx_device_open(registry, name, 0, &device, &err));
		size_t length = strlen(err.text);
		CHECK(err.truncated == 1 && length >= sizeof err.text - 2 && err.text[length - 1] == '\xa9');
	}
	FAILS(DLX_ERR_DEVICE, dlx_device_open(registry, "\xff", 0, &device, &err));
	CHECK(err.truncated == 0);
	FAILS(DLX_ERR_INVALID, dlx_registry_devices(registry, 0, NULL, 1, &(size_t){0}, &err));
	OK(dlx_device_open(registry, "cpu", 0, &device, &err));
	OK(dlx_device_open(registry, "cpu", 0, &second, &err));
	OK(dlx_stream_open(device, 0, &stream, &err));
	OK(dlx_tensor_alloc(device, &spec, NULL, 0, &tensor, &err));
	OK(dlx_tensor_alloc(device, &spec, NULL, 0, &closed, &err));

	/* A device with tensors stays open. */
	FAILS(DLX_ERR_INVALID, dlx_device_close(device, &err));
	OK(dlx_tensor_close(closed, &err));
	FAILS(DLX_ERR_CLOSED, dlx_tensor_close(closed, &err));
	CHECK(dlx_tensor_close(closed, NULL) == DLX_ERR_CLOSED);
	FAILS(DLX_ERR_CLOSED, dlx_to(closed, device, NULL, 0, &closed, NULL, &err));
	CHECK(closed == NULL);

	wrong_handle(NULL, DLX_ERR_INVALID, device, tensor, stream);
	wrong_handle(HANDLE(void, 1), DLX_ERR_INVALID, device, tensor, stream);
	wrong_handle(HANDLE(void, UINTPTR_MAX), DLX_ERR_INVALID, device, tensor, stream);
	wrong_handle(&spec, DLX_ERR_INVALID, device, tensor, stream);
	/* Of another kind: a text is one only to the functions for texts. */
	dlx_text *text;
	OK(dlx_live_json(&text, &err));
	FAILS(DLX_ERR_INVALID, dlx_tensor_close((dlx_tensor *)text, &err));
	CHECK(strstr(err.text, "dlx_text") && strstr(err.text, "dlx_tensor"));
	FAILS(DLX_ERR_INVALID, dlx_device_close((dlx_device *)text, &err));
	OK(dlx_text_close(text, &err));
	FAILS(DLX_ERR_CLOSED, dlx_text_close(text, &err));

	no_result(registry, device, tensor, stream);
	bad_specs(device);
	views_and_wraps();
	lanes(device);
	files(device, argv[1]);
	load(device, argv[1]);
	progress(device, argv[1]);
	voids(device, argv[1]);

	int64_t n;
	FAILS(DLX_ERR_INVALID, dlx_live("no such counter", &n, &err));
	OK(dlx_live("libdlx.tensor", &n, &err));
	CHECK(n == 1);

	dlx_tensor *result;
	dlx_move_options move = {.copy = 3};
	FAILS(DLX_ERR_INVALID, dlx_to(tensor, device, &move, 0, &result, NULL, &err));
	move = (dlx_move_options){.only = 6};
	FAILS(DLX_ERR_INVALID, dlx_to(tensor, device, &move, 0, &result, NULL, &err));
	move = (dlx_move_options){.only = -1};
	FAILS(DLX_ERR_INVALID, dlx_to(tensor, device, &move, 0, &result, NULL, &err));
	move = (dlx_move_options){.reserved = {0, 1}};
	FAILS(DLX_ERR_INVALID, dlx_to(tensor, device, &move, 0, &result, NULL, &err));
	move = (dlx_move_options){.copy = DLX_COPY_NEVER, .only = DLX_MECHANISM_STAGED};
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_to(tensor, device, &move, 0, &result, NULL, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_to(tensor, device, NULL, 1, &result, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_to(tensor, device, NULL, -5, &result, NULL, &err));
	dlx_stream *borrowed;
	FAILS(DLX_ERR_INVALID, dlx_stream_borrow(device, 3, 0, &borrowed, &err));
	CHECK(borrowed == NULL);

	OK(dlx_tensor_close(tensor, &err));
	FAILS(DLX_ERR_INVALID, dlx_device_close(device, &err)); /* the stream is open */
	OK(dlx_stream_close(stream, &err));
	FAILS(DLX_ERR_CLOSED, dlx_stream_close(stream, &err));
	OK(dlx_device_close(device, &err));
	FAILS(DLX_ERR_CLOSED, dlx_device_close(device, &err));
	OK(dlx_device_close(second, &err));
	OK(dlx_registry_close(registry, &err));
	FAILS(DLX_ERR_CLOSED, dlx_registry_close(registry, &err));
	check_nothing_open();
	return 0;
}
