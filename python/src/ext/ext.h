// What the files of the extension share.
//
// A Tensor is a Python object that never changes. It refers to a Memory, which is a C object that counts its references
// and owns what was imported or allocated. Exports refer to the same Memory from C structs, so that their deleters
// need neither Python nor Go.
#ifndef DLX_EXT_H
#define DLX_EXT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "abi.h"

// The limit of NumPy and of PyTorch, and of core.MaxRank.
enum { MAX_RANK = 64 };

// Tensors with at most this many axes need no memory of their own for shape and strides.
enum { INLINE_RANK = 4 };

// --- memory.c

enum MemoryKind {
    OWNED_VERSIONED, // a DLManagedTensorVersioned of another library
    OWNED_LEGACY,    // a DLManagedTensor of another library
    OWNED_NOTHING,   // a struct without a deleter, which its producer may free
    OWNED_HOST,      // memory of the C library's heap
    OWNED_GO         // a DLManagedTensorVersioned that libdlx exported, with the handle that can wait
};

// Node is what an export of either struct consists of. Its deleter gives it back on any thread: it needs neither Python
// nor Go.
typedef struct {
    union {
        DLVersioned versioned;
        DLManaged legacy;
    };
    struct Memory *memory;
    int64_t dims[2 * INLINE_RANK]; // tensors with more axes have theirs behind the Node
} Node;

// What Memory.refs counts: REFERENCE for each reference, and LENT while its own node is in use.
enum { LENT = 1, REFERENCE = 2 };

// Memory owns the memory of tensors. It is freed with the last reference, on any thread.
typedef struct Memory {
    atomic_long refs;
    uint8_t kind;
    atomic_bool *ended; // if not NULL, the deleter may need the interpreter, which has ended if this is true
    void *owner;     // what kind says
    atomic_uintptr_t handle; // OWNED_GO: the tensor of libdlx whose work may be unfinished, which m closes; or 0
    uintptr_t frame; // OWNED_GO: the frame of libdlx that m releases, of which handle is made when it is needed; or 0
    atomic_bool idle; // OWNED_GO: no work on the memory was unfinished, and libdlx was not called with it since
    void *stream;    // the producer's stream on which the memory is ready, if has_stream
    bool has_stream;
    bool shared; // OWNED_GO: other processes may use it, or can: m keeps its handle also if nothing is unfinished
    bool mapped; // it is that of a file, whose pages are gone if somebody shortens the file
    Node node; // for one export at a time, which then needs no memory of its own
} Memory;

struct State;

// memory_new returns NULL without an exception if there is no memory. Then the caller still has owner. s may be NULL if
// the deleter needs no interpreter: then python is false.
Memory *memory_new(struct State *s, enum MemoryKind kind, void *owner, bool python);
// memory_host allocates size bytes at an address that is a multiple of 256. s may be NULL.
Memory *memory_host(struct State *s, int64_t size, void **data);
static inline void memory_retain(Memory *m) { atomic_fetch_add_explicit(&m->refs, REFERENCE, memory_order_relaxed); }
// memory_release is called with the interpreter's lock held, also while an exception is set, which deleters do not see.
// memory_release_anywhere is called on any thread, with or without the lock, at any time. It leaves memory of an
// interpreter alone that has ended. share is what it takes off refs: REFERENCE, with LENT if the node comes back, too.
void memory_release(struct State *s, Memory *m);
void memory_release_anywhere(Memory *m, long share);

// Counts of memory, for the tests. Each State counts what its interpreter makes and frees, which needs no
// atomic addition; elsewhere counts what is made or freed without an interpreter, or was counted by a State that is gone.
extern atomic_long made_elsewhere, freed_elsewhere;
// COUNT adds 1 to a counter of a State, and SWAP stores a pointer there and returns the old one. Under the interpreter's
// lock neither needs an atomic change.
#ifdef Py_GIL_DISABLED
#define COUNT(counter) atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)
#define SWAP(place, value) atomic_exchange(&(place), value)
#else
#define COUNT(counter)                                                                                                 \
    atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + 1, memory_order_relaxed)
