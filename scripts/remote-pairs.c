/* One of the two processes of scripts/remote-pairs.py, in C:
 *
 *   remote-pairs send|receive ADDRESS FILE
 *
 * The sender sends the tensors of the file, with their names as labels. The receiver prints its address, and writes what it has
 * received to the file. The token is that of the environment, TOKEN.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlx.h"

enum { MOST = 16 };

static dlx_error error;

static void check(dlx_status status) {
	if (status != DLX_OK) {
		fprintf(stderr, "%s: %s\n", dlx_status_text(status), error.text);
		exit(1);
	}
}

/* The model of the script: the names of its tensors. */
static const char *const names[] = {"bias", "weights", "step"};

static void send_all(dlx_remote_connection *c, const char *path) {
	dlx_file *file;
	dlx_tensor *tensor;
	check(dlx_file_open(path, &file, &error));
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		check(dlx_file_tensor(file, names[i], &tensor, &error));
		check(dlx_remote_send(c, tensor, names[i], 0, NULL, &error));
		check(dlx_tensor_close(tensor, &error));
	}
	check(dlx_file_close(file, &error));
	check(dlx_remote_wait_received(c, 0, &error)); /* to close the connection may lose what is on its way */
}

static void receive_all(dlx_remote_connection *c, dlx_device *cpu, const char *path) {
	dlx_tensor *tensors[MOST];
	dlx_text *labels[MOST];
	const char *texts[MOST];
	dlx_report *report;
	dlx_remote_connection_info info;
	size_t n = 0;
	while (n < MOST && dlx_remote_receive(c, cpu, 0, &tensors[n], &report, &error) == DLX_OK) {
		check(dlx_report_label(report, &labels[n], &error));
		check(dlx_text_data(labels[n], &texts[n], NULL, &error));
		check(dlx_report_close(report, &error));
		n++;
	}
	check(dlx_remote_connection_get_info(c, &info, &error));
	if (info.state != DLX_CONNECTION_ENDED) {
		fprintf(stderr, "the connection has the state %d\n", info.state);
		exit(1);
	}
	check(dlx_file_save(path, tensors, texts, n, 0, 0, &error));
	while (n-- > 0) {
		check(dlx_tensor_close(tensors[n], &error));
		check(dlx_text_close(labels[n], &error));
	}
}

int main(int argc, char **argv) {
	dlx_registry *registry;
	dlx_device *cpu;
	dlx_remote_connection *c;
	dlx_remote_listener *listener;
	dlx_text *address;
	const char *text, *token = getenv("TOKEN");
	int64_t open;
	if (argc != 4 || token == NULL) {
		return 2;
	}
	const dlx_remote_options options = {.token = token, .token_size = strlen(token)};
	check(dlx_registry_open(&registry, &error));
	check(dlx_device_open(registry, "cpu", 0, &cpu, &error));
	if (strcmp(argv[1], "send") == 0) {
		check(dlx_remote_connect(argv[2], &options, 0, &c, &error));
		send_all(c, argv[3]);
	} else {
		check(dlx_remote_listen(argv[2], &options, &listener, &error));
		check(dlx_remote_listener_address(listener, &address, &error));
		check(dlx_text_data(address, &text, NULL, &error));
		printf("%s\n", text);
		fflush(stdout);
		check(dlx_text_close(address, &error));
		check(dlx_remote_listener_accept(listener, 0, &c, &error));
		receive_all(c, cpu, argv[3]);
		check(dlx_remote_listener_close(listener, &error));
	}
	check(dlx_remote_connection_close(c, &error));
	check(dlx_flush(&error));
	check(dlx_device_close(cpu, &error));
	check(dlx_registry_close(registry, &error));
	check(dlx_live(NULL, &open, &error));
	if (open != 0) {
		fprintf(stderr, "%lld objects are left open\n", (long long)open);
		return 1;
	}
	return 0;
}
