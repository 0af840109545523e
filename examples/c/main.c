/* Moves a tensor to another device and back, and prints how. The argument names the device; without one it is the first
 * that is not the CPU, or the CPU.
 *
 *   scripts/build-libdlx.sh dist
 *   cc examples/c/main.c -o round-trip $(PKG_CONFIG_PATH=dist pkg-config --cflags --libs dlx) -Wl,-rpath,$PWD/dist
 *   ./round-trip
 */
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

/* Prints a text, and closes it. */
static void print(dlx_text *text) {
	const char *data;
	check(dlx_text_data(text, &data, NULL, &error));
	printf("%s\n", data);
	check(dlx_text_close(text, &error));
}

/* Returns the elements of a tensor on the host. */
static float *values(dlx_tensor *tensor) {
	dlx_tensor_info info;
	check(dlx_tensor_wait_ready(tensor, 0, &error));
	check(dlx_tensor_get_info(tensor, &info, &error));
	return info.data;
}

int main(int argc, char **argv) {
	dlx_registry *registry;
	dlx_device_info devices[64];
	size_t count;
	check(dlx_registry_open(&registry, &error));
	check(dlx_registry_devices(registry, 0, devices, 64, &count, &error));
	const char *name = argc > 1 ? argv[1] : devices[count > 1 ? 1 : 0].id_text;

	dlx_device *cpu, *other;
	check(dlx_device_open(registry, "cpu", 0, &cpu, &error));
	check(dlx_device_open(registry, name, 0, &other, &error));

	/* Six numbers in memory that the other device can use in place, if there is such memory. */
	const int64_t shape[] = {2, 3};
	dlx_tensor_spec spec = {.dtype = {2, 32, 1}, .rank = 2, .shape = shape}; /* float32 */
	dlx_alloc_options shared = {.share_with = other};
	dlx_tensor *tensor;
	check(dlx_tensor_alloc(cpu, &spec, &shared, 0, &tensor, &error));
	for (int i = 0; i < 6; i++) {
		values(tensor)[i] = (float)i / 2;
	}

	/* How would it get there, and why not in a better way? */
	dlx_route *route;
	dlx_text *text;
	check(dlx_plan(tensor, other, NULL, &route, &error));
	check(dlx_route_text(route, &text, &error));
	print(text);
	check(dlx_route_close(route, &error));

	/* There, as a copy, and back. */
	dlx_move_options copied = {.copy = DLX_COPY_ALWAYS};
	dlx_tensor *there, *back;
	dlx_report *report;
	check(dlx_to(tensor, other, &copied, 0, &there, &report, &error));
	check(dlx_report_text(report, &text, &error));
	print(text);
	check(dlx_report_close(report, &error));
	check(dlx_to(there, cpu, NULL, 0, &back, NULL, &error));

	/* Through DLPack, as to and from another library. */
	struct DLManagedTensorVersioned *managed;
	dlx_tensor *imported;
	check(dlx_tensor_wait_ready(back, 0, &error));
	check(dlx_tensor_export(back, &managed, &error));
	check(dlx_tensor_import(managed, NULL, &imported, &error));
	for (int i = 0; i < 6; i++) {
		if (values(imported)[i] != (float)i / 2) {
			fprintf(stderr, "element %d is %g\n", i, values(imported)[i]);
			return 1;
		}
	}

	check(dlx_tensor_close(imported, &error));
	check(dlx_tensor_close(back, &error));
	check(dlx_tensor_close(there, &error));
	check(dlx_tensor_close(tensor, &error));
	check(dlx_flush(&error)); /* the memory that was exported is free now, so the devices can be closed */
	check(dlx_device_close(other, &error));
	check(dlx_device_close(cpu, &error));
	check(dlx_registry_close(registry, &error));
	printf("cpu -> %s -> cpu: verified\n", name);
	return 0;
}
