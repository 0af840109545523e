/* One of the two processes of scripts/share-pairs.py, in C:
 *
 *   share-pairs send|receive|publish|subscribe DEVICE SOCKET
 *
 * The sender sends FRAMES tensors in memory of the device that can be shared. The label has a checksum of the elements,
 * as that of the command dlx send, which the receiver compares. Each prints its report of each tensor, on a line. The
 * publisher and the subscriber do what the examples publish and subscribe in Go do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dlx.h"

enum { FRAMES = 3, ROWS = 48, COLUMNS = 64 };

static dlx_error error;

static void check(dlx_status status) {
	if (status != DLX_OK) {
		fprintf(stderr, "%s: %s\n", dlx_status_text(status), error.text);
		exit(1);
	}
}

/* Writes the checksum that the command dlx computes of a tensor: that of a file with the tensor. */
static void checksum(dlx_tensor *tensor, dlx_device *cpu, const char *path, char label[64]) {
	dlx_tensor *hosted;
	char name[512];
	uint32_t crc = UINT32_MAX;
	snprintf(name, sizeof name, "%s-%ld.safetensors", path, (long)getpid());
	check(dlx_to(tensor, cpu, NULL, 0, &hosted, NULL, &error));
	check(dlx_file_save(name, &hosted, &(const char *){"x"}, 1, 0, 0, &error));
	check(dlx_tensor_close(hosted, &error));
	FILE *file = fopen(name, "rb");
	for (int byte; file != NULL && (byte = getc(file)) != EOF;) {
		crc ^= (uint32_t)byte;
		for (int bit = 0; bit < 8; bit++) {
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
		}
	}
	if (file == NULL || fclose(file) != 0 || unlink(name) != 0) {
		perror(name);
		exit(1);
	}
	snprintf(label, 64, "crc32c:%08x frame", (unsigned)~crc);
}

static void print_report(dlx_report *report) {
	dlx_text *text;
	const char *data;
	check(dlx_report_json(report, &text, &error));
	check(dlx_text_data(text, &data, NULL, &error));
	printf("%s\n", data);
	check(dlx_text_close(text, &error));
	check(dlx_report_close(report, &error));
}

static void send_all(dlx_connection *c, dlx_device *cpu, dlx_device *device, const char *path) {
	const int64_t shape[] = {ROWS, COLUMNS};
	const dlx_tensor_spec spec = {.dtype = {2, 32, 1}, .rank = 2, .shape = shape};
	dlx_tensor *plain, *frame;
	dlx_tensor_info info;
	dlx_report *report;
	char label[64];
	check(dlx_tensor_alloc(cpu, &spec, NULL, 0, &plain, &error));
	check(dlx_tensor_get_info(plain, &info, &error));
	for (int i = 0; i < ROWS * COLUMNS; i++) {
		((float *)info.data)[i] = (float)i / 8;
	}
	check(dlx_share_copy(plain, device, 0, &frame, NULL, &error));
	check(dlx_tensor_close(plain, &error));
	checksum(frame, cpu, path, label);
	for (int i = 0; i < FRAMES; i++) {
		check(dlx_connection_send(c, frame, label, 0, &report, &error));
		print_report(report);
	}
	check(dlx_tensor_close(frame, &error));
	check(dlx_connection_wait_released(c, 0, &error));
}

static void receive_all(dlx_connection *c, dlx_device *cpu, dlx_device *device, const char *path) {
	dlx_tensor *frame;
	dlx_report *report;
	dlx_text *label;
	dlx_connection_info info;
	const char *text;
	char want[64];
	while (dlx_connection_receive(c, device, 0, &frame, &report, &error) == DLX_OK) {
		checksum(frame, cpu, path, want);
		check(dlx_report_label(report, &label, &error));
		check(dlx_text_data(label, &text, NULL, &error));
		if (strncmp(text, want, 16) != 0) { /* the names differ */
			fprintf(stderr, "the elements have %s, and the label is %s\n", want, text);
			exit(1);
		}
		check(dlx_text_close(label, &error));
		print_report(report);
		check(dlx_tensor_close(frame, &error));
	}
	check(dlx_connection_get_info(c, &info, &error));
	if (info.state != DLX_CONNECTION_ENDED) {
		fprintf(stderr, "%s\n", error.text);
		exit(1);
	}
}

