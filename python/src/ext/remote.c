// Connections to other machines, by libdlx. In Python a listener, a connection and an offer are integers, handles, which
// libdlx checks.
#include "golib.h"

#include <errno.h>
#include <string.h>

static dlx_status close_listener(void *handle, dlx_error *e) { return go_loaded()->remote_listener_close(handle, e); }
static dlx_status close_connection(void *handle, dlx_error *e) { return go_loaded()->remote_connection_close(handle, e); }
static dlx_status close_offer(void *handle, dlx_error *e) { return go_loaded()->remote_offer_close(handle, e); }

// remote_exception sets the exception for an error of a call on a connection: its own if the connection has ended. That of a
// signal's handler stays. It returns NULL.
static PyObject *remote_exception(const struct GoLib *go, dlx_remote_connection *c, const dlx_error *e) {
    dlx_remote_connection_info info;
    dlx_error why;
    if (PyErr_Occurred())
        return NULL;
    PyObject *type = go->remote_connection_get_info(c, &info, NULL) == DLX_OK ? ended_type(info.state) : NULL;
    if (type == PyExc_EOFError && e->status == DLX_ERR_CLOSED && e->native_code == ECONNRESET) // tensors are missing
        return PyErr_Format(PyExc_ConnectionResetError, "dlx: %s", e->text);
    if (type != NULL && go->remote_connection_error(c, &why) != DLX_OK)
        return PyErr_Format(type, "dlx: %s", why.text);
    return share_exception(e);
}

// connect_exception sets the exception for an error of a call that connects. It returns NULL.
static PyObject *connect_exception(const dlx_error *e) {
    if (PyErr_Occurred())
        return NULL;
    if (e->status == DLX_ERR_CLOSED && e->native_code == 0) // one of the processes does not accept the other one
        return PyErr_Format(PyExc_ConnectionRefusedError, "dlx: %s", e->text);
    if (e->status == DLX_ERR_VERSION || (e->status == DLX_ERR_INVALID && strcmp(e->call, "message") == 0))
        return PyErr_Format(PyExc_ConnectionAbortedError, "dlx: %s", e->text);
    return share_exception(e);
}

// text_or_null reads bytes that end with a NUL, or None, for which *text is NULL. The object keeps the text.
static int text_or_null(PyObject *o, const char **text) {
    char *at = NULL;
    if (o != Py_None && PyBytes_AsStringAndSize(o, &at, NULL) != 0)
        return -1;
    *text = at;
    return 0;
}

// options_read reads a tuple: a token, three paths and a name, each as bytes or None, two times in nanoseconds, three limits,
// and whether the connection is insecure. The tuple keeps what o points to.
static int options_read(State *s, PyObject *tuple, dlx_remote_options *o) {
    PyObject *token, *cert, *key, *ca, *name, *flag;
    long long keep_alive, spin, bytes;
    int tensors, requests, insecure;
    *o = (dlx_remote_options){.poll = check_signals, .poll_context = (void *)s->ended};
    if (!PyArg_ParseTuple(tuple, "OOOOOLLLiiO", &token, &cert, &key, &ca, &name, &keep_alive, &spin, &bytes, &tensors,
                          &requests, &flag) ||
        parse_flag(flag, "insecure", &insecure) != 0 ||
        text_or_null(cert, &o->cert_file) != 0 || text_or_null(key, &o->key_file) != 0 ||
        text_or_null(ca, &o->ca_file) != 0 || text_or_null(name, &o->server_name) != 0)
        return -1;
    if (token != Py_None) {
        char *at;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(token, &at, &size) != 0)
            return -1;
        o->token = at;
        o->token_size = (size_t)size;
    }
    o->keep_alive_ns = keep_alive;
    o->spin_ns = spin;
    o->limit_bytes = bytes;
    o->limit_tensors = tensors;
    o->limit_requests = requests;
    o->insecure = insecure == 1;
    return 0;
}

// remote_version returns the version of UCX.
static PyObject *remote_version(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    const struct GoLib *go = go_load();
    dlx_text *text = NULL;
    dlx_error e;
    dlx_status status;
    if (go == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = go->remote_available(&text, &e);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *remote_listen(PyObject *module, PyObject *args) {
    const char *address;
    PyObject *tuple;
    dlx_remote_options o;
    dlx_remote_listener *listener = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "sO!:remote_listen", &address, &PyTuple_Type, &tuple) ||
        options_read(PyModule_GetState(module), tuple, &o) != 0)
        return NULL;
    const struct GoLib *go = go_load();
    if (go == NULL)
        return NULL;
    WAITING(status, go->remote_listen(address, &o, &listener, &e));
    return status == DLX_OK ? go_number(listener, close_listener) : share_exception(&e);
}

