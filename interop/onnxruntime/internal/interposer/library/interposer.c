/* A library that stands before ONNX Runtime's: it passes calls on, counts them and what they leave open, and lets one of
 * them fail. It also is a provider for CUDA, which the library for the CPU lacks: a session on memory of CUDA copies its
 * first input to each output, on the stream that the options name.
 *
 * INTERPOSED is the path of ONNX Runtime's library, a string. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime_c_api.h"

static const OrtApi *ort; /* the real one */
static OrtApi interposer;

/* What is counted: calls, by the function's name, and objects that are open, by their kind. */

enum { names = 64, entries = 8 };

static struct count {
	const char *name;
	int n, fail;
} calls[names], objects[names];
static int code; /* of the call that fails */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

static struct count *find(struct count *all, const char *name) {
	int i = 0;
	while (all[i].name && strcmp(all[i].name, name))
		i++;
	if (!all[i].name)
		all[i].name = strdup(name);
	return &all[i];
}

static void count(const char *kind, int n) {
	pthread_mutex_lock(&mu);
	find(objects, kind)->n += n;
	pthread_mutex_unlock(&mu);
}

/* opened counts an object that a call has made, if it has not failed. */
static OrtStatus *opened(const char *kind, int n, OrtStatus *s) {
	count(s ? "statuses" : kind, s ? 1 : n);
	return s;
}

/* called counts a call, and returns a status if it is to fail. */
static OrtStatus *called(const char *name) {
	pthread_mutex_lock(&mu);
	struct count *c = find(calls, name);
	c->n++;
	int fails = c->fail > 0 && --c->fail == 0;
	pthread_mutex_unlock(&mu);
	return fails ? opened("", 0, ort->CreateStatus(code, "the interposer was told to fail")) : NULL;
}

void interposer_fail(const char *name, int nth, int with) {
	pthread_mutex_lock(&mu);
	find(calls, name)->fail = nth;
	code = with;
	pthread_mutex_unlock(&mu);
}

/* interposer_list writes lines "name number". */
void interposer_list(int live, char *text, size_t size) {
	pthread_mutex_lock(&mu);
	struct count *all = live ? objects : calls;
	*text = 0;
	for (int i = 0; all[i].name; i++)
		if (all[i].n)
			snprintf(text + strlen(text), size - strlen(text), "%s %d\n", all[i].name, all[i].n);
	pthread_mutex_unlock(&mu);
}

/* Functions that are only passed on. */

