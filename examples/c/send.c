/* Sends a tensor to the process that listens at the socket that the argument names. receive.c is the other one. */
#include <stdio.h>
#include <stdlib.h>

#include "dlx.h"

static dlx_error error;

static void check(dlx_status status) {
	if (status != DLX_OK) {
		fprintf(stderr, "%s: %s\n", dlx_status_text(status), error.text);
		exit(1);
	}
}

int main(int argc, char **argv) {
	dlx_registry *registry;
	dlx_device *host;
	dlx_connection *receiver;
	dlx_tensor *frame;
	dlx_report *report;
	dlx_report_info how;
	dlx_tensor_info info;
	const int64_t shape[] = {1080, 1920};
	const dlx_tensor_spec spec = {.dtype = {2, 32, 1}, .rank = 2, .shape = shape}; /* float32 */
	check(dlx_registry_open(&registry, &error));
	check(dlx_device_open(registry, "cpu", 0, &host, &error));
	const dlx_share_options options = {.devices = &host, .device_count = 1};
	check(dlx_share_connect(argc > 1 ? argv[1] : "", &options, 0, &receiver, &error));
	check(dlx_share_alloc(host, &spec, 0, &frame, &error));
	check(dlx_tensor_get_info(frame, &info, &error));
	*(float *)info.data = 42;
	check(dlx_connection_send(receiver, frame, NULL, 0, &report, &error)); /* the other process gets this memory */
	check(dlx_connection_wait_released(receiver, 0, &error)); /* until the other process has closed the tensor */
	check(dlx_report_get_info(report, &how, &error));
	printf("sent: %lld bytes copied\n", (long long)how.bytes_copied);
	check(dlx_connection_close(receiver, &error));
	check(dlx_report_close(report, &error));
	check(dlx_tensor_close(frame, &error));
	check(dlx_device_close(host, &error));
	check(dlx_registry_close(registry, &error));
	return 0;
}
