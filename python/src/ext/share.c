// Connections to other processes, by libdlx; ring.c has their rings. In Python a connection or a listener is an integer, a
// handle, which libdlx checks.
#include "golib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Thread_local PyThreadState *go_away;

int32_t check_signals(void *context) {
    const atomic_bool *ended = context;
    if (go_away == NULL)
        return 0;
    if (atomic_load(ended)) // the lock cannot be had any more
        return 1;
    PyEval_RestoreThread(go_away);
    int stop = PyErr_CheckSignals() != 0;
    go_away = PyEval_SaveThread();
    return stop;
}

PyObject *go_number(void *handle, dlx_status (*close)(void *, dlx_error *)) {
    PyObject *number = PyLong_FromVoidPtr(handle);
    if (number == NULL) {
        PyThreadState *saved = PyEval_SaveThread();
        close(handle, NULL);
        PyEval_RestoreThread(saved);
    }
    return number;
}

static dlx_status close_connection(void *handle, dlx_error *e) { return go_loaded()->connection_close(handle, e); }
static dlx_status close_listener(void *handle, dlx_error *e) { return go_loaded()->listener_close(handle, e); }

PyObject *share_exception(const dlx_error *e) {
    char text[sizeof e->text + 8];
    if (PyErr_Occurred())
        return NULL;
    snprintf(text, sizeof text, "dlx: %s", e->text);
    if (e->status == DLX_ERR_EXISTS)
        return go_os_error(e->native_code != 0 ? (int)e->native_code : EEXIST, text);
    if ((e->status == DLX_ERR_CLOSED || e->status == DLX_ERR_INVALID) && e->native_code != 0)
        return go_os_error((int)e->native_code, text);
    if (e->status == DLX_ERR_CANCELED)
        return PyErr_Format(PyExc_RuntimeError, "dlx: the interpreter is ending");
    return go_exception(e);
}

PyObject *ended_type(int32_t state) {
    if (state == DLX_CONNECTION_ENDED)
        return PyExc_EOFError;
    if (state == DLX_CONNECTION_LOST)
        return PyExc_ConnectionResetError;
    return state == DLX_CONNECTION_REFUSED ? PyExc_ConnectionAbortedError : NULL;
}

PyObject *connection_exception(const struct GoLib *go, dlx_connection *c, const dlx_error *e) {
    dlx_connection_info info;
    if (PyErr_Occurred())
        return NULL;
    PyObject *type = NULL;
    if (go->connection_get_info(c, &info, NULL) == DLX_OK)
        type = ended_type(info.state);
    if (type == NULL && e->status == DLX_ERR_EXISTS) // the name of a ring, and no file
        return PyErr_Format(PyExc_ValueError, "dlx: %s", e->text);
    dlx_error why;
    if (type == NULL || go->connection_error(c, &why) == DLX_OK)
        return share_exception(e);
    return PyErr_Format(type, "dlx: %s", why.text);
}

// Options are options of libdlx, with what they point to.
typedef struct {
    dlx_share_options options;
    dlx_device *devices[64];
} Options;