static PyObject *remote_address(PyObject *module, PyObject *number) {
    (void)module;
    void *listener;
    const struct GoLib *go;
    dlx_text *text = NULL;
    dlx_error e;
    if (go_handle(number, &listener, &go) != 0)
        return NULL;
    return go->remote_listener_address(listener, &text, &e) == DLX_OK ? go_text(go, text) : go_exception(&e);
}

// connected returns the handle of a connection. If a signal came at the same time, it closes the connection.
static PyObject *connected(dlx_remote_connection *connection) {
    if (!PyErr_Occurred())
        return go_number(connection, close_connection);
    PyThreadState *saved = PyEval_SaveThread();
    close_connection(connection, NULL);
    PyEval_RestoreThread(saved);
    return NULL;
}

static PyObject *remote_accept(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *listener;
    const struct GoLib *go;
    dlx_remote_connection *connection = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OL:remote_accept", &number, &timeout) || go_handle(number, &listener, &go) != 0)
        return NULL;
    WAITING(status, go->remote_listener_accept(listener, timeout, &connection, &e));
    return status == DLX_OK ? connected(connection) : share_exception(&e);
}

// remote_serve takes a listener and a limit of time. It returns when the listener is closed.
static PyObject *remote_serve(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *listener;
    const struct GoLib *go;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OL:remote_serve", &number, &timeout) || go_handle(number, &listener, &go) != 0)
        return NULL;
    WAITING(status, go->remote_listener_serve(listener, timeout, &e));
    if (status != DLX_ERR_CLOSED || PyErr_Occurred())
        return share_exception(&e);
    Py_RETURN_NONE;
}

static PyObject *remote_connect(PyObject *module, PyObject *args) {
    const char *address;
    PyObject *tuple;
    long long timeout;
    dlx_remote_options o;
    dlx_remote_connection *connection = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "sO!L:remote_connect", &address, &PyTuple_Type, &tuple, &timeout) ||
        options_read(PyModule_GetState(module), tuple, &o) != 0)
        return NULL;
    const struct GoLib *go = go_load();
    if (go == NULL)
        return NULL;
    WAITING(status, go->remote_connect(address, &o, timeout, &connection, &e));
    return status == DLX_OK ? connected(connection) : connect_exception(&e);
}

// source_of returns a tensor of libdlx for a tensor of Python whose elements are read, or overwritten. The caller closes it.
// It returns NULL with an exception.
static dlx_tensor *source_of(const struct GoLib *go, PyObject *o) {
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    Tensor *t = tensor_of(o);
    if (t->memory->has_stream && go_handoff(go, t, NULL) != 0) // libdlx does not know what its producer does there
        return NULL;
    return go_source(go, t, (DLDevice){0, 0});
}

// left returns the report of a call that has read a tensor, which it closes, and ended with status.
static PyObject *left(const struct GoLib *go, dlx_remote_connection *c, dlx_tensor *tensor, dlx_status status,
                      dlx_report *report, const dlx_error *e) {
    Py_BEGIN_ALLOW_THREADS
    go->tensor_close(tensor, NULL);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK)
        return remote_exception(go, c, e);
    PyObject *result = PyErr_Occurred() ? NULL : report_of(go, report);
    if (result == NULL)
        go->report_close(report, NULL); // unless it is closed
    return result;
}

// arrived returns a tensor and the report of a call that has received it, and ended with status.
static PyObject *arrived(State *s, const struct GoLib *go, dlx_remote_connection *c, dlx_status status, dlx_tensor *tensor,
                         dlx_report *report, const dlx_error *e) {
    if (status != DLX_OK)
        return remote_exception(go, c, e);
    PyObject *text = PyErr_Occurred() ? NULL : report_of(go, report);
    if (text == NULL) { // also if a signal came at the same time
        Py_BEGIN_ALLOW_THREADS
        go->report_close(report, NULL); // unless it is closed
        go->tensor_close(tensor, NULL);
        Py_END_ALLOW_THREADS
        return NULL;
    }
    PyObject *result = go_result(s, go, tensor, false);
    if (result == NULL) {
        Py_DECREF(text);
        return NULL;
    }
    return Py_BuildValue("(NN)", result, text);
}

