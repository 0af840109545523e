// dlx.from_dlpack: how a tensor is asked of its producer.
#include "ext.h"

VectorcallMethod vectorcall_method;

// note_stream records on which stream the memory of a device is ready. Nothing else refers to it yet.
static Tensor *note_stream(Tensor *t, const DLExchange *api) {
    int32_t type = t == NULL ? DEVICE_CPU : t->t.device.type;
    if (type == DEVICE_CPU || t->memory->has_stream)
        return t;
    if (type != DEVICE_CUDA && type != DEVICE_CUDA_MANAGED && type != DEVICE_ROCM)
        return t;
    void *stream = NULL;
    if (api == NULL) // __dlpack__ without a stream means the legacy default stream
        stream = type == DEVICE_ROCM ? NULL : (void *)1;
    else if (api->current_stream(type, t->t.device.id, &stream) != 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "dlx: the producer's exchange table does not say its stream");
        Py_DECREF(t);
        return NULL;
    }
    t->memory->stream = stream;
    t->memory->has_stream = true;
    return t;
}

// explain replaces an exception of the producer by one of ours, which has the producer's as its cause. what raised it.
// Errors that say that the tensor cannot be exported stay, and those that are no errors of the program, such as
// KeyboardInterrupt.
static void explain(State *s, PyObject *x, const char *what) {
    if (PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_ValueError) ||
        PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value != NULL && trace != NULL)
        PyException_SetTraceback(value, trace);
    PyObject *method = PyObject_GetAttr((PyObject *)Py_TYPE(x), s->str_dlpack);
    PyErr_Clear();
    PyObject *text = value == NULL ? NULL : PyObject_Str(value);
    if (text == NULL) { // the producer's exception raises one
        PyErr_Clear();
        text = PyUnicode_FromString("(an exception without text)");
    }
    if (method == NULL && exchange_of(s, Py_TYPE(x)) == NULL)
        PyErr_Format(PyExc_TypeError, "dlx: from_dlpack needs an object with __dlpack__, not %.200S", Py_TYPE(x));
    else if (text != NULL)
        PyErr_Format(PyExc_BufferError, "dlx: %s of %.200S failed: %S: %S", what, Py_TYPE(x), type, text);
    Py_XDECREF(text);
    Py_XDECREF(method);
    PyObject *type2, *value2, *trace2;
    PyErr_Fetch(&type2, &value2, &trace2);
    PyErr_NormalizeException(&type2, &value2, &trace2);
    if (value != NULL && value2 != NULL) {
        Py_INCREF(value);
        PyException_SetCause(value2, value);
    }
    PyErr_Restore(type2, value2, trace2);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

static Tensor *from_table(State *s, const DLExchange *api, PyObject *x) {
    DLVersioned *m = NULL;
    int status = api->managed_from_object(x, &m);
    if (status != 0 || m == NULL) {
        if (PyErr_Occurred())
            explain(s, x, "the exchange table");
        else
            PyErr_SetString(PyExc_BufferError, "dlx: the producer's exchange table returned no tensor and no error");
        return NULL;
    }
    if (PyErr_Occurred()) { // the tensor is ours, and the producer says that it is not valid
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        if (m->deleter != NULL)
            m->deleter(m);
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    return note_stream(take_versioned(s, m, true), api);
}

// settle_sycl waits for the queue of a producer on oneAPI, such as dpnp: without a queue of SYCL's that belongs to the
// consumer, __dlpack__ does not wait for work that was begun.
static Tensor *settle_sycl(Tensor *t, PyObject *x) {
    if (t == NULL || t->t.device.type != DEVICE_ONEAPI)
        return t;
    PyObject *queue = PyObject_GetAttrString(x, "sycl_queue");
    PyObject *done = queue != NULL ? PyObject_CallMethod(queue, "wait", NULL) : NULL;
    Py_XDECREF(queue);
    if (done == NULL && queue == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear(); // a producer that has no queue
        return t;
    }
    if (done == NULL) {
        Py_DECREF(t);
        return NULL;
    }
    Py_DECREF(done);
    return t;
}

// from_method calls __dlpack__ with the keywords, and, since old producers know none, without any.
static Tensor *from_method(State *s, PyObject *x, PyObject *kwargs) {
    PyObject *capsule;
    if (kwargs == NULL && vectorcall_method != NULL) {
        PyObject *stack[3] = {NULL, x, s->max_version};
        capsule = vectorcall_method(s->str_dlpack, stack + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, s->kw_max_version);
    } else {
        PyObject *method = PyObject_GetAttr(x, s->str_dlpack);
        if (method == NULL) {
            explain(s, x, "__dlpack__");
            return NULL;
        }
        capsule = PyObject_Call(method, s->empty_tuple, kwargs == NULL ? s->kwargs_max_version : kwargs);
        Py_DECREF(method);
    }
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyObject *method = PyObject_GetAttr(x, s->str_dlpack);
        if (method != NULL) {
            capsule = PyObject_Call(method, s->empty_tuple, NULL);
            Py_DECREF(method);
        }
    }
    if (capsule == NULL) {
        explain(s, x, "__dlpack__");
        return NULL;
    }
    Tensor *t = take_capsule(s, capsule);
    Py_DECREF(capsule);
    return settle_sycl(note_stream(t, NULL), x);
}

