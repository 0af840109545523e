// Copies in host memory.
#include "ext.h"

#include <string.h>

// Copies below this size are faster than giving the interpreter's lock away.
enum { LOCKED_BYTES = 1 << 16 };

// copy_axes copies the elements of axis and of those after it. Each element is size bytes. It returns where the next
// element goes.
static char *copy_axes(const DLTensor *from, int axis, int64_t size, const char *at, char *to) {
    int64_t n = from->shape[axis], step = from->strides[axis] * size;
    if (axis < from->ndim - 1) {
        for (int64_t i = 0; i < n; i++)
            to = copy_axes(from, axis + 1, size, at + i * step, to);
        return to;
    }
    if (step == size) {
        memcpy(to, at, (size_t)(n * size));
        return to + n * size;
    }
#define COPY_AS(type)                                                                                                  \
    for (int64_t i = 0; i < n; i++, to += sizeof(type)) {                                                              \
        type value;                                                                                                    \
        memcpy(&value, at + i * step, sizeof value);                                                                   \
        memcpy(to, &value, sizeof value);                                                                              \
    }
    switch (size) {
    case 1: COPY_AS(uint8_t) break;
    case 2: COPY_AS(uint16_t) break;
    case 4: COPY_AS(uint32_t) break;
    case 8: COPY_AS(uint64_t) break;
    default:
        for (int64_t i = 0; i < n; i++, to += size)
            memcpy(to, at + i * step, (size_t)size);
    }
#undef COPY_AS
    return to;
}

// copy_bits is copy_axes for elements that are no whole number of bytes. Positions count bits; the first bit of a byte
// is its lowest one.
static int64_t copy_bits(const DLTensor *from, int axis, int64_t size, int64_t at, uint8_t *to, int64_t next) {
    if (axis == from->ndim) {
        const uint8_t *data = from->data;
        for (int64_t i = 0; i < size; i++, at++, next++) {
            int64_t byte = at >> 3;
            to[next >> 3] |= (uint8_t)((data[byte] >> (at & 7) & 1) << (next & 7));
        }
        return next;
    }
    for (int64_t i = 0; i < from->shape[axis]; i++)
        next = copy_bits(from, axis + 1, size, at + i * from->strides[axis] * size, to, next);
    return next;
}

static void copy_elements(const Tensor *from, char *to, int64_t bytes) {
    int64_t bits = element_bits(from->t.dtype, from->flags);
    if (bits % 8 != 0 && !tensor_contiguous(&from->t)) {
        memset(to, 0, (size_t)bytes);
        copy_bits(&from->t, 0, bits, 0, (uint8_t *)to, 0);
    } else if (from->t.ndim == 0 || tensor_contiguous(&from->t))
        memcpy(to, from->t.data, (size_t)bytes);
    else
        copy_axes(&from->t, 0, bits / 8, from->t.data, to);
}

// copy_mapped has libdlx copy memory of a file: a fault in Go is an error, and one in C ends the process.
static Tensor *copy_mapped(State *s, Tensor *from) {
    Tensor *t = (Tensor *)go_move(s, from, (DLDevice){DEVICE_CPU, 0}, (Move){.copies = 1});
    if (t != NULL && wait_host(t) != 0) { // the copy may fail after go_move has returned
        Py_DECREF(t);
        return NULL;
    }
    if (t == NULL || tensor_contiguous(&t->t))
        return t;
    Tensor *packed = copy_host(s, t); // packed elements keep their strides
    Py_DECREF(t);
    return packed;
}

int copy_into(State *s, Tensor *from, void *to) {
    int64_t bytes = data_bytes(from->t.dtype, from->flags, tensor_count(&from->t));
    if (from->memory->mapped && bytes > 0 && go_usable()) {
        Tensor *t = copy_mapped(s, from);
        if (t == NULL)
            return -1;
        memcpy(to, t->t.data, (size_t)bytes);
        Py_DECREF(t);
        return 0;
    }
    if (wait_read(from) != 0)
        return -1;
    if (bytes > LOCKED_BYTES) {
        // from cannot go away: the caller holds a reference.
        Py_BEGIN_ALLOW_THREADS
        copy_elements(from, to, bytes);
        Py_END_ALLOW_THREADS
    } else if (bytes > 0)
        copy_elements(from, to, bytes);
    return 0;
}

Tensor *copy_host(State *s, Tensor *from) {
    int64_t bytes = data_bytes(from->t.dtype, from->flags, tensor_count(&from->t));
    void *data;
    if (from->memory->mapped && bytes > 0 && go_usable())
        return copy_mapped(s, from);
    Memory *memory = memory_host(s, bytes, &data);
    Tensor *t = memory == NULL ? (Tensor *)PyErr_NoMemory() : tensor_alloc(s, memory, from->t.ndim);
    if (t == NULL) {
        if (memory != NULL)
            memory_release(s, memory);
        return NULL;
    }
    t->flags = (from->flags & FLAG_PADDED) | FLAG_COPIED;
    t->t.data = data;
    t->t.device = (DLDevice){DEVICE_CPU, 0};
    t->t.dtype = from->t.dtype;
    t->t.byte_offset = 0;
    memcpy(t->t.shape, from->t.shape, sizeof(int64_t) * (size_t)from->t.ndim);
    row_major(&t->t);
    if (copy_into(s, from, data) != 0) {
        Py_DECREF(t);
        return NULL;
    }
    return t;
}