// remote_send takes a connection, a tensor, a label and a limit of time. It returns the report.
static PyObject *remote_send(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *o;
    const char *label;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OOsL:remote_send", &number, &o, &label, &timeout) ||
        go_handle(number, &connection, &go) != 0)
        return NULL;
    dlx_tensor *tensor = source_of(go, o);
    if (tensor == NULL)
        return NULL;
    WAITING(status, go->remote_send(connection, tensor, label, timeout, &report, &e));
    return left(go, connection, tensor, status, report, &e);
}

// device_for opens a device. It returns NULL with an exception.
static dlx_device *device_for(const struct GoLib *go, PyObject *device) {
    DLDevice id;
    return parse_device(device, &id) == 0 ? go_device(go, id) : NULL;
}

// remote_receive takes a connection, a device and a limit of time. It returns a tensor and the report.
static PyObject *remote_receive(PyObject *module, PyObject *args) {
    PyObject *number, *device;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    dlx_tensor *tensor = NULL;
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OOL:remote_receive", &number, &device, &timeout) ||
        go_handle(number, &connection, &go) != 0)
        return NULL;
    dlx_device *opened = device_for(go, device);
    if (opened == NULL)
        return NULL;
    WAITING(status, go->remote_receive(connection, opened, timeout, &tensor, &report, &e));
    return arrived(PyModule_GetState(module), go, connection, status, tensor, report, &e);
}

// remote_fetch takes a connection, a descriptor, the first row, the row after the last one, a device and a limit of time. It
// returns a tensor and the report.
static PyObject *remote_fetch(PyObject *module, PyObject *args) {
    PyObject *number, *descriptor, *device;
    char *data;
    Py_ssize_t size;
    long long start, stop, timeout;
    void *connection;
    const struct GoLib *go;
    dlx_tensor *tensor = NULL;
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OSLLOL:remote_fetch", &number, &descriptor, &start, &stop, &device, &timeout) ||
        PyBytes_AsStringAndSize(descriptor, &data, &size) != 0 || go_handle(number, &connection, &go) != 0)
        return NULL;
    dlx_device *opened = device_for(go, device);
    if (opened == NULL)
        return NULL;
    WAITING(status, go->remote_connection_fetch(connection, data, (size_t)size, start, stop, opened, timeout, &tensor,
                                                &report, &e));
    return arrived(PyModule_GetState(module), go, connection, status, tensor, report, &e);
}

// remote_connection_checksum takes a connection, a descriptor, the first row, the row after the last one and a limit of time. It
// returns a SHA-256.
static PyObject *remote_connection_checksum(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *descriptor;
    char *data;
    Py_ssize_t size;
    long long start, stop, timeout;
    void *connection;
    const struct GoLib *go;
    uint8_t sum[DLX_REMOTE_CHECKSUM_SIZE];
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OSLLL:remote_connection_checksum", &number, &descriptor, &start, &stop, &timeout) ||
        PyBytes_AsStringAndSize(descriptor, &data, &size) != 0 || go_handle(number, &connection, &go) != 0)
        return NULL;
    WAITING(status, go->remote_connection_checksum(connection, data, (size_t)size, start, stop, timeout, sum, &e));
    if (status != DLX_OK || PyErr_Occurred())
        return remote_exception(go, connection, &e);
    return PyBytes_FromStringAndSize((char *)sum, sizeof sum);
}

// remote_checksum takes a tensor and a limit of time. It returns a SHA-256.
static PyObject *remote_checksum(PyObject *module, PyObject *args) {
    PyObject *o;
    long long timeout;
    State *s = PyModule_GetState(module);
    uint8_t sum[DLX_REMOTE_CHECKSUM_SIZE];
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OL:remote_checksum", &o, &timeout))
        return NULL;
    const struct GoLib *go = go_load();
    dlx_tensor *tensor = go == NULL ? NULL : source_of(go, o);
    if (tensor == NULL)
        return NULL;
    WAITING(status, go->remote_checksum(tensor, check_signals, (void *)s->ended, timeout, sum, &e));
    Py_BEGIN_ALLOW_THREADS
    go->tensor_close(tensor, NULL);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK || PyErr_Occurred())
        return share_exception(&e);
    return PyBytes_FromStringAndSize((char *)sum, sizeof sum);
}

