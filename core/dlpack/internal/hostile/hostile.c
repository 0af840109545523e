//go:build cgo && !windows

#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void empty_call(void) {}

static struct producer *map_pages(size_t size) {
	struct producer *p = calloc(1, sizeof *p);
	if (p == NULL) {
		return NULL;
	}
	p->size = size;
	p->pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->pages == MAP_FAILED) {
		free(p);
		return NULL;
	}
	return p;
}

struct producer *new_producer(const void *managed, size_t managed_size, const int64_t *dims, size_t ndims) {
	struct producer *p = map_pages(managed_size + ndims * sizeof(int64_t));
	if (p != NULL) {
		p->managed = p->pages;
		memcpy(p->managed, managed, managed_size);
		memcpy((char *)p->managed + managed_size, dims, ndims * sizeof(int64_t));
	}
	return p;
}

struct producer *new_truncated_producer(const void *head, size_t head_size) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct producer *p = map_pages(2 * page);
	if (p != NULL) {
		p->managed = (char *)p->pages + page - head_size;
		memcpy(p->managed, head, head_size);
		if (mprotect((char *)p->pages + page, page, PROT_NONE) != 0) {
			abort();
		}
	}
	return p;
}

int producer_deleted(struct producer *p) { return atomic_load(&p->deleted); }

void free_producer(struct producer *p) {
	munmap(p->pages, p->size);
	free(p);
}

static void poison(struct producer *p) {
	atomic_fetch_add(&p->deleted, 1);
	if (mprotect(p->pages, p->size, PROT_NONE) != 0) {
		abort();
	}
}

void delete_producer(DLManagedTensorVersioned *self) { poison(self->manager_ctx); }

void delete_producer_legacy(DLManagedTensor *self) { poison(self->manager_ctx); }

enum { fickle_axes = 65 }; /* one more than is accepted */

struct fickle {
	DLManagedTensorVersioned versioned;
	DLManagedTensor legacy;
	int64_t shape[fickle_axes], strides[fickle_axes];
	uintptr_t data;
	_Atomic int64_t deleted;
	_Atomic int ended, drops_deleter;
	pthread_t thread;
};

static void count_fickle(DLManagedTensorVersioned *self) { atomic_fetch_add(&((struct fickle *)self->manager_ctx)->deleted, 1); }

static void count_fickle_legacy(DLManagedTensor *self) { atomic_fetch_add(&((struct fickle *)self->manager_ctx)->deleted, 1); }

/* change sets the fields by the bits of a number, so that in time each is seen with each. */
static void change(struct fickle *f, volatile DLTensor *t, uint32_t bits) {
	static const int32_t ndims[] = {2, 0, 64, 65, 3, -1, 1, 2};
	static const int64_t extents[] = {1, 2, 2, -1};
	t->data = bits & 1 ? (void *)f->data : NULL;
	t->shape = bits & 2 ? f->shape : NULL;
	t->strides = bits & 4 ? f->strides : NULL;
	t->ndim = ndims[bits >> 3 & 7];
	t->dtype.bits = bits & 64 ? 32 : 0;
	t->device.device_type = bits & 128 ? 1 : 2;
	t->byte_offset = bits & 256 ? 4 : 1ull << 63;
	for (int i = 0; i < 3; i++) {
		((volatile int64_t *)f->shape)[i] = extents[bits >> (9 + 2 * i) & 3];
		((volatile int64_t *)f->strides)[i] = bits & 256 ? 3 : INT64_MAX;
	}
}

static void *be_fickle(void *argument) {
	struct fickle *f = argument;
	volatile DLManagedTensorVersioned *m = &f->versioned;
	volatile DLManagedTensor *legacy = &f->legacy;
	uint32_t bits = 1;
	while (!atomic_load(&f->ended)) {
		bits = bits * 1664525u + 1013904223u;
		uint32_t high = bits >> 12; /* the lower ones of such a sequence repeat soon */
		m->version.major = high & 1 << 15 ? 1 : 2;
		m->flags = high & 1 << 16 ? 0 : 1u << 9;
		change(f, &m->dl_tensor, high);
		change(f, &legacy->dl_tensor, high);
		if (atomic_load(&f->drops_deleter)) {
			m->deleter = high & 1 << 17 ? count_fickle : NULL;
			legacy->deleter = high & 1 << 17 ? count_fickle_legacy : NULL;
		}
	}
	return NULL;
}

