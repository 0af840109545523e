// The module dlx._C.
#include "ext.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

PyDoc_STRVAR(from_dlpack_doc,
             "from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
             "Return a tensor that shares the memory of x, which is an object with __dlpack__ or a capsule.\n\n"
             "device moves the tensor there if it is elsewhere. copy=True always copies; copy=False raises BufferError\n"
             "instead of copying. ValueError or BufferError is raised if the producer's tensor is not valid.");

// new_host allocates host memory for a row-major tensor, which d describes.
static Tensor *new_host(State *s, const DLTensor *d, uint64_t flags) {
    void *data;
    Memory *m = memory_host(s, data_bytes(d->dtype, flags, tensor_count(d)), &data);
    if (m == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    Tensor *t = tensor_alloc(s, m, d->ndim);
    if (t == NULL) {
        memory_release(s, m);
        return NULL;
    }
    t->flags = flags;
    int64_t *at = t->t.shape;
    t->t = *d;
    t->t.data = data;
    t->t.shape = memcpy(at, d->shape, sizeof *at * (size_t)d->ndim);
    t->t.strides = memcpy(at + d->ndim, d->strides, sizeof *at * (size_t)d->ndim);
    return t;
}

// describe fills in d for a tuple of extents and a type. dims has room for 2 * MAX_RANK numbers.
static int describe(DLTensor *d, int64_t *dims, PyObject *shape, int code, int bits, int lanes, uint64_t flags) {
    char text[256];
    Py_ssize_t n = PyTuple_Size(shape);
    if (n > MAX_RANK || code < 0 || code > 255 || bits < 0 || bits > 255 || lanes < 0 || lanes > 65535) {
        PyErr_SetString(PyExc_ValueError, "dlx: the shape has more than 64 axes, or the type is not valid");
        return -1;
    }
    *d = (DLTensor){.data = dims, .device = {DEVICE_CPU, 0}, .ndim = (int32_t)n, .shape = dims, .strides = dims + n};
    d->dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
    for (Py_ssize_t i = 0; i < n; i++) {
        dims[i] = PyNumber_AsSsize_t(PyTuple_GetItem(shape, i), PyExc_ValueError);
        if (dims[i] == -1 && PyErr_Occurred())
            return -1;
    }
    row_major(d);
    if (check_tensor(d, flags, text, sizeof text))
        return 0;
    PyErr_Format(PyExc_ValueError, "dlx: %s", text);
    return -1;
}

// from_bytes makes a tensor of what bytes_of returned: of a tuple of extents, the type, whether elements are padded, and
// the bytes.
static PyObject *from_bytes(PyObject *module, PyObject *args) {
    PyObject *shape;
    int code, bits, lanes, padded;
    const char *data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O!iiipy#:from_bytes", &PyTuple_Type, &shape, &code, &bits, &lanes, &padded, &data, &size))
        return NULL;
    DLTensor d;
    int64_t dims[2 * MAX_RANK];
    uint64_t flags = padded ? FLAG_PADDED : 0;
    if (describe(&d, dims, shape, code, bits, lanes, flags) != 0)
        return NULL;
    if (data_bytes(d.dtype, flags, tensor_count(&d)) != size) {
        PyErr_Format(PyExc_ValueError, "dlx: a tensor of this shape and type does not have %zd bytes", size);
        return NULL;
    }
    Tensor *t = new_host(PyModule_GetState(module), &d, flags);
    if (t != NULL && size > 0)
        memcpy(t->t.data, data, (size_t)size);
    return (PyObject *)t;
}

// empty takes a tuple of extents, the type as code, bits and lanes, the device, and a stream or None.
static PyObject *empty(PyObject *module, PyObject *args) {
    State *s = PyModule_GetState(module);
    PyObject *shape, *device, *stream;
    int code, bits, lanes;
    uintptr_t handle;
    if (!PyArg_ParseTuple(args, "O!iiiOO:empty", &PyTuple_Type, &shape, &code, &bits, &lanes, &device, &stream))
        return NULL;
    DLDevice id;
    DLTensor d;
    int64_t dims[2 * MAX_RANK];
    if (parse_device(device, &id) != 0 || parse_stream(stream, "stream", &handle) != 0 ||
        describe(&d, dims, shape, code, bits, lanes, 0) != 0)
        return NULL;
    if (id.type != DEVICE_CPU || handle != 0)
        return go_empty(s, d.dtype, d.ndim, dims, id, handle);
    if (id.id != 0) {
        PyErr_SetString(PyExc_ValueError, "dlx: the only CPU is cpu:0");
        return NULL;
    }
    return (PyObject *)new_host(s, &d, 0);
}

static PyObject *register_hooks(PyObject *module, PyObject *hooks) {
    State *s = PyModule_GetState(module);
    if (!PyDict_Check(hooks)) {
        PyErr_SetString(PyExc_TypeError, "dlx: hooks must be a dict");
        return NULL;
    }
    PyObject *old = s->hooks;
    Py_INCREF(hooks);
    s->hooks = hooks;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *live(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    return PyLong_FromLong(state_live());
}

static PyObject *finish(PyObject *module, PyObject *ignored) {
    (void)ignored;
    State *s = PyModule_GetState(module);
    atomic_store(s->ended, true);
    tensor_forget(s); // its address may become another type's, if the interpreter leaks it
    Py_RETURN_NONE;
}

static PyObject *device_pair(PyObject *module, PyObject *device) {
    (void)module;
    DLDevice d;
    return parse_device(device, &d) == 0 ? Py_BuildValue("(ii)", (int)d.type, (int)d.id) : NULL;
}

static PyObject *device_text(PyObject *module, PyObject *pair) {
    (void)module;
    DLDevice d;
    char text[64];
    if (parse_device(pair, &d) != 0)
        return NULL;
    device_name(d, text, sizeof text);
    return PyUnicode_FromString(text);
}

// bytes_of returns a copy of the elements in row-major order, for the text of a tensor.
static PyObject *bytes_of(PyObject *module, PyObject *o) {
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    Tensor *t = tensor_of(o);
    if (!host_accessible(t->t.device.type)) {
        PyErr_SetString(PyExc_BufferError, "dlx: the memory is on a device: call to(\"cpu\") first");
        return NULL;
    }
    Tensor *copied = copy_host(PyModule_GetState(module), t);
    if (copied == NULL)
        return NULL;
    int64_t size = data_bytes(copied->t.dtype, copied->flags, tensor_count(&copied->t));
    PyObject *bytes = PyBytes_FromStringAndSize(copied->t.data, (Py_ssize_t)size);
    Py_DECREF(copied);
    return bytes;
}

// element_of returns the bytes of one element, whose indices are a tuple. It begins with the first bit, and what follows its
// last bit in the last byte is undefined. A packed element may begin inside of a byte, where no view of it can.
static PyObject *element_of(PyObject *module, PyObject *args) {
    PyObject *o, *indices;
    if (!PyArg_ParseTuple(args, "OO!:element_of", &o, &PyTuple_Type, &indices))
        return NULL;
    if (!tensor_check(o) || !host_accessible(tensor_of(o)->t.device.type) ||
        PyTuple_Size(indices) != tensor_of(o)->t.ndim) {
        PyErr_SetString(PyExc_TypeError, "dlx: element_of needs a tensor in host memory, and an index for each axis");
        return NULL;
    }
    const DLTensor *t = &tensor_of(o)->t;
    int64_t size = element_bits(t->dtype, tensor_of(o)->flags), at = 0;
    for (int i = 0; i < t->ndim; i++) {
        Py_ssize_t index = PyNumber_AsSsize_t(PyTuple_GetItem(indices, i), PyExc_IndexError);
        if (index == -1 && PyErr_Occurred())
            return NULL;
        if (index < 0 || index >= t->shape[i]) {
            PyErr_Format(PyExc_IndexError, "dlx: index %zd is out of bounds for axis %d", index, i);
            return NULL;
        }
        at += index * t->strides[i] * size;
    }
    // Only the bytes with bits of the element are read: the ones beside them may not be there.
    int64_t first = at >> 3, shift = at & 7;
    Tensor *view = tensor_view(tensor_of(o), 1);
    if (view == NULL)
        return NULL;
    view->t.data = (char *)view->t.data + first;
    view->t.dtype = (DLDataType){CODE_UINT, 8, 1};
    view->flags &= ~(uint64_t)FLAG_PADDED;
    view->t.shape[0] = (shift + size + 7) >> 3;
    view->t.strides[0] = 1;
    Tensor *copied = copy_host(PyModule_GetState(module), view);
    Py_DECREF(view);
    if (copied == NULL)
        return NULL;
    uint8_t *bytes = copied->t.data;
    int64_t count = copied->t.shape[0];
    for (int64_t i = 0; shift != 0 && i < count; i++)
        bytes[i] = (uint8_t)(bytes[i] >> shift | (i + 1 < count ? bytes[i + 1] << (8 - shift) : 0));
    PyObject *result = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)((size + 7) >> 3));
    Py_DECREF(copied);
    return result;
}