#define SWAP(place, value) swap_locked(&(place), value)
static inline void *swap_locked(_Atomic(void *) *place, void *value) {
    void *old = atomic_load_explicit(place, memory_order_relaxed);
    atomic_store_explicit(place, value, memory_order_relaxed);
    return old;
}
#endif

// --- tensor.c

typedef struct {
    PyObject_HEAD
    struct State *state; // of the type's module, which the type keeps
    Memory *memory;
    uint64_t flags;
    DLTensor t; // shape and strides point to dims, or into one block of the heap
    PyObject *weak;
    int64_t dims[2 * INLINE_RANK];
} Tensor;

struct Cache;

// State is what a module has for itself in each interpreter.
typedef struct State {
    PyTypeObject *tensor_type;
    PyObject *hooks;       // dict: what the Python part of the package registered
    PyObject *str_dlpack, *str_dlpack_device, *str_exchange;
    PyObject *str_max_version, *str_stream, *str_dl_device, *str_copy, *str_device;
    PyObject *kw_max_version; // the tuple of one name
    PyObject *kwargs_max_version; // the same for calls without vectorcall
    PyObject *max_version;    // (1, 3)
    PyObject *major;          // of that
    PyObject *empty_tuple;
    PyObject *exchange; // the capsule of our own table
    struct Cache *cache;
    _Atomic(void *) spare;   // the Memory that was freed last, for the next one; or NULL
    atomic_long made, freed; // see COUNT
    atomic_bool *ended;      // whether the interpreter has ended; never freed, since memory refers to it
} State;

extern PyType_Spec tensor_spec;
// A tensor's type is recognized by its address if it is that of the interpreter that imported dlx first. tensor_forget is
// called before a State gives its type up, and at the end of its interpreter.
extern _Atomic(PyTypeObject *) first_type;
void tensor_forget(State *s);
bool tensor_check(PyObject *o); // of any interpreter
static inline State *state_of(Tensor *t) { return t->state; }
static inline Tensor *tensor_of(PyObject *o) { return (Tensor *)o; }

// tensor_alloc makes a tensor with room for ndim axes. It takes memory only if it succeeds. The caller sets the rest of
// t.
Tensor *tensor_alloc(State *s, Memory *memory, int ndim);
// tensor_view makes a tensor with the same memory, flags, device and type.
Tensor *tensor_view(Tensor *of, int ndim);

// tensor_count returns the number of elements. An extent of 0 makes it 0, even if the others overflow.
static inline int64_t tensor_count(const DLTensor *t) {
    uint64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= (uint64_t)t->shape[i];
    return (int64_t)n;
}
bool tensor_contiguous(const DLTensor *t);
// element_bits returns the distance between adjacent elements in bits.
static inline int64_t element_bits(DLDataType d, uint64_t flags) {
    return (d.bits < 8 && (flags & FLAG_PADDED) ? 8 : (int64_t)d.bits) * d.lanes;
}
// data_bytes returns how many bytes count elements take; -1 if that overflows.
static inline int64_t data_bytes(DLDataType d, uint64_t flags, int64_t count) {
    unsigned __int128 bits = (unsigned __int128)count * (uint64_t)element_bits(d, flags);
    unsigned __int128 bytes = (bits + 7) / 8;
    return bytes > INT64_MAX ? -1 : (int64_t)bytes;
}
static inline bool host_accessible(int32_t type) {
    return type == DEVICE_CPU || type == DEVICE_CUDA_HOST || type == DEVICE_ROCM_HOST || type == DEVICE_CUDA_MANAGED;
}
static inline bool addressed(int32_t type) {
    return host_accessible(type) || type == DEVICE_CUDA || type == DEVICE_ROCM;
}
// keyword returns which of n interned names a keyword is, -1 if none. Keywords are interned, too, so that almost always
// the addresses tell, without a function call.
static inline int keyword(PyObject *name, PyObject *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (name == names[i])
            return i;
    for (int i = 0; i < n; i++)
        if (PyUnicode_Compare(name, names[i]) == 0)
            return i;
    return -1;
}
// Move is how a tensor is moved.
typedef struct {
    int copies;       // 1: it is always copied, 0: never, -1: if it must be
    uintptr_t stream; // a stream of libdlx on the target that uses the result next, or 0
    uintptr_t source; // a stream of libdlx on which other code writes the tensor, or 0
} Move;

