// The functions of libdlx that the extension uses. It is loaded at run time, so that a program that only exchanges
// tensors never starts Go.
#ifndef DLX_EXT_GOLIB_H
#define DLX_EXT_GOLIB_H

#include "ext.h"

#include <dlx.h>

#define GO_FUNCTIONS(X)                                                                                                \
    X(abi_version) X(version_minor) X(version) X(live) X(flush) X(text_data) X(text_close) X(registry_open)            \
    X(registry_json) X(device_open) X(oneapi_adopt) X(tensor_alloc) X(tensor_view) X(tensor_as_type) X(tensor_close)                   \
    X(tensor_with_lanes)                                                                                               \
    X(tensor_get_info) X(tensor_wait_ready) X(tensor_wait_idle) X(tensor_import) X(tensor_export)                      \
    X(tensor_handoff) X(file_open_with) X(file_close) X(file_json) X(file_tensor) X(file_save) X(file_save_metadata)        \
    X(to) X(plan) X(route_text) X(route_close) X(report_get_info) X(report_close) X(stream_borrow)                     \
    X(stream_close) X(stream_open) X(stream_native) X(stream_synchronize) X(stream_record) X(stream_wait)              \
    X(event_done) X(event_wait) X(event_close) X(metrics_json) X(load) X(loaded_json) X(loaded_at) X(loaded_close) \
    X(report_json) X(share_listen) X(listener_accept) X(listener_close) X(share_connect) X(share_adopt)                \
    X(share_alloc) X(share_copy) X(share_memory) X(connection_send) X(connection_receive_described)                         \
    X(connection_wait_released)                                                                                        \
    X(connection_error) X(connection_get_info) X(connection_json) X(connection_close)                                  \
    X(connection_publish) X(publisher_offer) X(publisher_loan_exported) X(publisher_send) X(publisher_wait_readers)             \
    X(publisher_wait_released) X(publisher_json) X(publisher_close) X(connection_subscribe)                            \
    X(subscription_receive_described) X(subscription_close) X(frame_error) X(frame_tensor) X(frame_release)    \
    X(remote_available) X(remote_listen) X(remote_listener_address) X(remote_listener_accept)                          \
    X(remote_listener_close) X(remote_connect) X(remote_send) X(remote_receive) X(remote_wait_received)                \
    X(remote_connection_error) X(remote_connection_get_info) X(remote_connection_json) X(remote_connection_close)      \
    X(remote_listener_offer) X(remote_connection_offer) X(remote_offer_descriptor) X(remote_offer_ended)               \
    X(remote_offer_close) X(remote_describe) X(remote_connection_fetch) X(remote_connection_put)                       \
    X(remote_listener_serve) X(remote_connection_list) X(remote_list_json) X(remote_list_close)                         \
    X(remote_connection_checksum) X(remote_checksum) X(remote_gather) X(remote_listener_relay)

struct GoLib {
#define DECLARE(name) __typeof__(&dlx_##name) name;
    GO_FUNCTIONS(DECLARE)
#undef DECLARE
};

// go_load returns the functions, NULL with an exception.
const struct GoLib *go_load(void);
// go_loaded returns the functions if libdlx is loaded, without an exception.
const struct GoLib *go_loaded(void);
int go_set_path(const char *path);
// go_exception sets the exception for an error. It returns NULL.
PyObject *go_exception(const dlx_error *e);
// go_os_error sets the exception for an errno, such as FileNotFoundError. It returns NULL.
PyObject *go_os_error(int number, const char *text);
// go_file_exception is go_exception for calls that use files, whose errors may be those of the system.
PyObject *go_file_exception(const dlx_error *e);
// go_text makes a string of a text, which it closes.
PyObject *go_text(const struct GoLib *go, dlx_text *text);
dlx_registry *go_registry(const struct GoLib *go);
// go_device returns an open device, which belongs to the process.
dlx_device *go_device(const struct GoLib *go, DLDevice id);
// go_adopt makes devices of oneAPI that are opened later use a cl_context. It returns -1 with an exception.
int go_adopt(const struct GoLib *go, uintptr_t context, uintptr_t device);
// go_tensor returns a tensor of libdlx for t, which the caller closes.
dlx_tensor *go_tensor(const struct GoLib *go, Tensor *t);
// go_source is go_tensor for a move to target.
dlx_tensor *go_source(const struct GoLib *go, Tensor *t, DLDevice target);
// go_handoff makes a stream wait until t may be read there. It returns -1 with an exception.
int go_handoff(const struct GoLib *go, Tensor *t, dlx_stream *to);
// go_result makes a tensor of one of libdlx, which it owns.
PyObject *go_result(State *s, const struct GoLib *go, dlx_tensor *handle, bool copied);
// go_whole returns the tensor of libdlx whose elements t has, all and in its order, and which the memory of t keeps: nobody
// closes it. It is NULL if there is none.
dlx_tensor *go_whole(Tensor *t);

