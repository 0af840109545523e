#include <stdatomic.h>
#include <stdlib.h>

#include "foreign.h"

static _Atomic int64_t live;

/* The managed struct starts its allocation, whatever its version. */
static void free_struct(void *managed) {
	atomic_fetch_sub(&live, 1);
	free(managed);
}

static void delete_versioned(DLManagedTensorVersioned *self) {
	free(self->manager_ctx);
	free_struct(self);
}

static void delete_legacy(DLManagedTensor *self) {
	free(self->manager_ctx);
	free_struct(self);
}

void *new_managed(int legacy, void *memory, const int64_t *dims, int ndim, int strided) {
	size_t head = legacy ? sizeof(DLManagedTensor) : sizeof(DLManagedTensorVersioned);
	char *p = calloc(1, head + 16 * (size_t)ndim);
	if (p == NULL) {
		return NULL;
	}
	int64_t *places = (int64_t *)(p + head);
	for (int i = 0; i < 2 * ndim; i++) {
		places[i] = dims[i];
	}
	DLTensor *t;
	if (legacy) {
		DLManagedTensor *m = (DLManagedTensor *)p;
		m->manager_ctx = memory;
		m->deleter = delete_legacy;
		t = &m->dl_tensor;
	} else {
		DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)p;
		m->manager_ctx = memory;
		m->deleter = delete_versioned;
		t = &m->dl_tensor;
	}
	t->ndim = ndim;
	t->shape = places;
	t->strides = strided ? places + ndim : NULL;
	atomic_fetch_add(&live, 1);
	return p;
}

int64_t live_managed(void) { return atomic_load(&live); }
