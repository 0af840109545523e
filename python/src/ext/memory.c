#include "ext.h"

#include <stdlib.h>

atomic_long made_elsewhere, freed_elsewhere;

Memory *memory_new(State *s, enum MemoryKind kind, void *owner, bool python) {
    Memory *m = s == NULL ? NULL : SWAP(s->spare, NULL);
    if (m == NULL && (m = malloc(sizeof *m)) == NULL)
        return NULL;
    atomic_init(&m->refs, REFERENCE);
    m->kind = (uint8_t)kind;
    m->ended = python ? s->ended : NULL;
    m->owner = owner;
    atomic_init(&m->handle, 0);
    m->frame = 0;
    atomic_init(&m->idle, false);
    m->stream = NULL;
    m->has_stream = false;
    m->shared = false;
    m->mapped = false;
    if (s != NULL)
        COUNT(s->made);
    else
        atomic_fetch_add_explicit(&made_elsewhere, 1, memory_order_relaxed);
    return m;
}

Memory *memory_host(State *s, int64_t size, void **data) {
    // aligned_alloc wants a multiple of the alignment.
    size_t rounded = ((size_t)size + 255) & ~(size_t)255;
    *data = aligned_alloc(256, rounded ? rounded : 256);
    if (*data == NULL)
        return NULL;
    Memory *m = memory_new(s, OWNED_HOST, *data, false);
    if (m == NULL)
        free(*data);
    return m;
}

// drop gives back what m owns, but not m itself.
static void drop(Memory *m) {
    switch ((enum MemoryKind)m->kind) {
    case OWNED_VERSIONED: {
        DLVersioned *owner = m->owner;
        owner->deleter(owner);
        break;
    }
    case OWNED_LEGACY: {
        DLManaged *owner = m->owner;
        owner->deleter(owner);
        break;
    }
    case OWNED_GO: {
        DLVersioned *owner = m->owner;
        owner->deleter(owner);
        uintptr_t handle = atomic_exchange(&m->handle, 0);
        if (handle != 0)
            go_close(handle);
        if (m->frame != 0)
            go_release(m->frame);
        break;
    }
    case OWNED_NOTHING:
        break;
    case OWNED_HOST:
        free(m->owner);
        break;
    }
}

// last gives up a share and reports whether it was the last. Whoever has the only one needs no atomic subtraction, since
// nobody else can add one.
static bool last(Memory *m, long share) {
    return atomic_load_explicit(&m->refs, memory_order_acquire) == share ||
           atomic_fetch_sub_explicit(&m->refs, share, memory_order_acq_rel) == share;
}

void memory_release(State *s, Memory *m) {
    if (!last(m, REFERENCE))
        return;
    COUNT(s->freed);
    if (m->kind == OWNED_GO) {
        // Go may free what belongs to other libraries of Python, on threads that wait for the interpreter's lock.
        Py_BEGIN_ALLOW_THREADS
        drop(m);
        Py_END_ALLOW_THREADS
    } else if (m->kind == OWNED_HOST || PyErr_Occurred() == NULL)
        drop(m);
    else {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        drop(m);
        PyErr_Restore(type, value, trace);
    }
    free(SWAP(s->spare, m));
}

void memory_release_anywhere(Memory *m, long share) {
    if (!last(m, share))
        return;
    // The deleters of Python's libraries take the interpreter's lock, which does not exist any more, or which ends the
    // thread that waits for it. The process is about to end, and its memory with it.
    if (m->ended != NULL && (atomic_load(m->ended) || !Py_IsInitialized()))
        return;
    atomic_fetch_add_explicit(&freed_elsewhere, 1, memory_order_relaxed);
    drop(m);
    free(m);
}
