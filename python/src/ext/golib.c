// What libdlx does: moves, plans, memory of devices, and files.
#include "golib.h"

#include <string.h>

void go_close(uintptr_t handle) {
    const struct GoLib *go = go_loaded();
    if (go != NULL && handle != 0) // in a child of fork the library refuses
        go->tensor_close((dlx_tensor *)handle, NULL);
}

// settle waits until the host, or nobody, uses the memory.
static int settle(Tensor *t, bool writes) {
    uintptr_t handle = atomic_load(&t->memory->handle);
    if (handle == 0)
        return 0;
    const struct GoLib *go = go_load();
    if (go == NULL)
        return -1;
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = writes ? go->tensor_wait_idle((dlx_tensor *)handle, 0, &e) : go->tensor_wait_ready((dlx_tensor *)handle, 0, &e);
    Py_END_ALLOW_THREADS
    if (status == DLX_ERR_CLOSED && atomic_load(&t->memory->handle) != handle)
        return 0; // another thread waited, too, and closed it
    if (status != DLX_OK) {
        go_exception(&e);
        return -1;
    }
    // From now on nothing is unfinished on host memory, so that Go is not needed to free it.
    if (writes && host_accessible(t->t.device.type) && atomic_compare_exchange_strong(&t->memory->handle, &handle, 0))
        go_close(handle);
    return 0;
}

int wait_host(Tensor *t) { return settle(t, host_accessible(t->t.device.type)); }

// imported makes a tensor of libdlx of an export of t.
static dlx_tensor *imported(const struct GoLib *go, Tensor *t) {
    dlx_error e;
    dlx_tensor *result = NULL;
    DLVersioned *m = export_versioned(t, t->flags & (FLAG_READ_ONLY | FLAG_PADDED));
    if (m == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    // libdlx cannot know how far memory reaches before its address. A tensor with negative strides becomes a view of
    // one that begins at the lowest element.
    int64_t low, bits = element_bits(t->t.dtype, t->flags), span = tensor_span(&t->t, &low);
    bool backwards = low < 0 && addressed(t->t.device.type) && low * bits % 8 == 0;
    if (backwards) { // then there is an axis, and room for an extent and a stride
        m->tensor.data = (char *)m->tensor.data + low * bits / 8;
        m->tensor.ndim = 1;
        m->tensor.shape[0] = span;
        m->tensor.strides = m->tensor.shape + 1;
        m->tensor.strides[0] = 1;
    }
    dlx_tensor *base = NULL;
    if (go->tensor_import((struct DLManagedTensorVersioned *)m, NULL, &base, &e) != DLX_OK) {
        if (e.status == DLX_ERR_FORKED)
            m->deleter(m);
        go_exception(&e);
        return NULL;
    }
    if (!backwards)
        return base;
    if (go->tensor_view(base, t->t.ndim, t->t.shape, t->t.strides, -low, &result, &e) != DLX_OK)
        go_exception(&e);
    go->tensor_close(base, NULL);
    return result;
}

dlx_tensor *go_tensor(const struct GoLib *go, Tensor *t) {
    dlx_error e;
    dlx_tensor *result = NULL;
    dlx_tensor *handle = (dlx_tensor *)atomic_load(&t->memory->handle);
    if (handle != NULL) {
        dlx_tensor_info info;
        if (go->tensor_get_info(handle, &info, &e) == DLX_OK) {
            int64_t bits = element_bits(t->t.dtype, t->flags);
            int64_t bytes = (int64_t)((uintptr_t)t->t.data - (uintptr_t)info.data) +
                            (int64_t)(t->t.byte_offset - info.byte_offset);
            if (tensor_count(&t->t) == 0)
                bytes = 0;
            if (go->tensor_view(handle, t->t.ndim, t->t.shape, t->t.strides, bytes * 8 / bits, &result, &e) == DLX_OK)
                return result;
        }
        if (e.status != DLX_ERR_CLOSED) {
            go_exception(&e);
            return NULL;
        }
    }
    return imported(go, t);
}

// is_at reports whether memory lies on a device.
static bool is_at(const Tensor *t, DLDevice id) { return t->t.device.type == id.type && t->t.device.id == id.id; }

// Memory of another library on a device must belong to a device of libdlx,
// as whose memory it is read. That device is the one that go_device opens once for the process and never closes.
// The library's deleter is called when the last tensor that shares the memory is gone.
dlx_tensor *go_source(const struct GoLib *go, Tensor *t, DLDevice target) {
    dlx_tensor *from = go_tensor(go, t), *adopted = NULL;
    if (from == NULL || atomic_load(&t->memory->handle) != 0 || host_accessible(t->t.device.type) || is_at(t, target) ||
        tensor_count(&t->t) == 0)
        return from;
    dlx_device *device = go_device(go, t->t.device);
    dlx_move_options options = {.copy = DLX_COPY_NEVER};
    dlx_error e;
    dlx_status status = DLX_ERR_INVALID;
    Py_BEGIN_ALLOW_THREADS
    if (device != NULL)
        status = go->to(from, device, &options, 0, &adopted, NULL, &e);
    go->tensor_close(from, NULL);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK && device != NULL)
        go_exception(&e);
    return adopted;
}

PyObject *go_result(State *s, const struct GoLib *go, dlx_tensor *handle, bool copied) {
    struct DLManagedTensorVersioned *m = NULL;
    dlx_error e;
    if (go->tensor_export(handle, &m, &e) != DLX_OK) {
        go->tensor_close(handle, NULL);
        return go_exception(&e);
    }
    Tensor *t = take_go(s, (DLVersioned *)m, (uintptr_t)handle);
    if (t != NULL && copied)
        t->flags |= FLAG_COPIED;
    return (PyObject *)t;
}

