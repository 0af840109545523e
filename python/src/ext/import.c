// Imports: everything that another library says is checked here.
#include "ext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The width that dlpack.h requires for each type code; 0 if it allows any, as it does for the codes that are not here.
static const uint8_t defined_bits[] = {
    [CODE_BOOL] = 8,
    [CODE_FLOAT8_FIRST ... CODE_FLOAT8_LAST] = 8,
    [CODE_FLOAT6_FIRST ... CODE_FLOAT6_LAST] = 6,
    [CODE_FLOAT4] = 4,
};

// extent computes how far the elements reach before and after the first one. It reports false if that, or the number
// of elements, overflows. extents must not be negative.
static inline bool extent(const DLTensor *t, int64_t *count, int64_t *low, int64_t *high) {
    bool fits = true, empty = false;
    *count = 1, *low = 0, *high = 0;
    for (int i = 0; i < t->ndim; i++) {
        int64_t n = t->shape[i], reach;
        if (n == 0) {
            empty = true;
            continue;
        }
        fits &= !__builtin_mul_overflow(*count, n, count);
        fits &= !__builtin_mul_overflow(n - 1, t->strides[i], &reach);
        if (reach < 0)
            fits &= !__builtin_add_overflow(*low, reach, low);
        else
            fits &= !__builtin_add_overflow(*high, reach, high);
    }
    if (empty) {
        *count = *low = *high = 0;
        return true;
    }
    return fits;
}

int64_t tensor_span(const DLTensor *t, int64_t *low) {
    int64_t count, high;
    extent(t, &count, low, &high);
    return count == 0 ? 0 : high - *low + 1;
}

bool check_tensor(const DLTensor *t, uint64_t flags, char *text, size_t size) {
    int64_t count, low, high, ends, bytes;
    uint8_t bits = t->dtype.code < sizeof defined_bits ? defined_bits[t->dtype.code] : 0;
    if (t->device.type == DEVICE_GL) {
        snprintf(text, size, "device_type is %d, which DLPack does not define; dlx uses it for OpenGL", t->device.type);
        return false;
    }
    if (t->dtype.bits == 0 || t->dtype.lanes == 0) {
        snprintf(text, size, "dtype has %u bits and %u lanes: neither may be 0", t->dtype.bits, t->dtype.lanes);
        return false;
    }
    if (bits != 0 && bits != t->dtype.bits) {
        snprintf(text, size, "dtype.bits is %u, but type code %u has %u", t->dtype.bits, t->dtype.code, bits);
        return false;
    }
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0) {
            snprintf(text, size, "shape[%d] is %lld: extents must not be negative", i, (long long)t->shape[i]);
            return false;
        }
    // low is not positive and high not negative: neither is further from 0 than ends.
    int64_t unit = element_bits(t->dtype, flags);
    if (!extent(t, &count, &low, &high) || __builtin_sub_overflow(high, low, &ends) ||
        __builtin_add_overflow(ends, 1, &ends) || __builtin_mul_overflow(ends, unit, &bytes) ||
        data_bytes(t->dtype, flags, count) < 0) {
        snprintf(text, size, "the shape and the strides have more elements, or elements further apart, than an int64 counts");
        return false;
    }
    if (t->byte_offset > INT64_MAX) {
        snprintf(text, size, "byte_offset is %llu, more than an int64 counts", (unsigned long long)t->byte_offset);
        return false;
    }
    if (count == 0)
        return true;
    if (t->data == NULL && !(t->device.type != DEVICE_CPU && !addressed(t->device.type))) {
        snprintf(text, size, "data is NULL, but the tensor has %lld elements", (long long)count);
        return false;
    }
    if (addressed(t->device.type)) {
        // No element may lie beyond the ends of the address space, nor at address 0: a view that begins there would have no
        // data.
        uintptr_t start;
        if (__builtin_add_overflow((uintptr_t)t->data, t->byte_offset, &start) ||
            (uint64_t)(-(low * unit) / 8) >= start || (uint64_t)(high * unit / 8) > UINTPTR_MAX - start) {
            snprintf(text, size, "elements lie outside of the address space");
            return false;
        }
    }
    return true;
}