// options_read reads a tuple: names of devices, three limits, whether tensors are read-only, the mode of a socket, and three
// limits for each user. It opens the devices, which stay open.
static int options_read(State *s, const struct GoLib *go, PyObject *tuple, Options *o) {
    PyObject *names;
    long long bytes, user_bytes;
    int memories, tensors, read_only, mode, user_connections, user_descriptors;
    *o = (Options){.options = {.poll = check_signals, .poll_context = (void *)s->ended}};
    if (!PyArg_ParseTuple(tuple, "O!LiipiLii", &PyTuple_Type, &names, &bytes, &memories, &tensors, &read_only, &mode,
                          &user_bytes, &user_connections, &user_descriptors))
        return -1;
    Py_ssize_t n = PyTuple_Size(names);
    if (n > 64) {
        PyErr_Format(PyExc_ValueError, "dlx: %zd devices were given; 64 are possible", n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        DLDevice id;
        if (parse_device(PyTuple_GetItem(names, i), &id) != 0 || (o->devices[i] = go_device(go, id)) == NULL)
            return -1;
    }
    o->options.devices = o->devices;
    o->options.device_count = (size_t)n;
    o->options.limit_bytes = bytes;
    o->options.limit_memories = memories;
    o->options.limit_tensors = tensors;
    o->options.read_only = read_only;
    o->options.mode = mode;
    o->options.user_limit_bytes = user_bytes;
    o->options.user_limit_connections = user_connections;
    o->options.user_limit_descriptors = user_descriptors;
    return 0;
}

static PyObject *share_listen(PyObject *module, PyObject *args) {
    PyObject *path, *tuple;
    Options o;
    if (!PyArg_ParseTuple(args, "O&O!:share_listen", PyUnicode_FSConverter, &path, &PyTuple_Type, &tuple))
        return NULL;
    const struct GoLib *go = go_load();
    PyObject *result = NULL;
    dlx_listener *listener = NULL;
    dlx_error e;
    if (go != NULL && options_read(PyModule_GetState(module), go, tuple, &o) == 0) {
        dlx_status status;
        WAITING(status, go->share_listen(PyBytes_AsString(path), &o.options, &listener, &e));
        result = status == DLX_OK ? go_number(listener, close_listener) : share_exception(&e);
    }
    Py_DECREF(path);
    return result;
}

static PyObject *listener_accept(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *listener;
    const struct GoLib *go;
    dlx_connection *connection = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OL:listener_accept", &number, &timeout) || go_handle(number, &listener, &go) != 0)
        return NULL;
    WAITING(status, go->listener_accept(listener, timeout, &connection, &e));
    if (status == DLX_OK && !PyErr_Occurred())
        return go_number(connection, close_connection);
    if (status == DLX_OK) // a signal came at the same time
        WAITING(status, go->connection_close(connection, &e));
    return share_exception(&e);
}

static PyObject *share_connect(PyObject *module, PyObject *args) {
    PyObject *path, *tuple;
    long long timeout;
    Options o;
    if (!PyArg_ParseTuple(args, "O&O!L:share_connect", PyUnicode_FSConverter, &path, &PyTuple_Type, &tuple, &timeout))
        return NULL;
    const struct GoLib *go = go_load();
    PyObject *result = NULL;
    dlx_connection *connection = NULL;
    dlx_error e;
    if (go != NULL && options_read(PyModule_GetState(module), go, tuple, &o) == 0) {
        dlx_status status;
        WAITING(status, go->share_connect(PyBytes_AsString(path), &o.options, timeout, &connection, &e));
        if (status == DLX_OK && !PyErr_Occurred())
            result = go_number(connection, close_connection);
        else {
            if (status == DLX_OK)
                WAITING(status, go->connection_close(connection, &e));
            share_exception(&e);
        }
    }
    Py_DECREF(path);
    return result;
}

static PyObject *share_adopt(PyObject *module, PyObject *args) {
    PyObject *tuple;
    int fd;
    Options o;
    dlx_connection *connection = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "iO!:share_adopt", &fd, &PyTuple_Type, &tuple))
        return NULL;
    const struct GoLib *go = go_load();
    if (go == NULL || options_read(PyModule_GetState(module), go, tuple, &o) != 0)
        return NULL;
    WAITING(status, go->share_adopt(fd, &o.options, &connection, &e));
    return status == DLX_OK ? go_number(connection, close_connection) : share_exception(&e);
}

// Held describes the memory of a tensor of libdlx whose handle keeps it.
typedef struct {
    DLVersioned m;
    int64_t dims[];
} Held;

static void free_held(DLVersioned *m) { free(m); }

PyObject *go_shared(State *s, const struct GoLib *go, dlx_tensor *handle) {
    dlx_tensor_info info;
    dlx_error e;
    if (go->tensor_get_info(handle, &info, &e) == DLX_OK)
        return go_described(s, handle, &info);
    go_exception(&e);
    go_close((uintptr_t)handle);
    return NULL;
}

