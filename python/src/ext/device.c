// The names of devices, which are those of core.DeviceID.
#include "ext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [1] = "cpu",        [2] = "cuda",    [3] = "cuda_host", [4] = "opencl",    [7] = "vulkan",        [8] = "metal",
    [9] = "vpi",        [10] = "rocm",   [11] = "rocm_host", [12] = "ext_dev", [13] = "cuda_managed", [14] = "oneapi",
    [15] = "webgpu",    [16] = "hexagon", [17] = "maia",    [18] = "trn",      [19] = "tpu",          [20] = "tpu_host",
    [21] = "ascend",    [34] = "gl",
};
enum { NAMES = sizeof names / sizeof *names };

bool device_known(DLDevice d) { return d.type > 0 && d.type < NAMES && names[d.type] != NULL; }

void device_name(DLDevice d, char *text, size_t size) {
    char type[32];
    if (device_known(d))
        snprintf(type, sizeof type, "%s", names[d.type]);
    else
        snprintf(type, sizeof type, "device%d", d.type);
    if (d.id == 0 && host_accessible(d.type))
        snprintf(text, size, "%s", type);
    else
        snprintf(text, size, "%s:%d", type, d.id);
}

// number reads a whole number. It reports false for anything else.
static bool number(const char *text, long *n) {
    char *end;
    if ((*text < '0' || *text > '9') && *text != '-')
        return false;
    *n = strtol(text, &end, 10);
    return *end == 0 && *n >= INT32_MIN && *n <= INT32_MAX;
}

static bool parse(const char *text, DLDevice *d) {
    const char *colon = strchr(text, ':');
    size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);
    char type[32];
    long n = 0;
    if (length >= sizeof type || (colon != NULL && (!number(colon + 1, &n) || n < 0)))
        return false;
    memcpy(type, text, length);
    type[length] = 0;
    d->id = (int32_t)n;
    for (int i = 0; i < NAMES; i++)
        if (names[i] != NULL && strcmp(names[i], type) == 0) {
            d->type = i;
            return true;
        }
    if (strncmp(type, "device", 6) != 0 || !number(type + 6, &n))
        return false;
    d->type = (int32_t)n;
    return true;
}

int parse_flag(PyObject *flag, const char *name, int *value) {
    *value = -1;
    if (flag == Py_None)
        return 0;
    // A bool of NumPy equals one of Python. What is merely true or not, such as a text, is a mistake.
    int is_true = PyObject_RichCompareBool(flag, Py_True, Py_EQ);
    int is_false = is_true != 0 ? 0 : PyObject_RichCompareBool(flag, Py_False, Py_EQ);
    if (is_true < 0 || is_false < 0)
        return -1;
    if (!is_true && !is_false) {
        PyErr_Format(PyExc_TypeError, "dlx: %s must be True, False or None, not %R", name, flag);
        return -1;
    }
    *value = is_true;
    return 0;
}

int parse_device(PyObject *device, DLDevice *d) {
    if (PyTuple_Check(device))
        return parse_pair(device, d);
    // The device of another library prints as its name.
    PyObject *text = PyObject_Str(device);
    PyObject *bytes = text == NULL ? NULL : PyUnicode_AsUTF8String(text);
    const char *s = bytes == NULL ? NULL : PyBytes_AsString(bytes);
    int status = -1;
    if (s != NULL && strlen(s) == (size_t)PyBytes_Size(bytes) && parse(s, d)) // a NUL would end it
        status = 0;
    else if (s != NULL)
        PyErr_Format(PyExc_ValueError, "dlx: %R is not a device; examples: \"cpu\", \"cuda:0\", \"vulkan\"", device);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    return status;
}
