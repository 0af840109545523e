// The structs of DLPack 1.x, as this extension reads and writes them. The checks below compare the offsets with those
// that the standard fixes; core/internal/abi has the same structs for Go and compares them with dlpack.h.
#ifndef DLX_EXT_ABI_H
#define DLX_EXT_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { DL_MAJOR = 1, DL_MINOR = 3 };

enum { FLAG_READ_ONLY = 1, FLAG_COPIED = 2, FLAG_PADDED = 4, FLAGS_KNOWN = 7 };

enum {
    DEVICE_CPU = 1,
    DEVICE_CUDA = 2,
    DEVICE_CUDA_HOST = 3,
    DEVICE_OPENCL = 4,
    DEVICE_VULKAN = 7,
    DEVICE_METAL = 8,
    DEVICE_ROCM = 10,
    DEVICE_ROCM_HOST = 11,
    DEVICE_CUDA_MANAGED = 13,
    DEVICE_ONEAPI = 14,
    DEVICE_WEBGPU = 15,
    DEVICE_GL = 34 // not of DLPack: dlx uses it for OpenGL
};

enum {
    CODE_INT = 0,
    CODE_UINT = 1,
    CODE_FLOAT = 2,
    CODE_BFLOAT = 4,
    CODE_COMPLEX = 5,
    CODE_BOOL = 6,
    CODE_FLOAT8_FIRST = 7,
    CODE_FLOAT8_LAST = 14,
    CODE_FLOAT6_FIRST = 15,
    CODE_FLOAT6_LAST = 16,
    CODE_FLOAT4 = 17
};

typedef struct {
    uint32_t major, minor;
} DLVersion;

typedef struct {
    int32_t type, id;
} DLDevice;

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManaged {
    DLTensor tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManaged *);
} DLManaged;

typedef struct DLVersioned {
    DLVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLVersioned *);
    uint64_t flags;
    DLTensor tensor;
} DLVersioned;

typedef struct DLExchangeHeader {
    DLVersion version;
    struct DLExchangeHeader *prev_api;
} DLExchangeHeader;

typedef void (*DLSetError)(void *ctx, const char *kind, const char *message);

typedef struct {
    DLExchangeHeader header;
    int (*allocate)(DLTensor *prototype, DLVersioned **out, void *ctx, DLSetError set_error);
    int (*managed_from_object)(void *object, DLVersioned **out);
    int (*managed_to_object)(DLVersioned *tensor, void **out);
    int (*tensor_from_object)(void *object, DLTensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} DLExchange;

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, byte_offset) == 40, "DLTensor");
_Static_assert(sizeof(DLManaged) == 64 && offsetof(DLManaged, deleter) == 56, "DLManagedTensor");
_Static_assert(sizeof(DLVersioned) == 80 && offsetof(DLVersioned, tensor) == 32, "DLManagedTensorVersioned");
_Static_assert(sizeof(DLExchange) == 56 && offsetof(DLExchange, current_stream) == 48, "DLPackExchangeAPI");
#endif

#endif
