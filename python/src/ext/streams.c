// Streams and events of libdlx. In Python each is an integer, a handle, which libdlx checks.
#include "golib.h"

int parse_stream(PyObject *stream, const char *name, uintptr_t *handle) {
    *handle = 0;
    if (stream == Py_None)
        return 0;
    PyObject *number = PyObject_GetAttrString(stream, "_handle");
    if (number == NULL && !PyErr_ExceptionMatches(PyExc_AttributeError))
        return -1;
    if (number == NULL || (number != Py_None && !PyLong_Check(number))) {
        Py_XDECREF(number);
        PyErr_Format(PyExc_TypeError, "dlx: %s must be a dlx.Stream or None, not %R", name, stream);
        return -1;
    }
    if (number == Py_None)
        PyErr_Format(PyExc_ValueError, "dlx: %s was closed before", name);
    else
        *handle = (uintptr_t)PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

// CALL calls a function of libdlx without the interpreter's lock. On failure it returns NULL with an exception.
#define CALL(call)                                                                                                     \
    do {                                                                                                               \
        dlx_error e;                                                                                                   \
        dlx_status status;                                                                                             \
        Py_BEGIN_ALLOW_THREADS                                                                                         \
        status = (call);                                                                                               \
        Py_END_ALLOW_THREADS                                                                                           \
        if (status != DLX_OK)                                                                                          \
            return go_exception(&e);                                                                                   \
    } while (0)

// handle_of reads a handle, and the functions of libdlx. It returns -1 with an exception.
static int handle_of(PyObject *number, void **handle, const struct GoLib **go) {
    *handle = PyLong_AsVoidPtr(number);
    *go = *handle == NULL && PyErr_Occurred() ? NULL : go_load();
    return *go == NULL ? -1 : 0;
}

// closing is handle_of for functions that close: in a child of fork there is nothing to close.
static int closing(PyObject *number, void **handle, const struct GoLib **go) {
    if (go_loaded() != NULL && !go_usable()) {
        *go = NULL;
        return 0;
    }
    return handle_of(number, handle, go);
}

// stream_open takes a device, and None or the number that DLPack has for a stream of another library.
static PyObject *stream_open(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *device, *number;
    DLDevice id;
    if (!PyArg_ParseTuple(args, "OO:stream_open", &device, &number) || parse_device(device, &id) != 0)
        return NULL;
    long long external = number == Py_None ? 0 : PyLong_AsLongLong(number);
    if (external == -1 && PyErr_Occurred())
        return NULL;
    const struct GoLib *go = go_load();
    dlx_device *opened = go == NULL ? NULL : go_device(go, id);
    if (opened == NULL)
        return NULL;
    dlx_stream *stream;
    if (number == Py_None)
        CALL(go->stream_open(opened, 0, &stream, &e));
    else
        CALL(go->stream_borrow(opened, external, 0, &stream, &e));
    PyObject *handle = PyLong_FromVoidPtr(stream);
    if (handle == NULL)
        go->stream_close(stream, NULL);
    return handle;
}

static PyObject *stream_native(PyObject *module, PyObject *number) {
    (void)module;
    void *stream;
    uintptr_t native;
    const struct GoLib *go;
    if (handle_of(number, &stream, &go) != 0)
        return NULL;
    CALL(go->stream_native(stream, &native, &e));
    return PyLong_FromVoidPtr((void *)native);
}

static PyObject *stream_synchronize(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *stream;
    const struct GoLib *go;
    if (!PyArg_ParseTuple(args, "OL:stream_synchronize", &number, &timeout) || handle_of(number, &stream, &go) != 0)
        return NULL;
    CALL(go->stream_synchronize(stream, timeout, &e));
    Py_RETURN_NONE;
}

static PyObject *stream_record(PyObject *module, PyObject *number) {
    (void)module;
    void *stream;
    dlx_event *event;
    const struct GoLib *go;
    if (handle_of(number, &stream, &go) != 0)
        return NULL;
    CALL(go->stream_record(stream, &event, &e));
    PyObject *handle = PyLong_FromVoidPtr(event);
    if (handle == NULL)
        go->event_close(event, NULL);
    return handle;
}

static PyObject *stream_wait(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *awaited;
    void *stream, *event;
    const struct GoLib *go;
    if (!PyArg_ParseTuple(args, "OO:stream_wait", &number, &awaited) || handle_of(number, &stream, &go) != 0 ||
        handle_of(awaited, &event, &go) != 0)
        return NULL;
    CALL(go->stream_wait(stream, event, &e));
    Py_RETURN_NONE;
}

// stream_wait_tensor makes a stream wait until a tensor may be read there.
static PyObject *stream_wait_tensor(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *tensor;
    void *stream;
    const struct GoLib *go;
    if (!PyArg_ParseTuple(args, "OO:stream_wait_tensor", &number, &tensor) || handle_of(number, &stream, &go) != 0)
        return NULL;
    if (!tensor_check(tensor)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    return go_handoff(go, tensor_of(tensor), stream) == 0 ? Py_BuildValue("") : NULL;
}

static PyObject *stream_close(PyObject *module, PyObject *number) {
    (void)module;
    void *stream;
    const struct GoLib *go;
    if (closing(number, &stream, &go) != 0)
        return NULL;
    if (go != NULL)
        CALL(go->stream_close(stream, &e));
    Py_RETURN_NONE;
}

static PyObject *event_done(PyObject *module, PyObject *number) {
    (void)module;
    void *event;
    int32_t done;
    const struct GoLib *go;
    if (handle_of(number, &event, &go) != 0)
        return NULL;
    CALL(go->event_done(event, &done, &e));
    return PyBool_FromLong(done);
}

static PyObject *event_wait(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *event;
    const struct GoLib *go;
    if (!PyArg_ParseTuple(args, "OL:event_wait", &number, &timeout) || handle_of(number, &event, &go) != 0)
        return NULL;
    CALL(go->event_wait(event, timeout, &e));
    Py_RETURN_NONE;
}

static PyObject *event_close(PyObject *module, PyObject *number) {
    (void)module;
    void *event;
    const struct GoLib *go;
    if (closing(number, &event, &go) != 0)
        return NULL;
    if (go != NULL)
        CALL(go->event_close(event, &e));
    Py_RETURN_NONE;
}

PyMethodDef stream_methods[] = {
    {"stream_open", stream_open, METH_VARARGS, NULL},
    {"stream_native", stream_native, METH_O, NULL},
    {"stream_synchronize", stream_synchronize, METH_VARARGS, NULL},
    {"stream_record", stream_record, METH_O, NULL},
    {"stream_wait", stream_wait, METH_VARARGS, NULL},
    {"stream_wait_tensor", stream_wait_tensor, METH_VARARGS, NULL},
    {"stream_close", stream_close, METH_O, NULL},
    {"event_done", event_done, METH_O, NULL},
    {"event_wait", event_wait, METH_VARARGS, NULL},
    {"event_close", event_close, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
