/* Connections to other processes: both ends are in this one. The argument is a folder. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

static dlx_device *cpu;
static const int64_t shape[] = {3, 4};

static int is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static void pair(int type, int fds[2]) { CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) == 0); }

/* Makes two connections to each other. */
static void connect_both(const dlx_share_options *options, dlx_connection *ends[2]) {
	int fds[2];
	pair(SOCK_SEQPACKET, fds);
	for (int i = 0; i < 2; i++) {
		OK(dlx_share_adopt(fds[i], options, &ends[i], &err));
		CHECK(!is_open(fds[i])); /* the connection has it */
	}
}

static void close_both(dlx_connection *ends[2]) {
	for (int i = 0; i < 2; i++) {
		OK(dlx_connection_close(ends[i], &err));
		FAILS(DLX_ERR_CLOSED, dlx_connection_close(ends[i], &err));
	}
}

static float *elements(dlx_tensor *t) {
	dlx_tensor_info info;
	OK(dlx_tensor_get_info(t, &info, &err));
	return info.data;
}

static int has(dlx_text *text, const char *part) {
	const char *data;
	OK(dlx_text_data(text, &data, NULL, &err));
	int found = strstr(data, part) != NULL;
	OK(dlx_text_close(text, &err));
	return found;
}

static void shared_and_copied(const dlx_share_options *options) {
	dlx_connection *ends[2];
	dlx_tensor *t, *u;
	dlx_report *report;
	dlx_report_info how;
	dlx_connection_info info;
	dlx_text *text;
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	connect_both(options, ends);

	/* Memory that can be shared: the two tensors are the same bytes. */
	OK(dlx_share_alloc(cpu, &spec, 0, &t, &err));
	elements(t)[11] = 42;
	OK(dlx_connection_send(ends[0], t, "the label", 0, &report, &err));
	OK(dlx_report_get_info(report, &how, &err));
	CHECK(how.mechanism == DLX_MECHANISM_MAP && how.bytes_copied == 0 && how.opened == 1 && how.from.type == 1);
	OK(dlx_report_text(report, &text, &err));
	CHECK(has(text, "map, 0 bytes copied"));
	OK(dlx_report_close(report, &err));
	OK(dlx_connection_receive(ends[1], cpu, 0, &u, &report, &err));
	CHECK(elements(u)[11] == 42 && elements(u) != elements(t));
	elements(t)[11] = 43;
	CHECK(elements(u)[11] == 43);
	OK(dlx_report_label(report, &text, &err));
	CHECK(has(text, "the label"));
	OK(dlx_report_json(report, &text, &err));
	CHECK(has(text, "\"label\":\"the label\""));
	OK(dlx_report_get_info(report, &how, &err));
	CHECK(how.mechanism == DLX_MECHANISM_MAP && how.bytes_copied == 0);
	OK(dlx_report_close(report, &err));
	OK(dlx_connection_get_info(ends[0], &info, &err));
	CHECK(info.state == DLX_CONNECTION_OPEN && info.pid == getpid() && info.uid == getuid() && info.gid == getgid());
	CHECK(info.sent == 1 && info.in_flight == 1 && info.bytes_sent == 48 && info.bytes_copied == 0 && info.memories_sent == 1);
	OK(dlx_connection_get_info(ends[1], &info, &err));
	CHECK(info.received == 1 && info.held == 1 && info.bytes_received == 48 && info.memories_opened == 1);
	OK(dlx_connection_json(ends[1], &text, &err));
	CHECK(has(text, "\"devices\":[{\"id\":\"cpu\""));
	OK(dlx_connection_error(ends[0], &err));

	/* Until it is released, the memory counts as read. */
	FAILS(DLX_ERR_TIMEOUT, dlx_tensor_wait_idle(t, 1000000, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_connection_wait_released(ends[0], 1000000, &err));
	OK(dlx_tensor_close(t, &err));
	CHECK(elements(u)[11] == 43);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_connection_wait_released(ends[0], 0, &err));

	/* Memory of the program is copied, and nothing is said of a label or a report that is not wanted. */
	float own[12] = {7};
	OK(dlx_tensor_wrap(own, sizeof own, 0, &spec, NULL, NULL, &t, &err));
	OK(dlx_connection_send(ends[1], t, NULL, 0, NULL, &err));
	OK(dlx_tensor_close(t, &err));
	own[0] = 8;
	OK(dlx_connection_receive(ends[0], NULL, 0, &u, NULL, &err));
	CHECK(elements(u)[0] == 7);
	OK(dlx_connection_get_info(ends[1], &info, &err));
	CHECK(info.bytes_copied == 48);

	/* What was received stays open after the end, whose reason both ends know. */
	OK(dlx_connection_close(ends[1], &err));
	FAILS(DLX_ERR_CLOSED, dlx_connection_receive(ends[0], NULL, 0, &t, &report, &err));
	CHECK(t == NULL && report == NULL);
	FAILS(DLX_ERR_CLOSED, dlx_connection_error(ends[0], &err));
	OK(dlx_connection_get_info(ends[0], &info, &err));
	CHECK(info.state == DLX_CONNECTION_ENDED && elements(u)[0] == 7);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_connection_close(ends[0], &err));
}