// bits_of returns a view of elements that take whole bytes as unsigned integers of that size.
static PyObject *bits_of(PyObject *module, PyObject *o) {
    (void)module;
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    Tensor *of = tensor_of(o);
    int64_t bits = element_bits(of->t.dtype, of->flags);
    if (bits > 64 || bits % 8 != 0) {
        PyErr_SetString(PyExc_BufferError, "dlx: the elements are no whole number of bytes, or more than 8");
        return NULL;
    }
    Tensor *t = tensor_view(of, of->t.ndim);
    if (t == NULL)
        return NULL;
    memcpy(t->t.shape, of->t.shape, sizeof(int64_t) * (size_t)of->t.ndim);
    memcpy(t->t.strides, of->t.strides, sizeof(int64_t) * (size_t)of->t.ndim);
    t->t.dtype = (DLDataType){CODE_UINT, (uint8_t)bits, 1};
    t->flags &= ~(uint64_t)FLAG_PADDED;
    return (PyObject *)t;
}

static PyMethodDef methods[] = {
    {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack, METH_FASTCALL | METH_KEYWORDS, from_dlpack_doc},
    {"empty", empty, METH_VARARGS, NULL},
    {"register", register_hooks, METH_O, NULL},
    {"live", live, METH_NOARGS, NULL},
    {"finish", finish, METH_NOARGS, NULL},
    {"device_pair", device_pair, METH_O, NULL},
    {"device_text", device_text, METH_O, NULL},
    {"bytes_of", bytes_of, METH_O, NULL},
    {"element_of", element_of, METH_VARARGS, NULL},
    {"bits_of", bits_of, METH_O, NULL},
    {"from_bytes", from_bytes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int intern(PyObject **at, const char *text) { return (*at = PyUnicode_InternFromString(text)) == NULL ? -1 : 0; }

static int execute(PyObject *module) {
    State *s = PyModule_GetState(module);
    memset(s, 0, sizeof *s);
    if (vectorcall_method == NULL)
        *(void **)&vectorcall_method = dlsym(RTLD_DEFAULT, "PyObject_VectorcallMethod");
    if ((s->ended = calloc(1, sizeof *s->ended)) == NULL || (s->cache = cache_new()) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (intern(&s->str_dlpack, "__dlpack__") || intern(&s->str_dlpack_device, "__dlpack_device__") ||
        intern(&s->str_exchange, "__dlpack_c_exchange_api__") || intern(&s->str_max_version, "max_version") ||
        intern(&s->str_stream, "stream") || intern(&s->str_dl_device, "dl_device") || intern(&s->str_copy, "copy") ||
        intern(&s->str_device, "device"))
        return -1;
    if ((s->kw_max_version = PyTuple_Pack(1, s->str_max_version)) == NULL ||
        (s->max_version = Py_BuildValue("(ii)", DL_MAJOR, DL_MINOR)) == NULL ||
        (s->kwargs_max_version = Py_BuildValue("{OO}", s->str_max_version, s->max_version)) == NULL ||
        (s->empty_tuple = PyTuple_New(0)) == NULL || (s->major = PyLong_FromLong(DL_MAJOR)) == NULL)
        return -1;
    s->tensor_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &tensor_spec, NULL);
    s->exchange = PyCapsule_New(&exchange_table, "dlpack_exchange_api", NULL);
    if (s->tensor_type == NULL || s->exchange == NULL ||
        PyObject_SetAttr((PyObject *)s->tensor_type, s->str_exchange, s->exchange) != 0 ||
        PyModule_AddObjectRef(module, "Tensor", (PyObject *)s->tensor_type) != 0 ||
        PyModule_AddFunctions(module, golib_methods) != 0 || PyModule_AddFunctions(module, load_methods) != 0 ||
        PyModule_AddFunctions(module, share_methods) != 0 || PyModule_AddFunctions(module, ring_methods) != 0 ||
        PyModule_AddFunctions(module, remote_methods) != 0 || PyModule_AddFunctions(module, mapping_methods) != 0 ||
        PyModule_AddFunctions(module, stream_methods) != 0)
        return -1;
    PyTypeObject *none = NULL;
    atomic_compare_exchange_strong(&first_type, &none, s->tensor_type);
    if (!state_add(s)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
    State *s = PyModule_GetState(module);
    if (s == NULL)
        return 0;
    Py_VISIT(s->tensor_type);
    Py_VISIT(s->hooks);
    return cache_traverse(s, visit, arg);
}

static int clear(PyObject *module) {
    State *s = PyModule_GetState(module);
    if (s == NULL)
        return 0;
    state_remove(s);
    cache_clear(s);
    Py_CLEAR(s->hooks);
    tensor_forget(s);
    Py_CLEAR(s->tensor_type);
    return 0;
}

static void release(void *module) {
    State *s = PyModule_GetState(module);
    if (s == NULL)
        return;
    clear(module);
    cache_free(s);
    state_retire(s);
    free(SWAP(s->spare, NULL));
    PyObject **owned[] = {&s->str_dlpack, &s->str_dlpack_device, &s->str_exchange, &s->str_max_version,
                          &s->str_stream, &s->str_dl_device, &s->str_copy, &s->str_device, &s->kw_max_version,
                          &s->kwargs_max_version, &s->max_version, &s->empty_tuple, &s->major, &s->exchange};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        Py_CLEAR(*owned[i]);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if defined(Py_mod_gil)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}, // PER_INTERPRETER, if the CPython that runs knows it
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "dlx._C",
    .m_doc = "The part of the package dlx that is written in C.",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

// A build for CPython 3.11 runs with later ones, too, which load a module into an interpreter with a lock of its own only
// if it says so. Py_mod_multiple_interpreters and Py_MOD_PER_INTERPRETER_GIL_SUPPORTED are new in the headers of 3.12.
enum { MULTIPLE_INTERPRETERS = 3, PER_INTERPRETER = 2 };

PyMODINIT_FUNC PyInit__C(void) {
#if PY_VERSION_HEX >= 0x030B0000
    if (Py_Version >= 0x030C0000)
        slots[sizeof slots / sizeof *slots - 2] = (PyModuleDef_Slot){MULTIPLE_INTERPRETERS, (void *)(intptr_t)PER_INTERPRETER};
#endif
    return PyModuleDef_Init(&definition);
}
