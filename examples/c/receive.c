/* Receives a tensor of another process at the socket that the argument names. send.c is the other one. */
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
	dlx_listener *listener;
	dlx_connection *sender;
	dlx_tensor *frame;
	dlx_report *report;
	dlx_report_info how;
	dlx_tensor_info info;
	check(dlx_registry_open(&registry, &error));
	check(dlx_device_open(registry, "cpu", 0, &host, &error));
	const dlx_share_options options = {.devices = &host, .device_count = 1};
	check(dlx_share_listen(argc > 1 ? argv[1] : "", &options, &listener, &error));
	check(dlx_listener_accept(listener, 0, &sender, &error));
	check(dlx_connection_receive(sender, host, 0, &frame, &report, &error));
	check(dlx_report_get_info(report, &how, &error));
	check(dlx_tensor_get_info(frame, &info, &error));
	printf("received: %lld bytes copied: float32[%lld %lld] begins with %g\n", (long long)how.bytes_copied,
		(long long)info.shape[0], (long long)info.shape[1], *(float *)info.data);
	check(dlx_tensor_close(frame, &error)); /* the sender may use the memory again */
	dlx_connection_receive(sender, NULL, 0, &frame, NULL, NULL); /* until the sender has ended */
	check(dlx_connection_close(sender, &error));
	check(dlx_listener_close(listener, &error));
	check(dlx_report_close(report, &error));
	check(dlx_device_close(host, &error));
	check(dlx_registry_close(registry, &error));
	return 0;
}