// remote_put takes a connection, a descriptor, the first row or -1, a tensor and a limit of time. It returns the report.
static PyObject *remote_put(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *descriptor, *o;
    char *data;
    Py_ssize_t size;
    long long start, timeout;
    void *connection;
    const struct GoLib *go;
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OSLOL:remote_put", &number, &descriptor, &start, &o, &timeout) ||
        PyBytes_AsStringAndSize(descriptor, &data, &size) != 0 || go_handle(number, &connection, &go) != 0)
        return NULL;
    dlx_tensor *tensor = source_of(go, o);
    if (tensor == NULL)
        return NULL;
    WAITING(status, go->remote_connection_put(connection, data, (size_t)size, start, tensor, timeout, &report, &e));
    return left(go, connection, tensor, status, report, &e);
}

// offered returns an offer, which it owns, and its descriptor.
static PyObject *offered(const struct GoLib *go, dlx_remote_offer *offer) {
    char data[DLX_REMOTE_MAX_DESCRIPTOR];
    size_t size;
    dlx_error e;
    if (go->remote_offer_descriptor(offer, data, sizeof data, &size, &e) != DLX_OK) {
        go->remote_offer_close(offer, NULL);
        return go_exception(&e);
    }
    PyObject *handle = go_number(offer, close_offer);
    PyObject *result = handle == NULL ? NULL : Py_BuildValue("(Oy#)", handle, data, (Py_ssize_t)size);
    if (result == NULL && handle != NULL)
        go->remote_offer_close(offer, NULL);
    Py_XDECREF(handle);
    return result;
}

// remote_offer takes a listener, or a connection if the second argument is true, a tensor, the nanoseconds of the lease,
// whether it is writable, and an address and a name as bytes or None. It returns an offer and its descriptor.
static PyObject *remote_offer(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number, *o, *address, *name, *flag;
    int of_connection, writable;
    long long lease;
    void *owner;
    const struct GoLib *go;
    dlx_offer_options options = {0};
    dlx_remote_offer *offer = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OpOLOOO:remote_offer", &number, &of_connection, &o, &lease, &flag, &address, &name) ||
        parse_flag(flag, "writable", &writable) != 0 ||
        text_or_null(address, &options.address) != 0 || text_or_null(name, &options.name) != 0 ||
        go_handle(number, &owner, &go) != 0)
        return NULL;
    dlx_tensor *tensor = source_of(go, o);
    if (tensor == NULL)
        return NULL;
    options.lease_ns = lease;
    options.writable = writable == 1;
    Py_BEGIN_ALLOW_THREADS
    status = of_connection ? go->remote_connection_offer(owner, tensor, &options, &offer, &e)
                           : go->remote_listener_offer(owner, tensor, &options, &offer, &e);
    go->tensor_close(tensor, NULL);
    Py_END_ALLOW_THREADS
    if (status == DLX_ERR_EXISTS) // the name of an offer, and no file
        return PyErr_Format(PyExc_ValueError, "dlx: %s", e.text);
    if (status != DLX_OK)
        return of_connection ? remote_exception(go, owner, &e) : share_exception(&e);
    return offered(go, offer);
}

enum { LISTED_AT_ONCE = 4096 }; // offers in one text: its copies in Go and in Python exist at the same time

// listed returns a list of texts, each of which describes some offers of a list of count, which stays open.
static PyObject *listed(const struct GoLib *go, dlx_remote_list *list, size_t count) {
    PyObject *result = PyErr_Occurred() ? NULL : PyList_New(0);
    for (size_t i = 0; result != NULL && i < count; i += LISTED_AT_ONCE) {
        const size_t stop = count - i < LISTED_AT_ONCE ? count : i + LISTED_AT_ONCE;
        dlx_text *text = NULL;
        dlx_error e;
        dlx_status status;
        Py_BEGIN_ALLOW_THREADS
        status = go->remote_list_json(list, i, stop, &text, &e);
        Py_END_ALLOW_THREADS
        PyObject *item = status == DLX_OK ? go_text(go, text) : go_exception(&e);
        if (item == NULL || PyList_Append(result, item) != 0)
            Py_CLEAR(result);
        Py_XDECREF(item);
    }
    return result;
}