void row_major(DLTensor *t) {
    uint64_t stride = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->strides[i] = (int64_t)stride;
        // check_tensor finds an overflow, unless an extent is 0; then no stride is ever used.
        stride *= t->shape[i] > 0 ? (uint64_t)t->shape[i] : 1;
    }
}

// Elements have at most 255 * 65535 bits, so that this many of them can be counted in bits.
#define STRIDE_LIMIT (INT64_MAX >> 24)

void tame_strides(DLTensor *t) {
    for (int i = 0; i < t->ndim; i++)
        if ((t->strides[i] > STRIDE_LIMIT || t->strides[i] < -STRIDE_LIMIT) && (t->shape[i] == 1 || tensor_count(t) == 0))
            t->strides[i] = 0;
}

// fill makes a tensor of d, which is a copy of the producer's struct. The arrays of shape and strides belong to the
// producer, who may change them: each value is read once, and the copy is checked. fill takes memory only if it
// succeeds. Otherwise it writes a text, which is empty if there is an exception.
static Tensor *fill(State *s, const DLTensor *d, uint64_t flags, Memory *memory, char *text, size_t size) {
    if (d->ndim < 0 || d->ndim > MAX_RANK) {
        snprintf(text, size, "ndim is %d: 0 to %d axes are supported", d->ndim, MAX_RANK);
        return NULL;
    }
    if (d->ndim > 0 && d->shape == NULL) {
        snprintf(text, size, "shape is NULL, but ndim is %d", d->ndim);
        return NULL;
    }
    Tensor *t = tensor_alloc(s, memory, d->ndim);
    if (t == NULL) {
        text[0] = 0;
        return NULL;
    }
    t->flags = flags;
    t->t.data = d->data;
    t->t.device = d->device;
    t->t.dtype = d->dtype;
    t->t.byte_offset = d->byte_offset;
    const volatile int64_t *shape = d->shape, *strides = d->strides;
    for (int i = 0; i < d->ndim; i++)
        t->t.shape[i] = shape[i];
    if (strides == NULL)
        row_major(&t->t);
    else
        for (int i = 0; i < d->ndim; i++)
            t->t.strides[i] = strides[i];
    if (!check_tensor(&t->t, flags, text, size)) {
        t->memory = NULL; // still the caller's
        Py_DECREF(t);
        return NULL;
    }
    tame_strides(&t->t);
    if (addressed(d->device.type) && t->t.data != NULL) {
        // Many consumers forget the offset.
        t->t.data = (void *)((uintptr_t)t->t.data + t->t.byte_offset); // without elements that may be any address
        t->t.byte_offset = 0;
    }
    return t;
}

static void delete(void *m, enum MemoryKind kind) {
    if (kind == OWNED_LEGACY)
        ((DLManaged *)m)->deleter(m);
    else
        ((DLVersioned *)m)->deleter(m);
}

// take is what take_versioned and take_legacy share. It has read the version and the flags.
static Tensor *take(State *s, void *m, const DLTensor *tensor, uint64_t flags, enum MemoryKind kind, bool python) {
    char text[256];
    DLTensor d = *tensor;
    // An export of ours is taken apart, so that tensors that are exported and imported again form no chain.
    Memory *memory = export_memory(m, kind);
    bool own = memory != NULL;
    if (!own) {
        bool deletes = kind == OWNED_LEGACY ? ((DLManaged *)m)->deleter != NULL : ((DLVersioned *)m)->deleter != NULL;
        memory = memory_new(s, deletes ? kind : OWNED_NOTHING, m, python);
        if (memory == NULL) {
            if (deletes)
                delete(m, kind);
            PyErr_NoMemory();
            return NULL;
        }
    }
    Tensor *t = fill(s, &d, flags, memory, text, sizeof text);
    if (own)
        export_unwrap(m); // fill has read the shape
    if (t == NULL) {
        memory_release(s, memory);
        if (text[0] != 0)
            PyErr_Format(PyExc_ValueError, "dlx: the producer's tensor is not valid: %s", text);
    }
    return t;
}

