// What libdlx does: moves, plans, memory of devices, and files.
#include "golib.h"

#include <string.h>

void go_close(uintptr_t handle) {
    const struct GoLib *go = go_loaded();
    if (go != NULL && handle != 0) // in a child of fork the library refuses
        go->tensor_close((dlx_tensor *)handle, NULL);
}

void go_release(uintptr_t frame) {
    const struct GoLib *go = go_loaded();
    if (go != NULL) // in a child of fork the library refuses
        go->frame_release((dlx_frame *)frame, NULL);
}

// handle_of returns the tensor of libdlx of memory, which the memory owns. That of a frame is made once it is needed. If there is
// none, *e says why, with the status DLX_OK for memory that is not of libdlx.
static uintptr_t handle_of(const struct GoLib *go, Memory *m, dlx_error *e) {
    uintptr_t handle = atomic_load(&m->handle);
    dlx_tensor *made = NULL;
    e->status = DLX_OK;
    if (handle != 0 || m->frame == 0 || go->frame_tensor((dlx_frame *)m->frame, &made, e) != DLX_OK)
        return handle;
    if (atomic_compare_exchange_strong(&m->handle, &handle, (uintptr_t)made))
        return (uintptr_t)made;
    go->tensor_close(made, NULL); // another thread has made one, too
    return handle;
}

// settle waits until the host, or nobody, uses the memory.
static int settle(Tensor *t, bool writes) {
    if ((atomic_load(&t->memory->handle) == 0 && t->memory->frame == 0) || atomic_load(&t->memory->idle))
        return 0;
    bool shared = t->memory->shared;
    if (shared && go_loaded() != NULL && !go_usable()) // a child of fork has the memory, and cannot wait for anybody
        return 0;
    const struct GoLib *go = go_load();
    if (go == NULL)
        return -1;
    dlx_error e;
    uintptr_t handle = handle_of(go, t->memory, &e);
    if (handle == 0 && e.status != DLX_OK)
        go_exception(&e);
    if (handle == 0)
        return e.status == DLX_OK ? 0 : -1;
    dlx_status status;
    do { // another process may take as long as it likes, until somebody presses Ctrl-C
        int64_t limit = shared ? 50000000 : 0;
        Py_BEGIN_ALLOW_THREADS
        status = writes ? go->tensor_wait_idle((dlx_tensor *)handle, limit, &e)
                        : go->tensor_wait_ready((dlx_tensor *)handle, limit, &e);
        Py_END_ALLOW_THREADS
        if (shared && PyErr_CheckSignals() != 0)
            return -1;
    } while (shared && status == DLX_ERR_TIMEOUT);
    if (status == DLX_ERR_CLOSED && atomic_load(&t->memory->handle) != handle)
        return 0; // another thread waited, too, and closed it
    if (status != DLX_OK) {
        go_exception(&e);
        return -1;
    }
    // From now on nothing is unfinished on host memory, so that Go is not needed to free it.
    if (writes && !shared && host_accessible(t->t.device.type) && atomic_compare_exchange_strong(&t->memory->handle, &handle, 0))
        go_close(handle);
    return 0;
}

int wait_host(Tensor *t) {
    bool writes = host_accessible(t->t.device.type) && !(t->memory->shared && (t->flags & FLAG_READ_ONLY) != 0);
    return settle(t, writes);
}

int wait_read(Tensor *t) { return settle(t, host_accessible(t->t.device.type) && !t->memory->shared); }

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

// of_lanes makes a tensor of libdlx for t, which has another number of lanes than handle, whose memory it uses. info
// describes handle, and number says where t begins, in numbers from the beginning of handle.
static dlx_status of_lanes(const struct GoLib *go, dlx_tensor *handle, const dlx_tensor_info *info, const Tensor *t,
                           int64_t number, dlx_tensor **result, dlx_error *e) {
    DLTensor whole = {.ndim = info->rank, .shape = (int64_t *)info->shape, .strides = (int64_t *)info->strides};
    int64_t low, lanes = t->t.dtype.lanes, span = tensor_span(&whole, &low), one = 1;
    if (tensor_count(&t->t) != 0)
        number -= low * info->dtype.lanes;
    // t with one more axis for its lanes.
    int n = t->t.ndim;
    int64_t dims[2 * (MAX_RANK + 1)], *strides = dims + n + 1;
    for (int i = 0; i < n; i++) {
        dims[i] = t->t.shape[i];
        strides[i] = t->t.strides[i] * lanes;
    }
    dims[n] = lanes;
    strides[n] = 1;
    dlx_tensor *flat = NULL, *numbers = NULL, *split = NULL, *grouped = NULL;
    dlx_status status = go->tensor_view(handle, 1, &span, &one, low, &flat, e);
    if (status == DLX_OK)
        status = go->tensor_with_lanes(flat, 1, &numbers, e);
    if (status == DLX_OK)
        status = go->tensor_view(numbers, n + 1, dims, strides, number, &split, e);
    if (status == DLX_OK)
        status = go->tensor_with_lanes(split, (uint16_t)lanes, &grouped, e);
    if (status == DLX_OK) // the axis of the lanes has the extent 1 now, and is left out
        status = go->tensor_view(grouped, n, t->t.shape, t->t.strides, 0, result, e);
    dlx_tensor *made[] = {flat, numbers, split, grouped};
    for (size_t i = 0; i < sizeof made / sizeof *made && made[i] != NULL; i++)
        go->tensor_close(made[i], NULL);
    return status;
}

