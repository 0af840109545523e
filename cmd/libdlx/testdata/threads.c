/* Many threads use, and close, the same handles: each call succeeds, or says that the handle is closed. */
#include <pthread.h>
#include <stdatomic.h>

#include <dlpack/dlpack.h>

#include "check.h"

enum { threads = 8, rounds = 1500, slots = 16 };

static dlx_device *cpu;
static _Atomic(dlx_tensor *) shared[slots];
static atomic_long closed_by_others;

static void allowed(dlx_status status, int line) {
	if (status == DLX_ERR_CLOSED) {
		atomic_fetch_add(&closed_by_others, 1);
	} else if (status != DLX_OK) {
		fprintf(stderr, "line %d: status %d: %s\n", line, status, err.text);
		exit(1);
	}
}
#define ALLOWED(call) allowed(status = (call), __LINE__)

static void *work(void *seed) {
	unsigned random = (unsigned)(uintptr_t)seed * 2654435761u + 1;
	const int64_t shape[] = {4, 4};
	dlx_tensor_spec s = spec_of(float32, 2, shape);
	for (int i = 0; i < rounds; i++) {
		random = random * 1664525u + 1013904223u;
		_Atomic(dlx_tensor *) *slot = &shared[random >> 8 & (slots - 1)];
		dlx_tensor *t = atomic_load(slot), *u;
		dlx_status status;
		switch (random >> 16 & 7) {
		case 0:
		case 1: /* a new one; whoever takes the old one out closes it, too */
			OK(dlx_tensor_alloc(cpu, &s, NULL, 0, &u, &err));
			t = atomic_exchange(slot, u);
			if (t != NULL) {
				ALLOWED(dlx_tensor_close(t, &err));
			}
			break;
		case 2: /* while others use it */
			if (t != NULL) {
				ALLOWED(dlx_tensor_close(t, &err));
			}
			break;
		case 3:
		case 4:
			if (t != NULL) {
				ALLOWED(dlx_to(t, cpu, &(dlx_move_options){.copy = random >> 20 & 1 ? DLX_COPY_ALWAYS : 0}, 0, &u, NULL, &err));
				if (status == DLX_OK) {
					OK(dlx_tensor_close(u, &err));
				}
			}
			break;
		case 5:
			if (t != NULL) {
				DLManagedTensorVersioned *m;
				ALLOWED(dlx_tensor_export(t, &m, &err));
				if (status == DLX_OK && (random >> 20 & 1)) {
					OK(dlx_tensor_import(m, NULL, &u, &err));
					OK(dlx_tensor_close(u, &err));
				} else if (status == DLX_OK) {
					m->deleter(m);
				}
			}
			break;
		case 6:
			if (t != NULL) {
				ALLOWED(dlx_tensor_view(t, 1, (int64_t[]){2}, NULL, 3, &u, &err));
				if (status == DLX_OK) {
					OK(dlx_tensor_close(u, &err));
				}
			}
			break;
		default:
			if (t != NULL) {
				dlx_tensor_info info;
				ALLOWED(dlx_tensor_get_info(t, &info, &err));
				ALLOWED(dlx_tensor_wait_idle(t, 0, &err));
			}
		}
	}
	return NULL;
}

int main(void) {
	dlx_registry *registry;
	OK(dlx_registry_open(&registry, &err));
	OK(dlx_device_open(registry, "cpu", 0, &cpu, &err));
	pthread_t all[threads];
	for (int i = 0; i < threads; i++) {
		CHECK(pthread_create(&all[i], NULL, work, (void *)(uintptr_t)(i + 1)) == 0);
	}
	for (int i = 0; i < threads; i++) {
		CHECK(pthread_join(all[i], NULL) == 0);
	}
	for (int i = 0; i < slots; i++) {
		if (shared[i] != NULL) {
			dlx_status status = dlx_tensor_close(shared[i], &err);
			CHECK(status == DLX_OK || status == DLX_ERR_CLOSED);
		}
	}
	CHECK(closed_by_others > 0); /* else nobody used a handle that another one had closed */
	OK(dlx_flush(&err));
	OK(dlx_device_close(cpu, &err));
	OK(dlx_registry_close(registry, &err));
	check_nothing_open();
	return 0;
}
