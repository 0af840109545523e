/* A child of fork gets an error from each function, and hangs in none. The parent goes on, and so does a child that
 * calls exec. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include <dlpack/dlpack.h>

#include "check.h"

static dlx_registry *registry;
static dlx_device *cpu;
static dlx_tensor *tensor;
static DLManagedTensorVersioned *exported;

static void whole_life(void) {
	const int64_t shape[] = {5};
	dlx_tensor_spec s = spec_of(float32, 1, shape);
	OK(dlx_registry_open(&registry, &err));
	OK(dlx_device_open(registry, "cpu", 0, &cpu, &err));
	OK(dlx_tensor_alloc(cpu, &s, NULL, 0, &tensor, &err));
	OK(dlx_tensor_export(tensor, &exported, &err));
}

static int in_child(void) {
	const dlx_status want = DLX_ERR_FORKED;
	dlx_registry *r = (dlx_registry *)&r;
	dlx_tensor *t = (dlx_tensor *)&t;
	int64_t n = 7;
	FAILS(want, dlx_registry_open(&r, &err));
	CHECK(r == NULL && strcmp(err.origin, "libdlx") == 0);
	FAILS(want, dlx_live(NULL, &n, &err));
	CHECK(n == 0);
	FAILS(want, dlx_flush(&err));
	FAILS(want, dlx_tensor_wait_ready(tensor, 0, &err));
	FAILS(want, dlx_to(tensor, cpu, NULL, 0, &t, NULL, &err));
	CHECK(t == NULL && dlx_to(tensor, cpu, NULL, 0, &t, NULL, NULL) == want);
	FAILS(want, dlx_tensor_import(exported, NULL, &t, &err)); /* exported still belongs to this program */
	FAILS(want, dlx_tensor_close(tensor, &err));
	FAILS(want, dlx_device_close(cpu, &err));
	dlx_connection *c = (dlx_connection *)&c;
	FAILS(want, dlx_share_connect("socket", NULL, 0, &c, &err));
	CHECK(c == NULL);
	CHECK(dlx_abi_version() == DLX_ABI_VERSION && dlx_version()[0] == 0);
	exported->deleter(exported);
	return 0;
}

int main(int argc, char **argv) {
	whole_life();
	if (argc == 1) {
		for (int round = 0; round < 2; round++) {
			pid_t child = fork();
			CHECK(child >= 0);
			if (child == 0 && round == 0) {
				_exit(in_child());
			}
			if (child == 0) {
				execl("/proc/self/exe", argv[0], "executed", (char *)NULL);
				_exit(9);
			}
			int status;
			CHECK(waitpid(child, &status, 0) == child);
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		}
	}
	exported->deleter(exported);
	OK(dlx_tensor_close(tensor, &err));
	OK(dlx_flush(&err));
	OK(dlx_device_close(cpu, &err));
	OK(dlx_registry_close(registry, &err));
	check_nothing_open();
	return 0;
}
