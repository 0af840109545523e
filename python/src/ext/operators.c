// What Python's operators do with tensors: a tensor is no array library. Its elements become Python's numbers, and
// everything else is refused with a hint, since Python's own fallbacks would compare addresses or parse the memory as text.
#include "ext.h"

static PyObject *hooked(PyObject *self, const char *name, PyObject *argument) {
    PyObject *args = argument == NULL ? PyTuple_Pack(1, self) : PyTuple_Pack(2, self, argument);
    PyObject *result = call_hook(state_of(tensor_of(self)), name, args);
    Py_XDECREF(args);
    return result;
}

PyObject *tensor_int(PyObject *self) { return hooked(self, "int", NULL); }
PyObject *tensor_float(PyObject *self) { return hooked(self, "float", NULL); }
PyObject *tensor_index(PyObject *self) { return hooked(self, "index", NULL); }
PyObject *tensor_iter(PyObject *self) { return hooked(self, "iter", NULL); }

PyObject *tensor_complex(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return hooked(self, "complex", NULL);
}

PyObject *tensor_bytes(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return hooked(self, "bytes", NULL);
}

static int truth(PyObject *result) {
    int status = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    return status;
}

int tensor_bool(PyObject *self) { return truth(hooked(self, "bool", NULL)); }
int tensor_contains(PyObject *self, PyObject *x) { return truth(hooked(self, "contains", x)); }

static PyObject *refuse(const char *operator) {
    return PyErr_Format(PyExc_TypeError,
                        "dlx: a tensor has no operator %s: use it on an array that shares the memory, such as "
                        "numpy.from_dlpack(t)", operator);
}

// tensor_compare asks the other operand, such as an array of NumPy. Without an answer Python would compare addresses.
PyObject *tensor_compare(PyObject *self, PyObject *other, int operation) {
    static const struct {
        const char *name;
        int reflected;
    } operators[] = {[Py_LT] = {"<", Py_GT}, [Py_LE] = {"<=", Py_GE}, [Py_EQ] = {"==", Py_EQ},
                     [Py_NE] = {"!=", Py_NE}, [Py_GT] = {">", Py_LT}, [Py_GE] = {">=", Py_LE}};
    richcmpfunc compare = tensor_check(other) ? NULL : (richcmpfunc)PyType_GetSlot(Py_TYPE(other), Py_tp_richcompare);
    if (compare != NULL) {
        PyObject *result = compare(other, self, operators[operation].reflected);
        if (result != Py_NotImplemented)
            return result;
        Py_DECREF(result);
    }
    if (operation != Py_EQ && operation != Py_NE)
        return refuse(operators[operation].name);
    return PyErr_Format(PyExc_TypeError,
                        "dlx: a tensor has no operator %s: compare arrays that share the memory, such as "
                        "numpy.from_dlpack(t), or write \"is%s\" to ask whether it is the same object",
                        operators[operation].name, operation == Py_EQ ? "" : " not");
}

// binary leaves the answer to the other operand, such as an array of NumPy, if it is neither a tensor nor a number nor a
// sequence of Python, which would be repeated as often as the integer of a tensor says.
static PyObject *binary(PyObject *a, PyObject *b, const char *operator) {
    PyObject *other = tensor_check(a) ? b : a;
    if (tensor_check(other) || PyLong_Check(other) || PyFloat_CheckExact(other) || PyComplex_CheckExact(other) ||
        PyList_Check(other) || PyTuple_Check(other) || PyUnicode_Check(other) || PyBytes_Check(other) ||
        PyByteArray_Check(other))
        return refuse(operator);
    Py_RETURN_NOTIMPLEMENTED;
}

#define BINARY(name, operator)                                                                                         \
    PyObject *tensor_##name(PyObject *a, PyObject *b) { return binary(a, b, operator); }
TENSOR_BINARY(BINARY)
#undef BINARY

PyObject *tensor_pow(PyObject *a, PyObject *b, PyObject *modulus) {
    (void)modulus;
    return binary(a, b, "**");
}

#define UNARY(name, operator)                                                                                          \
    PyObject *tensor_##name(PyObject *self) {                                                                          \
        (void)self;                                                                                                    \
        return refuse(operator);                                                                                       \
    }
TENSOR_UNARY(UNARY)
#undef UNARY

int tensor_assign(PyObject *self, PyObject *key, PyObject *value) {
    (void)self, (void)key, (void)value;
    PyErr_SetString(PyExc_TypeError, "dlx: a tensor has no assignment of elements: assign to an array that shares the "
                                     "memory, such as numpy.from_dlpack(t)");
    return -1;
}