struct fickle *new_fickle(uintptr_t data) {
	struct fickle *f = calloc(1, sizeof *f);
	if (f == NULL) {
		return NULL;
	}
	f->data = data;
	for (int i = 0; i < fickle_axes; i++) {
		f->shape[i] = 1;
		f->strides[i] = 3;
	}
	f->versioned = (DLManagedTensorVersioned){.manager_ctx = f, .deleter = count_fickle, .dl_tensor = {.dtype = {2, 32, 1}}};
	f->legacy = (DLManagedTensor){.manager_ctx = f, .deleter = count_fickle_legacy, .dl_tensor = {.dtype = {2, 32, 1}}};
	if (pthread_create(&f->thread, NULL, be_fickle, f) != 0) {
		free(f);
		return NULL;
	}
	return f;
}

DLManagedTensorVersioned *fickle_versioned(struct fickle *f) { return &f->versioned; }

DLManagedTensor *fickle_legacy(struct fickle *f) { return &f->legacy; }

int64_t fickle_deleted(struct fickle *f) { return atomic_load(&f->deleted); }

void fickle_drop_deleter(struct fickle *f) { atomic_store(&f->drops_deleter, 1); }

void free_fickle(struct fickle *f) {
	atomic_store(&f->ended, 1);
	pthread_join(f->thread, NULL);
	free(f);
}

static _Atomic int64_t immortal_count;

static void count_immortal(DLManagedTensorVersioned *self) {
	(void)self;
	atomic_store_explicit(&immortal_count, atomic_load_explicit(&immortal_count, memory_order_relaxed) + 1, memory_order_relaxed);
}

DLManagedTensorVersioned *immortal(void) {
	static float data[24];
	static int64_t shape[] = {2, 3, 4}, strides[] = {12, 4, 1};
	static DLManagedTensorVersioned m = {
		.version = {1, 3},
		.deleter = count_immortal,
		.dl_tensor = {.data = data, .device = {1, 0}, .ndim = 3, .dtype = {2, 32, 1}, .shape = shape, .strides = strides},
	};
	return &m;
}

int64_t immortal_deleted(void) { return atomic_load(&immortal_count); }

static char *gather_axis(const DLTensor *t, int32_t axis, const char *from, size_t item, char *out) {
	if (axis == t->ndim) {
		memcpy(out, from, item);
		return out + item;
	}
	for (int64_t i = 0; i < t->shape[axis]; i++) {
		out = gather_axis(t, axis + 1, from + i * t->strides[axis] * (int64_t)item, item, out);
	}
	return out;
}

void gather(const DLTensor *t, size_t item, char *out) {
	gather_axis(t, 0, (const char *)t->data + t->byte_offset, item, out);
}

uint64_t consume(uintptr_t managed) {
	DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)managed;
	const DLTensor *t = &m->dl_tensor;
	uint64_t read = (uintptr_t)t->data + t->byte_offset + m->version.major + m->flags + (uint64_t)t->device.device_type + t->dtype.bits;
	for (int32_t i = 0; i < t->ndim; i++) {
		read += (uint64_t)(t->shape[i] * t->strides[i]);
	}
	m->deleter(m);
	return read;
}

struct deletion {
	uintptr_t managed;
	int legacy;
	int lost_errno;
};

static void *delete_thread(void *argument) {
	struct deletion *d = argument;
	errno = ERANGE;
	if (d->legacy) {
		DLManagedTensor *m = (DLManagedTensor *)d->managed;
		m->deleter(m);
	} else {
		DLManagedTensorVersioned *m = (DLManagedTensorVersioned *)d->managed;
		m->deleter(m);
	}
	d->lost_errno = errno != ERANGE;
	return NULL;
}

int run_deleter(uintptr_t managed, int legacy) {
	struct deletion d = {.managed = managed, .legacy = legacy};
	pthread_t thread;
	if (pthread_create(&thread, NULL, delete_thread, &d) != 0 || pthread_join(thread, NULL) != 0) {
		abort();
	}
	return d.lost_errno;
}

enum { reaper_room = 1024, reaper_threads = 16 };

struct reaper {
	pthread_mutex_t mu; /* guards all below */
	pthread_cond_t changed;
	uintptr_t queue[reaper_room];
	size_t first, count;
	int closed;
	int threads;
	pthread_t thread[reaper_threads];
};

static void *reap(void *argument) {
	struct reaper *r = argument;
	for (;;) {
		pthread_mutex_lock(&r->mu);
		while (r->count == 0 && !r->closed) {
			pthread_cond_wait(&r->changed, &r->mu);
		}
		if (r->count == 0) {
			pthread_mutex_unlock(&r->mu);
			return NULL;
		}
		uintptr_t managed = r->queue[r->first++ % reaper_room];
		r->count--;
		pthread_cond_broadcast(&r->changed);
		pthread_mutex_unlock(&r->mu);
		consume(managed);
	}
}

