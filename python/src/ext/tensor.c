// The type Tensor.
#include "ext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Tensor *tensor_alloc(State *s, Memory *memory, int ndim) {
    int64_t *dims = NULL;
    if (ndim > INLINE_RANK && (dims = malloc(2 * sizeof *dims * (size_t)ndim)) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    // When the interpreter ends, it may clear the module before the last tensors.
    Tensor *t = s->tensor_type == NULL ? NULL : PyObject_New(Tensor, s->tensor_type);
    if (t == NULL) {
        free(dims);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "dlx: the interpreter is ending");
        return NULL;
    }
    t->state = s;
    t->memory = memory;
    t->weak = NULL;
    t->t.ndim = ndim;
    t->t.shape = dims == NULL ? t->dims : dims;
    t->t.strides = t->t.shape + ndim;
    return t;
}

Tensor *tensor_view(Tensor *of, int ndim) {
    Tensor *t = tensor_alloc(state_of(of), of->memory, ndim);
    if (t == NULL)
        return NULL;
    memory_retain(of->memory);
    t->flags = of->flags & ~(uint64_t)FLAG_COPIED;
    t->t.data = of->t.data;
    t->t.device = of->t.device;
    t->t.dtype = of->t.dtype;
    t->t.byte_offset = of->t.byte_offset;
    return t;
}

static void tensor_dealloc(PyObject *self) {
    Tensor *t = tensor_of(self);
    PyTypeObject *type = Py_TYPE(self);
    if (t->weak != NULL)
        PyObject_ClearWeakRefs(self);
    if (t->memory != NULL)
        memory_release(state_of(t), t->memory);
    if (t->t.shape != t->dims)
        free(t->t.shape);
    PyObject_Free(self);
    Py_DECREF(type);
}

_Atomic(PyTypeObject *) first_type;

void tensor_forget(State *s) {
    PyTypeObject *type = s->tensor_type;
    atomic_compare_exchange_strong(&first_type, &type, NULL);
}

bool tensor_check(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == atomic_load_explicit(&first_type, memory_order_relaxed))
        return true;
    return (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) != 0 &&
           PyType_GetSlot(type, Py_tp_dealloc) == (void *)tensor_dealloc;
}

bool tensor_contiguous(const DLTensor *t) {
    int64_t stride = 1;
    if (tensor_count(t) == 0)
        return true;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->shape[i];
    }
    return true;
}

// hook_of returns a function of the Python part of the package, a new reference.
static PyObject *hook_of(State *s, const char *name) {
    PyObject *hook = s->hooks == NULL ? NULL : PyDict_GetItemString(s->hooks, name);
    if (hook == NULL)
        PyErr_Format(PyExc_RuntimeError, "dlx: import the package dlx, not its extension module alone (%s)", name);
    Py_XINCREF(hook);
    return hook;
}

PyObject *call_hook(State *s, const char *name, PyObject *args) {
    PyObject *hook = args == NULL ? NULL : hook_of(s, name);
    PyObject *result = hook == NULL ? NULL : PyObject_Call(hook, args, NULL);
    Py_XDECREF(hook);
    return result;
}

static PyObject *call_hook_away(State *s, const char *name, PyObject *args) {
    PyObject *result = call_hook(s, name, args);
    Py_XDECREF(args);
    return result;
}

static PyObject *tuple_of(const int64_t *values, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple != NULL && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL || PyTuple_SetItem(tuple, i, value) != 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *closure) {
    (void)closure;
    return tuple_of(tensor_of(self)->t.shape, tensor_of(self)->t.ndim);
}

static PyObject *get_strides(PyObject *self, void *closure) {
    (void)closure;
    return tuple_of(tensor_of(self)->t.strides, tensor_of(self)->t.ndim);
}

static PyObject *get_ndim(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(tensor_of(self)->t.ndim);
}

static PyObject *get_size(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLongLong(tensor_count(&tensor_of(self)->t));
}

