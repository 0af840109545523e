// Python's buffer protocol, and NumPy's description of arrays.
#include "ext.h"

#include <stdlib.h>
#include <string.h>

// format returns the code of a type in the module struct, NULL if it has none.
static const char *format(DLDataType d) {
    if (d.lanes != 1)
        return NULL;
    switch (d.code << 8 | d.bits) {
    case CODE_INT << 8 | 8: return "b";
    case CODE_INT << 8 | 16: return "h";
    case CODE_INT << 8 | 32: return "i";
    case CODE_INT << 8 | 64: return "q";
    case CODE_UINT << 8 | 8: return "B";
    case CODE_UINT << 8 | 16: return "H";
    case CODE_UINT << 8 | 32: return "I";
    case CODE_UINT << 8 | 64: return "Q";
    case CODE_FLOAT << 8 | 16: return "e";
    case CODE_FLOAT << 8 | 32: return "f";
    case CODE_FLOAT << 8 | 64: return "d";
    case CODE_COMPLEX << 8 | 64: return "Zf";
    case CODE_COMPLEX << 8 | 128: return "Zd";
    case CODE_BOOL << 8 | 8: return "?";
    }
    return NULL;
}

// typestr returns the code of a type in NumPy, NULL if it has none.
static const char *typestr(DLDataType d) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORDER "<"
#else
#define ORDER ">"
#endif
    if (d.lanes != 1)
        return NULL;
    switch (d.code << 8 | d.bits) {
    case CODE_INT << 8 | 8: return "|i1";
    case CODE_INT << 8 | 16: return ORDER "i2";
    case CODE_INT << 8 | 32: return ORDER "i4";
    case CODE_INT << 8 | 64: return ORDER "i8";
    case CODE_UINT << 8 | 8: return "|u1";
    case CODE_UINT << 8 | 16: return ORDER "u2";
    case CODE_UINT << 8 | 32: return ORDER "u4";
    case CODE_UINT << 8 | 64: return ORDER "u8";
    case CODE_FLOAT << 8 | 16: return ORDER "f2";
    case CODE_FLOAT << 8 | 32: return ORDER "f4";
    case CODE_FLOAT << 8 | 64: return ORDER "f8";
    case CODE_COMPLEX << 8 | 64: return ORDER "c8";
    case CODE_COMPLEX << 8 | 128: return ORDER "c16";
    case CODE_BOOL << 8 | 8: return "|b1";
    }
    return NULL;
}

static char nothing[1]; // where a tensor without elements lies

static void *address(const Tensor *t) { return t->t.data == NULL ? nothing : t->t.data; }

// Layout is what a Py_buffer points to. Its strides count bytes.
typedef struct {
    Py_ssize_t shape[MAX_RANK], strides[MAX_RANK];
} Layout;

// row_major_bytes replaces the strides of a tensor without elements, which may be any numbers. By its strides Python
// decides whether a buffer with one axis is contiguous.
static void row_major_bytes(Layout *l, const DLTensor *t, int64_t size) {
    int64_t stride = size;
    for (int i = t->ndim - 1; i >= 0; i--) {
        l->strides[i] = (Py_ssize_t)stride;
        if (t->shape[i] > 0 && __builtin_mul_overflow(stride, t->shape[i], &stride))
            stride = 0;
    }
}

static bool column_major(const DLTensor *t) {
    int64_t stride = 1;
    if (tensor_count(t) == 0)
        return true;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->shape[i];
    }
    return true;
}

static int refuse(Py_buffer *view, const char *text) {
    view->obj = NULL;
    PyErr_SetString(PyExc_BufferError, text);
    return -1;
}

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    Tensor *t = tensor_of(self);
    const char *code = format(t->t.dtype);
    bool rows = tensor_contiguous(&t->t), columns = column_major(&t->t);
    view->obj = NULL;
    if (!host_accessible(t->t.device.type))
        return refuse(view, "dlx: the memory is on a device: call to(\"cpu\") first");
    if (code == NULL && (flags & PyBUF_FORMAT) == PyBUF_FORMAT)
        return refuse(view, "dlx: the buffer protocol has no format for this element type");
    if (code == NULL && element_bits(t->t.dtype, t->flags) % 8 != 0)
        return refuse(view, "dlx: the elements are packed, which the buffer protocol cannot describe");
    if ((flags & PyBUF_WRITABLE) != 0 && (t->flags & FLAG_READ_ONLY) != 0)
        return refuse(view, "dlx: the tensor is read-only");
    if (((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !rows) ||
        ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !columns) ||
        ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !rows && !columns) ||
        ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !rows))
        return refuse(view, "dlx: the elements are not in the order that is asked for: call copy() first");
    if (wait_host(t) != 0)
        return -1;
    Layout *l = malloc(sizeof *l);
    if (l == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int64_t size = element_bits(t->t.dtype, t->flags) / 8;
    for (int i = 0; i < t->t.ndim; i++) {
        l->shape[i] = (Py_ssize_t)t->t.shape[i];
        l->strides[i] = (Py_ssize_t)(t->t.strides[i] * size);
    }
    if (tensor_count(&t->t) == 0)
        row_major_bytes(l, &t->t, size);
    view->buf = address(t);
    Py_INCREF(self);
    view->obj = self;
    view->len = (Py_ssize_t)(tensor_count(&t->t) * size);
    view->itemsize = (Py_ssize_t)size;
    view->readonly = (t->flags & FLAG_READ_ONLY) != 0;
    view->ndim = t->t.ndim;
    view->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? (char *)code : NULL;
    view->shape = (flags & PyBUF_ND) == PyBUF_ND && t->t.ndim > 0 ? l->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES && t->t.ndim > 0 ? l->strides : NULL;
    view->suboffsets = NULL;
    view->internal = l;
    return 0;
}

void tensor_releasebuffer(PyObject *self, Py_buffer *view) {
    (void)self;
    free(view->internal);
}

PyObject *tensor_array_interface(PyObject *self, void *closure) {
    (void)closure;
    Tensor *t = tensor_of(self);
    const char *code = typestr(t->t.dtype);
    if (!host_accessible(t->t.device.type) || code == NULL) {
        PyErr_SetString(PyExc_AttributeError, code == NULL ? "dlx: NumPy has no type for these elements"
                                                           : "dlx: the memory is on a device: call to(\"cpu\") first");
        return NULL;
    }
    if (wait_host(t) != 0)
        return NULL;
    int n = t->t.ndim;
    PyObject *shape = PyTuple_New(n), *strides = PyTuple_New(n), *result = NULL;
    int64_t size = element_bits(t->t.dtype, t->flags) / 8;
    for (int i = 0; shape != NULL && strides != NULL && i < n; i++) {
        PyObject *extent = PyLong_FromLongLong(t->t.shape[i]), *stride = PyLong_FromLongLong(t->t.strides[i] * size);
        if (extent == NULL || stride == NULL) {
            Py_XDECREF(extent);
            Py_XDECREF(stride);
            goto done;
        }
        PyTuple_SetItem(shape, i, extent);
        PyTuple_SetItem(strides, i, stride);
    }
    if (shape != NULL && strides != NULL)
        result = Py_BuildValue("{s:O,s:s,s:(NO),s:O,s:i}", "shape", shape, "typestr", code, "data",
                               PyLong_FromVoidPtr(address(t)), (t->flags & FLAG_READ_ONLY) != 0 ? Py_True : Py_False,
                               "strides", strides, "version", 3);
done:
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return result;
}
