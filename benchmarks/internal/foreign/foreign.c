//go:build cgo && !windows

#include "foreign.h"

void foreign_empty(void) {}

static volatile int64_t consumed; /* keeps the compiler from leaving the reading out */

void foreign_consume(uintptr_t managed)
{
	DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)managed;
	int64_t elements = 1;
	for (int32_t i = 0; i < m->dl_tensor.ndim; i++)
		elements *= m->dl_tensor.shape[i];
	consumed = elements;
	m->deleter(m);
}

void foreign_delete_all(DLManagedTensorVersioned **managed, size_t n)
{
	for (size_t i = 0; i < n; i++)
		managed[i]->deleter(managed[i]);
}

static volatile int64_t deleted;

static void delete_produced(DLManagedTensorVersioned *self)
{
	(void)self;
	deleted++;
}

DLManagedTensorVersioned *foreign_produce(void)
{
	static float data[24];
	static int64_t shape[] = {2, 3, 4}, strides[] = {12, 4, 1};
	static DLManagedTensorVersioned m = {
		.version = {1, 3},
		.deleter = delete_produced,
		.dl_tensor = {
			.data = data,
			.device = {1, 0},
			.ndim = 3,
			.dtype = {2, 32, 1},
			.shape = shape,
			.strides = strides,
		},
	};
	return &m;
}

int64_t foreign_deleted(void) { return deleted; }
