// Exports: capsules and the table of DLPack's exchange API.
#include "ext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// node_new returns a node that describes t, and the DLTensor in it, which lies at offset.
static Node *node_new(const Tensor *t, size_t offset) {
    Memory *m = t->memory;
    int ndim = t->t.ndim;
    Node *n = &m->node;
    int64_t *dims = n->dims;
    long refs = atomic_load_explicit(&m->refs, memory_order_relaxed);
    // What the last consumer did with the node happened before it gave it back.
    if (ndim > INLINE_RANK || (refs & LENT) != 0 ||
        !atomic_compare_exchange_strong_explicit(&m->refs, &refs, refs + REFERENCE + LENT, memory_order_acquire,
                                                 memory_order_relaxed)) {
        if ((n = malloc(sizeof *n + 2 * sizeof *dims * (size_t)ndim)) == NULL)
            return NULL;
        memory_retain(m);
        dims = (int64_t *)(n + 1);
    }
    n->memory = m;
    DLTensor *d = (DLTensor *)((char *)n + offset);
    *d = t->t;
    d->shape = dims;
    d->strides = dims + ndim;
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        dims[i] = t->t.shape[i];
        dims[ndim + i] = t->t.strides[i];
        empty |= dims[i] == 0;
    }
    if (empty)
        d->data = NULL, d->byte_offset = 0;
    return n;
}

static void node_free(Node *n) {
    Memory *m = n->memory;
    bool lent = n == &m->node;
    if (!lent)
        free(n);
    memory_release_anywhere(m, lent ? REFERENCE + LENT : REFERENCE);
}

static void delete_versioned(DLVersioned *m) { node_free((Node *)m); }

static void delete_legacy(DLManaged *m) { node_free((Node *)m); }

Memory *export_memory(void *m, enum MemoryKind kind) {
    bool ours = kind == OWNED_LEGACY ? ((DLManaged *)m)->deleter == delete_legacy : ((DLVersioned *)m)->deleter == delete_versioned;
    return ours ? ((Node *)m)->memory : NULL;
}

void export_unwrap(void *m) {
    Node *n = m;
    if (n == &n->memory->node)
        atomic_fetch_sub_explicit(&n->memory->refs, LENT, memory_order_release);
    else
        free(n);
}

DLVersioned *export_versioned(Tensor *t, uint64_t flags) {
    Node *n = node_new(t, offsetof(Node, versioned.tensor));
    if (n == NULL)
        return NULL;
    DLVersioned *m = &n->versioned;
    m->version.major = DL_MAJOR;
    m->version.minor = DL_MINOR;
    m->manager_ctx = NULL;
    m->deleter = delete_versioned;
    m->flags = flags;
    return m;
}

static DLManaged *export_legacy(Tensor *t) {
    Node *n = node_new(t, offsetof(Node, legacy.tensor));
    if (n == NULL)
        return NULL;
    DLManaged *m = &n->legacy;
    m->manager_ctx = NULL;
    m->deleter = delete_legacy;
    return m;
}

// The destructors of capsules. A consumer renames a capsule that it has used. The name is compared by its address
// first, since it is ours.
static const char versioned_name[] = "dltensor_versioned", legacy_name[] = "dltensor";

// A capsule may go while an exception is set. The deleter of the memory's producer must not see it.
static void destroy(PyObject *capsule, bool versioned) {
    const char *ours = versioned ? versioned_name : legacy_name, *found = PyCapsule_GetName(capsule);
    if (found != ours && (found == NULL || strcmp(found, ours) != 0))
        return; // the usual case
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    bool raised = PyErr_Occurred() != NULL;
    if (raised)
        PyErr_Fetch(&type, &value, &trace);
    Node *n = PyCapsule_GetPointer(capsule, found);
    if (n != NULL && versioned && n->versioned.deleter != NULL)
        n->versioned.deleter(&n->versioned);
    else if (n != NULL && !versioned && n->legacy.deleter != NULL)
        n->legacy.deleter(&n->legacy);
    if (raised)
        PyErr_Restore(type, value, trace);
}

static void destroy_versioned(PyObject *capsule) { destroy(capsule, true); }

static void destroy_legacy(PyObject *capsule) { destroy(capsule, false); }

static uint64_t exported_flags(const Tensor *t) { return t->flags & (FLAG_READ_ONLY | FLAG_PADDED); }

static PyObject *versioned_capsule(Tensor *t, bool copied) {
    DLVersioned *m = export_versioned(t, exported_flags(t) | (copied ? FLAG_COPIED : 0));
    if (m == NULL)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(m, versioned_name, destroy_versioned);
    if (capsule == NULL)
        m->deleter(m);
    return capsule;
}

