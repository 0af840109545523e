// The functions of the module that call libdlx: files, devices and plans. Python code wraps them.
#include "golib.h"

#include <string.h>

dlx_dtype *dtypes_read(PyObject *tuple) {
    Py_ssize_t n = PyTuple_Size(tuple);
    dlx_dtype *types = PyMem_Calloc((size_t)n + 1, sizeof *types);
    if (types == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; types != NULL && i < n; i++) {
        unsigned char code, bits;
        unsigned short lanes;
        if (PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "bbH", &code, &bits, &lanes)) {
            types[i] = (dlx_dtype){code, bits, lanes};
            continue;
        }
        PyMem_Free(types);
        types = NULL;
    }
    return types;
}

// file_open takes the path, and the types of raw void. A file is an integer in Python: a handle of libdlx, which checks it.
static PyObject *file_open(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *bytes, *voids;
    if (!PyArg_ParseTuple(args, "O&O!:file_open", PyUnicode_FSConverter, &bytes, &PyTuple_Type, &voids))
        return NULL;
    dlx_dtype *types = dtypes_read(voids);
    const struct GoLib *go = types == NULL ? NULL : go_load();
    dlx_file *file = NULL;
    dlx_error e;
    dlx_status status = DLX_OK;
    if (go != NULL) {
        const char *path = PyBytes_AsString(bytes);
        const dlx_open_options options = {.void_as = types, .void_count = (size_t)PyTuple_Size(voids)};
        Py_BEGIN_ALLOW_THREADS
        status = go->file_open_with(path, &options, &file, &e);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(bytes);
    PyMem_Free(types);
    if (go == NULL)
        return NULL;
    return status == DLX_OK ? PyLong_FromVoidPtr(file) : go_file_exception(&e);
}

static PyObject *file_close(PyObject *module, PyObject *handle) {
    (void)module;
    void *file = PyLong_AsVoidPtr(handle);
    const struct GoLib *go = go_loaded();
    dlx_error e;
    if (file == NULL && PyErr_Occurred())
        return NULL;
    dlx_status status = DLX_OK;
    if (go != NULL) {
        Py_BEGIN_ALLOW_THREADS
        status = go->file_close(file, &e);
        Py_END_ALLOW_THREADS
    }
    if (status != DLX_OK && status != DLX_ERR_FORKED)
        return go_exception(&e);
    Py_RETURN_NONE;
}

static PyObject *file_json(PyObject *module, PyObject *handle) {
    (void)module;
    void *file = PyLong_AsVoidPtr(handle);
    const struct GoLib *go = file == NULL && PyErr_Occurred() ? NULL : go_load();
    dlx_text *text;
    dlx_error e;
    if (go == NULL)
        return NULL;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = go->file_json(file, &text, &e);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *file_tensor(PyObject *module, PyObject *args) {
    PyObject *handle;
    const char *name;
    if (!PyArg_ParseTuple(args, "Oz:file_tensor", &handle, &name))
        return NULL;
    void *file = PyLong_AsVoidPtr(handle);
    const struct GoLib *go = file == NULL && PyErr_Occurred() ? NULL : go_load();
    if (go == NULL)
        return NULL;
    dlx_tensor *tensor;
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS // an .npz may be decompressed
    status = go->file_tensor(file, name, &tensor, &e);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK)
        return go_exception(&e);
    // Nothing is unfinished on the tensor of a file. Without its handle it works in a child of fork, too.
    PyObject *result = go_result(PyModule_GetState(module), go, tensor, false);
    if (result != NULL) {
        tensor_of(result)->memory->mapped = true;
        go_close(atomic_exchange(&tensor_of(result)->memory->handle, 0));
    }
    return result;
}

void texts_free(Texts *t) {
    for (Py_ssize_t i = 0; t->held != NULL && i < t->count; i++)
        Py_XDECREF(t->held[i]);
    PyMem_Free(t->held);
    PyMem_Free(t->at);
}

int texts_read(Texts *t, PyObject *tuple) {
    Py_ssize_t n = PyTuple_Size(tuple);
    t->held = PyMem_Calloc((size_t)n + 1, sizeof *t->held);
    t->at = PyMem_Calloc((size_t)n + 1, sizeof *t->at);
    if (t->held == NULL || t->at == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; t->count < n; t->count++) {
        char *text; // without a length to fill in, a text with a 0 inside is an error
        PyObject *item = PyTuple_GetItem(tuple, t->count), *held;
        if (PyBytes_Check(item))
            Py_INCREF(held = item);
        else
            held = PyUnicode_AsUTF8String(item);
        t->held[t->count] = held;
        if (held == NULL || PyBytes_AsStringAndSize(held, &text, NULL) != 0) {
            t->count++;
            return -1;
        }
        t->at[t->count] = text;
    }
    return 0;
}

// file_save takes the path, a tuple of tensors, a tuple of names or None, whether to compress, and a tuple of keys and
// one of values, or None twice.
static PyObject *file_save(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *bytes, *list, *names, *flag, *keys, *values, *result = NULL;
    int compress;
    if (!PyArg_ParseTuple(args, "O&O!OOOO:file_save", PyUnicode_FSConverter, &bytes, &PyTuple_Type, &list, &names, &flag,
                          &keys, &values))
        return NULL;
    const struct GoLib *go = parse_flag(flag, "compress", &compress) == 0 ? go_load() : NULL;
    Py_ssize_t n = PyTuple_Size(list), made = 0;
    dlx_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    Texts named = {0}, of_keys = {0}, of_values = {0};
    if (tensors == NULL)
        PyErr_NoMemory();
    bool ready = go != NULL && tensors != NULL && (names == Py_None || texts_read(&named, names) == 0) &&
                 (keys == Py_None || (texts_read(&of_keys, keys) == 0 && texts_read(&of_values, values) == 0));
    for (; ready && made < n; made++) {
        PyObject *t = PyTuple_GetItem(list, made);
        if (!tensor_check(t))
            PyErr_SetString(PyExc_TypeError, "dlx: only tensors of dlx can be saved");
        else
            tensors[made] = go_tensor(go, tensor_of(t));
        if (tensors[made] == NULL)
            ready = false;
    }
    if (ready) {
        dlx_error e;
        dlx_status status;
        const char *path = PyBytes_AsString(bytes);
        const char *const *texts = names == Py_None ? NULL : named.at;
        Py_BEGIN_ALLOW_THREADS
        if (keys == Py_None)
            status = go->file_save(path, tensors, texts, (size_t)n, compress == 1, 0, &e);
        else
            status = go->file_save_metadata(path, tensors, texts, (size_t)n, of_keys.at, of_values.at,
                                            (size_t)of_keys.count, 0, &e);
        Py_END_ALLOW_THREADS
        result = status == DLX_OK ? Py_BuildValue("") : go_file_exception(&e);
    }
    if (made > 0) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < made; i++)
            if (tensors[i] != NULL)
                go->tensor_close(tensors[i], NULL);
        Py_END_ALLOW_THREADS
    }
    texts_free(&named);
    texts_free(&of_keys);
    texts_free(&of_values);
    PyMem_Free(tensors);
    Py_DECREF(bytes);
    return result;
}

