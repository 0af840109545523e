// dlx.load: tensors of files that libdlx loads onto a device.
#include "golib.h"

// Request is what load was asked for.
typedef struct {
    Texts paths, only, names; // names are those of slices
    dlx_slice *slices;
    dlx_dtype *voids;
    atomic_bool *ended; // whether the interpreter has ended
    dlx_load_options options;
    dlx_device *device;
    PyObject *progress; // borrowed; NULL if there is none
    PyThreadState *away; // of the thread that loads, while it runs without the interpreter's lock
} Request;

static void request_free(Request *r) {
    texts_free(&r->paths);
    texts_free(&r->only);
    texts_free(&r->names);
    PyMem_Free(r->slices);
    PyMem_Free(r->voids);
}

// tell calls the function for progress. libdlx calls it on the thread that loads, so that its exception stays with the
// thread until the load has stopped. At the end of the interpreter, which ends threads that want its lock, it stops the load.
static int32_t tell(void *request, int64_t done, int64_t total) {
    Request *r = request;
    if (atomic_load(r->ended))
        return 1;
    PyEval_RestoreThread(r->away);
    PyObject *result = PyObject_CallFunction(r->progress, "LL", (long long)done, (long long)total);
    Py_XDECREF(result);
    r->away = PyEval_SaveThread();
    return result == NULL;
}

// read_slices reads a tuple of globs, and one of triples (axis, index, count).
static int read_slices(Request *r, PyObject *globs, PyObject *parts) {
    if (texts_read(&r->names, globs) != 0)
        return -1;
    Py_ssize_t n = r->names.count;
    if ((r->slices = PyMem_Calloc((size_t)n + 1, sizeof *r->slices)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int axis;
        long long index, count;
        PyObject *part = PyTuple_GetItem(parts, i);
        if (part == NULL || !PyArg_ParseTuple(part, "iLL:slices", &axis, &index, &count))
            return -1;
        r->slices[i] = (dlx_slice){.name = r->names.at[i], .axis = axis, .index = index, .count = count};
    }
    r->options.slices = r->slices;
    r->options.slice_count = (size_t)n;
    return 0;
}

// read_request reads the arguments. The caller frees r, also after an error.
static int read_request(Request *r, PyObject *args) {
    PyObject *paths, *device, *only, *globs, *parts, *voids, *progress;
    int code, bits, lanes, row_major, writable, threads;
    long long budget;
    DLDevice id;
    dlx_load_options *o = &r->options;
    if (!PyArg_ParseTuple(args, "O!OO!O!O!(iii)ppizzLO!O:load", &PyTuple_Type, &paths, &device, &PyTuple_Type, &only,
                          &PyTuple_Type, &globs, &PyTuple_Type, &parts, &code, &bits, &lanes, &row_major, &writable,
                          &threads, &o->read, &o->checksum, &budget, &PyTuple_Type, &voids, &progress) ||
        parse_device(device, &id) != 0 || texts_read(&r->paths, paths) != 0 || texts_read(&r->only, only) != 0 ||
        read_slices(r, globs, parts) != 0 || (r->voids = dtypes_read(voids)) == NULL)
        return -1;
    if (progress != Py_None) {
        if (!PyCallable_Check(progress)) {
            PyErr_SetString(PyExc_TypeError, "dlx: progress cannot be called: pass a function of the bytes that were read, "
                                             "and of all");
            return -1;
        }
        r->progress = progress;
        o->progress = tell;
        o->progress_context = r;
    }
    o->void_as = r->voids;
    o->void_count = (size_t)PyTuple_Size(voids);
    o->only = r->only.at;
    o->only_count = (size_t)r->only.count;
    o->dtype = (dlx_dtype){(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
    o->row_major = row_major;
    o->writable = writable;
    o->threads = threads;
    o->budget = budget;
    const struct GoLib *go = go_load();
    r->device = go == NULL ? NULL : go_device(go, id);
    return r->device == NULL ? -1 : 0;
}

// out_of_range makes a ValueError of the OverflowError of an argument.
static void out_of_range(void) {
    PyObject *type, *value, *trace;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_Format(PyExc_ValueError, "dlx: an option of load is out of range: %S", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

// load returns a handle of libdlx, which it checks.
static PyObject *load(PyObject *module, PyObject *args) {
    State *s = PyModule_GetState(module);
    Request r = {.ended = s->ended};
    const struct GoLib *go = read_request(&r, args) == 0 ? go_load() : NULL;
    if (go == NULL)
        out_of_range();
    dlx_loaded *loaded = NULL;
    dlx_error e;
    dlx_status status = DLX_OK;
    if (go != NULL) {
        r.away = PyEval_SaveThread();
        status = go->load(r.paths.at, (size_t)r.paths.count, r.device, &r.options, 0, &loaded, &e);
        PyEval_RestoreThread(r.away);
    }
    request_free(&r);
    if (go == NULL || PyErr_Occurred()) // the exception of progress
        return NULL;
    if (status != DLX_OK)
        return go_file_exception(&e);
    PyObject *number = PyLong_FromVoidPtr(loaded);
    if (number == NULL)
        go->loaded_close(loaded, NULL);
    return number;
}

// functions_for reads a handle, and returns the functions of libdlx; NULL with an exception.
static const struct GoLib *functions_for(PyObject *handle, void **loaded) {
    *loaded = PyLong_AsVoidPtr(handle);
    return *loaded == NULL && PyErr_Occurred() ? NULL : go_load();
}

static PyObject *loaded_json(PyObject *module, PyObject *handle) {
    (void)module;
    void *loaded;
    const struct GoLib *go = functions_for(handle, &loaded);
    dlx_text *text;
    dlx_error e;
    if (go == NULL)
        return NULL;
    return go->loaded_json(loaded, &text, &e) == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *loaded_tensor(PyObject *module, PyObject *args) {
    PyObject *handle;
    Py_ssize_t index;
    void *loaded;
    if (!PyArg_ParseTuple(args, "On:loaded_tensor", &handle, &index))
        return NULL;
    const struct GoLib *go = functions_for(handle, &loaded);
    dlx_tensor *tensor;
    dlx_error e;
    if (go == NULL)
        return NULL;
    if (go->loaded_at(loaded, (size_t)index, &tensor, &e) != DLX_OK)
        return go_exception(&e);
    PyObject *result = go_result(PyModule_GetState(module), go, tensor, false);
    Tensor *t = result == NULL ? NULL : tensor_of(result);
    // Nothing is unfinished on it. Without its handle a tensor on the host works in a child of fork, too.
    if (t != NULL && host_accessible(t->t.device.type)) {
        t->memory->mapped = (t->flags & FLAG_READ_ONLY) != 0;
        go_close(atomic_exchange(&t->memory->handle, 0));
    }
    return result;
}

static PyObject *loaded_close(PyObject *module, PyObject *handle) {
    (void)module;
    void *loaded;
    const struct GoLib *go = functions_for(handle, &loaded);
    dlx_error e;
    if (go == NULL)
        return NULL;
    if (go->loaded_close(loaded, &e) != DLX_OK)
        return go_exception(&e);
    Py_RETURN_NONE;
}

PyMethodDef load_methods[] = {
    {"load", load, METH_VARARGS, NULL},
    {"loaded_json", loaded_json, METH_O, NULL},
    {"loaded_tensor", loaded_tensor, METH_VARARGS, NULL},
    {"loaded_close", loaded_close, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
