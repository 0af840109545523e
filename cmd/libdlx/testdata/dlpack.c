/* Managed tensors that come from elsewhere, and that go there. */
#ifdef DLPACK_FIRST
#include <dlpack/dlpack.h>

#include "check.h"
#else
#include "check.h"

#include <dlpack/dlpack.h>
#endif
#include <pthread.h>
#include <stdatomic.h>

static atomic_int deleted; /* by importers, which may be on another thread */

/* A managed tensor of this program, with what it points to. */
struct produced {
	DLManagedTensorVersioned managed;
	int64_t shape[2], strides[2];
	float values[6];
};

static void delete_produced(DLManagedTensorVersioned *m) {
	atomic_fetch_add(&deleted, 1);
	free(m->manager_ctx);
}

static struct produced *produce(void) {
	struct produced *p = calloc(1, sizeof *p);
	p->managed.version = (DLPackVersion){1, 1};
	p->managed.manager_ctx = p;
	p->managed.deleter = delete_produced;
	p->managed.dl_tensor = (DLTensor){p->values, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, p->shape, p->strides, 0};
	p->shape[0] = 2;
	p->shape[1] = 3;
	p->strides[0] = 3;
	p->strides[1] = 1;
	for (int i = 0; i < 6; i++) {
		p->values[i] = (float)i;
	}
	return p;
}

/* An import of a managed tensor with the changes fails, and deletes it. */
#define REFUSED(want, changes) \
	do { \
		struct produced *p = produce(); \
		DLManagedTensorVersioned *m = &p->managed; \
		DLTensor *d = &m->dl_tensor; \
		int before = deleted; \
		(void)d; \
		changes; \
		FAILS(want, dlx_tensor_import(m, NULL, &t, &err)); \
		CHECK(t == NULL && deleted == before + 1); \
	} while (0)

static void hostile(void) {
	dlx_tensor *t;
	REFUSED(DLX_ERR_VERSION, (m->version.major = 2, d->shape = (int64_t *)8, d->ndim = 1 << 30));
	REFUSED(DLX_ERR_VERSION, m->version.major = 0);
	REFUSED(DLX_ERR_VERSION, m->flags = UINT64_C(1) << 40);
	REFUSED(DLX_ERR_LAYOUT, d->ndim = -1);
	REFUSED(DLX_ERR_LAYOUT, d->ndim = 65);
	REFUSED(DLX_ERR_LAYOUT, d->shape = NULL);
	REFUSED(DLX_ERR_LAYOUT, p->shape[0] = -2);
	REFUSED(DLX_ERR_LAYOUT, (p->shape[0] = INT64_MAX, p->shape[1] = INT64_MAX));
	REFUSED(DLX_ERR_LAYOUT, p->strides[0] = INT64_MAX);
	REFUSED(DLX_ERR_INVALID, d->data = NULL);
	REFUSED(DLX_ERR_DTYPE, d->dtype.bits = 0);
	REFUSED(DLX_ERR_DTYPE, d->dtype.lanes = 0);
	REFUSED(DLX_ERR_DTYPE, (d->dtype.code = kDLBool, d->dtype.bits = 1));
	REFUSED(DLX_ERR_DEVICE, d->device.device_type = (DLDeviceType)34);

	FAILS(DLX_ERR_INVALID, dlx_tensor_import(NULL, NULL, &t, &err));
	/* The struct is taken also when the other arguments are wrong. */
	int before = deleted;
	FAILS(DLX_ERR_INVALID, dlx_tensor_import(&produce()->managed, NULL, NULL, &err));
	dlx_import_options o = {.reserved = {1}};
	FAILS(DLX_ERR_INVALID, dlx_tensor_import(&produce()->managed, &o, &t, &err));
	o = (dlx_import_options){.size = -1};
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_import(&produce()->managed, &o, &t, &err));
	o = (dlx_import_options){.size = 23};
	FAILS(DLX_ERR_LAYOUT, dlx_tensor_import(&produce()->managed, &o, &t, &err));
	o = (dlx_import_options){.on_device = {0, 1}};
	FAILS(DLX_ERR_INVALID, dlx_tensor_import(&produce()->managed, &o, &t, &err));
	o = (dlx_import_options){.on_device = {1, 0}}; /* the struct says that itself */
	FAILS(DLX_ERR_DEVICE, dlx_tensor_import(&produce()->managed, &o, &t, &err));
	CHECK(deleted == before + 6);
	o = (dlx_import_options){.size = 24};
	OK(dlx_tensor_import(&produce()->managed, &o, &t, &err));
	OK(dlx_tensor_close(t, &err));
	CHECK(deleted == before + 7);

	/* A NULL deleter is not called; NULL strides mean row-major; a newer minor version is fine. */
	struct produced *p = produce();
	p->managed.deleter = NULL;
	p->managed.version.minor = 99;
	p->managed.dl_tensor.strides = NULL;
	OK(dlx_tensor_import(&p->managed, NULL, &t, &err));
	dlx_tensor_info info;
	OK(dlx_tensor_get_info(t, &info, &err));
	CHECK(info.strides[0] == 3 && info.strides[1] == 1 && info.data == p->values);
	OK(dlx_tensor_close(t, &err));
	p->managed.version.major = 7;
	FAILS(DLX_ERR_VERSION, dlx_tensor_import(&p->managed, NULL, &t, &err));
	free(p);
}

