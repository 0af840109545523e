// Tensors on memory that another process has passed as a memfd, by other means than libdlx. They need neither Go nor its
// threads, so that a child of fork can use them.
#include "ext.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Mapping owns a descriptor and its mapping.
typedef struct {
    DLVersioned m;
    char *address;
    size_t size;
    int fd;
    int64_t dims[2 * MAX_RANK];
} Mapping;

// unmap is the deleter of a Mapping. It needs neither Python nor Go.
static void unmap(DLVersioned *m) {
    Mapping *x = (Mapping *)m;
    munmap(x->address, x->size);
    close(x->fd);
    free(x);
}

// checked_size returns how many bytes of a descriptor are safe to map: nobody can take them away. It returns -1 with an
// exception.
static int64_t checked_size(int fd) {
    struct stat stat;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstat(fd, &stat) != 0) {
        PyErr_SetString(PyExc_ValueError, "dlx: the descriptor of a tensor is no memfd");
        return -1;
    }
    if ((seals & F_SEAL_SHRINK) == 0) {
        PyErr_SetString(PyExc_ValueError, "dlx: the memfd of a tensor lacks F_SEAL_SHRINK: its owner could take the memory away");
        return -1;
    }
    return stat.st_size;
}

// mapping_new maps a descriptor, which it owns from the call on, and describes a tensor there that begins offset bytes
// after the start. t has the rest. It returns NULL with an exception.
static Tensor *mapping_new(State *s, int fd, int64_t offset, const DLTensor *t, uint64_t flags) {
    char text[256];
    int64_t low, size = checked_size(fd);
    Mapping *x = NULL;
    if (size < 0)
        goto failed;
    if (!check_tensor(t, flags, text, sizeof text)) {
        PyErr_Format(PyExc_ValueError, "dlx: %s", text);
        goto failed;
    }
    int64_t bits = element_bits(t->dtype, flags), span = tensor_span(t, &low);
    int64_t before = data_bytes(t->dtype, flags, -low), after = data_bytes(t->dtype, flags, span + low);
    if (tensor_count(t) == 0 || before < 0 || after < 0 || offset < before || offset > size || after > size - offset ||
        (low * bits) % 8 != 0) {
        PyErr_SetString(PyExc_ValueError, "dlx: a tensor does not lie in the memory that came with it");
        goto failed;
    }
    if ((x = calloc(1, sizeof *x)) == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    x->address = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (x->address == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto failed;
    }
    x->size = (size_t)size;
    x->fd = fd;
    x->m.version = (DLVersion){DL_MAJOR, DL_MINOR};
    x->m.deleter = unmap;
    x->m.flags = flags;
    x->m.tensor = *t;
    x->m.tensor.data = x->address + offset;
    x->m.tensor.shape = memcpy(x->dims, t->shape, sizeof(int64_t) * (size_t)t->ndim);
    x->m.tensor.strides = memcpy(x->dims + MAX_RANK, t->strides, sizeof(int64_t) * (size_t)t->ndim);
    return take_versioned(s, &x->m, false);
failed:
    free(x);
    close(fd);
    return NULL;
}

// read_tuple reads a tuple of numbers into an array.
static int read_tuple(PyObject *tuple, int64_t *to, Py_ssize_t n) {
    if (PyTuple_Size(tuple) != n) {
        PyErr_SetString(PyExc_ValueError, "dlx: a tensor has as many strides as extents, and at most 64");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        to[i] = PyNumber_AsSsize_t(PyTuple_GetItem(tuple, i), PyExc_ValueError);
        if (to[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

// mapping_open takes a descriptor, which stays the caller's, the bytes before the tensor, extents, strides, the type as
// code, bits and lanes, and the flags.
static PyObject *mapping_open(PyObject *module, PyObject *args) {
    int fd;
    long long offset;
    PyObject *shape, *strides;
    unsigned char code, bits;
    unsigned short lanes;
    unsigned long long flags;
    if (!PyArg_ParseTuple(args, "iLO!O!bbHK:mapping_open", &fd, &offset, &PyTuple_Type, &shape, &PyTuple_Type, &strides,
                          &code, &bits, &lanes, &flags))
        return NULL;
    int64_t dims[2 * MAX_RANK];
    Py_ssize_t n = PyTuple_Size(shape);
    if (read_tuple(shape, dims, n <= MAX_RANK ? n : -1) != 0 || read_tuple(strides, dims + MAX_RANK, n) != 0)
        return NULL;
    if ((flags & ~(unsigned long long)(FLAG_READ_ONLY | FLAG_PADDED)) != 0) {
        PyErr_SetString(PyExc_ValueError, "dlx: the tensor has unknown flags");
        return NULL;
    }
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    const DLTensor t = {.data = dims, .device = {DEVICE_CPU, 0}, .ndim = (int32_t)n, .dtype = {code, bits, lanes},
                        .shape = dims, .strides = dims + MAX_RANK};
    return (PyObject *)mapping_new(PyModule_GetState(module), own, offset, &t, flags);
}

// mapping_copy copies a tensor in host memory to a new memfd.
static PyObject *mapping_copy(PyObject *module, PyObject *o) {
    if (!tensor_check(o) || !host_accessible(tensor_of(o)->t.device.type)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor in host memory");
        return NULL;
    }
    Tensor *from = tensor_of(o);
    uint64_t flags = from->flags & FLAG_PADDED;
    int64_t dims[2 * MAX_RANK], bytes = data_bytes(from->t.dtype, flags, tensor_count(&from->t));
    int fd = memfd_create("dlx", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    DLTensor t = from->t;
    t.data = dims;
    t.device = (DLDevice){DEVICE_CPU, 0};
    t.byte_offset = 0;
    t.shape = memcpy(dims, from->t.shape, sizeof(int64_t) * (size_t)t.ndim);
    t.strides = dims + MAX_RANK;
    row_major(&t);
    State *s = PyModule_GetState(module);
    Tensor *result = mapping_new(s, fd, 0, &t, flags);
    if (result != NULL && copy_into(s, from, result->t.data) != 0) {
        Py_DECREF(result);
        return NULL;
    }
    return (PyObject *)result;
}

// mapping_fd returns a new descriptor of the memfd on which a tensor lies, and where it begins there; None if there is
// none that other processes can open.
static PyObject *mapping_fd(PyObject *module, PyObject *o) {
    (void)module;
    if (!tensor_check(o)) {
        PyErr_SetString(PyExc_TypeError, "dlx: not a tensor");
        return NULL;
    }
    Tensor *t = tensor_of(o);
    int64_t offset = 0;
    int fd;
    if (tensor_count(&t->t) == 0)
        Py_RETURN_NONE;
    if (t->memory->kind == OWNED_VERSIONED && ((DLVersioned *)t->memory->owner)->deleter == unmap) {
        const Mapping *x = t->memory->owner;
        offset = (char *)t->t.data + t->t.byte_offset - x->address;
        if ((fd = fcntl(x->fd, F_DUPFD_CLOEXEC, 0)) < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
    } else if ((fd = go_memory_fd(t, &offset)) < 0) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    PyObject *result = Py_BuildValue("(iL)", fd, (long long)offset);
    if (result == NULL)
        close(fd);
    return result;
}

PyMethodDef mapping_methods[] = {
    {"mapping_open", mapping_open, METH_VARARGS, NULL},
    {"mapping_copy", mapping_copy, METH_O, NULL},
    {"mapping_fd", mapping_fd, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