Tensor *take_versioned(State *s, DLVersioned *m, bool python) {
    if (m->version.major != DL_MAJOR) { // only the deleter is where we know it
        DLVersion version = m->version;
        if (m->deleter != NULL)
            m->deleter(m);
        PyErr_Format(PyExc_BufferError, "dlx: the producer returned DLPack version %u.%u; only version %d can be read",
                     version.major, version.minor, DL_MAJOR);
        return NULL;
    }
    uint64_t flags = m->flags;
    if ((flags & ~(uint64_t)FLAGS_KNOWN) != 0) {
        if (m->deleter != NULL)
            m->deleter(m);
        char text[32];
        snprintf(text, sizeof text, "%#llx", (unsigned long long)(flags & ~(uint64_t)FLAGS_KNOWN));
        PyErr_Format(PyExc_BufferError,
                     "dlx: the producer's tensor has unknown flags %s, which a newer version may have given a meaning", text);
        return NULL;
    }
    return take(s, m, &m->tensor, flags, OWNED_VERSIONED, python);
}

Tensor *take_legacy(State *s, DLManaged *m, bool python) {
    return take(s, m, &m->tensor, 0, OWNED_LEGACY, python);
}

Tensor *take_go(State *s, DLVersioned *m, uintptr_t handle) {
    Tensor *t = take(s, m, &m->tensor, m->flags, OWNED_GO, false);
    if (t == NULL)
        go_close(handle);
    else
        atomic_store(&t->memory->handle, handle);
    return t;
}

// take_capsule consumes a capsule of __dlpack__. Without the interpreter's lock two threads could consume one capsule,
// so that a lock of our own guards the change of its name.
Tensor *take_capsule(State *s, PyObject *capsule) {
    if (!PyCapsule_CheckExact(capsule)) {
        PyErr_Format(PyExc_BufferError, "dlx: __dlpack__ returned an object that is not a capsule: %.200S", Py_TYPE(capsule));
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    static PyMutex mu;
    PyMutex_Lock(&mu);
#endif
    void *m = NULL;
    bool versioned = false;
    const char *name = PyCapsule_GetName(capsule);
    char found[64] = "NULL";
    if (name != NULL) {
        if (strcmp(name, "dltensor_versioned") == 0) {
            versioned = true;
            m = PyCapsule_GetPointer(capsule, name);
            if (m != NULL && PyCapsule_SetName(capsule, "used_dltensor_versioned") != 0)
                m = NULL;
        } else if (strcmp(name, "dltensor") == 0) {
            m = PyCapsule_GetPointer(capsule, name);
            if (m != NULL && PyCapsule_SetName(capsule, "used_dltensor") != 0)
                m = NULL;
        } else {
            snprintf(found, sizeof found, "\"%.60s\"", name);
        }
    }
#ifdef Py_GIL_DISABLED
    PyMutex_Unlock(&mu);
#endif
    if (m != NULL)
        return versioned ? take_versioned(s, m, true) : take_legacy(s, m, true);
    if (PyErr_Occurred())
        return NULL;
    if (strncmp(found, "\"used_dltensor", 14) == 0)
        PyErr_SetString(PyExc_ValueError, "dlx: the capsule was already used: ask the producer for another one");
    else
        PyErr_Format(PyExc_ValueError,
                     "dlx: the capsule's name is %s; it must be \"dltensor_versioned\" or \"dltensor\"", found);
    return NULL;
}