// tensor_move returns t itself, a view of it, or a copy on the device.
PyObject *tensor_move(State *s, Tensor *t, DLDevice device, Move how);
// call_hook calls a function of the Python part of the package. It steals nothing.
PyObject *call_hook(State *s, const char *name, PyObject *args);

// --- operators.c

// The operators that are refused, by the names of their slots.
#define TENSOR_BINARY(X)                                                                                               \
    X(add, "+") X(subtract, "-") X(multiply, "*") X(remainder, "%") X(divmod, "divmod") X(lshift, "<<")                \
    X(rshift, ">>") X(and, "&") X(xor, "^") X(or, "|") X(floor_divide, "//") X(true_divide, "/")                       \
    X(matrix_multiply, "@")
#define TENSOR_UNARY(X) X(negative, "-") X(positive, "+") X(absolute, "abs") X(invert, "~")
#define DECLARE_BINARY(name, operator) PyObject *tensor_##name(PyObject *a, PyObject *b);
#define DECLARE_UNARY(name, operator) PyObject *tensor_##name(PyObject *self);
TENSOR_BINARY(DECLARE_BINARY)
TENSOR_UNARY(DECLARE_UNARY)
#undef DECLARE_BINARY
#undef DECLARE_UNARY
PyObject *tensor_pow(PyObject *a, PyObject *b, PyObject *modulus);
PyObject *tensor_compare(PyObject *self, PyObject *other, int operation);
PyObject *tensor_int(PyObject *self);
PyObject *tensor_float(PyObject *self);
PyObject *tensor_index(PyObject *self);
PyObject *tensor_iter(PyObject *self);
PyObject *tensor_complex(PyObject *self, PyObject *ignored);
PyObject *tensor_bytes(PyObject *self, PyObject *ignored);
int tensor_bool(PyObject *self);
int tensor_contains(PyObject *self, PyObject *x);
int tensor_assign(PyObject *self, PyObject *key, PyObject *value);

// --- view.c

PyObject *tensor_subscript(PyObject *self, PyObject *key);
PyObject *tensor_transpose(PyObject *self, PyObject *axes);
PyObject *tensor_T(PyObject *self, void *closure);
PyObject *tensor_reshape(PyObject *self, PyObject *shape);
PyObject *tensor_with_lanes(PyObject *self, PyObject *lanes);

// --- device.c

// parse_device accepts a name, such as "cuda:0", or a pair (type, index).
int parse_device(PyObject *device, DLDevice *d);
void device_name(DLDevice d, char *text, size_t size);
bool device_known(DLDevice d); // whether the type of the device has a name
// parse_flag reads an argument that is True, False or None: 1, 0 or -1.
int parse_flag(PyObject *flag, const char *name, int *value);

// --- from.c

PyObject *from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
int parse_pair(PyObject *pair, DLDevice *d); // (type, index)

// --- import.c

// take makes a tensor of a managed tensor, which it owns from the call on.
Tensor *take_versioned(State *s, DLVersioned *m, bool python);
Tensor *take_legacy(State *s, DLManaged *m, bool python);
// take_go makes a tensor of an export of libdlx. It owns the handle, too.
Tensor *take_go(State *s, DLVersioned *m, uintptr_t handle);
Tensor *take_capsule(State *s, PyObject *capsule);
// check_tensor checks t, of which shape and strides were copied. It returns false and writes a text if t is not valid.
bool check_tensor(const DLTensor *t, uint64_t flags, char *text, size_t size);
void row_major(DLTensor *t);
// tame_strides replaces huge strides along which nobody steps, which may be any number, by ones that can be counted in
// bytes. The rest of t was checked.
void tame_strides(DLTensor *t);
// tensor_span returns how many elements fit between the lowest and the highest one of a tensor that was checked, both
// included, and in low, which is not positive, where the lowest one lies.
int64_t tensor_span(const DLTensor *t, int64_t *low);

