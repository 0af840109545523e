// What a consumer in C takes to exchange tensors: each function calls another one many times, with the interpreter's
// lock held, and returns nanoseconds for one call, or -1 on an error.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>

#include "../src/ext/abi.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// give_ns: the table exports a tensor, and the consumer deletes it.
double give_ns(const DLExchange *table, PyObject *x, long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        DLVersioned *m;
        if (table->managed_from_object(x, &m) != 0)
            return -1;
        m->deleter(m);
    }
    return (now() - start) / (double)n;
}

// look_ns: the table describes a tensor that the consumer borrows.
double look_ns(const DLExchange *table, PyObject *x, long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        DLTensor t;
        if (table->tensor_from_object(x, &t) != 0)
            return -1;
    }
    return (now() - start) / (double)n;
}

// take_ns: the table makes an object of what the table of the same or of another library exports.
double take_ns(const DLExchange *to, const DLExchange *from, PyObject *x, long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        DLVersioned *m;
        void *o;
        if (from->managed_from_object(x, &m) != 0 || to->managed_to_object(m, &o) != 0)
            return -1;
        Py_DECREF((PyObject *)o);
    }
    return (now() - start) / (double)n;
}

// call_ns: a function of Python is called with one argument.
double call_ns(PyObject *function, PyObject *x, long n) {
    double start = now();
    for (long i = 0; i < n; i++) {
        PyObject *o = PyObject_CallOneArg(function, x);
        if (o == NULL)
            return -1;
        Py_DECREF(o);
    }
    return (now() - start) / (double)n;
}