#define PASS(name, parameters, ...)                                               \
	static OrtStatus *name parameters {                                           \
		OrtStatus *s = called(#name);                                             \
		return s ? s : opened("", 0, ort->name(__VA_ARGS__));                     \
	}
#define MAKE(kind, name, parameters, ...)                                         \
	static OrtStatus *name parameters {                                           \
		OrtStatus *s = called(#name);                                             \
		return s ? s : opened(kind, 1, ort->name(__VA_ARGS__));                   \
	}
#define RELEASE(kind, name, type)                                                 \
	static void name(type *o) {                                                   \
		if (o)                                                                    \
			count(kind, -1);                                                      \
		ort->name(o);                                                             \
	}

PASS(IsTensor, (const OrtValue *v, int *out), v, out)
PASS(GetTensorElementType, (const OrtTensorTypeAndShapeInfo *i, enum ONNXTensorElementDataType *out), i, out)
PASS(GetDimensionsCount, (const OrtTensorTypeAndShapeInfo *i, size_t *out), i, out)
PASS(GetDimensions, (const OrtTensorTypeAndShapeInfo *i, int64_t *out, size_t n), i, out, n)
PASS(GetTensorMemoryInfo, (const OrtValue *v, const OrtMemoryInfo **out), v, out)
PASS(MemoryInfoGetName, (const OrtMemoryInfo *i, const char **out), i, out)
PASS(MemoryInfoGetId, (const OrtMemoryInfo *i, int *out), i, out)
PASS(GetTensorSizeInBytes, (const OrtValue *v, size_t *out), v, out)
PASS(GetTensorMutableData, (OrtValue *v, void **out), v, out)
PASS(GetAllocatorWithDefaultOptions, (OrtAllocator **out), out)
MAKE("type infos", GetTensorTypeAndShape, (const OrtValue *v, OrtTensorTypeAndShapeInfo **out), v, out)
MAKE("memory infos", CreateMemoryInfo, (const char *name, enum OrtAllocatorType t, int id, enum OrtMemType m, OrtMemoryInfo **out), name, t, id, m, out)
MAKE("memory infos", CreateCpuMemoryInfo, (enum OrtAllocatorType t, enum OrtMemType m, OrtMemoryInfo **out), t, m, out)
MAKE("values", CreateTensorWithDataAsOrtValue, (const OrtMemoryInfo *i, void *p, size_t n, const int64_t *shape, size_t rank, ONNXTensorElementDataType t, OrtValue **out), i, p, n, shape, rank, t, out)
RELEASE("statuses", ReleaseStatus, OrtStatus)
RELEASE("memory infos", ReleaseMemoryInfo, OrtMemoryInfo)
RELEASE("type infos", ReleaseTensorTypeAndShapeInfo, OrtTensorTypeAndShapeInfo)

/* What fails to free memory frees it. */
static OrtStatus *AllocatorFree(OrtAllocator *a, void *p) {
	count("arrays", -1);
	OrtStatus *real = ort->AllocatorFree(a, p), *s = called("AllocatorFree");
	return s ? s : opened("", 0, real);
}

/* CUDA's driver, which a session on memory of CUDA calls. */

static struct {
	int device, appended;
	void *stream;
	int (*retain)(void **context, int device), (*release)(int device), (*push)(void *), (*pop)(void **);
	int (*copy)(uint64_t, uint64_t, size_t, void *), (*synchronize)(void *), (*alloc)(uint64_t *, size_t), (*free)(uint64_t);
} cuda;

static int find_cuda(void) {
	void *driver = dlopen(getenv("DLX_CUDA_LIBRARY"), RTLD_NOW);
	if (!driver)
		return 0;
#define FIND(member, name) (cuda.member = dlsym(driver, name)) != NULL
	return FIND(retain, "cuDevicePrimaryCtxRetain") && FIND(release, "cuDevicePrimaryCtxRelease_v2") &&
		FIND(push, "cuCtxPushCurrent_v2") && FIND(pop, "cuCtxPopCurrent_v2") && FIND(copy, "cuMemcpyDtoDAsync_v2") &&
		FIND(synchronize, "cuStreamSynchronize") && FIND(alloc, "cuMemAlloc_v2") && FIND(free, "cuMemFree_v2");
}

static int enter(void) {
	void *context;
	return cuda.retain && cuda.retain(&context, cuda.device) == 0 && cuda.push(context) == 0;
}

static void leave(void) {
	void *context;
	cuda.pop(&context);
	cuda.release(cuda.device);
}

/* Memory of outputs that a session has allocated, freed with its value. */
static struct allocated {
	OrtValue *value;
	uint64_t data;
} outputs[entries];

static void ReleaseValue(OrtValue *v) {
	if (v)
		count("values", -1);
	for (int i = 0; v && i < entries; i++)
		if (outputs[i].value == v && enter()) {
			cuda.free(outputs[i].data);
			outputs[i].value = NULL;
			leave();
		}
	ort->ReleaseValue(v);
}

static OrtStatus *CreateCUDAProviderOptions(OrtCUDAProviderOptionsV2 **out) {
	OrtStatus *s = called("CreateCUDAProviderOptions");
	if (s)
		return s;
	*out = malloc(1);
	return opened("options", 1, NULL);
}

static void ReleaseCUDAProviderOptions(OrtCUDAProviderOptionsV2 *o) {
	count("options", o ? -1 : 0);
	free(o);
}

static OrtStatus *UpdateCUDAProviderOptions(OrtCUDAProviderOptionsV2 *o, const char *const *keys, const char *const *values, size_t n) {
	OrtStatus *s = called("UpdateCUDAProviderOptions");
	if (s)
		return s;
	(void)o;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(keys[i], "device_id"))
			cuda.device = atoi(values[i]);
		else if (!strcmp(keys[i], "user_compute_stream")) /* in decimal */
			cuda.stream = (void *)(uintptr_t)strtoull(values[i], NULL, 10);
		else
			return opened("", 0, ort->CreateStatus(ORT_INVALID_ARGUMENT, "an unknown option"));
	return NULL;
}

static OrtStatus *SessionOptionsAppendExecutionProvider_CUDA_V2(OrtSessionOptions *o, const OrtCUDAProviderOptionsV2 *c) {
	OrtStatus *s = called("SessionOptionsAppendExecutionProvider_CUDA_V2");
	(void)o, (void)c;
	if (!s && !(cuda.appended = find_cuda()))
		s = opened("", 0, ort->CreateStatus(ORT_FAIL, "no driver of CUDA"));
	return s;
}

/* A binding: that of ONNX Runtime, and what is bound in memory of CUDA. */
struct binding {
	OrtIoBinding *real;
	int inputs, outputs;
	const OrtValue *input;
	struct {
		char name[32];
		const OrtValue *to; /* NULL: allocated */
		OrtValue *made;
	} output[entries];
};

static int on_card(const OrtMemoryInfo *i) {
	const char *name = "";
	return cuda.appended && !ort->MemoryInfoGetName(i, &name) && !strcmp(name, "Cuda");
}

static int value_on_card(const OrtValue *v) {
	const OrtMemoryInfo *i = NULL;
	return cuda.appended && !ort->GetTensorMemoryInfo(v, &i) && on_card(i);
}

static OrtStatus *CreateIoBinding(OrtSession *session, OrtIoBinding **out) {
	OrtStatus *s = called("CreateIoBinding");
	if (s)
		return s;
	struct binding *b = calloc(1, sizeof *b);
	s = opened("bindings", 1, ort->CreateIoBinding(session, &b->real));
	*out = (OrtIoBinding *)b;
	if (s)
		free(b);
	return s;
}

static void ReleaseIoBinding(OrtIoBinding *o) {
	struct binding *b = (void *)o;
	if (!b)
		return;
	count("bindings", -1);
	ort->ReleaseIoBinding(b->real);
	for (int i = 0; i < b->outputs; i++)
		if (b->output[i].made)
			ReleaseValue(b->output[i].made);
	free(b);
}

static OrtStatus *BindInput(OrtIoBinding *o, const char *name, const OrtValue *v) {
	struct binding *b = (void *)o;
	OrtStatus *s = called("BindInput");
	if (s || !value_on_card(v)) {
		b->input = s ? b->input : NULL;
		return s ? s : opened("", 0, ort->BindInput(b->real, name, v));
	}
	b->input = v;
	return NULL;
}

static void bind(struct binding *b, const char *name, const OrtValue *to) {
	int i = 0;
	while (i < b->outputs && strcmp(b->output[i].name, name))
		i++;
	if (i == b->outputs)
		b->outputs++;
	if (b->output[i].made)
		ReleaseValue(b->output[i].made);
	snprintf(b->output[i].name, sizeof b->output[i].name, "%s", name);
	b->output[i].to = to;
	b->output[i].made = NULL;
}

static OrtStatus *BindOutput(OrtIoBinding *o, const char *name, const OrtValue *v) {
	struct binding *b = (void *)o;
	OrtStatus *s = called("BindOutput");
	if (s || !value_on_card(v))
		return s ? s : opened("", 0, ort->BindOutput(b->real, name, v));
	bind(b, name, v);
	return NULL;
}

static OrtStatus *BindOutputToDevice(OrtIoBinding *o, const char *name, const OrtMemoryInfo *i) {
	struct binding *b = (void *)o;
	OrtStatus *s = called("BindOutputToDevice");
	if (s || !on_card(i))
		return s ? s : opened("", 0, ort->BindOutputToDevice(b->real, name, i));
	bind(b, name, NULL);
	return NULL;
}

/* allocate makes a value for an output like the input. */
static OrtValue *allocate(const OrtValue *like, size_t size) {
	OrtTensorTypeAndShapeInfo *info;
	enum ONNXTensorElementDataType type;
	OrtMemoryInfo *place;
	OrtValue *made = NULL;
	int64_t shape[16];
	size_t rank;
	uint64_t data = 0;
	if (ort->GetTensorTypeAndShape(like, &info))
		return NULL;
	int ok = !ort->GetTensorElementType(info, &type) && !ort->GetDimensionsCount(info, &rank) && rank <= 16 &&
		!ort->GetDimensions(info, shape, rank) && !ort->CreateMemoryInfo("Cuda", OrtDeviceAllocator, cuda.device, OrtMemTypeDefault, &place);
	ort->ReleaseTensorTypeAndShapeInfo(info);
	if (!ok || cuda.alloc(&data, size) || ort->CreateTensorWithDataAsOrtValue(place, (void *)data, size, shape, rank, type, &made))
		return NULL;
	ort->ReleaseMemoryInfo(place);
	count("values", 1);
	for (int i = 0; i < entries; i++)
		if (!outputs[i].value) {
			outputs[i] = (struct allocated){made, data};
			return made;
		}
	abort();
}

static OrtStatus *RunWithBinding(OrtSession *session, const OrtRunOptions *options, const OrtIoBinding *o) {
	struct binding *b = (void *)o;
	OrtStatus *s = called("RunWithBinding");
	if (s || (!b->input && !b->outputs))
		return s ? s : opened("", 0, ort->RunWithBinding(session, options, b->real));
	void *from, *to;
	size_t size, room;
	if (!b->input || ort->GetTensorMutableData((OrtValue *)b->input, &from) || ort->GetTensorSizeInBytes(b->input, &size) || !enter())
		return opened("", 0, ort->CreateStatus(ORT_FAIL, "no input, or no card"));
	int failed = 0;
	for (int i = 0; i < b->outputs && !failed; i++) {
		const OrtValue *v = b->output[i].to;
		if (!v)
			v = b->output[i].made = allocate(b->input, size);
		failed = !v || ort->GetTensorMutableData((OrtValue *)v, &to) || ort->GetTensorSizeInBytes(v, &room) || room != size ||
			cuda.copy((uintptr_t)to, (uintptr_t)from, size, cuda.stream);
	}
	failed = cuda.synchronize(cuda.stream) || failed;
	leave();
	return failed ? opened("", 0, ort->CreateStatus(ORT_FAIL, "the copy failed")) : NULL;
}

static OrtStatus *GetBoundOutputValues(const OrtIoBinding *o, OrtAllocator *a, OrtValue ***out, size_t *n) {
	struct binding *b = (void *)o;
	OrtStatus *s = called("GetBoundOutputValues");
	if (s)
		return s;
	if (!b->outputs) {
		s = opened("arrays", 1, ort->GetBoundOutputValues(b->real, a, out, n));
		count("values", s ? 0 : (int)*n);
		return s;
	}
	void *array;
	if ((s = opened("arrays", 1, ort->AllocatorAlloc(a, b->outputs * sizeof **out, &array))) != NULL)
		return s;
	*out = array;
	*n = b->outputs;
	for (int i = 0; i < b->outputs; i++) { /* those that the program has bound are of no use to it */
		(*out)[i] = b->output[i].made;
		b->output[i].made = NULL;
	}
	return NULL;
}

static const OrtApi *get_api(uint32_t version) {
	const OrtApi *found = ort;
	if (!found) {
		void *real = dlopen(INTERPOSED, RTLD_NOW | RTLD_LOCAL);
		const OrtApiBase *(*base)(void) = real ? (const OrtApiBase *(*)(void))dlsym(real, "OrtGetApiBase") : NULL;
		found = base ? base()->GetApi(ORT_API_VERSION) : NULL;
	}
	if (!found || version > ORT_API_VERSION)
		return NULL;
	ort = found;
	interposer = *ort;
#define SET(name) interposer.name = name
	SET(IsTensor), SET(GetTensorElementType), SET(GetDimensionsCount), SET(GetDimensions), SET(GetTensorMemoryInfo);
	SET(MemoryInfoGetName), SET(MemoryInfoGetId), SET(GetTensorSizeInBytes), SET(GetTensorMutableData);
	SET(GetAllocatorWithDefaultOptions), SET(AllocatorFree), SET(GetTensorTypeAndShape), SET(CreateMemoryInfo);
	SET(CreateCpuMemoryInfo), SET(CreateTensorWithDataAsOrtValue), SET(ReleaseStatus), SET(ReleaseMemoryInfo);
	SET(ReleaseTensorTypeAndShapeInfo), SET(ReleaseValue), SET(CreateCUDAProviderOptions), SET(ReleaseCUDAProviderOptions);
	SET(UpdateCUDAProviderOptions), SET(SessionOptionsAppendExecutionProvider_CUDA_V2), SET(CreateIoBinding);
	SET(ReleaseIoBinding), SET(BindInput), SET(BindOutput), SET(BindOutputToDevice), SET(RunWithBinding), SET(GetBoundOutputValues);
	return &interposer;
}

static const char *version(void) { return "interposer"; }

const OrtApiBase *OrtGetApiBase(void) {
	static const OrtApiBase base = {get_api, version};
	return &base;
}