struct reaper *new_reaper(int threads) {
	struct reaper *r = calloc(1, sizeof *r);
	if (r == NULL || threads > reaper_threads) {
		abort();
	}
	pthread_mutex_init(&r->mu, NULL);
	pthread_cond_init(&r->changed, NULL);
	r->threads = threads;
	for (int i = 0; i < threads; i++) {
		if (pthread_create(&r->thread[i], NULL, reap, r) != 0) {
			abort();
		}
	}
	return r;
}

void reaper_give(struct reaper *r, uintptr_t managed) {
	pthread_mutex_lock(&r->mu);
	while (r->count == reaper_room) {
		pthread_cond_wait(&r->changed, &r->mu);
	}
	r->queue[(r->first + r->count++) % reaper_room] = managed;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->mu);
}

void reaper_close(struct reaper *r) {
	pthread_mutex_lock(&r->mu);
	r->closed = 1;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->mu);
	for (int i = 0; i < r->threads; i++) {
		pthread_join(r->thread[i], NULL);
	}
	free(r);
}

static char failure[64];

void set_failure(const char *kind) { snprintf(failure, sizeof failure, "%s", kind); }

static int allocator_fails(DLTensor *p, DLManagedTensorVersioned **out, void *ctx, dlx_set_error set_error) {
	(void)p, (void)out;
	set_error(ctx, failure, "no");
	return -1;
}

static int allocator_null(DLTensor *p, DLManagedTensorVersioned **out, void *ctx, dlx_set_error set_error) {
	(void)p, (void)ctx, (void)set_error;
	*out = NULL;
	return 0;
}

static int allocator_wrong_shape(DLTensor *p, DLManagedTensorVersioned **out, void *ctx, dlx_set_error set_error) {
	(void)p, (void)ctx, (void)set_error;
	*out = immortal();
	return 0;
}

static int allocator_silent(DLTensor *p, DLManagedTensorVersioned **out, void *ctx, dlx_set_error set_error) {
	(void)p, (void)out, (void)ctx, (void)set_error;
	return -1;
}

static int no_object(void *py_object, DLManagedTensorVersioned **out) {
	(void)py_object, (void)out;
	return -1;
}

static int no_tensor(DLManagedTensorVersioned *tensor, void **out) {
	(void)tensor, (void)out;
	return -1;
}

static int stream_of_cuda(int32_t device_type, int32_t device_id, void **out) {
	*out = (void *)(uintptr_t)(0x1000 + device_id);
	return device_type == 2 ? 0 : 7;
}

DLPackExchangeAPI *hostile_table(int kind) {
	static DLPackExchangeAPI tables[table_kinds];
	tables[table_fails].managed_tensor_allocator = allocator_fails;
	tables[table_null].managed_tensor_allocator = allocator_null;
	tables[table_wrong_shape].managed_tensor_allocator = allocator_wrong_shape;
	tables[table_silent].managed_tensor_allocator = allocator_silent;
	for (int i = 0; i < table_kinds; i++) {
		tables[i].header.version = (DLPackVersion){1, 3};
		tables[i].managed_tensor_from_py_object_no_sync = no_object;
		tables[i].managed_tensor_to_py_object_no_sync = no_tensor;
		tables[i].current_work_stream = stream_of_cuda;
	}
	return &tables[kind];
}

struct kind_of_error {
	char *kind;
	size_t size;
};

static void keep_kind(void *ctx, const char *kind, const char *message) {
	struct kind_of_error *k = ctx;
	snprintf(k->kind, k->size, "%s", message != NULL ? kind : "no message");
}

int call_allocator(uintptr_t api, int32_t device_type, int32_t ndim, uint8_t bits, int64_t *shape, uintptr_t *out, char *kind, size_t kind_size) {
	DLTensor prototype = {.device = {device_type, 0}, .ndim = ndim, .dtype = {2, bits, 1}, .shape = shape};
	struct kind_of_error k = {kind, kind_size};
	DLManagedTensorVersioned *m = NULL;
	int code = ((DLPackExchangeAPI *)api)->managed_tensor_allocator(&prototype, &m, &k, keep_kind);
	*out = (uintptr_t)m;
	return code;
}

int call_py_functions(uintptr_t api) {
	DLPackExchangeAPI *table = (DLPackExchangeAPI *)api;
	DLManagedTensorVersioned *m = NULL;
	void *object = NULL;
	return table->managed_tensor_from_py_object_no_sync(NULL, &m) + table->managed_tensor_to_py_object_no_sync(NULL, &object);
}

int call_work_stream(uintptr_t api, int32_t device_type) {
	void *stream = &stream;
	int code = ((DLPackExchangeAPI *)api)->current_work_stream(device_type, 0, &stream);
	return stream == NULL ? code : 1;
}
