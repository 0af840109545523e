/* Connections to other machines: both ends are in this process. The argument is "ucx" if the library has package remote, with
 * the library of UCX, and otherwise what the error says. */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

static dlx_device *cpu;
static const int64_t shape[] = {4, 3};
static const char token[] = "sixteen bytes or more";

static float *elements(dlx_tensor *t) {
	dlx_tensor_info info;
	OK(dlx_tensor_get_info(t, &info, &err));
	return info.data;
}

static int has(dlx_text *text, const char *part) {
	const char *data;
	OK(dlx_text_data(text, &data, NULL, &err));
	int found = strstr(data, part) != NULL;
	if (!found)
		fprintf(stderr, "%s\n", data);
	OK(dlx_text_close(text, &err));
	return found;
}

static dlx_remote_options with_token(void) {
	dlx_remote_options o;
	memset(&o, 0, sizeof o);
	o.token = token;
	o.token_size = sizeof token;
	return o;
}

/* Makes a tensor of float32 whose elements are first, first + 1 and so on. */
static dlx_tensor *counted(int32_t rank, const int64_t *extents, float first) {
	dlx_tensor *t;
	int64_t n = 1;
	const dlx_tensor_spec spec = spec_of(float32, rank, extents);
	OK(dlx_tensor_alloc(cpu, &spec, NULL, 0, &t, &err));
	for (int32_t i = 0; i < rank; i++)
		n *= extents[i];
	for (int64_t i = 0; i < n; i++)
		elements(t)[i] = first + (float)i;
	return t;
}

typedef struct Ends {
	dlx_remote_listener *listener;
	dlx_remote_connection *client, *server;
	char address[64];
} Ends;

static Ends open_both(const dlx_remote_options *options) {
	Ends e;
	dlx_text *text;
	const char *data;
	OK(dlx_remote_listen("127.0.0.1:0", options, &e.listener, &err));
	OK(dlx_remote_listener_address(e.listener, &text, &err));
	OK(dlx_text_data(text, &data, NULL, &err));
	CHECK(strncmp(data, "127.0.0.1:", 10) == 0 && strlen(data) < sizeof e.address);
	strcpy(e.address, data);
	OK(dlx_text_close(text, &err));
	OK(dlx_remote_connect(e.address, options, 0, &e.client, &err));
	OK(dlx_remote_listener_accept(e.listener, 0, &e.server, &err));
	return e;
}

