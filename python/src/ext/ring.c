// Rings of connections, by libdlx. In Python a publisher and a subscription are integers, handles, which libdlx checks. A call takes
// the connection, too, whose error it raises if the connection has ended. The handle of a frame belongs to the memory of its
// tensor, which releases it.
#include "golib.h"

static dlx_status close_publisher(void *handle, dlx_error *e) { return go_loaded()->publisher_close(handle, e); }
static dlx_status close_subscription(void *handle, dlx_error *e) { return go_loaded()->subscription_close(handle, e); }

// device_of opens a device, unless it is None: then *opened is NULL.
static int device_of(const struct GoLib *go, PyObject *device, dlx_device **opened) {
    DLDevice id;
    *opened = NULL;
    if (device == Py_None)
        return 0;
    return parse_device(device, &id) == 0 && (*opened = go_device(go, id)) != NULL ? 0 : -1;
}

// ring_publish takes a connection, a name, extents, the type as code, bits and lanes, a device or None, the number of
// slots, the mode and a limit of time.
static PyObject *ring_publish(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *extents, *device;
    const char *name;
    unsigned char code, bits;
    unsigned short lanes;
    int slots, mode;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    int64_t shape[MAX_RANK];
    if (!PyArg_ParseTuple(args, "OsO!bbHOiiL:ring_publish", &number, &name, &PyTuple_Type, &extents, &code, &bits, &lanes,
                          &device, &slots, &mode, &timeout) ||
        go_handle(number, &connection, &go) != 0)
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
    const dlx_tensor_spec spec = {.dtype = {code, bits, lanes}, .rank = (int32_t)n, .shape = shape};
    dlx_ring ring = {.spec = &spec, .slots = slots, .mode = mode};
    dlx_publisher *publisher = NULL;
    dlx_error e;
    dlx_status status;
    if (device_of(go, device, &ring.device) != 0)
        return NULL;
    WAITING(status, go->connection_publish(connection, name, &ring, timeout, &publisher, &e));
    if (status == DLX_OK && !PyErr_Occurred())
        return go_number(publisher, close_publisher);
    if (status == DLX_OK) // a signal came at the same time
        WAITING(status, go->publisher_close(publisher, &e));
    return connection_exception(go, connection, &e);
}

// publisher_offer takes a publisher, a connection and a limit of time.
static PyObject *publisher_offer(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *to;
    long long timeout;
    void *publisher, *connection;
    const struct GoLib *go;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OOL:publisher_offer", &number, &to, &timeout) || go_handle(number, &publisher, &go) != 0 ||
        go_handle(to, &connection, &go) != 0)
        return NULL;
    WAITING(status, go->publisher_offer(publisher, connection, timeout, &e));
    if (status != DLX_OK || PyErr_Occurred())
        return connection_exception(go, connection, &e);
    Py_RETURN_NONE;
}

// publisher_exception sets the exception for an error of a call on a publisher.
static PyObject *publisher_exception(const dlx_error *e) { return PyErr_Occurred() ? NULL : go_exception(e); }

// count_is raises TypeError unless a function was called with so many arguments.
static bool count_is(Py_ssize_t count, Py_ssize_t want) {
    if (count != want)
        PyErr_Format(PyExc_TypeError, "dlx: %zd arguments were passed instead of %zd", count, want);
    return count == want;
}

// publisher_loan takes a publisher and a limit of time in seconds, or None.
static PyObject *publisher_loan(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int64_t timeout;
    int32_t unfinished;
    void *publisher;
    const struct GoLib *go;
    dlx_tensor *tensor = NULL;
    struct DLManagedTensorVersioned *managed = NULL;
    dlx_error e;
    dlx_status status;
    if (!count_is(count, 2) || go_handle(args[0], &publisher, &go) != 0 || go_timeout(args[1], &timeout) != 0)
        return NULL;
    WAITING(status, go->publisher_loan_exported(publisher, timeout, &tensor, &managed, &unfinished, &e));
    if (status == DLX_OK && !PyErr_Occurred()) {
        PyObject *t = sharable((PyObject *)take_go(PyModule_GetState(module), (DLVersioned *)managed, (uintptr_t)tensor));
        if (t != NULL)
            atomic_store(&tensor_of(t)->memory->idle, unfinished == 0);
        return t;
    }
    if (status == DLX_OK) { // a signal came at the same time
        ((DLVersioned *)managed)->deleter((DLVersioned *)managed);
        go->tensor_close(tensor, NULL);
    }
    return publisher_exception(&e);
}

// publisher_send takes a publisher, a tensor of a loan or a view of it, and a limit of time in seconds, or None. It returns the number of the
// frame. The tensor keeps its memory, so that nothing can use it when it is gone.
static PyObject *publisher_send(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    int64_t timeout;
    void *publisher;
    const struct GoLib *go;
    uint64_t sequence = 0;
    dlx_error e;
    dlx_status status;
    if (!count_is(count, 3) || go_handle(args[0], &publisher, &go) != 0 || go_timeout(args[2], &timeout) != 0)
        return NULL;
    PyObject *o = args[1];
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    Memory *m = tensor_of(o)->memory;
    uintptr_t handle = atomic_load(&m->handle);
    if (!m->shared || handle == 0) {
        PyErr_SetString(PyExc_ValueError, "dlx: the tensor is not on loan: send what loan has returned, and once");
        return NULL;
    }
    WAITING(status, go->publisher_send(publisher, (dlx_tensor *)handle, timeout, &sequence, &e));
    if (status == DLX_OK) // which has closed the handle
        atomic_compare_exchange_strong(&m->handle, &handle, 0);
    if (status != DLX_OK || PyErr_Occurred())
        return publisher_exception(&e);
    return PyLong_FromUnsignedLongLong(sequence);
}