static PyObject *get_nbytes(PyObject *self, void *closure) {
    (void)closure;
    Tensor *t = tensor_of(self);
    return PyLong_FromLongLong(data_bytes(t->t.dtype, t->flags, tensor_count(&t->t)));
}

static PyObject *get_byte_offset(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(tensor_of(self)->t.byte_offset);
}

static PyObject *get_flags(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromUnsignedLongLong(tensor_of(self)->flags);
}

static PyObject *get_readonly(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong((tensor_of(self)->flags & FLAG_READ_ONLY) != 0);
}

static PyObject *get_contiguous(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(tensor_contiguous(&tensor_of(self)->t));
}

static PyObject *get_data_ptr(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromVoidPtr(tensor_of(self)->t.data);
}

static PyObject *get_dtype(PyObject *self, void *closure) {
    (void)closure;
    DLDataType d = tensor_of(self)->t.dtype;
    return call_hook_away(state_of(tensor_of(self)), "dtype",
                          Py_BuildValue("(iii)", (int)d.code, (int)d.bits, (int)d.lanes));
}

static PyObject *get_device(PyObject *self, void *closure) {
    (void)closure;
    DLDevice d = tensor_of(self)->t.device;
    return call_hook_away(state_of(tensor_of(self)), "device", Py_BuildValue("(ii)", (int)d.type, (int)d.id));
}

static PyObject *get_numpy_dtype(PyObject *self, void *closure) {
    PyObject *kind = get_dtype(self, closure);
    PyObject *result = kind == NULL ? NULL
                                    : call_hook_away(state_of(tensor_of(self)), "numpy_dtype", PyTuple_Pack(1, kind));
    Py_XDECREF(kind);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_SetString(PyExc_AttributeError, "dlx: NumPy has no type for these elements");
    }
    return result;
}

// call_for calls a hook with the tensor and the arguments.
static PyObject *call_for(PyObject *self, const char *name, PyObject *args, PyObject *kwargs) {
    PyObject *own = PyTuple_Pack(1, self), *all = own == NULL ? NULL : PySequence_Concat(own, args);
    PyObject *hook = all == NULL ? NULL : hook_of(state_of(tensor_of(self)), name);
    PyObject *result = hook == NULL ? NULL : PyObject_Call(hook, all, kwargs);
    Py_XDECREF(own);
    Py_XDECREF(all);
    Py_XDECREF(hook);
    return result;
}

static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *kwargs) {
    return call_for(self, "array", args, kwargs);
}

static PyObject *tensor_arrow_array(PyObject *self, PyObject *args, PyObject *kwargs) {
    return call_for(self, "arrow_array", args, kwargs);
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *ignored) {
    (void)ignored;
    DLDevice d = tensor_of(self)->t.device;
    return Py_BuildValue("(ii)", (int)d.type, (int)d.id);
}

static PyObject *tensor_repr(PyObject *self) {
    return call_hook_away(state_of(tensor_of(self)), "repr", Py_BuildValue("(O)", self));
}

static PyObject *tensor_str(PyObject *self) {
    return call_hook_away(state_of(tensor_of(self)), "str", Py_BuildValue("(O)", self));
}

static PyObject *tensor_tolist(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return call_hook_away(state_of(tensor_of(self)), "tolist", Py_BuildValue("(O)", self));
}

static PyObject *tensor_item(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return call_hook_away(state_of(tensor_of(self)), "item", Py_BuildValue("(O)", self));
}

// move_arguments reads the arguments of to and plan.
static int move_arguments(PyObject *args, PyObject *kwargs, const char *format, DLDevice *target, Move *how) {
    static char *names[] = {"device", "copy", "stream", "source_stream", NULL};
    PyObject *device, *copy = Py_None, *stream = Py_None, *source = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &device, &copy, &stream, &source) ||
        parse_device(device, target) != 0 || parse_stream(stream, "stream", &how->stream) != 0 ||
        parse_stream(source, "source_stream", &how->source) != 0)
        return -1;
    return parse_flag(copy, "copy", &how->copies);
}