// borrow makes a stream of libdlx of a number of DLPack. The caller closes it.
static int borrow(const struct GoLib *go, DLDevice id, int64_t number, dlx_stream **stream) {
    dlx_error e;
    dlx_status status;
    if (id.type == DEVICE_CUDA_MANAGED)
        id = (DLDevice){DEVICE_CUDA, 0};
    dlx_device *device = go_device(go, id);
    if (device == NULL)
        return -1;
    Py_BEGIN_ALLOW_THREADS
    status = go->stream_borrow(device, number, 0, stream, &e);
    Py_END_ALLOW_THREADS
    if (status == DLX_OK)
        return 0;
    go_exception(&e);
    return -1;
}

PyObject *go_move(State *s, Tensor *t, DLDevice id, int copies) {
    const struct GoLib *go = go_load();
    dlx_device *device = go == NULL ? NULL : go_device(go, id);
    if (device == NULL)
        return NULL;
    dlx_move_options options = {.copy = copies < 0 ? DLX_COPY_IF_NEEDED : copies ? DLX_COPY_ALWAYS : DLX_COPY_NEVER};
    if (t->memory->has_stream && borrow(go, t->t.device, (int64_t)(intptr_t)t->memory->stream, &options.source_stream) != 0)
        return NULL;
    dlx_tensor *from = go_source(go, t, id), *result = NULL;
    if (from == NULL) {
        if (options.source_stream != NULL)
            go->stream_close(options.source_stream, NULL);
        return NULL;
    }
    dlx_error e;
    dlx_report *report = NULL;
    dlx_report_info info = {0};
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = go->to(from, device, &options, 0, &result, &report, &e);
    if (status == DLX_OK) {
        go->report_get_info(report, &info, NULL);
        go->report_close(report, NULL);
        // The caller may change host memory as soon as the move returns.
        if (info.bytes_copied > 0 && host_accessible(t->t.device.type))
            status = go->tensor_wait_idle(from, 0, &e);
    }
    go->tensor_close(from, NULL);
    if (options.source_stream != NULL)
        go->stream_close(options.source_stream, NULL);
    if (status != DLX_OK && result != NULL)
        go->tensor_close(result, NULL);
    Py_END_ALLOW_THREADS
    if (status == DLX_OK)
        return go_result(s, go, result, info.bytes_copied > 0);
    if (status == DLX_ERR_NOT_SUPPORTED && copies == 0)
        return PyErr_Format(PyExc_BufferError, "dlx: %s", e.text);
    return go_exception(&e);
}

PyObject *go_empty(State *s, DLDataType dtype, int ndim, const int64_t *shape, DLDevice id) {
    const struct GoLib *go = go_load();
    dlx_device *device = go == NULL ? NULL : go_device(go, id);
    if (device == NULL)
        return NULL;
    dlx_tensor_spec spec = {.dtype = {dtype.code, dtype.bits, dtype.lanes}, .rank = ndim, .shape = shape};
    dlx_tensor *result;
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = go->tensor_alloc(device, &spec, NULL, 0, &result, &e);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? go_result(s, go, result, false) : go_exception(&e);
}

// stream_number reads the argument stream for a device with streams; see the table of DLPack. *skip is true if the
// consumer wants no order.
static int stream_number(PyObject *stream, bool rocm, int64_t *number, bool *skip) {
    *skip = false;
    *number = rocm ? 0 : 1;
    if (stream == Py_None)
        return 0;
    *number = PyLong_AsLongLong(stream);
    if (*number == -1 && PyErr_Occurred())
        return -1;
    *skip = *number == -1;
    if (*number < -1 || (!rocm && *number == 0) || (rocm && (*number == 1 || *number == 2))) {
        PyErr_Format(PyExc_ValueError, "dlx: stream %lld is not allowed on %s", (long long)*number, rocm ? "ROCm" : "CUDA");
        return -1;
    }
    return 0;
}

int order_stream(Tensor *t, PyObject *stream) {
    int32_t type = t->t.device.type;
    bool rocm = type == DEVICE_ROCM, skip;
    if (!rocm && type != DEVICE_CUDA && type != DEVICE_CUDA_MANAGED) {
        if (stream == Py_None)
            return wait_host(t);
        PyErr_SetString(PyExc_ValueError, "dlx: stream must be None: the device has no streams that DLPack can name");
        return -1;
    }
    int64_t number;
    if (stream_number(stream, rocm, &number, &skip) != 0)
        return -1;
    Memory *m = t->memory;
    if (skip || (atomic_load(&m->handle) == 0 && !m->has_stream))
        return 0;
    int64_t ready = (int64_t)(intptr_t)m->stream;
    if (m->has_stream && !rocm && ready == 0)
        ready = 1; // the legacy default stream, as a handle of CUDA
    if (m->has_stream && ready == number)
        return 0;
    const struct GoLib *go = go_load();
    if (go == NULL)
        return -1;
    dlx_stream *from = NULL, *to = NULL;
    dlx_tensor *tensor = NULL;
    dlx_error e = {0};
    dlx_status status = DLX_OK;
    int result = -1;
    if ((!m->has_stream || borrow(go, t->t.device, ready, &from) == 0) &&
        borrow(go, t->t.device, number, &to) == 0 && (tensor = go_tensor(go, t)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        status = go->tensor_handoff(tensor, from, to, 0, NULL, &e);
        Py_END_ALLOW_THREADS
        if (status == DLX_OK)
            result = 0;
        else
            go_exception(&e);
    }
    Py_BEGIN_ALLOW_THREADS
    if (tensor != NULL)
        go->tensor_close(tensor, NULL);
    if (to != NULL)
        go->stream_close(to, NULL);
    if (from != NULL)
        go->stream_close(from, NULL);
    Py_END_ALLOW_THREADS
    return result;
}