// described makes a tensor of a description. The caller gives it what keeps the memory.
static Tensor *described(State *s, const dlx_tensor_info *info) {
    Held *x = calloc(1, sizeof *x + 2 * sizeof *x->dims * (size_t)info->rank);
    if (x == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    x->m.version = (DLVersion){DL_MAJOR, DL_MINOR};
    x->m.deleter = free_held;
    x->m.flags = info->flags & (FLAG_READ_ONLY | FLAG_PADDED);
    x->m.tensor = (DLTensor){.data = info->data, .device = {info->device.type, info->device.index}, .ndim = info->rank,
                             .dtype = {info->dtype.code, info->dtype.bits, info->dtype.lanes}, .shape = x->dims,
                             .strides = x->dims + info->rank, .byte_offset = info->byte_offset};
    for (int i = 0; i < info->rank; i++) {
        x->m.tensor.shape[i] = info->shape[i];
        x->m.tensor.strides[i] = info->strides[i];
    }
    Tensor *t = take_go(s, &x->m, 0);
    if (t != NULL) {
        t->memory->shared = true;
        atomic_store(&t->memory->idle, info->unfinished == 0);
    }
    return t;
}

PyObject *go_described(State *s, dlx_tensor *handle, const dlx_tensor_info *info) {
    Tensor *t = described(s, info);
    if (t == NULL) {
        go_close((uintptr_t)handle);
        return NULL;
    }
    atomic_store(&t->memory->handle, (uintptr_t)handle);
    atomic_store(&t->memory->idle, false); // another process may get to use it
    return (PyObject *)t;
}

PyObject *go_framed(State *s, dlx_frame *frame, const dlx_tensor_info *info) {
    Tensor *t = described(s, info);
    if (t == NULL) {
        Py_BEGIN_ALLOW_THREADS
        go_release((uintptr_t)frame);
        Py_END_ALLOW_THREADS
        return NULL;
    }
    t->memory->frame = (uintptr_t)frame;
    return (PyObject *)t;
}

int go_timeout(PyObject *seconds, int64_t *timeout) {
    *timeout = 0;
    if (seconds == Py_None)
        return 0;
    double limit = PyFloat_AsDouble(seconds);
    if (limit == -1 && PyErr_Occurred())
        return -1;
    if (!(limit > 0 && limit < 8589934592)) {
        PyErr_Format(PyExc_ValueError, "dlx: timeout is %R: pass a positive number of seconds, or None for no limit", seconds);
        return -1;
    }
    *timeout = (int64_t)(limit * 1e9);
    if (*timeout == 0)
        *timeout = 1;
    return 0;
}

PyObject *sharable(PyObject *result) {
    if (result != NULL)
        tensor_of(result)->memory->shared = true;
    return result;
}

// share_empty takes a tuple of extents, the type as code, bits and lanes, and the device.
static PyObject *share_empty(PyObject *module, PyObject *args) {
    PyObject *extents, *device;
    unsigned char code, bits;
    unsigned short lanes;
    DLDevice id;
    int64_t shape[MAX_RANK];
    if (!PyArg_ParseTuple(args, "O!bbHO:share_empty", &PyTuple_Type, &extents, &code, &bits, &lanes, &device) ||
        parse_device(device, &id) != 0)
        return NULL;
    Py_ssize_t n = PyTuple_Size(extents);
    if (n > MAX_RANK) {
        PyErr_SetString(PyExc_ValueError, "dlx: the shape has more than 64 axes");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        shape[i] = PyNumber_AsSsize_t(PyTuple_GetItem(extents, i), PyExc_ValueError);
        if (shape[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    const struct GoLib *go = go_load();
    dlx_device *opened = go == NULL ? NULL : go_device(go, id);
    if (opened == NULL)
        return NULL;
    const dlx_tensor_spec spec = {.dtype = {code, bits, lanes}, .rank = (int32_t)n, .shape = shape};
    dlx_tensor *tensor = NULL;
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = go->share_alloc(opened, &spec, 0, &tensor, &e);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK)
        return go_exception(&e);
    return go_shared(PyModule_GetState(module), go, tensor);
}

// share_copy takes a tensor, and a device or None for the tensor's own.
static PyObject *share_copy(PyObject *module, PyObject *args) {
    PyObject *o, *device;
    if (!PyArg_ParseTuple(args, "OO:share_copy", &o, &device))
        return NULL;
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    Tensor *t = tensor_of(o);
    DLDevice id = t->t.device;
    if (device != Py_None && parse_device(device, &id) != 0)
        return NULL;
    const struct GoLib *go = go_load();
    dlx_device *opened = go == NULL ? NULL : go_device(go, id);
    if (opened == NULL || (t->memory->has_stream && go_handoff(go, t, NULL) != 0))
        return NULL;
    dlx_tensor *from = go_source(go, t, (DLDevice){0, 0}), *result = NULL;
    dlx_error e;
    dlx_status status;
    if (from == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = go->share_copy(from, opened, 0, &result, NULL, &e);
    if (status == DLX_OK && (status = go->tensor_wait_ready(result, 0, &e)) != DLX_OK)
        go->tensor_close(result, NULL);
    go->tensor_close(from, NULL);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK)
        return go_exception(&e);
    return go_shared(PyModule_GetState(module), go, result);
}

static const char report_name[] = "dlx.report";

static void close_report(PyObject *capsule) {
    go_loaded()->report_close(PyCapsule_GetPointer(capsule, report_name), NULL);
}

// report_capsule makes an object that owns a report, or closes the report. Most programs read few reports, whose text takes
// longer than the message of a tensor.
static PyObject *report_capsule(const struct GoLib *go, dlx_report *report) {
    PyObject *capsule = PyCapsule_New(report, report_name, close_report);
    if (capsule == NULL)
        go->report_close(report, NULL);
    return capsule;
}

// report_text takes what connection_send or connection_receive has returned, and returns the text of the report.
static PyObject *report_text(PyObject *module, PyObject *capsule) {
    (void)module;
    dlx_report *report = PyCapsule_GetPointer(capsule, report_name);
    const struct GoLib *go = report == NULL ? NULL : go_load();
    dlx_text *text = NULL;
    dlx_error e;
    if (go == NULL)
        return NULL;
    return go->report_json(report, &text, &e) == DLX_OK ? go_text(go, text) : go_exception(&e);
}

PyObject *report_of(const struct GoLib *go, dlx_report *report) {
    dlx_text *text = NULL;
    dlx_error e;
    dlx_status status = go->report_json(report, &text, &e);
    go->report_close(report, NULL);
    return status == DLX_OK ? go_text(go, text) : go_exception(&e);
}

// connection_send takes a connection, a tensor, a label and a limit of time. It returns the report.
static PyObject *connection_send(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *o;
    const char *label;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    if (!PyArg_ParseTuple(args, "OOsL:connection_send", &number, &o, &label, &timeout) ||
        go_handle(number, &connection, &go) != 0)
        return NULL;
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    Tensor *t = tensor_of(o);
    if (t->memory->has_stream && go_handoff(go, t, NULL) != 0) // libdlx does not know what its producer does there
        return NULL;
    dlx_tensor *whole = go_whole(t), *tensor = whole != NULL ? whole : go_source(go, t, (DLDevice){0, 0});
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (tensor == NULL)
        return NULL;
    WAITING(status, go->connection_send(connection, tensor, label, timeout, &report, &e));
    if (whole == NULL) {
        Py_BEGIN_ALLOW_THREADS
        go->tensor_close(tensor, NULL);
        Py_END_ALLOW_THREADS
    }
    if (status != DLX_OK)
        return connection_exception(go, connection, &e);
    if (!PyErr_Occurred())
        return report_capsule(go, report);
    go->report_close(report, NULL); // a signal came at the same time
    return NULL;
}

// connection_receive takes a connection, a device or None, and a limit of time. It returns a tensor and the report.
static PyObject *connection_receive(PyObject *module, PyObject *args) {
    PyObject *number, *device;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    DLDevice id;
    dlx_device *opened = NULL;
    dlx_tensor *tensor = NULL;
    dlx_tensor_info info;
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OOL:connection_receive", &number, &device, &timeout) ||
        go_handle(number, &connection, &go) != 0)
        return NULL;
    if (device != Py_None && (parse_device(device, &id) != 0 || (opened = go_device(go, id)) == NULL))
        return NULL;
    WAITING(status, go->connection_receive_described(connection, opened, timeout, &tensor, &info, &report, &e));
    if (status != DLX_OK)
        return connection_exception(go, connection, &e);
    PyObject *how = PyErr_Occurred() ? NULL : report_capsule(go, report);
    if (how == NULL) { // also if a signal came at the same time
        Py_BEGIN_ALLOW_THREADS
        go->report_close(report, NULL); // unless it is closed
        go->tensor_close(tensor, NULL);
        Py_END_ALLOW_THREADS
        return NULL;
    }
    PyObject *result = go_described(PyModule_GetState(module), tensor, &info);
    if (result == NULL) {
        Py_DECREF(how);
        return NULL;
    }
    return Py_BuildValue("(NN)", result, how);
}

static PyObject *connection_wait_released(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OL:connection_wait_released", &number, &timeout) ||
        go_handle(number, &connection, &go) != 0)
        return NULL;
    WAITING(status, go->connection_wait_released(connection, timeout, &e));
    if (status != DLX_OK || PyErr_Occurred())
        return connection_exception(go, connection, &e);
    Py_RETURN_NONE;
}

// connection_check raises the exception of a connection that has ended.
static PyObject *connection_check(PyObject *module, PyObject *number) {
    (void)module;
    void *connection;
    const struct GoLib *go;
    dlx_error e;
    if (go_handle(number, &connection, &go) != 0)
        return NULL;
    if (go->connection_error(connection, &e) != DLX_OK)
        return connection_exception(go, connection, &e);
    Py_RETURN_NONE;
}

static PyObject *connection_json(PyObject *module, PyObject *number) {
    (void)module;
    void *connection;
    const struct GoLib *go;
    dlx_text *text = NULL;
    dlx_error e;
    if (go_handle(number, &connection, &go) != 0)
        return NULL;
    return go->connection_json(connection, &text, &e) == DLX_OK ? go_text(go, text) : go_exception(&e);
}

PyObject *go_close_handle(PyObject *number, dlx_status (*close)(void *, dlx_error *)) {
    void *handle;
    const struct GoLib *go;
    dlx_error e;
    dlx_status status;
    if (go_loaded() != NULL && !go_usable())
        Py_RETURN_NONE;
    if (go_handle(number, &handle, &go) != 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = close(handle, &e);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK)
        return share_exception(&e);
    Py_RETURN_NONE;
}

static PyObject *connection_close(PyObject *module, PyObject *number) {
    (void)module;
    return go_close_handle(number, close_connection);
}

static PyObject *listener_close(PyObject *module, PyObject *number) {
    (void)module;
    return go_close_handle(number, close_listener);
}

PyMethodDef share_methods[] = {
    {"share_listen", share_listen, METH_VARARGS, NULL},
    {"listener_accept", listener_accept, METH_VARARGS, NULL},
    {"listener_close", listener_close, METH_O, NULL},
    {"share_connect", share_connect, METH_VARARGS, NULL},
    {"share_adopt", share_adopt, METH_VARARGS, NULL},
    {"share_empty", share_empty, METH_VARARGS, NULL},
    {"share_copy", share_copy, METH_VARARGS, NULL},
    {"connection_send", connection_send, METH_VARARGS, NULL},
    {"connection_receive", connection_receive, METH_VARARGS, NULL},
    {"report_text", report_text, METH_O, NULL},
    {"connection_wait_released", connection_wait_released, METH_VARARGS, NULL},
    {"connection_check", connection_check, METH_O, NULL},
    {"connection_json", connection_json, METH_O, NULL},
    {"connection_close", connection_close, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