static PyObject *legacy_capsule(Tensor *t) {
    if ((t->flags & FLAG_READ_ONLY) != 0) {
        PyErr_SetString(PyExc_BufferError, "dlx: the tensor is read-only, which the struct of DLPack before 1.0 cannot "
                                           "say: call .copy() first, or ask for max_version=(1, 0)");
        return NULL;
    }
    if ((t->flags & FLAG_PADDED) != 0 && t->t.dtype.bits < 8) {
        PyErr_SetString(PyExc_BufferError, "dlx: the elements are padded to bytes, which the struct of DLPack before "
                                           "1.0 cannot say: ask for max_version=(1, 0)");
        return NULL;
    }
    DLManaged *m = export_legacy(t);
    if (m == NULL)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(m, legacy_name, destroy_legacy);
    if (capsule == NULL)
        m->deleter(m);
    return capsule;
}

// export_slow is tensor_dlpack for everything that is not a plain export of host memory.
static PyObject *export_slow(State *s, Tensor *t, PyObject *stream, bool versioned, PyObject *dl_device, PyObject *copy) {
    int copies;
    DLDevice target = t->t.device;
    if (parse_flag(copy, "copy", &copies) != 0)
        return NULL;
    if (dl_device != Py_None && parse_pair(dl_device, &target) != 0)
        return NULL;
    bool elsewhere = target.type != t->t.device.type || target.id != t->t.device.id;
    Tensor *out = t;
    Py_INCREF((PyObject *)out);
    if (elsewhere || copies == 1) {
        // A consumer without DLPack 1.0 may change a copy.
        PyObject *moved = tensor_move(s, t, target, (Move){.copies = copies});
        Py_DECREF(out);
        if (moved == NULL) {
            if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_OSError) &&
                PyErr_ExceptionMatches(PyExc_Exception)) {
                PyObject *type, *value, *trace;
                PyErr_Fetch(&type, &value, &trace);
                PyErr_Format(PyExc_BufferError, "dlx: the tensor cannot be exported to another device: %S",
                             value == NULL ? Py_None : value);
                Py_XDECREF(type);
                Py_XDECREF(value);
                Py_XDECREF(trace);
            }
            return NULL;
        }
        out = tensor_of(moved);
    }
    PyObject *result = NULL;
    if (order_stream(out, stream) == 0) {
        bool copied = (out->flags & FLAG_COPIED) != 0 && out != t;
        result = versioned ? versioned_capsule(out, copied) : legacy_capsule(out);
    }
    Py_DECREF(out);
    return result;
}

// version_of reports whether the struct of DLPack 1.x is asked for; -1 with an exception.
static int version_of(State *s, PyObject *max_version) {
    if (max_version == Py_None)
        return 0;
    // PyTuple_CheckExact and Py_SIZE are no calls of functions, as PyTuple_Check and PyTuple_Size are.
    if ((!PyTuple_CheckExact(max_version) && !PyTuple_Check(max_version)) || Py_SIZE(max_version) != 2) {
        PyErr_SetString(PyExc_TypeError, "dlx: max_version must be a tuple of two integers, or None");
        return -1;
    }
    PyObject *first = PyTuple_GetItem(max_version, 0);
    if (first == s->major) // CPython has one object for a small number
        return 1;
    long major = PyLong_AsLong(first);
    if (major == -1 && PyErr_Occurred())
        return -1;
    return major >= DL_MAJOR;
}

// export_plain exports the memory as it is, if nothing has to be waited for. It returns false if it cannot.
static bool export_plain(Tensor *t, int versioned, PyObject **capsule) {
    if (t->t.device.type != DEVICE_CPU || t->memory->kind == OWNED_GO)
        return false;
    *capsule = versioned ? versioned_capsule(t, false) : legacy_capsule(t);
    return true;
}

// export_asked is tensor_dlpack for all keywords. Inlined, its variables would cost the usual case, too.
static __attribute__((noinline)) PyObject *export_asked(State *s, Tensor *t, PyObject *const *args, PyObject *kwnames,
                                                        Py_ssize_t n) {
    enum { MAX_VERSION, DL_DEVICE, COPY, STREAM, NAMES };
    PyObject *values[NAMES] = {Py_None, Py_None, Py_None, Py_None}, *capsule;
    PyObject *const names[NAMES] = {s->str_max_version, s->str_dl_device, s->str_copy, s->str_stream};
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        int which = keyword(name, names, NAMES);
        if (which < 0) {
            PyErr_Format(PyExc_TypeError, "__dlpack__() has no argument %R", name);
            return NULL;
        }
        values[which] = args[i];
    }
    int versioned = version_of(s, values[MAX_VERSION]);
    if (versioned < 0)
        return NULL;
    if (values[STREAM] == Py_None && values[DL_DEVICE] == Py_None && values[COPY] == Py_None &&
        export_plain(t, versioned, &capsule))
        return capsule;
    return export_slow(s, t, values[STREAM], versioned, values[DL_DEVICE], values[COPY]);
}

PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    Tensor *t = tensor_of(self);
    State *s = state_of(t);
    PyObject *capsule;
    if (nargs != 0) {
        PyErr_SetString(PyExc_TypeError, "__dlpack__() takes no positional arguments");
        return NULL;
    }
    Py_ssize_t n = kwnames == NULL ? 0 : Py_SIZE(kwnames);
    // Most consumers name max_version alone.
    if (n == 1 && PyTuple_GetItem(kwnames, 0) == s->str_max_version) {
        int versioned = version_of(s, args[0]);
        if (versioned < 0)
            return NULL;
        if (export_plain(t, versioned, &capsule))
            return capsule;
    }
    return export_asked(s, t, args, kwnames, n);
}

// --- the exchange table

static int not_ours(void *object) {
    if (object != NULL && tensor_check(object))
        return 0;
    PyErr_SetString(PyExc_TypeError, "dlx: the object is not a dlx.Tensor");
    return -1;
}

static int managed_from_object(void *object, DLVersioned **out) {
    *out = NULL;
    if (not_ours(object))
        return -1;
    Tensor *t = object;
    if (t->memory->kind == OWNED_GO && wait_host(t) != 0) // a consumer does not know our streams
        return -1;
    if ((*out = export_versioned(t, exported_flags(t))) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int managed_to_object(DLVersioned *tensor, void **out) {
    *out = NULL;
    State *s = state_here();
    if (s == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "dlx: this interpreter has not imported dlx");
        return -1;
    }
    if (tensor == NULL) {
        PyErr_SetString(PyExc_ValueError, "dlx: the managed tensor is NULL");
        return -1;
    }
    *out = take_versioned(s, tensor, true);
    return *out == NULL ? -1 : 0;
}

static int tensor_from_object(void *object, DLTensor *out) {
    if (not_ours(object))
        return -1;
    Tensor *t = object;
    if (t->memory->kind == OWNED_GO && wait_host(t) != 0)
        return -1;
    *out = t->t;
    if (tensor_count(&t->t) == 0)
        out->data = NULL, out->byte_offset = 0;
    return 0;
}

// current_stream: dlx enqueues work for Python on streams of its own, and waits for it before an export.
static int current_stream(int32_t device_type, int32_t device_id, void **out) {
    (void)device_id;
    *out = device_type == DEVICE_CUDA || device_type == DEVICE_CUDA_MANAGED ? (void *)1 : NULL;
    return 0;
}

static int allocate(DLTensor *prototype, DLVersioned **out, void *ctx, DLSetError set_error) {
    char text[256];
    *out = NULL;
    DLTensor d = *prototype;
    int64_t dims[2 * MAX_RANK], size = -1;
    if (d.device.type != DEVICE_CPU || d.device.id != 0) {
        snprintf(text, sizeof text, "dlx: the exchange table allocates on the CPU only, not on device (%d, %d)",
                 d.device.type, d.device.id);
        set_error(ctx, "BufferError", text);
        return -1;
    }
    if (d.ndim < 0 || d.ndim > MAX_RANK || (d.ndim > 0 && d.shape == NULL)) {
        snprintf(text, sizeof text, "dlx: ndim is %d: 0 to %d axes are supported, with a shape", d.ndim, MAX_RANK);
        set_error(ctx, "ValueError", text);
        return -1;
    }
    memcpy(dims, d.shape == NULL ? dims : d.shape, sizeof *dims * (size_t)d.ndim);
    d.shape = dims;
    d.strides = dims + d.ndim;
    d.byte_offset = 0;
    d.data = dims; // some address
    row_major(&d);
    if (!check_tensor(&d, 0, text, sizeof text)) {
        set_error(ctx, "ValueError", text);
        return -1;
    }
    size = data_bytes(d.dtype, 0, tensor_count(&d));
    Memory *m = memory_host(NULL, size, &d.data);
    // The tensor only describes what is exported: it is no Python object.
    Tensor t = {.memory = m, .t = d};
    if (m != NULL) {
        *out = export_versioned(&t, 0);
        memory_release_anywhere(m, REFERENCE);
    }
    if (*out == NULL) {
        snprintf(text, sizeof text, "dlx: no memory for %lld bytes", (long long)size);
        set_error(ctx, "MemoryError", text);
        return -1;
    }
    return 0;
}

DLExchange exchange_table = {
    .header = {.version = {DL_MAJOR, DL_MINOR}, .prev_api = NULL},
    .allocate = allocate,
    .managed_from_object = managed_from_object,
    .managed_to_object = managed_to_object,
    .tensor_from_object = tensor_from_object,
    .current_stream = current_stream,
};