static PyObject *tensor_plan(PyObject *self, PyObject *args, PyObject *kwargs) {
    DLDevice target;
    Move how;
    if (move_arguments(args, kwargs, "O|$OOO:plan", &target, &how) != 0)
        return NULL;
    return go_plan(tensor_of(self), target, how);
}

static PyObject *tensor_to(PyObject *self, PyObject *args, PyObject *kwargs) {
    DLDevice target;
    Move how;
    if (move_arguments(args, kwargs, "O|$OOO:to", &target, &how) != 0)
        return NULL;
    return tensor_move(state_of(tensor_of(self)), tensor_of(self), target, how);
}

static PyObject *copy_on(Tensor *t, Move how) { return tensor_move(state_of(t), t, t->t.device, how); }

static PyObject *tensor_copy(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "source_stream", NULL};
    PyObject *stream = Py_None, *source = Py_None;
    Move how = {.copies = 1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OO:copy", names, &stream, &source) ||
        parse_stream(stream, "stream", &how.stream) != 0 || parse_stream(source, "source_stream", &how.source) != 0)
        return NULL;
    return copy_on(tensor_of(self), how);
}

static PyObject *tensor_copy_plain(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return copy_on(tensor_of(self), (Move){.copies = 1});
}

static PyObject *tensor_deepcopy(PyObject *self, PyObject *memo) {
    (void)memo; // a tensor refers to no other object
    return tensor_copy_plain(self, NULL);
}

static PyObject *tensor_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return call_hook_away(state_of(tensor_of(self)), "reduce", Py_BuildValue("(O)", self));
}

static PyObject *tensor_astype(PyObject *self, PyObject *args, PyObject *kwargs) {
    return call_for(self, "astype", args, kwargs);
}