// publisher_wait takes a publisher, a number of subscribers, or -1 to wait for releases, and a limit of time.
static PyObject *publisher_wait(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    int count;
    long long timeout;
    void *publisher;
    const struct GoLib *go;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OiL:publisher_wait", &number, &count, &timeout) || go_handle(number, &publisher, &go) != 0)
        return NULL;
    WAITING(status, count < 0 ? go->publisher_wait_released(publisher, timeout, &e)
                              : go->publisher_wait_readers(publisher, count, timeout, &e));
    if (status != DLX_OK || PyErr_Occurred())
        return publisher_exception(&e);
    Py_RETURN_NONE;
}

static PyObject *publisher_json(PyObject *module, PyObject *number) {
    (void)module;
    void *publisher;
    const struct GoLib *go;
    dlx_text *text = NULL;
    dlx_error e;
    if (go_handle(number, &publisher, &go) != 0)
        return NULL;
    return go->publisher_json(publisher, &text, &e) == DLX_OK ? go_text(go, text) : go_exception(&e);
}

// ring_subscribe takes a connection, a name, a device or None, how many frames may be held, and a limit of time.
static PyObject *ring_subscribe(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *device;
    const char *name;
    int hold;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    dlx_device *opened;
    dlx_subscription *subscription = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OsOiL:ring_subscribe", &number, &name, &device, &hold, &timeout) ||
        go_handle(number, &connection, &go) != 0 || device_of(go, device, &opened) != 0)
        return NULL;
    WAITING(status, go->connection_subscribe(connection, name, opened, hold, timeout, &subscription, &e));
    if (status == DLX_OK && !PyErr_Occurred())
        return go_number(subscription, close_subscription);
    if (status == DLX_OK) // a signal came at the same time
        WAITING(status, go->subscription_close(subscription, &e));
    return connection_exception(go, connection, &e);
}

// subscription_receive takes a subscription, its connection and a limit of time in seconds, or None. It returns the number of a
// frame and its tensor; None if the ring has ended.
static PyObject *subscription_receive(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    int64_t timeout;
    void *subscription, *connection;
    const struct GoLib *go;
    dlx_frame *frame = NULL;
    dlx_tensor_info info;
    uint64_t sequence = 0;
    int32_t ended = 0;
    dlx_error e;
    dlx_status status;
    if (!count_is(count, 3) || go_handle(args[0], &subscription, &go) != 0 || go_handle(args[1], &connection, &go) != 0 ||
        go_timeout(args[2], &timeout) != 0)
        return NULL;
    WAITING(status, go->subscription_receive_described(subscription, timeout, &frame, &sequence, &info, &ended, &e));
    if (ended && !PyErr_Occurred())
        Py_RETURN_NONE;
    if (status != DLX_OK)
        return connection_exception(go, connection, &e);
    if (PyErr_Occurred()) { // a signal came at the same time
        WAITING(status, go->frame_release(frame, NULL));
        return NULL;
    }
    PyObject *t = go_framed(PyModule_GetState(module), frame, &info), *number = PyLong_FromUnsignedLongLong(sequence);
    PyObject *found = t == NULL || number == NULL ? NULL : PyTuple_Pack(2, number, t);
    Py_XDECREF(number);
    Py_XDECREF(t);
    return found;
}

// frame_check takes the tensor of a frame. It raises an exception if the elements may not be those that were sent.
static PyObject *frame_check(PyObject *module, PyObject *o) {
    (void)module;
    dlx_error e;
    const struct GoLib *go = go_load();
    if (go == NULL)
        return NULL;
    if (!tensor_check(o) || tensor_of(o)->memory->frame == 0) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor of a frame");
        return NULL;
    }
    if (go->frame_error((dlx_frame *)tensor_of(o)->memory->frame, &e) == DLX_OK)
        Py_RETURN_NONE;
    return e.status == DLX_ERR_CLOSED ? PyErr_Format(PyExc_ConnectionResetError, "dlx: %s", e.text) : go_exception(&e);
}

static PyObject *publisher_close(PyObject *module, PyObject *number) {
    (void)module;
    return go_close_handle(number, close_publisher);
}

static PyObject *subscription_close(PyObject *module, PyObject *number) {
    (void)module;
    return go_close_handle(number, close_subscription);
}

PyMethodDef ring_methods[] = {
    {"ring_publish", ring_publish, METH_VARARGS, NULL},
    {"publisher_offer", publisher_offer, METH_VARARGS, NULL},
    {"publisher_loan", (PyCFunction)(void (*)(void))publisher_loan, METH_FASTCALL, NULL},
    {"publisher_send", (PyCFunction)(void (*)(void))publisher_send, METH_FASTCALL, NULL},
    {"publisher_wait", publisher_wait, METH_VARARGS, NULL},
    {"publisher_json", publisher_json, METH_O, NULL},
    {"publisher_close", publisher_close, METH_O, NULL},
    {"ring_subscribe", ring_subscribe, METH_VARARGS, NULL},
    {"subscription_receive", (PyCFunction)(void (*)(void))subscription_receive, METH_FASTCALL, NULL},
    {"subscription_close", subscription_close, METH_O, NULL},
    {"frame_check", frame_check, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