// --- share.c

// The state of the thread that waits in a call of libdlx that signals end, while it does not have the interpreter's lock.
extern _Thread_local PyThreadState *go_away;

// WAITING calls a function of libdlx without the interpreter's lock; connections call check_signals meanwhile. The thread
// that waits may be that of another call, whose signal handler makes this one.
#define WAITING(status, call)                                                                                          \
    do {                                                                                                               \
        PyThreadState *outer = go_away;                                                                                \
        go_away = PyEval_SaveThread();                                                                                 \
        status = (call);                                                                                               \
        PyEval_RestoreThread(go_away);                                                                                 \
        go_away = outer;                                                                                               \
    } while (0)

// check_signals is called by libdlx on the thread that waits: Ctrl-C and other signals end the call. context is the flag
// of the interpreter.
int32_t check_signals(void *context);

// go_handle reads a handle, and the functions of libdlx. It returns -1 with an exception.
static inline int go_handle(PyObject *number, void **handle, const struct GoLib **go) {
    *handle = PyLong_AsVoidPtr(number);
    *go = *handle == NULL && PyErr_Occurred() ? NULL : go_load();
    return *go == NULL ? -1 : 0;
}

// go_number makes an integer of a handle, which close closes if that fails.
PyObject *go_number(void *handle, dlx_status (*close)(void *, dlx_error *));
// go_close_handle closes a handle. In a child of fork there is nothing to close.
PyObject *go_close_handle(PyObject *number, dlx_status (*close)(void *, dlx_error *));
// share_exception sets the exception for an error of a call that makes a connection. It returns NULL. The exception of a
// signal's handler stays.
PyObject *share_exception(const dlx_error *e);
// ended_type returns the type of the exception for a connection that has ended, NULL if it is open or was closed here.
PyObject *ended_type(int32_t state);
// report_of returns the text of a report, which it closes. Closing it once more does no harm.
PyObject *report_of(const struct GoLib *go, dlx_report *report);
// connection_exception sets the exception for an error of a call on a connection: its own if the connection has ended. That
// of a signal's handler stays. It returns NULL.
PyObject *connection_exception(const struct GoLib *go, dlx_connection *c, const dlx_error *e);
// go_shared makes a tensor of one of libdlx, which it owns, and whose memory other processes use, or can. Its handle keeps the
// memory, and not an export, whose deletion takes effect later: the other process learns at once that the memory is free.
PyObject *go_shared(State *s, const struct GoLib *go, dlx_tensor *handle);
// go_described is go_shared, for a tensor whose description the caller has, and go_framed for that of a frame.
PyObject *go_described(State *s, dlx_tensor *handle, const dlx_tensor_info *info);
PyObject *go_framed(State *s, dlx_frame *frame, const dlx_tensor_info *info);
// go_timeout reads a limit of time in seconds, or None, as nanoseconds; 0 is none. It returns -1 with an exception.
int go_timeout(PyObject *seconds, int64_t *timeout);
// sharable marks a new tensor of libdlx as go_shared does. NULL stays NULL.
PyObject *sharable(PyObject *result);

// --- gofiles.c

// Texts is an array of texts for libdlx, with the objects that hold them.
typedef struct {
    PyObject **held;
    const char **at;
    Py_ssize_t count;
} Texts;

// texts_read reads a tuple of strings, or of the bytes of paths. The caller frees t, also after an error.
int texts_read(Texts *t, PyObject *tuple);
void texts_free(Texts *t);

// dtypes_read reads a tuple of types as code, bits and lanes. It returns an array that the caller frees by PyMem_Free,
// NULL with an exception.
dlx_dtype *dtypes_read(PyObject *tuple);

#endif
