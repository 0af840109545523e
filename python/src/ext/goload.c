// Loads libdlx and turns its errors into exceptions.
#include "golib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static char *path;                     // guarded by mu: where libdlx is
static struct GoLib functions;         // guarded by mu, until loaded is true
static atomic_bool loaded;
static atomic_bool begun;              // this process, or the one that it was forked from, has loaded libdlx, or tries to
static atomic_bool forked;             // it was the one that this process was forked from
static bool watched;                   // guarded by mu: note_fork is called in children of fork
static dlx_registry *registry;         // guarded by mu; stays open

// Device is an opened device, which stays open.
typedef struct Device {
    DLDevice id;
    dlx_device *handle;
    struct Device *next;
} Device;
static Device *devices; // guarded by mu

int go_set_path(const char *text) {
    pthread_mutex_lock(&mu);
    char *copied = path == NULL ? strdup(text) : path;
    path = copied;
    pthread_mutex_unlock(&mu);
    if (copied == NULL)
        PyErr_NoMemory();
    return copied == NULL ? -1 : 0;
}

// bind finds all functions. Guarded by mu. It returns the name of the first that is missing, or NULL.
static const char *bind(void *library) {
#define FIND(name)                                                                                                     \
    if ((*(void **)&functions.name = dlsym(library, "dlx_" #name)) == NULL)                                            \
        return "dlx_" #name;
    GO_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

const struct GoLib *go_loaded(void) { return atomic_load(&loaded) ? &functions : NULL; }

// note_fork is called in a child of fork. To ask for the number of the process at each call would cost a call of the system.
static void note_fork(void) {
    if (atomic_load(&begun))
        atomic_store(&forked, true);
}

bool go_usable(void) { return atomic_load(&loaded) && !atomic_load(&forked); }

const struct GoLib *go_load(void) {
    if (atomic_load(&forked)) { // or the parent was about to load it, and mu is locked for ever
        PyErr_SetString(PyExc_RuntimeError, "dlx: this process was forked from one that used devices or files of dlx, "
                                            "whose threads do not survive fork: start it with spawn or forkserver");
        return NULL;
    }
    if (atomic_load(&loaded))
        return &functions;
    char text[1024] = "";
    // Whoever holds mu needs no interpreter, but may take long.
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&mu);
    int failed = watched ? 0 : pthread_atfork(NULL, NULL, note_fork);
    watched = failed == 0;
    if (failed != 0)
        snprintf(text, sizeof text, "dlx: libdlx cannot be loaded: pthread_atfork: %s", strerror(failed));
    else if (!atomic_load(&loaded)) {
        atomic_store(&begun, true);
        void *library = path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const char *missing = library == NULL ? NULL : bind(library);
        if (library == NULL)
            snprintf(text, sizeof text, "dlx: libdlx cannot be loaded: %s", path == NULL ? "no path is set" : dlerror());
        else if (missing != NULL)
            snprintf(text, sizeof text, "dlx: %s has no function %s: it is of another version", path, missing);
        else if (functions.abi_version() != DLX_ABI_VERSION || functions.version_minor() < DLX_VERSION_MINOR)
            snprintf(text, sizeof text, "dlx: %s has version %u.%u; this package needs %d.%d", path,
                     functions.abi_version(), functions.version_minor(), DLX_ABI_VERSION, DLX_VERSION_MINOR);
        else
            atomic_store(&loaded, true);
        if (!atomic_load(&loaded))
            atomic_store(&begun, false);
    }
    pthread_mutex_unlock(&mu);
    Py_END_ALLOW_THREADS
    if (text[0] != 0) {
        PyErr_SetString(PyExc_RuntimeError, text);
        return NULL;
    }
    return &functions;
}

PyObject *go_os_error(int number, const char *text) {
    PyObject *args = Py_BuildValue("(is)", number, text);
    PyObject *error = args == NULL ? NULL : PyObject_CallObject(PyExc_OSError, args); // FileNotFoundError and such
    if (error != NULL) // with its own type: CPython 3.10 compares that with the one of an except clause
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(args);
    return NULL;
}

static PyObject *os_error(const dlx_error *e) { return go_os_error((int)e->native_code, e->text); }

// is_fault reports whether memory of the host that dlx read was not there any more.
static bool is_fault(const dlx_error *e) {
    return e->status == DLX_ERR_INVALID && e->native_code == EFAULT &&
           (strcmp(e->origin, "core") == 0 || strcmp(e->origin, "host") == 0 || strcmp(e->origin, "exchange") == 0);
}

PyObject *go_exception(const dlx_error *e) {
    PyObject *type = PyExc_RuntimeError;
    if (is_fault(e))
        return os_error(e);
    switch (e->status) {
    case DLX_ERR_INVALID:
    case DLX_ERR_VERSION:
    case DLX_ERR_LAYOUT:
    case DLX_ERR_DTYPE:
    case DLX_ERR_DEVICE:
    case DLX_ERR_CLOSED:
        type = PyExc_ValueError;
        break;
    case DLX_ERR_READ_ONLY:
        type = PyExc_BufferError;
        break;
    case DLX_ERR_OUT_OF_MEMORY:
        type = PyExc_MemoryError;
        break;
    case DLX_ERR_TIMEOUT:
        type = PyExc_TimeoutError;
        break;
    default:
        break;
    }
    PyErr_Format(type, "dlx: %s", e->text);
    return NULL;
}

// of_file reports whether an error is one of a file: then its native code is an errno, and not the code of a driver.
static bool of_file(const dlx_error *e) {
    const char *origins[] = {"", "npy", "npz", "safetensors", "tensorfile"};
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        if (strcmp(e->origin, origins[i]) == 0)
            return true;
    return false;
}

PyObject *go_file_exception(const dlx_error *e) {
    return e->status == DLX_ERR_INVALID && e->native_code > 0 && e->native_code <= INT32_MAX && of_file(e) ? os_error(e)
                                                                                                          : go_exception(e);
}

PyObject *go_text(const struct GoLib *go, dlx_text *text) {
    const char *data;
    size_t length;
    dlx_error e;
    PyObject *result = go->text_data(text, &data, &length, &e) == DLX_OK
                           ? PyUnicode_FromStringAndSize(data, (Py_ssize_t)length)
                           : go_exception(&e);
    go->text_close(text, NULL);
    return result;
}

dlx_registry *go_registry(const struct GoLib *go) {
    dlx_error e = {0};
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&mu);
    if (registry == NULL)
        go->registry_open(&registry, &e);
    pthread_mutex_unlock(&mu);
    Py_END_ALLOW_THREADS
    if (registry == NULL)
        go_exception(&e);
    return registry;
}

dlx_device *go_device(const struct GoLib *go, DLDevice id) {
    char name[64];
    dlx_error e = {0};
    dlx_device *found = NULL;
    bool memory = true;
    if (!device_known(id)) {
        PyErr_Format(PyExc_ValueError, "dlx: there is no device of type %d: the types are those of DLPack, such as 1 for "
                                       "the CPU and 2 for CUDA", (int)id.type);
        return NULL;
    }
    dlx_registry *r = go_registry(go);
    if (r == NULL)
        return NULL;
    device_name(id, name, sizeof name);
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&mu);
    for (Device *d = devices; d != NULL && found == NULL; d = d->next)
        if (d->id.type == id.type && d->id.id == id.id)
            found = d->handle;
    if (found == NULL) {
        Device *d = malloc(sizeof *d);
        memory = d != NULL;
        if (memory && go->device_open(r, name, 0, &found, &e) == DLX_OK) {
            d->id = id;
            d->handle = found;
            d->next = devices;
            devices = d;
        } else
            free(d);
    }
    pthread_mutex_unlock(&mu);
    Py_END_ALLOW_THREADS
    if (!memory)
        PyErr_NoMemory();
    else if (found == NULL)
        go_exception(&e);
    return found;
}

int go_adopt(const struct GoLib *go, uintptr_t context, uintptr_t device) {
    dlx_error e;
    bool open = false;
    dlx_status status = DLX_OK;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&mu);
    for (Device *d = devices; d != NULL; d = d->next)
        open |= d->id.type == DEVICE_ONEAPI;
    if (!open)
        status = go->oneapi_adopt(context, device, &e);
    pthread_mutex_unlock(&mu);
    Py_END_ALLOW_THREADS
    if (open)
        PyErr_SetString(PyExc_RuntimeError, "dlx: a device of oneAPI is open, and keeps its context: call "
                                            "adopt_sycl_context before the first use of oneapi:0");
    else if (status != DLX_OK)
        go_exception(&e);
    return open || status != DLX_OK ? -1 : 0;
}
