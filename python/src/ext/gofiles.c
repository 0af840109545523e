// The functions of the module that call libdlx: files, devices and plans. Python code wraps them.
#include "golib.h"

#include <string.h>

// A file is an integer in Python: a handle of libdlx, which checks it.
static PyObject *file_open(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *bytes;
    if (!PyArg_ParseTuple(args, "O&:file_open", PyUnicode_FSConverter, &bytes))
        return NULL;
    const struct GoLib *go = go_load();
    dlx_file *file = NULL;
    dlx_error e;
    dlx_status status = DLX_OK;
    if (go != NULL) {
        const char *path = PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS
        status = go->file_open(path, &file, &e);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(bytes);
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

// file_save takes the path, a sequence of tensors, a sequence of names or None, and whether to compress.
static PyObject *file_save(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *bytes, *list, *names, *flag;
    int compress;
    if (!PyArg_ParseTuple(args, "O&O!OO:file_save", PyUnicode_FSConverter, &bytes, &PyTuple_Type, &list, &names, &flag))
        return NULL;
    if (parse_flag(flag, "compress", &compress) != 0) {
        Py_DECREF(bytes);
        return NULL;
    }
    compress = compress == 1;
    const struct GoLib *go = go_load();
    Py_ssize_t n = PyTuple_Size(list), made = 0;
    dlx_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    PyObject **encoded = PyMem_Calloc((size_t)n + 1, sizeof *encoded);
    const char **texts = PyMem_Calloc((size_t)n + 1, sizeof *texts);
    PyObject *result = NULL;
    if (tensors == NULL || encoded == NULL || texts == NULL)
        PyErr_NoMemory();
    bool ready = go != NULL && !PyErr_Occurred();
    for (; ready && made < n; made++) {
        PyObject *t = PyTuple_GetItem(list, made);
        if (!tensor_check(t)) {
            PyErr_SetString(PyExc_TypeError, "dlx: only tensors of dlx can be saved");
            ready = false;
            break;
        }
        if (names != Py_None) {
            PyObject *name = PySequence_GetItem(names, made);
            encoded[made] = name == NULL ? NULL : PyUnicode_AsUTF8String(name);
            Py_XDECREF(name);
            char *at = NULL; // without a length to fill in, a name with a 0 inside is an error
            if (encoded[made] != NULL && PyBytes_AsStringAndSize(encoded[made], &at, NULL) == 0)
                texts[made] = at;
        }
        tensors[made] = names != Py_None && texts[made] == NULL ? NULL : go_tensor(go, tensor_of(t));
        if (tensors[made] == NULL) {
            ready = false;
            made++;
            break;
        }
    }
    if (ready) {
        dlx_error e;
        dlx_status status;
        const char *path = PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS
        status = go->file_save(path, tensors, names == Py_None ? NULL : texts, (size_t)n, compress, 0, &e);
        Py_END_ALLOW_THREADS
        result = status == DLX_OK ? Py_BuildValue("") : go_file_exception(&e);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; tensors != NULL && i < made; i++)
        if (tensors[i] != NULL)
            go->tensor_close(tensors[i], NULL);
    Py_END_ALLOW_THREADS
    for (Py_ssize_t i = 0; encoded != NULL && i < made; i++)
        Py_XDECREF(encoded[i]);
    PyMem_Free(tensors);
    PyMem_Free(encoded);
    PyMem_Free(texts);
    Py_DECREF(bytes);
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

PyObject *go_plan(Tensor *t, DLDevice id, int copies) {
    const struct GoLib *go = go_load();
    dlx_device *device = go == NULL ? NULL : go_device(go, id);
    dlx_tensor *from = device == NULL ? NULL : go_source(go, t, id);
    if (from == NULL)
        return NULL;
    dlx_move_options options = {.copy = copies < 0 ? DLX_COPY_IF_NEEDED : copies ? DLX_COPY_ALWAYS : DLX_COPY_NEVER};
    dlx_route *route;
    dlx_text *text = NULL;
    dlx_error e;
    dlx_status status;
    Py_BEGIN_ALLOW_THREADS
    status = go->plan(from, device, &options, &route, &e);
    if (status == DLX_OK) {
        status = go->route_text(route, &text, &e);
        go->route_close(route, NULL);
    }
    go->tensor_close(from, NULL);
    Py_END_ALLOW_THREADS
    if (status == DLX_ERR_NOT_SUPPORTED && copies == 0)
        return PyErr_Format(PyExc_BufferError, "dlx: %s", e.text);
    return status == DLX_OK ? go_text(go, text) : go_exception(&e);
}

static PyObject *go_live(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    const struct GoLib *go = go_loaded();
    long long total = 0;
    const char *names[] = {"core.Buffer", "libdlx.tensor"};
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
    {"devices_json", devices_json, METH_NOARGS, NULL},
    {"go_live", go_live, METH_NOARGS, NULL},
    {"go_version", go_version, METH_NOARGS, NULL},
    {"go_loaded", loaded, METH_NOARGS, NULL},
    {"set_library", set_library, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