static PyObject *tensor_wait(PyObject *self, PyObject *ignored) {
    (void)ignored;
    if (wait_host(tensor_of(self)) != 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *tensor_move(State *s, Tensor *t, DLDevice device, Move how) {
    bool here = t->t.device.type == device.type && t->t.device.id == device.id;
    if (how.stream != 0 || how.source != 0) // which libdlx makes wait
        return go_move(s, t, device, how);
    if (here && how.copies != 1) {
        Py_INCREF((PyObject *)t);
        return (PyObject *)t;
    }
    bool to_host = device.type == DEVICE_CPU && (device.id == 0 || here); // some libraries number their CPUs
    // Managed memory may be in use by its device.
    if (to_host && host_accessible(t->t.device.type) && t->t.device.type != DEVICE_CUDA_MANAGED) {
        if (how.copies == 1)
            return (PyObject *)copy_host(s, t);
        if (wait_host(t) != 0)
            return NULL;
        Tensor *view = tensor_view(t, t->t.ndim);
        if (view != NULL) {
            memcpy(view->t.shape, t->t.shape, sizeof(int64_t) * (size_t)t->t.ndim);
            memcpy(view->t.strides, t->t.strides, sizeof(int64_t) * (size_t)t->t.ndim);
            view->t.device = device;
        }
        return (PyObject *)view;
    }
    return go_move(s, t, device, how);
}

static Py_ssize_t tensor_length(PyObject *self) {
    Tensor *t = tensor_of(self);
    if (t->t.ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a tensor without axes");
        return -1;
    }
    return (Py_ssize_t)t->t.shape[0];
}

PyDoc_STRVAR(dlpack_doc, "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
                         "Return a capsule with a managed tensor of DLPack that shares the memory.\n\n"
                         "stream is the number of the consumer's stream on CUDA and ROCm, which waits for unfinished\n"
                         "work on the tensor: None is the default stream, and -1 asks for no order. On other devices it\n"
                         "must be None, and the call waits for the work. Without\n"
                         "max_version, or with a version before 1.0, the capsule has the legacy struct, which cannot\n"
                         "describe read-only tensors: BufferError. dl_device=(1, 0) asks for host memory. copy=True\n"
                         "always copies; copy=False raises BufferError if a copy would be needed.");
PyDoc_STRVAR(array_doc, "__array__($self, dtype=None, copy=None)\n--\n\n"
                        "Return an array of NumPy that shares host memory if possible.\n\n"
                        "Small floats and integers need the package ml_dtypes. TypeError if NumPy has no type for the\n"
                        "elements, or the memory is on a device.");
PyDoc_STRVAR(to_doc, "to($self, device, *, copy=None, stream=None, source_stream=None)\n--\n\n"
                     "Return the tensor on another device, such as \"cuda:0\".\n\n"
                     "Memory is shared where that is possible. copy=True always copies, and copy=False raises\n"
                     "BufferError instead of copying. stream is a dlx.Stream of the device that uses the result next:\n"
                     "it waits for the data, and a copy that the device makes runs on it. source_stream is a\n"
                     "dlx.Stream of the tensor's device on which other code writes the tensor.");
PyDoc_STRVAR(plan_doc, "plan($self, device, *, copy=None, stream=None, source_stream=None)\n--\n\n"
                       "Describe how to() would get the tensor to the device, and why no better way is possible.");
PyDoc_STRVAR(lanes_doc, "with_lanes($self, lanes, /)\n--\n\n"
                        "Return a view whose elements have another number of lanes.\n\n"
                        "lanes of the numbers that lie next to each other along the last axis are an element. A\n"
                        "float4_e2m1fn tensor of the shape (2, 8) is with 2 lanes a float4_e2m1fnx2 tensor of the shape\n"
                        "(2, 4), which is float4_e2m1fn_x2 of PyTorch, and with 1 lane the first one again. ValueError\n"
                        "if the numbers cannot be divided so.");
PyDoc_STRVAR(copy_doc, "copy($self, *, stream=None, source_stream=None)\n--\n\n"
                       "Return a row-major copy on the same device. The streams are those of to().");

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_FASTCALL | METH_KEYWORDS, dlpack_doc},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\nReturn the type and the index of the device, as integers of DLPack."},
    {"to", (PyCFunction)(void (*)(void))tensor_to, METH_VARARGS | METH_KEYWORDS, to_doc},
    {"plan", (PyCFunction)(void (*)(void))tensor_plan, METH_VARARGS | METH_KEYWORDS, plan_doc},
    {"copy", (PyCFunction)(void (*)(void))tensor_copy, METH_VARARGS | METH_KEYWORDS, copy_doc},
    {"__copy__", tensor_copy_plain, METH_NOARGS, "__copy__($self)\n--\n\nReturn a copy on the same device, as copy() does."},
    {"__deepcopy__", tensor_deepcopy, METH_O, "__deepcopy__($self, memo)\n--\n\nReturn a copy on the same device, as copy() does."},
    {"__reduce__", tensor_reduce, METH_NOARGS,
     "__reduce__($self)\n--\n\nPickle the shape, the type and the elements. The result of loading is in host memory."},
    {"astype", (PyCFunction)(void (*)(void))tensor_astype, METH_VARARGS | METH_KEYWORDS,
     "astype($self, dtype)\n--\n\nReturn a copy in host memory with the elements converted to another type.\n\n"
     "Numbers are rounded to the nearest one, and truncated for integers."},
    {"wait", tensor_wait, METH_NOARGS, "wait($self)\n--\n\nBlock until unfinished work on the tensor is done."},
    {"transpose", tensor_transpose, METH_VARARGS,
     "transpose($self, *axes)\n--\n\nReturn a view with the axes in another order, reversed if none is named."},
    {"reshape", tensor_reshape, METH_VARARGS,
     "reshape($self, *shape)\n--\n\nReturn a view with another shape; one extent may be -1. ValueError if a copy would "
     "be needed."},
    {"with_lanes", tensor_with_lanes, METH_O, lanes_doc},
    {"tolist", tensor_tolist, METH_NOARGS, "tolist($self)\n--\n\nReturn the elements as nested lists."},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_VARARGS | METH_KEYWORDS, array_doc},
    {"__arrow_array__", (PyCFunction)(void (*)(void))tensor_arrow_array, METH_VARARGS | METH_KEYWORDS,
     "__arrow_array__($self, type=None)\n--\n\nReturn an array of PyArrow."},
    {"__complex__", tensor_complex, METH_NOARGS, "__complex__($self)\n--\n\nReturn the only element as a complex."},
    {"__bytes__", tensor_bytes, METH_NOARGS, "__bytes__($self)\n--\n\nReturn the bytes of the elements in row-major order."},
    {"item", tensor_item, METH_NOARGS, "item($self)\n--\n\nReturn the only element, of a tensor on any device, as a Python number."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getset[] = {
    {"shape", get_shape, NULL, "The extents, a tuple.", NULL},
    {"strides", get_strides, NULL, "The distances between neighbours along the axes, in elements.", NULL},
    {"ndim", get_ndim, NULL, "The number of axes.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"nbytes", get_nbytes, NULL, "The number of bytes of all elements without gaps.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements, a dlx.dtype, which equals its name.", NULL},
    {"device", get_device, NULL, "The device of the memory, a dlx.Device, which equals its name.", NULL},
    {"byte_offset", get_byte_offset, NULL, "The distance from data_ptr to the first element. 0 if data_ptr is an address.",
     NULL},
    {"flags", get_flags, NULL, "The flags of DLPack: 1 read-only, 2 copied, 4 padded.", NULL},
    {"readonly", get_readonly, NULL, "Whether the memory must not be written.", NULL},
    {"contiguous", get_contiguous, NULL, "Whether the elements are in row-major order without gaps.", NULL},
    {"data_ptr", get_data_ptr, NULL, "The address of the memory, or the handle of a device's object.", NULL},
    {"T", tensor_T, NULL, "A view with the axes reversed.", NULL},
    {"__numpy_dtype__", get_numpy_dtype, NULL, "NumPy's type of the elements.", NULL},
    {"__array_interface__", tensor_array_interface, NULL, "NumPy's description of host memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

// The offset of the list of weak references: the way that all versions of the limited API know.
static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(tensor_doc, "A tensor: a view of memory on some device.\n\n"
                         "Tensors are made by from_dlpack, empty and open, and by slicing other tensors. Slices,\n"
                         "transpositions and exports share the memory, which is freed with the last of them.");

static PyType_Slot slots[] = {
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_str, tensor_str},
    {Py_tp_doc, (void *)tensor_doc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {Py_mp_subscript, tensor_subscript},
    {Py_mp_ass_subscript, tensor_assign},
    {Py_mp_length, tensor_length},
    {Py_sq_contains, tensor_contains},
    {Py_tp_iter, tensor_iter},
    {Py_tp_richcompare, tensor_compare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_nb_bool, tensor_bool},
    {Py_nb_int, tensor_int},
    {Py_nb_float, tensor_float},
    {Py_nb_index, tensor_index},
    {Py_nb_power, tensor_pow},
#define SLOT(name, operator) {Py_nb_##name, tensor_##name},
    TENSOR_BINARY(SLOT)
    TENSOR_UNARY(SLOT)
#undef SLOT
    {Py_bf_getbuffer, tensor_getbuffer},
    {Py_bf_releasebuffer, tensor_releasebuffer},
    {0, NULL},
};

PyType_Spec tensor_spec = {
    .name = "dlx.Tensor",
    .basicsize = sizeof(Tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