// remote_list takes a connection and a limit of time. It returns the offers of the other process in JSON, as a list of
// texts.
static PyObject *remote_list(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    dlx_remote_list *list = NULL;
    size_t count;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OL:remote_list", &number, &timeout) || go_handle(number, &connection, &go) != 0)
        return NULL;
    WAITING(status, go->remote_connection_list(connection, timeout, &list, &count, &e));
    if (status != DLX_OK)
        return remote_exception(go, connection, &e);
    PyObject *result = listed(go, list, count);
    go->remote_list_close(list, NULL);
    return result;
}

// parts_read reads a tuple of parts: a descriptor, a connection or 0, the first row, the row after the last one, and the row of
// the result. It returns an array that the caller frees by PyMem_Free, NULL with an exception. The tuple keeps what it points to.
static dlx_remote_part *parts_read(PyObject *tuple) {
    Py_ssize_t n = PyTuple_Size(tuple), size;
    dlx_remote_part *parts = PyMem_Calloc((size_t)n + 1, sizeof *parts);
    if (parts == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; parts != NULL && i < n; i++) {
        PyObject *descriptor, *number;
        char *data;
        long long start, stop, at;
        if (PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "SOLLL", &descriptor, &number, &start, &stop, &at) &&
            PyBytes_AsStringAndSize(descriptor, &data, &size) == 0) {
            dlx_remote_connection *connection = PyLong_AsVoidPtr(number);
            if (!PyErr_Occurred()) {
                parts[i] = (dlx_remote_part){data, (size_t)size, connection, start, stop, at, {0}};
                continue;
            }
        }
        PyMem_Free(parts);
        parts = NULL;
    }
    return parts;
}

// remote_gather takes parts, a device, options and a limit of time. It returns a tensor and the report.
static PyObject *remote_gather(PyObject *module, PyObject *args) {
    State *s = PyModule_GetState(module);
    PyObject *tuple, *device, *how;
    long long timeout;
    dlx_remote_options o;
    dlx_tensor *tensor = NULL;
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "O!OO!L:remote_gather", &PyTuple_Type, &tuple, &device, &PyTuple_Type, &how, &timeout) ||
        options_read(s, how, &o) != 0)
        return NULL;
    const struct GoLib *go = go_load();
    dlx_device *opened = go == NULL ? NULL : device_for(go, device);
    dlx_remote_part *parts = opened == NULL ? NULL : parts_read(tuple);
    if (parts == NULL)
        return NULL;
    WAITING(status, go->remote_gather(parts, (size_t)PyTuple_Size(tuple), opened, &o, timeout, &tensor, &report, &e));
    PyMem_Free(parts);
    return arrived(s, go, NULL, status, tensor, report, &e);
}

// remote_relay takes a listener, a descriptor, a tuple of addresses, the number of this process, a width, a device and a limit of
// time. It returns the tensor and the report, and the offer and its descriptor.
static PyObject *remote_relay(PyObject *module, PyObject *args) {
    PyObject *number, *descriptor, *addresses, *device;
    char *data;
    Py_ssize_t size, self;
    int width;
    long long timeout;
    void *listener;
    const struct GoLib *go;
    dlx_tensor *tensor = NULL;
    dlx_remote_offer *offer = NULL;
    dlx_report *report = NULL;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OSO!niOL:remote_relay", &number, &descriptor, &PyTuple_Type, &addresses, &self, &width,
                          &device, &timeout) ||
        PyBytes_AsStringAndSize(descriptor, &data, &size) != 0 || go_handle(number, &listener, &go) != 0)
        return NULL;
    dlx_device *opened = device_for(go, device);
    Texts peers = {0};
    if (opened == NULL || texts_read(&peers, addresses) != 0) {
        texts_free(&peers);
        return NULL;
    }
    const dlx_remote_fanout fanout = {.descriptor = data, .size = (size_t)size, .peers = peers.at,
                                      .peer_count = (size_t)peers.count, .width = width};
    WAITING(status, go->remote_listener_relay(listener, &fanout, (size_t)self, opened, timeout, &tensor, &offer, &report, &e));
    texts_free(&peers);
    PyObject *came = arrived(PyModule_GetState(module), go, NULL, status, tensor, report, &e);
    if (came == NULL) {
        go->remote_offer_close(offer, NULL); // there is none after an error
        return NULL;
    }
    PyObject *made = offered(go, offer);
    if (made == NULL) {
        Py_DECREF(came);
        return NULL;
    }
    return Py_BuildValue("(NN)", came, made);
}