static void close_both(Ends *e) {
	OK(dlx_remote_connection_close(e->client, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_connection_close(e->client, &err));
	OK(dlx_remote_connection_close(e->server, &err));
	OK(dlx_remote_listener_close(e->listener, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_listener_close(e->listener, &err));
}

static void *send_large(void *connection) {
	static const int64_t large[] = {1 << 20};
	dlx_report *report;
	dlx_report_info how;
	dlx_tensor *t = counted(1, large, 0);
	OK(dlx_remote_send(connection, t, NULL, 0, &report, &err));
	OK(dlx_tensor_wait_idle(t, 0, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_report_get_info(report, &how, &err));
	CHECK(how.from.type == 1 && how.to.type == 0 && how.bytes_copied == 0 && how.mechanism == DLX_MECHANISM_DIRECT);
	OK(dlx_report_close(report, &err));
	return connection;
}

static void send_and_receive(void) {
	dlx_remote_options options = with_token();
	dlx_tensor *t, *u;
	dlx_report *report;
	dlx_report_info how;
	dlx_remote_connection_info info;
	dlx_text *text;
	pthread_t thread;
	void *result;
	Ends e = open_both(&options);

	/* A small tensor is on its way when the call returns, and memory of the program may be used again. */
	float own[12] = {0};
	own[11] = 7;
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	OK(dlx_tensor_wrap(own, sizeof own, 0, &spec, NULL, NULL, &t, &err));
	OK(dlx_remote_send(e.client, t, "the label", 0, &report, &err));
	own[11] = 8;
	OK(dlx_tensor_close(t, &err));
	OK(dlx_report_label(report, &text, &err));
	CHECK(has(text, "the label"));
	OK(dlx_report_close(report, &err));
	OK(dlx_remote_receive(e.server, cpu, 0, &u, &report, &err));
	CHECK(elements(u)[11] == 7);
	OK(dlx_report_get_info(report, &how, &err));
	CHECK(how.from.type == 0 && how.to.type == 1 && how.bytes_copied == 0 && how.opened == 0);
	OK(dlx_report_json(report, &text, &err));
	CHECK(has(text, "\"transports\":["));
	OK(dlx_report_label(report, &text, &err));
	CHECK(has(text, "the label"));
	OK(dlx_report_text(report, &text, &err));
	CHECK(has(text, "48 bytes"));
	OK(dlx_report_close(report, &err));
	OK(dlx_tensor_close(u, &err));
	OK(dlx_remote_wait_received(e.client, 0, &err));

	/* A large one, the other way. */
	CHECK(pthread_create(&thread, NULL, send_large, e.server) == 0);
	OK(dlx_remote_receive(e.client, cpu, 0, &u, NULL, &err));
	CHECK(pthread_join(thread, &result) == 0 && result == e.server);
	for (int i = 0; i < 1 << 20; i++)
		CHECK(elements(u)[i] == (float)i);
	OK(dlx_tensor_close(u, &err));

	OK(dlx_remote_connection_get_info(e.client, &info, &err));
	CHECK(info.state == DLX_CONNECTION_OPEN && info.sent == 1 && info.received == 1 && info.bytes_sent == 48);
	CHECK(info.in_flight == 0 && info.bytes_received == 4 << 20 && info.waiting == 0 && info.dropped == 0);
	OK(dlx_remote_connection_json(e.client, &text, &err));
	CHECK(has(text, e.address));
	OK(dlx_remote_connection_error(e.client, &err));

	/* What is wrong is refused, and the connection goes on. */
	t = counted(2, shape, 0);
	char label[1026];
	memset(label, 'x', sizeof label - 1);
	label[sizeof label - 1] = 0;
	FAILS(DLX_ERR_INVALID, dlx_remote_send(e.client, t, label, 0, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_send(e.client, NULL, NULL, 0, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_receive(e.client, NULL, 0, &u, NULL, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_remote_receive(e.client, cpu, 1000000, &u, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_receive(e.client, cpu, -1, &u, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_send((dlx_connection *)e.client, t, NULL, 0, NULL, &err));
	OK(dlx_remote_connection_error(e.client, &err));
	OK(dlx_tensor_close(t, &err));

	/* The other end knows that it was closed. */
	OK(dlx_remote_connection_close(e.server, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_receive(e.client, cpu, 0, &u, &report, &err));
	CHECK(u == NULL && report == NULL);
	FAILS(DLX_ERR_CLOSED, dlx_remote_connection_error(e.client, &err));
	OK(dlx_remote_connection_get_info(e.client, &info, &err));
	CHECK(info.state == DLX_CONNECTION_ENDED);
	OK(dlx_remote_connection_close(e.client, &err));
	OK(dlx_remote_listener_close(e.listener, &err));
}

static void offers(void) {
	static const int64_t two[] = {2, 3};
	dlx_remote_options options = with_token();
	dlx_remote_offer *offer, *other;
	dlx_tensor *t, *u;
	dlx_text *text;
	dlx_report *report;
	unsigned char d[DLX_REMOTE_MAX_DESCRIPTOR];
	size_t n;
	int32_t ended;
	Ends e = open_both(&options);
	dlx_offer_options how;
	memset(&how, 0, sizeof how);

	/* An offer keeps the memory. Whole and by rows, by a connection and without one. */
	t = counted(2, shape, 0);
	OK(dlx_remote_listener_offer(e.listener, t, NULL, &offer, &err));
	OK(dlx_tensor_close(t, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_offer_descriptor(offer, d, 10, &n, &err));
	CHECK(n == 0);
	OK(dlx_remote_offer_descriptor(offer, d, sizeof d, &n, &err));
	OK(dlx_remote_describe(d, n, &text, &err));
	CHECK(has(text, "\"dtype\":\"float32\",\"shape\":[4,3]"));
	OK(dlx_remote_connection_fetch(e.client, d, n, 1, 3, cpu, 0, &u, &report, &err));
	OK(dlx_report_close(report, &err));
	dlx_tensor_info info;
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(info.rank == 2 && info.shape[0] == 2 && elements(u)[0] == 3 && elements(u)[5] == 8);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_remote_fetch(d, n, 0, -1, cpu, &options, 0, &u, NULL, &err));
	CHECK(elements(u)[0] == 0 && elements(u)[11] == 11);
	OK(dlx_tensor_close(u, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_remote_connection_fetch(e.client, d, n, 3, 5, cpu, 0, &u, &report, &err));
	CHECK(u == NULL && report == NULL);
	u = counted(2, shape, 100);
	FAILS(DLX_ERR_READ_ONLY, dlx_remote_connection_put(e.client, d, n, -1, u, 0, NULL, &err));
	OK(dlx_tensor_close(u, &err));
	OK(dlx_remote_offer_ended(offer, &ended, &err));
	CHECK(ended == 0);
	OK(dlx_remote_offer_close(offer, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_offer_close(offer, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_connection_fetch(e.client, d, n, 0, -1, cpu, 0, &u, NULL, &err));
	OK(dlx_remote_connection_error(e.client, &err));

	/* A writable one, for the peer of one connection. */
	t = counted(2, shape, 0);
	how.writable = 1;
	OK(dlx_remote_connection_offer(e.server, t, &how, &offer, &err));
	OK(dlx_remote_offer_descriptor(offer, d, sizeof d, &n, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_fetch(d, n, 0, -1, cpu, &options, 0, &u, NULL, &err)); /* it has no address */
	u = counted(2, shape, 100);
	OK(dlx_remote_connection_put(e.client, d, n, -1, u, 0, &report, &err));
	OK(dlx_report_close(report, &err));
	OK(dlx_tensor_close(u, &err));
	u = counted(2, two, 200);
	OK(dlx_remote_connection_put(e.client, d, n, 2, u, 0, NULL, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_remote_connection_put(e.client, d, n, 3, u, 0, NULL, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_remote_connection_put(e.client, d, n, -2, u, 0, NULL, &err));
	OK(dlx_tensor_close(u, &err));
	OK(dlx_tensor_wait_ready(t, 0, &err));
	CHECK(elements(t)[0] == 100 && elements(t)[5] == 105 && elements(t)[6] == 200 && elements(t)[11] == 205);

	/* What is wrong. */
	how.lease_ns = -1;
	FAILS(DLX_ERR_INVALID, dlx_remote_connection_offer(e.server, t, &how, &other, &err));
	how.lease_ns = 0;
	how.writable = 2;
	FAILS(DLX_ERR_INVALID, dlx_remote_connection_offer(e.server, t, &how, &other, &err));
	how.writable = 0;
	how.reserved[2] = 1;
	FAILS(DLX_ERR_INVALID, dlx_remote_connection_offer(e.server, t, &how, &other, &err));
	how.reserved[2] = 0;
	how.reserved32 = 1;
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_offer(e.listener, t, &how, &other, &err));
	CHECK(other == NULL);
	how.reserved32 = 0;
	FAILS(DLX_ERR_INVALID, dlx_remote_describe("nonsense", 8, &text, &err));
	d[30] = 8; /* the end of the lease, in 70,000 years */
	FAILS(DLX_ERR_INVALID, dlx_remote_describe(d, n, &text, &err));
	CHECK(text == NULL && strstr(err.text, "year"));
	d[30] = 0;
	FAILS(DLX_ERR_INVALID, dlx_remote_describe(NULL, 8, &text, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_describe(d, (size_t)-1, &text, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_connection_fetch(e.client, NULL, 0, 0, -1, cpu, 0, &u, NULL, &err));

	/* Offers end with a lease, a connection and a listener; their handles are closed nevertheless. */
	how.lease_ns = 1;
	OK(dlx_remote_listener_offer(e.listener, t, &how, &other, &err));
	do
		OK(dlx_remote_offer_ended(other, &ended, &err));
	while (ended == 0);
	OK(dlx_remote_offer_close(other, &err));
	OK(dlx_remote_listener_offer(e.listener, t, NULL, &other, &err));
	OK(dlx_tensor_close(t, &err));
	close_both(&e);
	OK(dlx_remote_offer_ended(offer, &ended, &err));
	CHECK(ended == 1);
	OK(dlx_remote_offer_ended(other, &ended, &err));
	CHECK(ended == 1);
	OK(dlx_remote_offer_close(offer, &err));
	OK(dlx_remote_offer_close(other, &err));
}

/* Offers with names. */
static void lists(void) {
	dlx_remote_options options = with_token();
	dlx_remote_offer *offer, *own, *none;
	dlx_remote_list *list;
	dlx_tensor *u;
	dlx_text *text;
	unsigned char d[DLX_REMOTE_MAX_DESCRIPTOR], known[DLX_REMOTE_MAX_DESCRIPTOR];
	const char *json;
	size_t count, n, known_size;
	Ends e = open_both(&options);
	dlx_tensor *t = counted(2, shape, 0);
	dlx_offer_options how;
	memset(&how, 0, sizeof how);

	OK(dlx_remote_connection_list(e.client, 0, &list, &count, &err));
	CHECK(count == 0);
	FAILS(DLX_ERR_INVALID, dlx_remote_list_at(list, 0, &text, d, sizeof d, &n, &err));
	OK(dlx_remote_list_close(list, &err));
	how.name = "weights";
	OK(dlx_remote_listener_offer(e.listener, t, &how, &offer, &err));
	FAILS(DLX_ERR_EXISTS, dlx_remote_listener_offer(e.listener, t, &how, &none, &err));
	CHECK(none == NULL);
	how.name = "own \xff"; /* not UTF-8 */
	OK(dlx_remote_connection_offer(e.server, t, &how, &own, &err));
	OK(dlx_remote_offer_descriptor(offer, known, sizeof known, &known_size, &err));
	OK(dlx_remote_connection_list(e.client, 0, &list, &count, &err));
	CHECK(count == 2);
	FAILS(DLX_ERR_INVALID, dlx_remote_list_at(list, 0, &text, d, 10, &n, &err));
	CHECK(text == NULL && n == 0);
	FAILS(DLX_ERR_INVALID, dlx_remote_list_at(list, 2, &text, d, sizeof d, &n, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_list_at(list, 0, NULL, d, sizeof d, &n, &err));
	OK(dlx_remote_list_at(list, 1, &text, d, sizeof d, &n, &err));
	CHECK(has(text, "own \xef\xbf\xbd"));
	OK(dlx_remote_list_at(list, 0, &text, d, sizeof d, &n, &err));
	CHECK(has(text, "weights") && n == known_size && memcmp(d, known, n) == 0);
	OK(dlx_remote_describe(d, n, &text, &err));
	CHECK(has(text, "\"bytes\":48"));
	OK(dlx_remote_list_json(list, 0, 2, &text, &err));
	OK(dlx_text_data(text, &json, NULL, &err));
	const char *first = strstr(json, "{\"name\":\"weights\",\"descriptor\":\"RExYT");
	const char *second = strstr(json, "{\"name\":\"own \xef\xbf\xbd\",\"descriptor\":\"RExYT");
	CHECK(json[0] == '[' && first == json + 1 && second > first && strstr(second, "\"dtype\":\"float32\",\"shape\":[4,3],"));
	OK(dlx_text_close(text, &err));
	OK(dlx_remote_list_json(list, 1, 2, &text, &err));
	OK(dlx_text_data(text, &json, NULL, &err));
	CHECK(strncmp(json, "[{\"name\":\"own ", 14) == 0);
	OK(dlx_text_close(text, &err));
	OK(dlx_remote_list_json(list, 2, 2, &text, &err));
	CHECK(has(text, "[]"));
	FAILS(DLX_ERR_INVALID, dlx_remote_list_json(list, 0, 3, &text, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_list_json(list, 2, 1, &text, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_list_json(list, (size_t)-1, (size_t)-1, &text, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_list_json(list, 0, 2, NULL, &err));
	CHECK(text == NULL);
	OK(dlx_remote_connection_fetch(e.client, d, n, 0, -1, cpu, 0, &u, NULL, &err));
	CHECK(elements(u)[11] == 11);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_remote_list_close(list, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_list_close(list, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_list_at(list, 0, &text, d, sizeof d, &n, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_list_json(list, 0, 0, &text, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_connection_list(e.client, -1, &list, &count, &err));
	OK(dlx_remote_offer_close(offer, &err));
	OK(dlx_remote_offer_close(own, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_remote_connection_close(e.server, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_connection_list(e.client, 0, &list, &count, &err));
	CHECK(list == NULL && count == 0);
	OK(dlx_remote_connection_close(e.client, &err));
	OK(dlx_remote_listener_close(e.listener, &err));
}

/* Checksums of offers and of tensors. */
static void checksums(void) {
	/* of the numbers 0 to 11, and of 3 to 8, as float32 */
	static const uint8_t whole[] = {0x29, 0xe1, 0x88, 0x91, 0x24, 0xdc, 0x65, 0x1e, 0x7b, 0xb4, 0x88, 0x25, 0x11, 0x23, 0x91, 0x07,
		0x67, 0xd0, 0x42, 0xae, 0x6d, 0xc4, 0x7c, 0x28, 0x0e, 0xc3, 0x64, 0x65, 0x5e, 0x24, 0xab, 0x49};
	static const uint8_t middle[] = {0x35, 0x8b, 0xbf, 0x17, 0x63, 0xe9, 0xed, 0xa5, 0x7b, 0xdf, 0x92, 0x4c, 0xfa, 0x15, 0x93, 0xc8,
		0x3f, 0x65, 0x5f, 0xd9, 0x7f, 0xe5, 0xf8, 0xc9, 0x7b, 0x2f, 0x73, 0xdf, 0x44, 0x6f, 0x3e, 0xbf};
	dlx_remote_options options = with_token();
	dlx_remote_offer *offer;
	unsigned char d[DLX_REMOTE_MAX_DESCRIPTOR];
	uint8_t sum[DLX_REMOTE_CHECKSUM_SIZE] = {42};
	size_t n;
	Ends e = open_both(&options);
	dlx_tensor *t = counted(2, shape, 0);
	OK(dlx_remote_listener_offer(e.listener, t, NULL, &offer, &err));
	OK(dlx_remote_offer_descriptor(offer, d, sizeof d, &n, &err));
	FAILS(DLX_ERR_LAYOUT, dlx_remote_connection_checksum(e.client, d, n, 3, 5, 0, sum, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_connection_checksum(e.client, d, n, 0, -1, 0, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_connection_checksum(e.client, "nonsense", 8, 0, -1, 0, sum, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_checksum(t, NULL, NULL, 0, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_checksum(NULL, NULL, NULL, 0, sum, &err));
	CHECK(sum[0] == 42);
	OK(dlx_remote_connection_checksum(e.client, d, n, 0, -1, 0, sum, &err));
	CHECK(memcmp(sum, whole, sizeof sum) == 0);
	OK(dlx_remote_connection_checksum(e.client, d, n, 1, 3, 0, sum, &err));
	CHECK(memcmp(sum, middle, sizeof sum) == 0);
	OK(dlx_remote_checksum(t, NULL, NULL, 0, sum, &err));
	CHECK(memcmp(sum, whole, sizeof sum) == 0);
	OK(dlx_remote_offer_close(offer, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_connection_checksum(e.client, d, n, 0, -1, 0, sum, &err));
	OK(dlx_tensor_close(t, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_checksum(t, NULL, NULL, 0, sum, &err));
	close_both(&e);
}

static void *serve(void *listener) {
	FAILS(DLX_ERR_CLOSED, dlx_remote_listener_serve(listener, 0, &err));
	return listener;
}

/* A listener whose connections nobody accepts. */
static void served(void) {
	dlx_remote_options options = with_token();
	dlx_remote_listener *listener;
	dlx_remote_connection *c;
	dlx_remote_offer *offer;
	dlx_tensor *t = counted(2, shape, 0), *u;
	dlx_text *text;
	const char *address;
	unsigned char d[DLX_REMOTE_MAX_DESCRIPTOR];
	size_t n;
	pthread_t thread;
	OK(dlx_remote_listen("127.0.0.1:0", &options, &listener, &err));
	OK(dlx_remote_listener_address(listener, &text, &err));
	OK(dlx_text_data(text, &address, NULL, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_remote_listener_serve(listener, 1000000, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_serve(listener, -1, &err));
	CHECK(pthread_create(&thread, NULL, serve, listener) == 0);
	OK(dlx_remote_listener_offer(listener, t, NULL, &offer, &err));
	OK(dlx_remote_offer_descriptor(offer, d, sizeof d, &n, &err));
	for (int i = 0; i < 3; i++) {
		OK(dlx_remote_fetch(d, n, 0, -1, cpu, &options, 0, &u, NULL, &err));
		CHECK(elements(u)[11] == 11);
		OK(dlx_tensor_close(u, &err));
	}
	OK(dlx_remote_connect(address, &options, 0, &c, &err));
	OK(dlx_remote_connection_fetch(c, d, n, 0, -1, cpu, 0, &u, NULL, &err));
	OK(dlx_tensor_close(u, &err));
	OK(dlx_remote_listener_close(listener, &err));
	CHECK(pthread_join(thread, NULL) == 0);
	FAILS(DLX_ERR_CLOSED, dlx_remote_receive(c, cpu, 0, &u, NULL, &err)); /* it was open, and was closed at the end */
	FAILS(DLX_ERR_CLOSED, dlx_remote_listener_serve(listener, 0, &err));
	OK(dlx_remote_connection_close(c, &err));
	OK(dlx_remote_offer_close(offer, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_text_close(text, &err));
}

/* A tensor of rows of two offers, one of which only the connection knows, and copies of it on a listener that relays them. */
static void gathered(void) {
	static const int64_t two[] = {2, 3};
	dlx_remote_options options = with_token();
	dlx_remote_listener *listener;
	dlx_remote_offer *first, *second, *relayed, *again;
	dlx_tensor *t = counted(2, shape, 0), *v = counted(2, two, 12), *u;
	dlx_report *report;
	dlx_text *text;
	const char *address;
	unsigned char d[DLX_REMOTE_MAX_DESCRIPTOR], own[DLX_REMOTE_MAX_DESCRIPTOR];
	dlx_tensor_info info;
	pthread_t thread;
	Ends e = open_both(&options);
	dlx_remote_part parts[2];
	memset(parts, 0, sizeof parts);
	OK(dlx_remote_listener_offer(e.listener, t, NULL, &first, &err));
	OK(dlx_remote_connection_offer(e.server, v, NULL, &second, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_tensor_close(v, &err));
	parts[0].descriptor = d;
	OK(dlx_remote_offer_descriptor(first, d, sizeof d, &parts[0].size, &err));
	parts[1].descriptor = own;
	OK(dlx_remote_offer_descriptor(second, own, sizeof own, &parts[1].size, &err));
	parts[1].connection = e.client;
	parts[1].at = 4;
	OK(dlx_remote_gather(parts, 2, cpu, &options, 0, &u, &report, &err));
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(info.rank == 2 && info.shape[0] == 6 && info.shape[1] == 3);
	for (int i = 0; i < 18; i++)
		CHECK(elements(u)[i] == (float)i);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_report_json(report, &text, &err));
	CHECK(has(text, "\"bytes\":24}]"));
	OK(dlx_report_text(report, &text, &err));
	CHECK(has(text, "72 bytes"));
	OK(dlx_report_close(report, &err));
	parts[0].connection = e.client;
	parts[0].start = 1;
	parts[0].stop = 2;
	parts[1].at = 1;
	parts[1].stop = -1; /* all */
	OK(dlx_remote_gather(parts, 2, cpu, NULL, 0, &u, NULL, &err));
	CHECK(elements(u)[0] == 3 && elements(u)[3] == 12 && elements(u)[8] == 17);
	OK(dlx_tensor_close(u, &err));

	parts[1].at = 2;
	FAILS(DLX_ERR_LAYOUT, dlx_remote_gather(parts, 2, cpu, NULL, 0, &u, &report, &err));
	CHECK(u == NULL && report == NULL);
	parts[1].at = 1;
	parts[1].connection = NULL; /* it has no address */
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(parts, 2, cpu, &options, 0, &u, NULL, &err));
	parts[1].connection = (dlx_remote_connection *)e.listener;
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(parts, 2, cpu, &options, 0, &u, NULL, &err));
	parts[1].connection = e.client;
	parts[1].reserved[1] = 1;
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(parts, 2, cpu, &options, 0, &u, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(parts, 0, cpu, &options, 0, &u, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(NULL, 2, cpu, &options, 0, &u, NULL, &err));
	/* A count that is wrong is refused before the array is read, which would end the process. */
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(parts, (size_t)-1, cpu, &options, 0, &u, NULL, &err));
	CHECK(strstr(err.text, "65536"));
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(parts, DLX_REMOTE_MAX_COUNT + 1, cpu, &options, 0, &u, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_gather(parts, 1, NULL, &options, 0, &u, NULL, &err));
	OK(dlx_remote_offer_close(second, &err));
	parts[1].reserved[1] = 0;
	FAILS(DLX_ERR_CLOSED, dlx_remote_gather(parts, 2, cpu, NULL, 0, &u, NULL, &err));
	CHECK(err.native_code == 0); /* the offer has ended, and no connection */

	OK(dlx_remote_listen("127.0.0.1:0", &options, &listener, &err));
	OK(dlx_remote_listener_address(listener, &text, &err));
	OK(dlx_text_data(text, &address, NULL, &err));
	CHECK(pthread_create(&thread, NULL, serve, listener) == 0);
	dlx_remote_fanout fanout;
	memset(&fanout, 0, sizeof fanout);
	fanout.descriptor = d;
	fanout.size = parts[0].size;
	fanout.peers = &address;
	fanout.peer_count = 1;
	OK(dlx_remote_listener_relay(listener, &fanout, 0, cpu, 0, &u, &relayed, &report, &err));
	CHECK(elements(u)[0] == 0 && elements(u)[11] == 11);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_report_close(report, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_relay(listener, &fanout, 0, cpu, 0, &u, &again, NULL, &err));
	CHECK(u == NULL && again == NULL);
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_relay(listener, &fanout, 1, cpu, 0, &u, &again, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_relay(listener, &fanout, (size_t)-1, cpu, 0, &u, &again, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_relay(listener, NULL, 0, cpu, 0, &u, &again, NULL, &err));
	fanout.width = -1;
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_relay(listener, &fanout, 0, cpu, 0, &u, &again, NULL, &err));
	fanout.width = 0;
	static const size_t wrong[] = {0, DLX_REMOTE_MAX_COUNT + 1, (size_t)1 << 40, (size_t)-1};
	for (int i = 0; i < 4; i++) {
		fanout.peer_count = wrong[i];
		FAILS(DLX_ERR_INVALID, dlx_remote_listener_relay(listener, &fanout, 0, cpu, 0, &u, &again, NULL, &err));
		CHECK(u == NULL && again == NULL && (i == 0 || strstr(err.text, "65536")));
	}
	fanout.peer_count = 1;
	fanout.peers = NULL;
	FAILS(DLX_ERR_INVALID, dlx_remote_listener_relay(listener, &fanout, 0, cpu, 0, &u, &again, NULL, &err));

	/* It has the tensor also when the source is gone. */
	OK(dlx_remote_offer_close(first, &err));
	OK(dlx_remote_offer_descriptor(relayed, own, sizeof own, &parts[1].size, &err));
	OK(dlx_remote_fetch(own, parts[1].size, 0, -1, cpu, &options, 0, &u, NULL, &err));
	CHECK(elements(u)[11] == 11);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_remote_offer_close(relayed, &err));
	OK(dlx_text_close(text, &err));
	OK(dlx_remote_listener_close(listener, &err));
	CHECK(pthread_join(thread, NULL) == 0);
	close_both(&e);
}

static int32_t stop_it(void *context) {
	++*(int *)context;
	return 1;
}

/* The program stops calls that wait. */
static void polled(void) {
	int calls = 0;
	dlx_remote_options options = with_token();
	options.poll = stop_it;
	options.poll_context = &calls;
	dlx_remote_connection *none;
	dlx_tensor *t;
	Ends e;
	OK(dlx_remote_listen("127.0.0.1:0", &options, &e.listener, &err));
	FAILS(DLX_ERR_CANCELED, dlx_remote_listener_accept(e.listener, 0, &none, &err));
	CHECK(none == NULL && calls == 1);
	FAILS(DLX_ERR_CANCELED, dlx_remote_listener_serve(e.listener, 0, &err));
	OK(dlx_remote_listener_close(e.listener, &err));
	/* A busy machine may take longer to connect than it takes to poll. */
	options.poll = NULL;
	e = open_both(&options);
	dlx_remote_connection *polling;
	options.poll = stop_it;
	dlx_status status;
	do {
		status = dlx_remote_connect(e.address, &options, 0, &polling, &err);
	} while (status == DLX_ERR_CANCELED);
	CHECK(status == DLX_OK);
	calls = 0;
	FAILS(DLX_ERR_CANCELED, dlx_remote_receive(polling, cpu, 0, &t, NULL, &err));
	CHECK(calls == 1 && t == NULL);
	OK(dlx_remote_connection_close(polling, &err));
	close_both(&e);
}

static void refusals(void) {
	dlx_remote_options options = with_token(), wrong;
	dlx_remote_listener *listener, *second;
	dlx_remote_connection *c;
	dlx_text *text;
	const char *address;
	OK(dlx_remote_listen("127.0.0.1:0", &options, &listener, &err));
	OK(dlx_remote_listener_address(listener, &text, &err));
	OK(dlx_text_data(text, &address, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_listen(address, &options, &second, &err));
	CHECK(err.native_code == 98 && second == NULL); /* EADDRINUSE */
	wrong = options;
	wrong.token = "another token of sixteen bytes";
	wrong.token_size = 30;
	FAILS(DLX_ERR_CLOSED, dlx_remote_connect(address, &wrong, 0, &c, &err));
	CHECK(c == NULL && strstr(err.text, "another token") && err.native_code == 0);
	FAILS(DLX_ERR_TIMEOUT, dlx_remote_listener_accept(listener, 1, &c, &err));
	OK(dlx_remote_listener_close(listener, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_listener_accept(listener, 0, &c, &err));
	FAILS(DLX_ERR_CLOSED, dlx_remote_connect(address, &options, 0, &c, &err));
	CHECK(err.native_code == 111); /* ECONNREFUSED */
	OK(dlx_text_close(text, &err));

	FAILS(DLX_ERR_INVALID, dlx_remote_listen("127.0.0.1:0", NULL, &listener, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_listen(NULL, &options, &listener, &err));
	FAILS(DLX_ERR_INVALID, dlx_remote_listen("nonsense", &options, &listener, &err));
#define WRONG(change) \
	do { \
		wrong = with_token(); \
		change; \
		FAILS(DLX_ERR_INVALID, dlx_remote_listen("127.0.0.1:0", &wrong, &listener, &err)); \
		CHECK(listener == NULL); \
	} while (0)
	WRONG(wrong.token_size = 15);
	WRONG(wrong.token_size = 0);
	WRONG(wrong.token_size = (size_t)-1);
	WRONG(wrong.token = NULL);
	WRONG(wrong.insecure = 1);
	WRONG(wrong.insecure = 2);
	WRONG(wrong.cert_file = "/nonexistent");
	WRONG(wrong.server_name = "name");
	WRONG(wrong.keep_alive_ns = 1);
	WRONG(wrong.spin_ns = -1);
	WRONG(wrong.limit_tensors = -1);
	WRONG(wrong.limit_requests = 1 << 20);
	WRONG(wrong.limit_bytes = -1);
	WRONG(wrong.reserved32 = 1);
	WRONG(wrong.reserved[0] = 1);
	WRONG(wrong.cert_file = wrong.key_file = wrong.ca_file = "/nonexistent");
	CHECK(err.native_code == 2);
	memset(&wrong, 0, sizeof wrong);
	wrong.insecure = 1;
	FAILS(DLX_ERR_INVALID, dlx_remote_listen("0.0.0.0:0", &wrong, &listener, &err));
}

int main(int argc, char **argv) {
	dlx_registry *registry;
	CHECK(argc == 2);
	if (strcmp(argv[1], "ucx") != 0) {
		dlx_remote_options options = with_token();
		dlx_remote_listener *listener;
		dlx_remote_connection *connection;
		FAILS(DLX_ERR_NOT_SUPPORTED, dlx_remote_available(NULL, &err));
		CHECK(strstr(err.text, argv[1]));
		FAILS(DLX_ERR_NOT_SUPPORTED, dlx_remote_listen("127.0.0.1:0", &options, &listener, &err));
		FAILS(DLX_ERR_NOT_SUPPORTED, dlx_remote_connect("127.0.0.1:1", &options, 0, &connection, &err));
		CHECK(listener == NULL && connection == NULL);
		check_nothing_open();
		return 0;
	}
	dlx_text *version;
	OK(dlx_remote_available(&version, &err));
	CHECK(has(version, "."));
	OK(dlx_registry_open(&registry, &err));
	OK(dlx_device_open(registry, "cpu", 0, &cpu, &err));
	send_and_receive();
	offers();
	lists();
	checksums();
	served();
	gathered();
	polled();
	refusals();
	OK(dlx_device_close(cpu, &err));
	OK(dlx_registry_close(registry, &err));
	check_nothing_open();
	return 0;
}
