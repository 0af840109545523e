// What CuPy and MXNet do at the boundary, in C: legacy capsules with a deleter that takes the interpreter's lock, and a
// consumer that calls deleters on a thread of its own, without that lock.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;

typedef struct Managed {
    Tensor tensor;
    void *ctx;
    void (*deleter)(struct Managed *);
} Managed;

static atomic_long alive;

static void produced_delete(Managed *m) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF((PyObject *)m->ctx);
    PyGILState_Release(state);
    free(m->tensor.shape);
    free(m);
    atomic_fetch_sub(&alive, 1);
}

static void capsule_destroy(PyObject *capsule) {
    Managed *m = PyCapsule_IsValid(capsule, "dltensor") ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
    if (m != NULL)
        m->deleter(m);
}

// produce(address, (type, id), (code, bits, lanes), shape, owner): a legacy capsule with NULL strides, as MXNet makes.
static PyObject *produce(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long address;
    int type, id, code, bits, lanes;
    PyObject *shape, *owner;
    if (!PyArg_ParseTuple(args, "K(ii)(iii)O!O", &address, &type, &id, &code, &bits, &lanes, &PyTuple_Type, &shape, &owner))
        return NULL;
    int ndim = (int)PyTuple_Size(shape);
    Managed *m = calloc(1, sizeof *m);
    int64_t *dims = calloc((size_t)ndim + 1, sizeof *dims);
    if (m == NULL || dims == NULL) {
        free(m);
        free(dims);
        return PyErr_NoMemory();
    }
    for (int i = 0; i < ndim; i++)
        dims[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    m->tensor = (Tensor){(void *)(uintptr_t)address, type, id, ndim, (uint8_t)code, (uint8_t)bits, (uint16_t)lanes, dims, NULL, 0};
    Py_INCREF(owner);
    m->ctx = owner;
    m->deleter = produced_delete;
    atomic_fetch_add(&alive, 1);
    PyObject *capsule = PyCapsule_New(m, "dltensor", capsule_destroy);
    if (capsule == NULL)
        m->deleter(m);
    return capsule;
}

// consume(capsule) takes the tensor and returns a number for it, the address, the device and the shape.
static PyObject *consume(PyObject *module, PyObject *capsule) {
    (void)module;
    Managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m == NULL || PyCapsule_SetName(capsule, "used_dltensor") != 0)
        return NULL;
    PyObject *shape = PyTuple_New(m->tensor.ndim);
    for (int i = 0; shape != NULL && i < m->tensor.ndim; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(m->tensor.shape[i]));
    return Py_BuildValue("KK(ii)N", (unsigned long long)(uintptr_t)m,
                         (unsigned long long)((uintptr_t)m->tensor.data + m->tensor.byte_offset), m->tensor.device_type,
                         m->tensor.device_id, shape);
}

static void *run_deleter(void *argument) {
    Managed *m = argument;
    if (m->deleter != NULL)
        m->deleter(m);
    return NULL;
}

// drop(number) calls the deleter on another thread, while this one waits for that with the interpreter's lock given back.
static PyObject *drop(PyObject *module, PyObject *number) {
    (void)module;
    Managed *m = (Managed *)(uintptr_t)PyLong_AsUnsignedLongLong(number);
    pthread_t thread;
    int failed;
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    failed = pthread_create(&thread, NULL, run_deleter, m);
    if (!failed)
        pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS
    if (failed)
        return PyErr_Format(PyExc_OSError, "pthread_create: error %d", failed);
    Py_RETURN_NONE;
}

static PyObject *count(PyObject *module, PyObject *ignored) {
    (void)module;
    (void)ignored;
    return PyLong_FromLong(atomic_load(&alive));
}

static PyMethodDef methods[] = {
    {"produce", produce, METH_VARARGS, NULL},
    {"consume", consume, METH_O, NULL},
    {"drop", drop, METH_O, NULL},
    {"alive", count, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "interop_fakes", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_interop_fakes(void) { return PyModule_Create(&definition); }