// remote_offer_ended reports whether an offer has ended.
static PyObject *remote_offer_ended(PyObject *module, PyObject *number) {
    (void)module;
    void *offer;
    const struct GoLib *go;
    int32_t ended = 0;
    dlx_error e;
    if (go_handle(number, &offer, &go) != 0)
        return NULL;
    if (go->remote_offer_ended(offer, &ended, &e) != DLX_OK)
        return go_exception(&e);
    return PyBool_FromLong(ended);
}

// remote_describe takes a descriptor, and returns JSON.
static PyObject *remote_describe(PyObject *module, PyObject *descriptor) {
    (void)module;
    char *data;
    Py_ssize_t size;
    dlx_text *text = NULL;
    dlx_error e;
    const struct GoLib *go;
    if (PyBytes_AsStringAndSize(descriptor, &data, &size) != 0 || (go = go_load()) == NULL)
        return NULL;
    return go->remote_describe(data, (size_t)size, &text, &e) == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *remote_wait_received(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *number;
    long long timeout;
    void *connection;
    const struct GoLib *go;
    dlx_error e;
    dlx_status status;
    if (!PyArg_ParseTuple(args, "OL:remote_wait_received", &number, &timeout) ||
        go_handle(number, &connection, &go) != 0)
        return NULL;
    WAITING(status, go->remote_wait_received(connection, timeout, &e));
    if (status != DLX_OK || PyErr_Occurred())
        return remote_exception(go, connection, &e);
    Py_RETURN_NONE;
}

// remote_check raises the exception of a connection that has ended.
static PyObject *remote_check(PyObject *module, PyObject *number) {
    (void)module;
    void *connection;
    const struct GoLib *go;
    dlx_error e;
    if (go_handle(number, &connection, &go) != 0)
        return NULL;
    if (go->remote_connection_error(connection, &e) != DLX_OK)
        return remote_exception(go, connection, &e);
    Py_RETURN_NONE;
}

static PyObject *remote_json(PyObject *module, PyObject *number) {
    (void)module;
    void *connection;
    const struct GoLib *go;
    dlx_text *text = NULL;
    dlx_error e;
    if (go_handle(number, &connection, &go) != 0)
        return NULL;
    return go->remote_connection_json(connection, &text, &e) == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *remote_close(PyObject *module, PyObject *number) {
    (void)module;
    return go_close_handle(number, close_connection);
}

static PyObject *remote_listener_close(PyObject *module, PyObject *number) {
    (void)module;
    return go_close_handle(number, close_listener);
}

static PyObject *remote_offer_close(PyObject *module, PyObject *number) {
    (void)module;
    return go_close_handle(number, close_offer);
}

PyMethodDef remote_methods[] = {
    {"remote_version", remote_version, METH_NOARGS, NULL},
    {"remote_listen", remote_listen, METH_VARARGS, NULL},
    {"remote_address", remote_address, METH_O, NULL},
    {"remote_accept", remote_accept, METH_VARARGS, NULL},
    {"remote_serve", remote_serve, METH_VARARGS, NULL},
    {"remote_listener_close", remote_listener_close, METH_O, NULL},
    {"remote_connect", remote_connect, METH_VARARGS, NULL},
    {"remote_send", remote_send, METH_VARARGS, NULL},
    {"remote_receive", remote_receive, METH_VARARGS, NULL},
    {"remote_fetch", remote_fetch, METH_VARARGS, NULL},
    {"remote_connection_checksum", remote_connection_checksum, METH_VARARGS, NULL},
    {"remote_checksum", remote_checksum, METH_VARARGS, NULL},
    {"remote_put", remote_put, METH_VARARGS, NULL},
    {"remote_offer", remote_offer, METH_VARARGS, NULL},
    {"remote_gather", remote_gather, METH_VARARGS, NULL},
    {"remote_relay", remote_relay, METH_VARARGS, NULL},
    {"remote_offer_ended", remote_offer_ended, METH_O, NULL},
    {"remote_offer_close", remote_offer_close, METH_O, NULL},
    {"remote_list", remote_list, METH_VARARGS, NULL},
    {"remote_describe", remote_describe, METH_O, NULL},
    {"remote_wait_received", remote_wait_received, METH_VARARGS, NULL},
    {"remote_check", remote_check, METH_O, NULL},
    {"remote_json", remote_json, METH_O, NULL},
    {"remote_close", remote_close, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
