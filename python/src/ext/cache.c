// Which types have an exchange table. To look for an attribute that a type lacks takes longer than an import.
#include "ext.h"

#include <string.h>

enum { SLOTS = 64 };

// Entry never changes once it is in the cache, and stays there as long as the module. It keeps its type alive, so that
// no other type gets its address.
typedef struct {
    PyTypeObject *type;
    const DLExchange *api; // NULL: the type has none that is of use
} Entry;

struct Cache {
    _Atomic(Entry *) slots[SLOTS];
};

// defines reports whether the dict of a class has the name.
static int defines(PyObject *class, PyObject *name) {
    PyObject *dict = PyObject_GetAttrString(class, "__dict__");
    if (dict == NULL)
        return -1;
    int found = PySequence_Contains(dict, name);
    Py_DECREF(dict);
    return found;
}

// overridden reports whether a class derived from the one with the table has a __dlpack__ of its own, which the table
// would bypass.
static int overridden(State *s, PyTypeObject *type) {
    PyObject *mro = PyObject_GetAttrString((PyObject *)type, "__mro__");
    if (mro == NULL)
        return -1;
    int result = 0;
    Py_ssize_t n = PyTuple_Check(mro) ? PyTuple_Size(mro) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *class = PyTuple_GetItem(mro, i);
        int has = defines(class, s->str_exchange);
        if (has != 0) {
            result = has < 0 ? -1 : 0;
            break;
        }
        has = defines(class, s->str_dlpack);
        if (has != 0) {
            result = has;
            break;
        }
    }
    Py_DECREF(mro);
    return result;
}

// find looks for the table of a type. It leaves no exception: a type without a usable table still has __dlpack__.
static const DLExchange *find(State *s, PyTypeObject *type) {
    const DLExchange *api = NULL;
    PyObject *capsule = PyObject_GetAttr((PyObject *)type, s->str_exchange);
    if (capsule != NULL && PyCapsule_IsValid(capsule, "dlpack_exchange_api") && overridden(s, type) == 0) {
        const DLExchangeHeader *header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
        // A newer table may be followed by an older one.
        for (int links = 0; header != NULL && header->version.major != DL_MAJOR && links < 16; links++)
            header = header->prev_api;
        if (header != NULL && header->version.major == DL_MAJOR)
            api = (const DLExchange *)header;
        if (api != NULL && (api->managed_from_object == NULL || api->current_stream == NULL))
            api = NULL;
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
    return api;
}

const DLExchange *exchange_of(State *s, PyTypeObject *type) {
    size_t hash = ((uintptr_t)type >> 4) ^ ((uintptr_t)type >> 12);
    for (size_t i = 0; i < SLOTS; i++) {
        _Atomic(Entry *) *slot = &s->cache->slots[(hash + i) % SLOTS];
        Entry *e = atomic_load_explicit(slot, memory_order_acquire);
        if (e != NULL) {
            if (e->type == type)
                return e->api;
            continue;
        }
        const DLExchange *api = find(s, type);
        Entry *added = PyMem_Malloc(sizeof *added);
        if (added == NULL)
            return api;
        added->type = type;
        added->api = api;
        Py_INCREF((PyObject *)type);
        Entry *expected = NULL;
        if (!atomic_compare_exchange_strong(slot, &expected, added)) { // another thread was faster: not worth a second try
            Py_DECREF((PyObject *)type);
            PyMem_Free(added);
        }
        return api;
    }
    return find(s, type); // more types than slots
}

int cache_traverse(State *s, visitproc visit, void *arg) {
    if (s->cache == NULL)
        return 0;
    for (size_t i = 0; i < SLOTS; i++) {
        Entry *e = atomic_load(&s->cache->slots[i]);
        if (e != NULL)
            Py_VISIT(e->type);
    }
    return 0;
}

void cache_clear(State *s) {
    if (s->cache == NULL)
        return;
    for (size_t i = 0; i < SLOTS; i++) {
        Entry *e = atomic_exchange(&s->cache->slots[i], NULL);
        if (e != NULL) {
            Py_DECREF(e->type);
            PyMem_Free(e);
        }
    }
}

struct Cache *cache_new(void) { return PyMem_Calloc(1, sizeof(struct Cache)); }

void cache_free(State *s) {
    PyMem_Free(s->cache);
    s->cache = NULL;
}
