// The functions of the exchange table get no module. They find the State of the interpreter that runs in this list.
#include "ext.h"

#include <pthread.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static State *states; // guarded by mu

void state_add(State *s) {
    s->interpreter = PyInterpreterState_Get();
    pthread_mutex_lock(&mu);
    s->next = states;
    states = s;
    pthread_mutex_unlock(&mu);
}

// A State without an interpreter is not found, but still counted.
void state_remove(State *s) {
    pthread_mutex_lock(&mu);
    s->interpreter = NULL;
    pthread_mutex_unlock(&mu);
}

void state_retire(State *s) {
    pthread_mutex_lock(&mu);
    for (State **p = &states; *p != NULL; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            atomic_fetch_add(&made_elsewhere, atomic_load(&s->made));
            atomic_fetch_add(&freed_elsewhere, atomic_load(&s->freed));
            atomic_fetch_add(&exports_elsewhere, atomic_load(&s->exports));
            break;
        }
    pthread_mutex_unlock(&mu);
}

// An interpreter removes its states before it ends, so that s outlives the lock.
State *state_here(void) {
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    pthread_mutex_lock(&mu);
    State *s = states;
    while (s != NULL && s->interpreter != interpreter)
        s = s->next;
    pthread_mutex_unlock(&mu);
    return s;
}

void state_live(long *memories, long *exports) {
    pthread_mutex_lock(&mu);
    *memories = atomic_load(&made_elsewhere) - atomic_load(&freed_elsewhere);
    *exports = atomic_load(&exports_elsewhere);
    for (State *s = states; s != NULL; s = s->next) {
        *memories += atomic_load(&s->made) - atomic_load(&s->freed);
        *exports += atomic_load(&s->exports);
    }
    pthread_mutex_unlock(&mu);
}