dlx_tensor *go_tensor(const struct GoLib *go, Tensor *t) {
    dlx_error e;
    dlx_tensor *result = NULL;
    atomic_store(&t->memory->idle, false);
    dlx_tensor *handle = (dlx_tensor *)handle_of(go, t->memory, &e);
    if (handle == NULL && e.status != DLX_OK) {
        go_exception(&e);
        return NULL;
    }
    if (handle != NULL) {
        dlx_tensor_info info;
        if (go->tensor_get_info(handle, &info, &e) == DLX_OK) {
            int64_t bits = element_bits(t->t.dtype, t->flags);
            int64_t bytes = (int64_t)((uintptr_t)t->t.data - (uintptr_t)info.data) +
                            (int64_t)(t->t.byte_offset - info.byte_offset);
            if (tensor_count(&t->t) == 0)
                bytes = 0;
            dlx_status status =
                info.dtype.lanes == t->t.dtype.lanes
                    ? go->tensor_view(handle, t->t.ndim, t->t.shape, t->t.strides, bytes * 8 / bits, &result, &e)
                    : of_lanes(go, handle, &info, t, bytes * 8 / (bits / t->t.dtype.lanes), &result, &e);
            if (status == DLX_OK)
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

dlx_tensor *go_whole(Tensor *t) {
    Memory *m = t->memory;
    dlx_error e;
    if (m->kind != OWNED_GO || !m->shared) // else wait_host may close the handle meanwhile
        return NULL;
    uintptr_t handle = handle_of(go_loaded(), m, &e);
    atomic_store(&m->idle, false);
    if (handle == 0)
        return NULL;
    const DLVersioned *owner = m->owner;
    const DLTensor *of = &owner->tensor;
    size_t size = sizeof *of->shape * (size_t)t->t.ndim;
    bool same = of->data == t->t.data && of->byte_offset == t->t.byte_offset && of->ndim == t->t.ndim &&
                of->dtype.code == t->t.dtype.code && of->dtype.bits == t->t.dtype.bits && of->dtype.lanes == t->t.dtype.lanes &&
                (size == 0 || (memcmp(of->shape, t->t.shape, size) == 0 && memcmp(of->strides, t->t.strides, size) == 0));
    return same ? (dlx_tensor *)handle : NULL;
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

// producer_stream returns the number that DLPack has for the stream of the producer of t.
static int64_t producer_stream(const Tensor *t) {
    int64_t stream = (int64_t)(intptr_t)t->memory->stream;
    return stream == 0 && t->t.device.type != DEVICE_ROCM ? 1 : stream; // the legacy default stream, as a handle of CUDA
}

// Prepared is what a move or a plan needs of libdlx.
typedef struct {
    const struct GoLib *go;
    dlx_device *device;
    dlx_tensor *from;
    dlx_stream *borrowed; // the producer's stream
    dlx_move_options options;
} Prepared;

// prepared_free is called without the interpreter's lock.
static void prepared_free(Prepared *p) {
    if (p->from != NULL)
        p->go->tensor_close(p->from, NULL);
    if (p->borrowed != NULL)
        p->go->stream_close(p->borrowed, NULL);
}

// prepare makes p, which the caller frees. It returns -1 with an exception.
static int prepare(Prepared *p, Tensor *t, DLDevice id, Move how) {
    static const int32_t modes[] = {DLX_COPY_IF_NEEDED, DLX_COPY_NEVER, DLX_COPY_ALWAYS};
    *p = (Prepared){.go = go_load()};
    p->options.copy = modes[how.copies + 1];
    p->options.stream = (dlx_stream *)how.stream;
    p->options.source_stream = (dlx_stream *)how.source;
    if (p->go == NULL || (p->device = go_device(p->go, id)) == NULL)
        return -1;
    if (how.source == 0 && t->memory->has_stream) {
        if (borrow(p->go, t->t.device, producer_stream(t), &p->borrowed) != 0)
            return -1;
        p->options.source_stream = p->borrowed;
    }
    if ((p->from = go_source(p->go, t, id)) != NULL)
        return 0;
    Py_BEGIN_ALLOW_THREADS
    prepared_free(p);
    Py_END_ALLOW_THREADS
    return -1;
}

// move_exception sets the exception for the error of a move or of a plan. It returns NULL.
static PyObject *move_exception(const dlx_error *e, Move how) {
    if (e->status == DLX_ERR_NOT_SUPPORTED && how.copies == 0)
        return PyErr_Format(PyExc_BufferError, "dlx: %s", e->text);
    return go_exception(e);
}

PyObject *go_move(State *s, Tensor *t, DLDevice id, Move how) {
    Prepared p;
    if (prepare(&p, t, id, how) != 0)
        return NULL;
    dlx_error e;
    dlx_tensor *result = NULL;
    dlx_report *report = NULL;
    dlx_report_info info = {0};
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = p.go->to(p.from, p.device, &p.options, 0, &result, &report, &e);
    if (status == DLX_OK) {
        p.go->report_get_info(report, &info, NULL);
        p.go->report_close(report, NULL);
        // The caller may change host memory as soon as the move returns.
        if (info.bytes_copied > 0 && host_accessible(t->t.device.type)) // other processes may go on reading
            status = t->memory->shared ? p.go->tensor_wait_ready(result, 0, &e) : p.go->tensor_wait_idle(p.from, 0, &e);
    }
    if (status != DLX_OK && result != NULL)
        p.go->tensor_close(result, NULL);
    prepared_free(&p);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? go_result(s, p.go, result, info.bytes_copied > 0) : move_exception(&e, how);
}

PyObject *go_plan(Tensor *t, DLDevice id, Move how) {
    Prepared p;
    if (prepare(&p, t, id, how) != 0)
        return NULL;
    dlx_route *route;
    dlx_text *text = NULL;
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = p.go->plan(p.from, p.device, &p.options, &route, &e);
    if (status == DLX_OK) {
        status = p.go->route_text(route, &text, &e);
        p.go->route_close(route, NULL);
    }
    prepared_free(&p);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? go_text(p.go, text) : move_exception(&e, how);
}

int go_memory_fd(Tensor *t, int64_t *offset) {
    int32_t fd = -1;
    if (!t->memory->shared || !go_usable() || !host_accessible(t->t.device.type))
        return -1;
    const struct GoLib *go = go_load();
    dlx_tensor *tensor = go == NULL ? NULL : go_tensor(go, t);
    if (tensor == NULL)
        return -1;
    dlx_error e;
    dlx_status status = go->share_memory(tensor, &fd, offset, &e);
    go->tensor_close(tensor, NULL);
    if (status != DLX_OK && status != DLX_ERR_NOT_SUPPORTED) // what was received is no memory of this process
        go_exception(&e);
    return fd;
}

PyObject *go_empty(State *s, DLDataType dtype, int ndim, const int64_t *shape, DLDevice id, uintptr_t stream) {
    const struct GoLib *go = go_load();
    dlx_device *device = go == NULL ? NULL : go_device(go, id);
    if (device == NULL)
        return NULL;
    dlx_tensor_spec spec = {.dtype = {dtype.code, dtype.bits, dtype.lanes}, .rank = ndim, .shape = shape};
    dlx_alloc_options options = {.stream = (dlx_stream *)stream};
    dlx_tensor *result;
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = go->tensor_alloc(device, &spec, &options, 0, &result, &e);
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

int go_handoff(const struct GoLib *go, Tensor *t, dlx_stream *to) {
    dlx_stream *from = NULL;
    dlx_tensor *tensor = NULL;
    dlx_error e = {0};
    dlx_status status = DLX_ERR_INVALID;
    Memory *m = t->memory;
    if ((!m->has_stream || borrow(go, t->t.device, producer_stream(t), &from) == 0) && (tensor = go_tensor(go, t)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        status = go->tensor_handoff(tensor, from, to, 0, NULL, &e);
        Py_END_ALLOW_THREADS
        if (status != DLX_OK)
            go_exception(&e);
    }
    Py_BEGIN_ALLOW_THREADS
    if (tensor != NULL)
        go->tensor_close(tensor, NULL);
    if (from != NULL)
        go->stream_close(from, NULL);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? 0 : -1;
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
    if (skip || (atomic_load(&m->handle) == 0 && m->frame == 0 && !m->has_stream) || (m->has_stream && producer_stream(t) == number))
        return 0;
    const struct GoLib *go = go_load();
    dlx_stream *to = NULL;
    if (go == NULL || borrow(go, t->t.device, number, &to) != 0)
        return -1;
    int result = go_handoff(go, t, to);
    Py_BEGIN_ALLOW_THREADS
    go->stream_close(to, NULL);
    Py_END_ALLOW_THREADS
    return result;
}