static void delete_legacy(DLManagedTensor *m) {
	atomic_fetch_add(&deleted, 1);
	free(m->manager_ctx);
}

static void legacy(void) {
	dlx_tensor *t, *u;
	DLManagedTensor *out;
	const int64_t wrong_rank = 65;
	for (int good = 0; good < 2; good++) {
		struct produced *p = produce();
		DLManagedTensor *m = malloc(sizeof *m);
		*m = (DLManagedTensor){p->managed.dl_tensor, m, delete_legacy};
		int before = deleted;
		if (!good) {
			m->dl_tensor.ndim = (int32_t)wrong_rank;
			FAILS(DLX_ERR_LAYOUT, dlx_tensor_import_legacy(m, NULL, &t, &err));
		} else {
			OK(dlx_tensor_import_legacy(m, NULL, &t, &err));
			OK(dlx_tensor_export_legacy(t, &out, &err));
			OK(dlx_tensor_close(t, &err));
			CHECK(deleted == before && out->dl_tensor.data == p->values);
			OK(dlx_tensor_import_legacy(out, NULL, &u, &err));
			OK(dlx_tensor_close(u, &err));
			OK(dlx_flush(&err));
		}
		CHECK(deleted == before + 1);
		free(p);
	}
	struct produced *p = produce();
	p->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
	OK(dlx_tensor_import(&p->managed, NULL, &t, &err));
	FAILS(DLX_ERR_READ_ONLY, dlx_tensor_export_legacy(t, &out, &err));
	CHECK(out == NULL);
	DLManagedTensorVersioned *again;
	OK(dlx_tensor_export(t, &again, &err));
	CHECK(again->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
	again->deleter(again);
	OK(dlx_tensor_close(t, &err));
}

static void *delete_elsewhere(void *managed) {
	DLManagedTensorVersioned *m = managed;
	m->deleter(m);
	return NULL;
}

static void exports(void) {
	dlx_registry *registry;
	dlx_device *cpu;
	dlx_tensor *t, *u;
	dlx_tensor_info info;
	DLManagedTensorVersioned *m, *second;
	const int64_t shape[] = {2, 3}, none[] = {0, 3};
	dlx_tensor_spec s = spec_of(float32, 2, shape);
	OK(dlx_registry_open(&registry, &err));
	OK(dlx_device_open(registry, "cpu", 0, &cpu, &err));
	OK(dlx_tensor_alloc(cpu, &s, NULL, 0, &t, &err));
	OK(dlx_tensor_get_info(t, &info, &err));
	for (int i = 0; i < 6; i++) {
		((float *)info.data)[i] = (float)i;
	}
	OK(dlx_tensor_export(t, &m, &err));
	CHECK(m->version.major == DLPACK_MAJOR_VERSION && m->flags == 0 && m->dl_tensor.data == info.data);
	CHECK(m->dl_tensor.ndim == 2 && m->dl_tensor.shape[1] == 3 && m->dl_tensor.strides[0] == 3);
	CHECK(m->dl_tensor.device.device_type == kDLCPU && m->dl_tensor.dtype.code == kDLFloat);
	/* A copy has one owner. */
	FAILS(DLX_ERR_INVALID, dlx_tensor_export_copied(t, &second, &err));
	CHECK(second == NULL);
	OK(dlx_tensor_close(t, &err));
	FAILS(DLX_ERR_INVALID, dlx_device_close(cpu, &err)); /* the export keeps the memory */
	OK(dlx_tensor_import(m, NULL, &u, &err));
	OK(dlx_tensor_get_info(u, &info, &err));
	CHECK(((float *)info.data)[5] == 5);
	OK(dlx_tensor_export(u, &m, &err));
	OK(dlx_tensor_close(u, &err));
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, delete_elsewhere, m) == 0 && pthread_join(thread, NULL) == 0);
	OK(dlx_flush(&err));

	OK(dlx_tensor_alloc(cpu, &s, NULL, 0, &t, &err));
	OK(dlx_tensor_export_copied(t, &m, &err));
	CHECK(m->flags == DLPACK_FLAG_BITMASK_IS_COPIED);
	FAILS(DLX_ERR_CLOSED, dlx_tensor_close(t, &err));
	m->deleter(m);

	s.shape = none;
	OK(dlx_tensor_alloc(cpu, &s, NULL, 0, &t, &err));
	OK(dlx_tensor_export(t, &m, &err));
	CHECK(m->dl_tensor.data == NULL && m->dl_tensor.shape[0] == 0);
	m->deleter(m);
	OK(dlx_tensor_close(t, &err));

	const DLPackExchangeAPI *table;
	OK(dlx_dlpack_exchange_api(&table, &err));
	CHECK(table->header.version.major == DLPACK_MAJOR_VERSION);
	DLTensor prototype = {NULL, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, (int64_t *)shape, NULL, 0};
	CHECK(table->managed_tensor_allocator(&prototype, &m, NULL, NULL) == 0);
	OK(dlx_tensor_import(m, NULL, &t, &err));
	OK(dlx_tensor_close(t, &err));

	OK(dlx_flush(&err));
	OK(dlx_device_close(cpu, &err));
	OK(dlx_registry_close(registry, &err));
}

int main(void) {
	int before = deleted;
	hostile();
	legacy();
	exports();
	check_nothing_open();
	CHECK(deleted > before);
	return 0;
}