/* Without a device of the host, what cannot be shared is not sent, and the connection goes on. */
static void no_way(void) {
	dlx_connection *ends[2];
	dlx_tensor *t, *u;
	float own[12] = {7};
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	connect_both(NULL, ends);
	OK(dlx_tensor_wrap(own, sizeof own, 0, &spec, NULL, NULL, &t, &err));
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_connection_send(ends[0], t, NULL, 0, NULL, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_connection_error(ends[0], &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_connection_receive(ends[1], NULL, 1, &u, NULL, &err));
	close_both(ends);
}

/* A receiver may be limited to reading, and the other process obeys limits by waiting. */
static void limits(const dlx_share_options *usual) {
	dlx_connection *ends[2];
	dlx_tensor *t, *u;
	dlx_tensor_info info;
	dlx_share_options options = *usual;
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	options.read_only = 1;
	options.limit_tensors = 1;
	options.limit_memories = 1;
	options.limit_bytes = 8192;
	connect_both(&options, ends);
	OK(dlx_share_alloc(cpu, &spec, 0, &t, &err));
	OK(dlx_connection_send(ends[0], t, NULL, 0, NULL, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_connection_send(ends[0], t, NULL, 1000000, NULL, &err));
	OK(dlx_connection_receive(ends[1], cpu, 0, &u, NULL, &err));
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(info.flags & DLX_FLAG_READ_ONLY);
	OK(dlx_tensor_close(u, &err));
	OK(dlx_connection_send(ends[0], t, NULL, 0, NULL, &err));
	OK(dlx_tensor_close(t, &err));
	const int64_t large[] = {4096};
	const dlx_tensor_spec larger = spec_of(float32, 1, large);
	OK(dlx_connection_receive(ends[1], cpu, 0, &u, NULL, &err));
	OK(dlx_tensor_close(u, &err));
	OK(dlx_share_alloc(cpu, &larger, 0, &t, &err));
	FAILS(DLX_ERR_OUT_OF_MEMORY, dlx_connection_send(ends[0], t, NULL, 0, NULL, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_connection_error(ends[0], &err));
	close_both(ends);
}

typedef struct Polled {
	pthread_t thread;
	int calls, stop;
} Polled;

static int32_t poll_it(void *context) {
	Polled *p = context;
	int64_t n;
	CHECK(pthread_equal(p->thread, pthread_self()));
	CHECK(dlx_live("libdlx.connection", &n, NULL) == DLX_OK); /* the program's own error stays */
	return ++p->calls == p->stop ? -7 : 0;
}

/* The program stops a call that waits. What it waits for comes later. */
static void poll(const dlx_share_options *usual, const char *path) {
	dlx_connection *ends[2], *none;
	dlx_listener *listener;
	dlx_tensor *t, *u;
	Polled p = {.thread = pthread_self(), .stop = 3};
	dlx_share_options options = *usual;
	options.poll = poll_it;
	options.poll_context = &p;
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	connect_both(&options, ends);
	FAILS(DLX_ERR_CANCELED, dlx_connection_receive(ends[1], cpu, 0, &u, NULL, &err));
	CHECK(p.calls == 3 && u == NULL && strstr(err.text, "-7"));
	OK(dlx_share_alloc(cpu, &spec, 0, &t, &err));
	OK(dlx_connection_send(ends[0], t, "x", 0, NULL, &err));
	p = (Polled){.thread = p.thread, .stop = 1};
	FAILS(DLX_ERR_CANCELED, dlx_connection_wait_released(ends[0], 0, &err));
	p = (Polled){.thread = p.thread};
	FAILS(DLX_ERR_TIMEOUT, dlx_connection_wait_released(ends[0], 120000000, &err));
	CHECK(p.calls > 0);
	OK(dlx_connection_receive(ends[1], cpu, 0, &u, NULL, &err));
	OK(dlx_tensor_close(u, &err));
	OK(dlx_tensor_close(t, &err));
	close_both(ends);
	OK(dlx_share_listen(path, &options, &listener, &err));
	p = (Polled){.thread = p.thread, .stop = 1};
	FAILS(DLX_ERR_CANCELED, dlx_listener_accept(listener, 0, &none, &err));
	CHECK(none == NULL);
	OK(dlx_listener_close(listener, &err));
}

static void *accept_one(void *listener) {
	static dlx_connection *accepted;
	accepted = NULL;
	return dlx_listener_accept(listener, 0, &accepted, NULL) == DLX_ERR_CLOSED ? listener : accepted;
}

static void *receive_one(void *connection) {
	dlx_tensor *t;
	return dlx_connection_receive(connection, NULL, 0, &t, NULL, NULL) == DLX_ERR_CLOSED ? connection : NULL;
}

/* Makes a socket that is connected to path. */
static int raw(const char *path) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	return fd;
}

/* What the processes of a user have is limited, by all their connections together. */
static void user_limits(const dlx_share_options *usual, const char *path) {
	dlx_listener *listener;
	dlx_connection *first, *second;
	dlx_tensor *t, *u;
	pthread_t thread;
	void *result;
	dlx_share_options options = *usual;
	options.user_limit_connections = 1;
	OK(dlx_share_listen(path, &options, &listener, &err));
	int lone = raw(path);
	OK(dlx_listener_accept(listener, 0, &first, &err));
	CHECK(pthread_create(&thread, NULL, accept_one, listener) == 0);
	FAILS(DLX_ERR_OUT_OF_MEMORY, dlx_share_connect(path, usual, 0, &second, &err));
	CHECK(second == NULL && strstr(err.text, "may have 1: close some, or raise the limits for each user"));
	OK(dlx_listener_close(listener, &err));
	CHECK(pthread_join(thread, &result) == 0 && result == listener);
	OK(dlx_connection_close(first, &err));
	close(lone);
	for (int i = 0; i < 3; i++) {
		options = *usual;
		options.user_limit_bytes = i == 0 ? 4096 : 0;
		options.user_limit_descriptors = i == 1 ? 1 : 0; /* which the connection takes */
		OK(dlx_share_listen(path, &options, &listener, &err));
		CHECK(pthread_create(&thread, NULL, accept_one, listener) == 0);
		OK(dlx_share_connect(path, usual, 0, &first, &err));
		CHECK(pthread_join(thread, &result) == 0 && result != listener);
		second = result;
		const dlx_tensor_spec spec = spec_of(float32, 1, (const int64_t[]){2048});
		OK(dlx_share_alloc(cpu, &spec, 0, &t, &err));
		dlx_status sent = dlx_connection_send(first, t, NULL, 0, NULL, &err);
		CHECK(sent == DLX_OK || (i != 2 && sent == DLX_ERR_OUT_OF_MEMORY)); /* if the answer was there first */
		if (i == 2) { /* without a limit */
			OK(dlx_connection_receive(second, NULL, 0, &u, NULL, &err));
			OK(dlx_tensor_close(u, &err));
		} else {
			FAILS(DLX_ERR_OUT_OF_MEMORY, dlx_connection_receive(second, NULL, 0, &u, NULL, &err));
			CHECK(strstr(err.text, "processes of user") != NULL);
		}
		OK(dlx_tensor_close(t, &err));
		OK(dlx_connection_close(first, &err));
		OK(dlx_connection_close(second, &err));
		OK(dlx_listener_close(listener, &err));
	}
}

static void sockets(const dlx_share_options *usual, const char *path) {
	dlx_listener *listener, *second;
	dlx_connection *client, *server;
	dlx_connection_info info;
	pthread_t thread;
	void *result;
	struct stat stat_of;
	FAILS(DLX_ERR_CLOSED, dlx_share_connect(path, usual, 0, &client, &err));
	CHECK(err.native_code == 2 && client == NULL && strcmp(err.origin, "share") == 0);
	dlx_share_options options = *usual;
	options.mode = 0640;
	OK(dlx_share_listen(path, &options, &listener, &err));
	CHECK(stat(path, &stat_of) == 0 && S_ISSOCK(stat_of.st_mode) && (stat_of.st_mode & 0777) == 0640);
	FAILS(DLX_ERR_EXISTS, dlx_share_listen(path, NULL, &second, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_listener_accept(listener, 1, &server, &err));
	CHECK(pthread_create(&thread, NULL, accept_one, listener) == 0);
	OK(dlx_share_connect(path, usual, 0, &client, &err));
	CHECK(pthread_join(thread, &result) == 0 && result != NULL && result != listener);
	server = result;
	/* The end of the other process without a goodbye, and nonsense. */
	int lost = raw(path);
	dlx_connection *gone;
	OK(dlx_listener_accept(listener, 0, &gone, &err));
	close(lost);
	dlx_tensor *t;
	FAILS(DLX_ERR_CLOSED, dlx_connection_receive(gone, NULL, 0, &t, NULL, &err));
	OK(dlx_connection_get_info(gone, &info, &err));
	CHECK(info.state == DLX_CONNECTION_LOST);
	OK(dlx_connection_close(gone, &err));
	int hostile = raw(path);
	OK(dlx_listener_accept(listener, 0, &gone, &err));
	CHECK(write(hostile, "nonsense that is longer than a header", 37) == 37);
	FAILS(DLX_ERR_INVALID, dlx_connection_receive(gone, NULL, 0, &t, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_error(gone, &err));
	OK(dlx_connection_get_info(gone, &info, &err));
	CHECK(info.state == DLX_CONNECTION_REFUSED);
	OK(dlx_connection_close(gone, &err));
	close(hostile);
	/* Closing ends calls of other threads. */
	CHECK(pthread_create(&thread, NULL, accept_one, listener) == 0);
	OK(dlx_listener_close(listener, &err));
	CHECK(pthread_join(thread, &result) == 0 && result == listener);
	CHECK(stat(path, &stat_of) != 0);
	FAILS(DLX_ERR_CLOSED, dlx_listener_accept(listener, 0, &gone, &err));
	FAILS(DLX_ERR_CLOSED, dlx_listener_close(listener, &err));
	CHECK(pthread_create(&thread, NULL, receive_one, client) == 0);
	OK(dlx_connection_close(client, &err));
	CHECK(pthread_join(thread, &result) == 0 && result == client);
	OK(dlx_connection_close(server, &err));
	FILE *file = fopen(path, "w");
	CHECK(file != NULL && fclose(file) == 0);
	FAILS(DLX_ERR_EXISTS, dlx_share_listen(path, NULL, &listener, &err));
	CHECK(unlink(path) == 0);
}

static void rings(const dlx_share_options *usual) {
	dlx_connection *ends[2], *more[2];
	dlx_publisher *publisher, *none;
	dlx_subscription *subscription;
	dlx_frame *frame, *second;
	dlx_tensor *t, *u;
	struct DLManagedTensorVersioned *managed;
	dlx_tensor_info info;
	dlx_text *text;
	int32_t unfinished, ended;
	uint64_t sequence;
	Polled p = {.thread = pthread_self(), .stop = 1};
	dlx_share_options options = *usual;
	options.poll = poll_it;
	options.poll_context = &p;
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	dlx_ring ring = {.spec = &spec, .slots = 2, .mode = DLX_RING_QUEUE};
	connect_both(&options, ends);
	FAILS(DLX_ERR_CANCELED, dlx_connection_subscribe(ends[1], "frames", NULL, 0, 0, &subscription, &err));
	CHECK(subscription == NULL);
	OK(dlx_connection_publish(ends[0], "frames", &ring, 0, &publisher, &err));
	FAILS(DLX_ERR_EXISTS, dlx_connection_publish(ends[0], "frames", &ring, 0, &none, &err));
	CHECK(none == NULL);
	FAILS(DLX_ERR_TIMEOUT, dlx_publisher_wait_readers(publisher, 1, 1, &err));
	OK(dlx_connection_subscribe(ends[1], "frames", NULL, 0, 0, &subscription, &err));
	OK(dlx_publisher_wait_readers(publisher, 1, 0, &err));
	OK(dlx_publisher_json(publisher, &text, &err));
	CHECK(has(text, "\"mechanism\":\"map\",\"bytes_copied\":0"));
	for (int i = 1; i <= 10; i++) { /* more than there are slots */
		dlx_tensor *export = NULL;
		if (i % 3 == 0) {
			unfinished = 1;
			OK(dlx_publisher_loan_exported(publisher, 0, &t, &managed, &unfinished, &err));
			CHECK(unfinished == 0);
			OK(dlx_tensor_import(managed, NULL, &export, &err));
			CHECK(elements(export) == elements(t));
		} else {
			OK(dlx_publisher_loan(publisher, 0, &t, &err));
		}
		elements(t)[11] = (float)i;
		OK(dlx_publisher_send(publisher, t, 0, &sequence, &err));
		CHECK(sequence == (uint64_t)i);
		FAILS(DLX_ERR_CLOSED, dlx_publisher_send(publisher, t, 0, &sequence, &err));
		if (export != NULL) { /* it keeps the slot */
			CHECK(elements(export)[11] == (float)i);
			OK(dlx_tensor_close(export, &err));
		}
		if (i % 2 == 0) {
			OK(dlx_subscription_receive(subscription, 0, &frame, &ended, &err));
			OK(dlx_frame_sequence(frame, &sequence, &err));
			OK(dlx_frame_tensor(frame, &u, &err));
			OK(dlx_tensor_get_info(u, &info, &err));
		} else {
			ended = 1;
			OK(dlx_subscription_receive_described(subscription, 0, &frame, &sequence, &info, &ended, &err));
			OK(dlx_frame_tensor(frame, &u, &err));
			CHECK(info.unfinished == 0);
			CHECK(info.data == elements(u) && info.rank == 2 && info.shape[0] == shape[0] && info.shape[1] == shape[1]);
		}
		CHECK(sequence == (uint64_t)i && ended == 0 && elements(u)[11] == (float)i && (info.flags & DLX_FLAG_READ_ONLY));
		OK(dlx_frame_error(frame, &err));
		if (i % 2 == 0) { /* a view keeps the slot */
			OK(dlx_frame_release(frame, &err));
			FAILS(DLX_ERR_TIMEOUT, dlx_publisher_wait_released(publisher, 1000000, &err));
			OK(dlx_tensor_close(u, &err));
		} else {
			OK(dlx_tensor_close(u, &err));
			OK(dlx_frame_release(frame, &err));
		}
		FAILS(DLX_ERR_CLOSED, dlx_frame_release(frame, &err));
		FAILS(DLX_ERR_CLOSED, dlx_frame_tensor(frame, &u, &err));
		OK(dlx_publisher_wait_released(publisher, 0, &err));
	}
	/* A loan that is closed is not sent. A tensor that is not on loan cannot be. */
	OK(dlx_publisher_loan(publisher, 0, &t, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_tensor_alloc(cpu, &spec, NULL, 0, &t, &err));
	FAILS(DLX_ERR_INVALID, dlx_publisher_send(publisher, t, 0, NULL, &err));
	OK(dlx_tensor_close(t, &err));
	/* Both slots hold frames: a loan waits, until the program stops it. */
	for (int i = 0; i < 2; i++) {
		OK(dlx_publisher_loan(publisher, 0, &t, &err));
		OK(dlx_publisher_send(publisher, t, 0, NULL, &err));
	}
	p = (Polled){.thread = p.thread, .stop = 2};
	FAILS(DLX_ERR_CANCELED, dlx_publisher_loan(publisher, 0, &t, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_publisher_loan(publisher, 1000000, &t, &err));
	CHECK(t == NULL);
	FAILS(DLX_ERR_TIMEOUT, dlx_publisher_loan_exported(publisher, 1000000, &t, &managed, &unfinished, &err));
	CHECK(t == NULL && managed == NULL);
	FAILS(DLX_ERR_INVALID, dlx_publisher_loan_exported(publisher, 0, NULL, &managed, &unfinished, &err));
	FAILS(DLX_ERR_INVALID, dlx_publisher_loan_exported(publisher, 0, &t, NULL, &unfinished, &err));
	FAILS(DLX_ERR_INVALID, dlx_publisher_loan_exported(publisher, 0, &t, &managed, NULL, &err));
	/* Another connection gets the same ring. */
	connect_both(usual, more);
	dlx_subscription *other;
	OK(dlx_publisher_offer(publisher, more[0], 0, &err));
	OK(dlx_connection_subscribe(more[1], "frames", cpu, 0, 0, &other, &err));
	OK(dlx_subscription_close(other, &err));
	FAILS(DLX_ERR_CLOSED, dlx_subscription_receive(other, 0, &frame, NULL, &err));
	close_both(more);
	/* After the end of the ring the subscriber has what was sent. */
	OK(dlx_publisher_close(publisher, &err));
	FAILS(DLX_ERR_CLOSED, dlx_publisher_loan(publisher, 0, &t, &err));
	OK(dlx_subscription_receive(subscription, 0, &frame, &ended, &err));
	OK(dlx_subscription_receive(subscription, 0, &second, NULL, &err));
	dlx_frame *no_more;
	FAILS(DLX_ERR_CLOSED, dlx_subscription_receive(subscription, 0, &no_more, &ended, &err));
	CHECK(ended == 1 && no_more == NULL);
	OK(dlx_subscription_close(subscription, &err));
	FAILS(DLX_ERR_CLOSED, dlx_subscription_close(subscription, &err));
	OK(dlx_frame_release(frame, &err));
	OK(dlx_frame_release(second, &err));

	memset(&info, 1, sizeof info);
	FAILS(DLX_ERR_CLOSED, dlx_subscription_receive_described(subscription, 0, &frame, &sequence, &info, &ended, &err));
	CHECK(frame == NULL && sequence == 0 && info.rank == 0 && ended == 0); /* the subscription was closed */
	/* The newest frame, and no frame twice. */
	ring = (dlx_ring){.spec = &spec, .device = cpu, .slots = 3, .mode = DLX_RING_LATEST};
	OK(dlx_connection_publish(ends[0], "latest", &ring, 0, &publisher, &err));
	OK(dlx_connection_subscribe(ends[1], "latest", cpu, 1, 0, &subscription, &err));
	OK(dlx_publisher_wait_readers(publisher, 1, 0, &err));
	for (int i = 0; i < 5; i++) {
		OK(dlx_publisher_loan(publisher, 0, &t, &err));
		OK(dlx_publisher_send(publisher, t, 0, NULL, &err));
	}
	OK(dlx_subscription_receive(subscription, 0, &frame, NULL, &err));
	OK(dlx_frame_sequence(frame, &sequence, &err));
	CHECK(sequence == 5);
	OK(dlx_frame_release(frame, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_subscription_receive(subscription, 1000000, &frame, &ended, &err));
	CHECK(frame == NULL && ended == 0);
	FAILS(DLX_ERR_INVALID, dlx_subscription_receive_described(subscription, 0, NULL, &sequence, &info, &ended, &err));
	FAILS(DLX_ERR_INVALID, dlx_subscription_receive_described(subscription, 0, &frame, NULL, &info, &ended, &err));
	FAILS(DLX_ERR_INVALID, dlx_subscription_receive_described(subscription, 0, &frame, &sequence, NULL, &ended, &err));
	OK(dlx_subscription_close(subscription, &err));
	OK(dlx_publisher_close(publisher, &err));

	/* Wrong arguments. */
	const dlx_ring wrong[] = {
		{.spec = NULL, .slots = 2, .mode = DLX_RING_QUEUE},
		{.spec = &spec, .slots = 0, .mode = DLX_RING_QUEUE},
		{.spec = &spec, .slots = 257, .mode = DLX_RING_QUEUE},
		{.spec = &spec, .slots = 2, .mode = DLX_RING_LATEST},
		{.spec = &spec, .slots = 2, .mode = 3},
		{.spec = &spec, .slots = 2, .mode = DLX_RING_QUEUE, .device = (dlx_device *)&spec},
		{.spec = &spec, .slots = 2, .mode = DLX_RING_QUEUE, .reserved = {1}},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		FAILS(DLX_ERR_INVALID, dlx_connection_publish(ends[0], "x", &wrong[i], 0, &publisher, &err));
	}
	ring.mode = DLX_RING_QUEUE;
	FAILS(DLX_ERR_INVALID, dlx_connection_publish(ends[0], NULL, &ring, 0, &publisher, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_publish(ends[0], "", &ring, 0, &publisher, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_publish(ends[0], "x", NULL, 0, &publisher, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_publish(ends[0], "x", &ring, 0, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_publish(ends[0], "x", &ring, -1, &publisher, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_subscribe(ends[0], NULL, NULL, 0, 0, &subscription, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_subscribe(ends[0], "x", NULL, -1, 0, &subscription, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_subscribe(ends[0], "x", NULL, 0, 0, NULL, &err));
	void *handles[] = {NULL, (void *)1, cpu, ends[0]};
	for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
		FAILS(DLX_ERR_INVALID, dlx_publisher_offer(handles[i], ends[0], 0, &err));
		FAILS(DLX_ERR_INVALID, dlx_publisher_loan(handles[i], 0, &t, &err));
		FAILS(DLX_ERR_INVALID, dlx_publisher_loan_exported(handles[i], 0, &t, &managed, &unfinished, &err));
		FAILS(DLX_ERR_INVALID, dlx_publisher_send(handles[i], NULL, 0, NULL, &err));
		FAILS(DLX_ERR_INVALID, dlx_publisher_wait_readers(handles[i], 1, 0, &err));
		FAILS(DLX_ERR_INVALID, dlx_publisher_wait_released(handles[i], 0, &err));
		FAILS(DLX_ERR_INVALID, dlx_publisher_json(handles[i], &text, &err));
		FAILS(DLX_ERR_INVALID, dlx_publisher_close(handles[i], &err));
		FAILS(DLX_ERR_INVALID, dlx_subscription_receive(handles[i], 0, &frame, &ended, &err));
		FAILS(DLX_ERR_INVALID, dlx_subscription_receive_described(handles[i], 0, &frame, &sequence, &info, &ended, &err));
		FAILS(DLX_ERR_INVALID, dlx_subscription_close(handles[i], &err));
		FAILS(DLX_ERR_INVALID, dlx_frame_tensor(handles[i], &t, &err));
		FAILS(DLX_ERR_INVALID, dlx_frame_sequence(handles[i], &sequence, &err));
		FAILS(DLX_ERR_INVALID, dlx_frame_error(handles[i], &err));
		FAILS(DLX_ERR_INVALID, dlx_frame_release(handles[i], &err));
	}
	close_both(ends);
}

/* The memory of a tensor may be passed by other means, as a descriptor. */
static void memory(void) {
	dlx_tensor *t, *view;
	int32_t fd = 7;
	int64_t offset = 7;
	float element, own[12];
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	OK(dlx_share_alloc(cpu, &spec, 0, &t, &err));
	OK(dlx_tensor_view(t, 1, (int64_t[]){2}, NULL, 5, &view, &err));
	elements(t)[5] = 55;
	OK(dlx_share_memory(view, &fd, &offset, &err));
	OK(dlx_tensor_close(t, &err));
	OK(dlx_tensor_close(view, &err));
	CHECK(offset == 20 && pread(fd, &element, 4, offset) == 4 && element == 55);
	CHECK((fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) && (fcntl(fd, F_GETFD) & FD_CLOEXEC) && close(fd) == 0);
	OK(dlx_tensor_alloc(cpu, &spec, NULL, 0, &t, &err));
	elements(t)[3] = 33;
	dlx_report *report;
	dlx_report_info how;
	OK(dlx_share_copy(t, cpu, 0, &view, &report, &err));
	OK(dlx_report_get_info(report, &how, &err));
	OK(dlx_report_close(report, &err));
	OK(dlx_tensor_wait_ready(view, 0, &err));
	OK(dlx_share_memory(view, &fd, &offset, &err));
	CHECK(how.bytes_copied == 48 && offset == 0 && pread(fd, &element, 4, 12) == 4 && element == 33 && close(fd) == 0);
	OK(dlx_tensor_close(view, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_copy(NULL, cpu, 0, &view, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_copy(t, NULL, 0, &view, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_copy(t, cpu, 0, NULL, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_copy(t, cpu, -1, &view, &report, &err));
	CHECK(view == NULL && report == NULL);
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_share_memory(t, &fd, &offset, &err));
	CHECK(fd == -1 && offset == 0);
	FAILS(DLX_ERR_INVALID, dlx_share_memory(t, NULL, &offset, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_memory(t, &fd, NULL, &err));
	OK(dlx_tensor_close(t, &err));
	FAILS(DLX_ERR_CLOSED, dlx_share_memory(t, &fd, &offset, &err));
	OK(dlx_tensor_wrap(own, sizeof own, 0, &spec, NULL, NULL, &t, &err));
	FAILS(DLX_ERR_NOT_SUPPORTED, dlx_share_memory(t, &fd, &offset, &err));
	OK(dlx_tensor_close(t, &err));
}

static void refused(const dlx_share_options *usual) {
	dlx_connection *c = (dlx_connection *)&c;
	dlx_listener *l;
	dlx_tensor *t;
	dlx_text *text;
	dlx_connection_info info;
	dlx_tensor_info described;
	dlx_report *report;
	int fds[2];
	FAILS(DLX_ERR_INVALID, dlx_share_adopt(-1, NULL, &c, &err));
	CHECK(c == NULL);
	FAILS(DLX_ERR_INVALID, dlx_share_adopt(99999, NULL, &c, &err));
	CHECK(pipe(fds) == 0);
	FAILS(DLX_ERR_INVALID, dlx_share_adopt(fds[0], NULL, &c, &err));
	CHECK(is_open(fds[0]) && (fcntl(fds[0], F_GETFL) & O_NONBLOCK) == 0);
	close(fds[0]);
	close(fds[1]);
	pair(SOCK_STREAM, fds);
	FAILS(DLX_ERR_INVALID, dlx_share_adopt(fds[0], NULL, &c, &err));
	CHECK(is_open(fds[0]) && (fcntl(fds[0], F_GETFL) & O_NONBLOCK) == 0);
	close(fds[0]);
	close(fds[1]);
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	if (tcp >= 0) {
		FAILS(DLX_ERR_INVALID, dlx_share_adopt(tcp, NULL, &c, &err));
		CHECK(is_open(tcp));
		close(tcp);
	}
	pair(SOCK_SEQPACKET, fds);
	dlx_share_options wrong[] = {
		{.device_count = 1},
		{.devices = usual->devices, .device_count = 65},
		{.devices = &(dlx_device *){NULL}, .device_count = 1},
		{.devices = &(dlx_device *){(dlx_device *)&info}, .device_count = 1},
		{.limit_bytes = -1},
		{.limit_memories = -1},
		{.limit_tensors = 65537},
		{.read_only = 2},
		{.mode = 01000},
		{.mode = -1},
		{.user_limit_bytes = -1},
		{.user_limit_connections = -1},
		{.user_limit_descriptors = -1},
		{.reserved = {0, 1}},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		FAILS(DLX_ERR_INVALID, dlx_share_adopt(fds[0], &wrong[i], &c, &err));
		FAILS(DLX_ERR_INVALID, dlx_share_listen("socket", &wrong[i], &l, &err));
		CHECK(c == NULL && l == NULL && is_open(fds[0]));
	}
	FAILS(DLX_ERR_INVALID, dlx_share_adopt(fds[0], NULL, NULL, &err));
	close(fds[0]);
	close(fds[1]);
	FAILS(DLX_ERR_INVALID, dlx_share_listen(NULL, NULL, &l, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_listen("", NULL, &l, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_listen("@name", NULL, &l, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_listen("x", NULL, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_connect(NULL, NULL, 0, &c, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_connect("x", NULL, -1, &c, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_connect("x", NULL, 0, NULL, &err));
	void *handles[] = {NULL, (void *)1, cpu};
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
		FAILS(DLX_ERR_INVALID, dlx_listener_accept(handles[i], 0, &c, &err));
		FAILS(DLX_ERR_INVALID, dlx_listener_close(handles[i], &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_send(handles[i], NULL, NULL, 0, NULL, &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_receive(handles[i], NULL, 0, &t, NULL, &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_receive_described(handles[i], NULL, 0, &t, &described, &report, &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_wait_released(handles[i], 0, &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_error(handles[i], &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_get_info(handles[i], &info, &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_json(handles[i], &text, &err));
		FAILS(DLX_ERR_INVALID, dlx_connection_close(handles[i], &err));
		FAILS(DLX_ERR_INVALID, dlx_report_label(handles[i], &text, &err));
		if (handles[i] != cpu) {
			FAILS(DLX_ERR_INVALID, dlx_share_alloc(handles[i], &spec, 0, &t, &err));
		}
	}
	FAILS(DLX_ERR_INVALID, dlx_share_alloc(cpu, NULL, 0, &t, &err));
	FAILS(DLX_ERR_INVALID, dlx_share_alloc(cpu, &spec, 0, NULL, &err));
	dlx_tensor_spec strided = spec;
	strided.strides = shape;
	FAILS(DLX_ERR_INVALID, dlx_share_alloc(cpu, &strided, 0, &t, &err));
	strided = spec_of((dlx_dtype){2, 0, 1}, 2, shape);
	FAILS(DLX_ERR_DTYPE, dlx_share_alloc(cpu, &strided, 0, &t, &err));
}

/* A connection whose other end is this program, which says nothing. */
static void silent(const dlx_share_options *usual) {
	dlx_connection *ends[2], *c;
	dlx_tensor *t;
	dlx_text *text;
	int fds[2];
	static char label[1026];
	const dlx_tensor_spec spec = spec_of(float32, 2, shape);
	pair(SOCK_SEQPACKET, fds);
	OK(dlx_share_adopt(fds[0], usual, &c, &err));
	OK(dlx_share_alloc(cpu, &spec, 0, &t, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_connection_send(c, t, NULL, 1000000, NULL, &err));
	OK(dlx_connection_json(c, &text, &err));
	CHECK(has(text, "\"devices\":null"));
	OK(dlx_connection_close(c, &err));
	close(fds[1]);
	connect_both(usual, ends);
	memset(label, 'x', 1025);
	FAILS(DLX_ERR_INVALID, dlx_connection_send(ends[0], t, label, 0, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_send(ends[0], NULL, NULL, 0, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_send(ends[0], t, NULL, -1, NULL, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_receive(ends[0], NULL, 0, NULL, NULL, &err));
	dlx_tensor *in;
	dlx_tensor_info info;
	dlx_report *report;
	FAILS(DLX_ERR_INVALID, dlx_connection_receive_described(ends[0], NULL, 0, NULL, &info, &report, &err));
	FAILS(DLX_ERR_INVALID, dlx_connection_receive_described(ends[0], NULL, 0, &in, NULL, &report, &err));
	FAILS(DLX_ERR_TIMEOUT, dlx_connection_receive_described(ends[0], NULL, 1, &in, &info, &report, &err));
	CHECK(in == NULL && report == NULL && info.rank == 0);
	OK(dlx_connection_send(ends[1], t, "a label", 0, NULL, &err));
	OK(dlx_connection_receive_described(ends[0], NULL, 0, &in, &info, &report, &err));
	CHECK(info.data == elements(in) && info.rank == 2 && info.shape[1] == shape[1]);
	OK(dlx_report_label(report, &text, &err));
	CHECK(has(text, "a label"));
	OK(dlx_report_close(report, &err));
	OK(dlx_tensor_close(in, &err));
	OK(dlx_connection_send(ends[1], t, NULL, 0, NULL, &err));
	OK(dlx_connection_receive_described(ends[0], cpu, 0, &in, &info, NULL, &err));
	OK(dlx_tensor_close(in, &err));
	dlx_tensor *u = t;
	FAILS(DLX_ERR_INVALID, dlx_connection_receive(ends[0], (dlx_device *)t, 0, &u, NULL, &err));
	CHECK(u == NULL);
	OK(dlx_tensor_close(t, &err));
	close_both(ends);
}

int main(int argc, char **argv) {
	char path[512];
	dlx_registry *registry;
	CHECK(argc == 2);
	snprintf(path, sizeof path, "%s/socket", argv[1]);
	OK(dlx_registry_open(&registry, &err));
	OK(dlx_device_open(registry, "cpu", 0, &cpu, &err));
	const dlx_share_options options = {.devices = &cpu, .device_count = 1};
	shared_and_copied(&options);
	no_way();
	limits(&options);
	user_limits(&options, path);
	poll(&options, path);
	sockets(&options, path);
	silent(&options);
	memory();
	rings(&options);
	refused(&options);
	OK(dlx_device_close(cpu, &err));
	OK(dlx_registry_close(registry, &err));
	check_nothing_open();
	return 0;
}