// as_type takes a tensor in host memory, and a type as code, bits and lanes.
static PyObject *as_type(PyObject *module, PyObject *args) {
    PyObject *o;
    int code, bits, lanes;
    if (!PyArg_ParseTuple(args, "Oiii:as_type", &o, &code, &bits, &lanes))
        return NULL;
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    const struct GoLib *go = wait_read(tensor_of(o)) == 0 ? go_load() : NULL;
    dlx_tensor *from = go == NULL ? NULL : go_tensor(go, tensor_of(o)), *converted;
    if (from == NULL)
        return NULL;
    const dlx_dtype dtype = {(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = go->tensor_as_type(from, &dtype, 0, &converted, &e);
    go->tensor_close(from, NULL);
    Py_END_ALLOW_THREADS
    if (status != DLX_OK)
        return go_exception(&e);
    PyObject *result = go_result(PyModule_GetState(module), go, converted, true);
    if (result != NULL) // nothing is unfinished: it works in a child of fork, too
        go_close(atomic_exchange(&tensor_of(result)->memory->handle, 0));
    return result;
}

static PyObject *devices_json(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    const struct GoLib *go = go_load();
    dlx_registry *registry = go == NULL ? NULL : go_registry(go);
    dlx_text *text;
    dlx_error e;
    dlx_status status;
    if (registry == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = go->registry_json(registry, 0, &text, &e);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *metrics_json(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    const struct GoLib *go = go_load();
    dlx_text *text;
    dlx_error e;
    dlx_status status;
    if (go == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = go->metrics_json(&text, &e);
    Py_END_ALLOW_THREADS
    return status == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *oneapi_adopt(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long context, device;
    if (!PyArg_ParseTuple(args, "KK:oneapi_adopt", &context, &device))
        return NULL;
    const struct GoLib *go = go_load();
    if (go == NULL || go_adopt(go, (uintptr_t)context, (uintptr_t)device) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *go_live(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    const struct GoLib *go = go_loaded();
    long long total = 0;
    const char *names[] = {"core.Buffer", "libdlx.tensor", "libdlx.file", "libdlx.loaded", "libdlx.stream", "libdlx.event",
                           "libdlx.report", "libdlx.listener", "libdlx.connection", "libdlx.publisher",
                           "libdlx.subscription", "libdlx.frame"};
    for (size_t i = 0; go != NULL && i < sizeof names / sizeof *names; i++) {
        int64_t count;
        dlx_error e;
        dlx_status status;
        Py_BEGIN_ALLOW_THREADS
        status = go->live(names[i], &count, &e);
        Py_END_ALLOW_THREADS
        if (status == DLX_ERR_FORKED)
            break;
        if (status != DLX_OK)
            return go_exception(&e);
        total += count;
    }
    return PyLong_FromLongLong(total);
}

static PyObject *go_version(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    const struct GoLib *go = go_load();
    return go == NULL ? NULL : PyUnicode_FromString(go->version());
}

static PyObject *set_library(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *bytes;
    if (!PyArg_ParseTuple(args, "O&:set_library", PyUnicode_FSConverter, &bytes))
        return NULL;
    int status = go_set_path(PyBytes_AsString(bytes));
    Py_DECREF(bytes);
    if (status != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *loaded(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    return PyBool_FromLong(go_loaded() != NULL);
}

PyMethodDef golib_methods[] = {
    {"file_open", file_open, METH_VARARGS, NULL},
    {"file_close", file_close, METH_O, NULL},
    {"file_json", file_json, METH_O, NULL},
    {"file_tensor", file_tensor, METH_VARARGS, NULL},
    {"file_save", file_save, METH_VARARGS, NULL},
    {"as_type", as_type, METH_VARARGS, NULL},
    {"devices_json", devices_json, METH_NOARGS, NULL},
    {"metrics_json", metrics_json, METH_NOARGS, NULL},
    {"oneapi_adopt", oneapi_adopt, METH_VARARGS, NULL},
    {"go_live", go_live, METH_NOARGS, NULL},
    {"go_version", go_version, METH_NOARGS, NULL},
    {"go_loaded", loaded, METH_NOARGS, NULL},
    {"set_library", set_library, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