static float *element(dlx_tensor *tensor) {
	dlx_tensor_info info;
	check(dlx_tensor_get_info(tensor, &info, &error));
	return info.data;
}

static void publish(dlx_connection *c) {
	const int64_t shape[] = {1080, 1920};
	const dlx_tensor_spec spec = {.dtype = {2, 32, 1}, .rank = 2, .shape = shape};
	const dlx_ring ring = {.spec = &spec, .slots = 4, .mode = DLX_RING_QUEUE};
	dlx_publisher *publisher;
	dlx_tensor *frame;
	check(dlx_connection_publish(c, "frames", &ring, 0, &publisher, &error));
	check(dlx_publisher_wait_readers(publisher, 1, 0, &error));
	for (int i = 0; i < 100; i++) {
		check(dlx_publisher_loan(publisher, 0, &frame, &error));
		*element(frame) = (float)i;
		check(dlx_publisher_send(publisher, frame, 0, NULL, &error));
	}
	check(dlx_publisher_wait_released(publisher, 0, &error));
	check(dlx_publisher_close(publisher, &error));
}

static void subscribe(dlx_connection *c) {
	dlx_subscription *subscription;
	dlx_frame *frame;
	dlx_tensor *tensor;
	int32_t ended;
	float sum = 0;
	check(dlx_connection_subscribe(c, "frames", NULL, 0, 0, &subscription, &error));
	while (dlx_subscription_receive(subscription, 0, &frame, &ended, &error) == DLX_OK) {
		check(dlx_frame_tensor(frame, &tensor, &error));
		sum += *element(tensor);
		check(dlx_tensor_close(tensor, &error));
		check(dlx_frame_release(frame, &error));
	}
	if (!ended) {
		fprintf(stderr, "%s\n", error.text);
		exit(1);
	}
	printf("the first pixels have the sum %g\n", sum);
	check(dlx_subscription_close(subscription, &error));
}

int main(int argc, char **argv) {
	dlx_registry *registry;
	dlx_device *devices[2];
	dlx_connection *c;
	dlx_listener *listener = NULL;
	int64_t open;
	if (argc != 4) {
		return 2;
	}
	int sends = strcmp(argv[1], "send") == 0, publishes = strcmp(argv[1], "publish") == 0;
	check(dlx_registry_open(&registry, &error));
	check(dlx_device_open(registry, argv[2], 0, &devices[0], &error));
	check(dlx_device_open(registry, "cpu", 0, &devices[1], &error));
	const dlx_share_options options = {.devices = devices, .device_count = 2};
	if (sends || publishes) {
		check(dlx_share_connect(argv[3], &options, 0, &c, &error));
		if (publishes) {
			publish(c);
		} else {
			send_all(c, devices[1], devices[0], argv[3]);
		}
	} else {
		check(dlx_share_listen(argv[3], &options, &listener, &error));
		check(dlx_listener_accept(listener, 0, &c, &error));
		if (strcmp(argv[1], "subscribe") == 0) {
			subscribe(c);
		} else {
			receive_all(c, devices[1], devices[0], argv[3]);
		}
		check(dlx_listener_close(listener, &error));
	}
	check(dlx_connection_close(c, &error));
	check(dlx_flush(&error));
	check(dlx_device_close(devices[0], &error));
	check(dlx_device_close(devices[1], &error));
	check(dlx_registry_close(registry, &error));
	check(dlx_live(NULL, &open, &error));
	if (open != 0) {
		fprintf(stderr, "%lld objects are left open\n", (long long)open);
		return 1;
	}
	return 0;
}