// --- export.c

PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
// export_versioned returns NULL without an exception if there is no memory.
DLVersioned *export_versioned(Tensor *t, uint64_t flags);
// export_memory returns the memory of m if m is an export of ours, NULL if it is not. m is a struct of either kind.
// export_unwrap then frees m without its reference to the memory, which becomes the caller's.
Memory *export_memory(void *m, enum MemoryKind kind);
void export_unwrap(void *m);
extern DLExchange exchange_table;

// --- cache.c

const DLExchange *exchange_of(State *s, PyTypeObject *type); // NULL: none; no exception
struct Cache *cache_new(void);
void cache_clear(State *s);
void cache_free(State *s);
int cache_traverse(State *s, visitproc visit, void *arg);

// --- state.c

bool state_add(State *s);    // false without an exception if there is no memory
void state_remove(State *s); // it is not found any more
void state_retire(State *s); // it is about to be freed
State *state_here(void); // of the interpreter that runs; NULL without an exception
long state_live(void); // counts the memory that is open in the process

// --- copy.c

// copy_into copies the elements in row-major order to host memory of the right size. It returns -1 with an exception.
int copy_into(State *s, Tensor *from, void *to);
// copy_host makes a row-major copy in new host memory.
Tensor *copy_host(State *s, Tensor *from);

// --- buffer.c

int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void tensor_releasebuffer(PyObject *self, Py_buffer *view);
PyObject *tensor_array_interface(PyObject *self, void *closure);

// --- golib.c: what is done by libdlx, which is loaded when it is needed first

extern PyMethodDef golib_methods[];
extern PyMethodDef load_methods[];   // of loadfiles.c
extern PyMethodDef stream_methods[]; // of streams.c
extern PyMethodDef share_methods[];  // of share.c
extern PyMethodDef ring_methods[];   // of ring.c
extern PyMethodDef remote_methods[]; // of remote.c
extern PyMethodDef mapping_methods[]; // of mapping.c
// wait_host waits for unfinished work on the memory, which may be written then unless it is read-only. It returns -1 with
// an exception. wait_read is wait_host for memory that is only read: it does not wait for processes that read it, too.
int wait_host(Tensor *t);
int wait_read(Tensor *t);
// order_stream makes the consumer's stream wait for unfinished work on the tensor, by the rules of DLPack for the
// argument stream. It returns -1 with an exception.
int order_stream(Tensor *t, PyObject *stream);
// go_move is tensor_move for everything but host memory.
PyObject *go_move(State *s, Tensor *t, DLDevice device, Move how);
// go_usable reports whether libdlx is loaded, and not by a parent of this process.
bool go_usable(void);
// go_plan describes a move in words.
PyObject *go_plan(Tensor *t, DLDevice device, Move how);
// go_memory_fd returns a new descriptor of the memory of t and where t begins there; -1 without an exception if the memory
// has none, and with one after an error.
int go_memory_fd(Tensor *t, int64_t *offset);
// go_empty allocates memory on a device, which the stream uses first unless it is 0.
PyObject *go_empty(State *s, DLDataType dtype, int ndim, const int64_t *shape, DLDevice device, uintptr_t stream);
// parse_stream reads an argument that is a dlx.Stream or None: its handle of libdlx, or 0.
int parse_stream(PyObject *stream, const char *name, uintptr_t *handle);
// go_close closes a tensor of libdlx, on any thread, and go_release releases a frame.
void go_close(uintptr_t handle);
void go_release(uintptr_t frame);

// --- compat.h

#include "compat.h"

#endif
