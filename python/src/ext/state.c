// The functions of the exchange table get no module. They find the State of the interpreter that runs in this list.
#include "ext.h"

#include <pthread.h>
#include <stdlib.h>

// Room is for the State of one interpreter. It is used again and never freed, so that the list is read without a lock.
typedef struct Room {
    _Atomic(PyInterpreterState *) interpreter; // NULL: the State is not found
    State *state;                              // NULL: the room is free; guarded by mu, but for its own interpreter
    struct Room *next;                         // does not change
} Room;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(Room *) rooms; // grows under mu

// room_of returns the room of a State, or a free one for NULL, under mu.
static Room *room_of(State *s) {
    Room *r = atomic_load(&rooms);
    while (r != NULL && r->state != s)
        r = r->next;
    return r;
}

bool state_add(State *s) {
    pthread_mutex_lock(&mu);
    Room *r = room_of(NULL);
    if (r == NULL && (r = calloc(1, sizeof *r)) != NULL) {
        r->next = atomic_load(&rooms);
        atomic_store(&rooms, r);
    }
    if (r != NULL) {
        PyInterpreterState *interpreter = PyInterpreterState_Get();
        r->state = s;
        atomic_store(&r->interpreter, interpreter);
        // The newest is found, not that of an interpreter that leaked its modules and had the same address.
        for (Room *other = atomic_load(&rooms); other != NULL; other = other->next)
            if (other != r && atomic_load(&other->interpreter) == interpreter)
                atomic_store(&other->interpreter, NULL);
    }
    pthread_mutex_unlock(&mu);
    return r != NULL;
}

// A State without an interpreter is not found, but still counted.
void state_remove(State *s) {
    pthread_mutex_lock(&mu);
    Room *r = room_of(s);
    if (r != NULL)
        atomic_store(&r->interpreter, NULL);
    pthread_mutex_unlock(&mu);
}

void state_retire(State *s) {
    pthread_mutex_lock(&mu);
    Room *r = room_of(s);
    if (r != NULL) {
        r->state = NULL;
        atomic_fetch_add(&made_elsewhere, atomic_load(&s->made));
        atomic_fetch_add(&freed_elsewhere, atomic_load(&s->freed));
    }
    pthread_mutex_unlock(&mu);
}

// An interpreter removes its states before it ends, so that the one that runs has its own.
State *state_here(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    for (Room *r = atomic_load_explicit(&rooms, memory_order_acquire); r != NULL; r = r->next)
        if (atomic_load_explicit(&r->interpreter, memory_order_acquire) == interpreter)
            return r->state;
    return NULL;
}

long state_live(void) {
    pthread_mutex_lock(&mu);
    long memories = atomic_load(&made_elsewhere) - atomic_load(&freed_elsewhere);
    for (Room *r = atomic_load(&rooms); r != NULL; r = r->next)
        if (r->state != NULL)
            memories += atomic_load(&r->state->made) - atomic_load(&r->state->freed);
    pthread_mutex_unlock(&mu);
    return memories;
}