static Tensor *from_object(State *s, PyObject *x) {
    PyTypeObject *type = Py_TYPE(x);
    if (type == s->tensor_type) {
        Tensor *of = tensor_of(x), *t = tensor_view(of, of->t.ndim);
        for (int i = 0; t != NULL && i < of->t.ndim; i++) {
            t->t.shape[i] = of->t.shape[i];
            t->t.strides[i] = of->t.strides[i];
        }
        return t;
    }
    const DLExchange *api = exchange_of(s, type);
    if (api != NULL)
        return from_table(s, api, x);
    if (PyCapsule_CheckExact(x))
        return note_stream(take_capsule(s, x), NULL);
    return from_method(s, x, NULL);
}

// device_of returns (type, id) of an object, by __dlpack_device__ if it has that.
static int device_of(State *s, PyObject *x, DLDevice *d) {
    PyObject *method = PyObject_GetAttr(x, s->str_dlpack_device);
    PyObject *pair = NULL;
    if (method != NULL) {
        pair = PyObject_Call(method, s->empty_tuple, NULL);
        Py_DECREF(method);
    }
    if (pair == NULL) {
        explain(s, x, "__dlpack_device__");
        return -1;
    }
    int status = parse_pair(pair, d);
    Py_DECREF(pair);
    return status;
}

int parse_pair(PyObject *pair, DLDevice *d) {
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_ValueError, "dlx: a device of DLPack is a tuple of two integers: its type and its index");
        return -1;
    }
    // The type may be an IntEnum.
    long type = PyLong_AsLong(PyTuple_GetItem(pair, 0));
    long id = type == -1 && PyErr_Occurred() ? -1 : PyLong_AsLong(PyTuple_GetItem(pair, 1));
    bool overflows = PyErr_Occurred() != NULL;
    if (overflows && !PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
    if (overflows || type < INT32_MIN || type > INT32_MAX || id < INT32_MIN || id > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "dlx: the device's type or index does not fit an int32");
        return -1;
    }
    d->type = (int32_t)type;
    d->id = (int32_t)id;
    return 0;
}

// from_asked is from_object for callers that name a device or want a copy, or none.
static PyObject *from_asked(State *s, PyObject *x, PyObject *device, PyObject *copy) {
    int copies; // -1: as the producer likes
    if (parse_flag(copy, "copy", &copies) != 0)
        return NULL;
    DLDevice target = {0, 0}, at = {0, 0};
    bool capsule = PyCapsule_CheckExact(x);
    if (device != Py_None && parse_device(device, &target) != 0)
        return NULL;
    Tensor *t;
    bool own = Py_TYPE(x) == s->tensor_type;
    if (own || capsule)
        t = from_object(s, x);
    else {
        if (device != Py_None && device_of(s, x, &at) != 0)
            return NULL;
        PyObject *kwargs = PyDict_Copy(s->kwargs_max_version);
        if (kwargs == NULL)
            return NULL;
        int status = 0;
        if (copies >= 0)
            status = PyDict_SetItem(kwargs, s->str_copy, copies ? Py_True : Py_False);
        // The CPU is the only device that producers must know. dlx moves tensors to others itself.
        if (status == 0 && target.type == DEVICE_CPU && at.type != DEVICE_CPU) {
            PyObject *pair = Py_BuildValue("(ii)", (int)target.type, (int)target.id);
            status = pair == NULL ? -1 : PyDict_SetItem(kwargs, s->str_dl_device, pair);
            Py_XDECREF(pair);
        }
        t = status == 0 ? from_method(s, x, kwargs) : NULL;
        Py_DECREF(kwargs);
        // A producer may know no way to the host. Then dlx may.
        if (t == NULL && status == 0 && target.type == DEVICE_CPU && at.type != DEVICE_CPU && copies != 0 &&
            PyErr_ExceptionMatches(PyExc_BufferError)) {
            PyErr_Clear();
            t = from_object(s, x);
        }
    }
    if (t == NULL)
        return NULL;
    bool copied = (t->flags & FLAG_COPIED) != 0 && !own;
    if (copies == 0 && copied) {
        Py_DECREF(t);
        PyErr_SetString(PyExc_BufferError, "dlx: the producer copied the tensor in spite of copy=False");
        return NULL;
    }
    bool elsewhere = device != Py_None && (t->t.device.type != target.type || t->t.device.id != target.id);
    if (!elsewhere && (copies != 1 || copied))
        return (PyObject *)t;
    Move how = {.copies = copies == 1 && copied ? -1 : copies};
    PyObject *result = tensor_move(s, t, elsewhere ? target : t->t.device, how);
    Py_DECREF(t);
    return result;
}

PyObject *from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    State *s = PyModule_GetState(module);
    if (nargs != 1) {
        PyErr_Format(PyExc_TypeError, "from_dlpack() takes one positional argument, not %zd", nargs);
        return NULL;
    }
    if (kwnames == NULL)
        return (PyObject *)from_object(s, args[0]);
    PyObject *values[] = {Py_None, Py_None}, *const names[] = {s->str_device, s->str_copy};
    Py_ssize_t n = PyTuple_Size(kwnames);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        int which = keyword(name, names, 2);
        if (which < 0) {
            PyErr_Format(PyExc_TypeError, "from_dlpack() has no argument %R", name);
            return NULL;
        }
        values[which] = args[nargs + i];
    }
    if (values[0] == Py_None && values[1] == Py_None)
        return (PyObject *)from_object(s, args[0]);
    return from_asked(s, args[0], values[0], values[1]);
}
