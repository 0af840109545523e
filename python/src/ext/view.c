// Views: slices, transpositions and other shapes of the same memory.
#include "ext.h"

#include <string.h>

// shift moves the first element of t by elements. For an address it changes the address, and for an object the offset.
static int shift(Tensor *t, int64_t elements) {
    int64_t bits;
    if (__builtin_mul_overflow(elements, element_bits(t->t.dtype, t->flags), &bits)) {
        PyErr_SetString(PyExc_ValueError, "dlx: the offset of the view overflows");
        return -1;
    }
    if (bits % 8 != 0) {
        PyErr_SetString(PyExc_BufferError, "dlx: the view would begin inside of a byte: elements of fewer than 8 bits are "
                                           "packed");
        return -1;
    }
    if (t->t.data != NULL && addressed(t->t.device.type)) {
        t->t.data = (char *)t->t.data + bits / 8;
        return 0;
    }
    if (bits < 0 && (uint64_t)(-(bits / 8)) > t->t.byte_offset) {
        PyErr_SetString(PyExc_BufferError, "dlx: the view would begin before the memory");
        return -1;
    }
    t->t.byte_offset += (uint64_t)(bits / 8);
    return 0;
}

// Axes is a view that is being made.
typedef struct {
    int64_t shape[MAX_RANK], strides[MAX_RANK], offset;
    int n;
} Axes;

static int add_axis(Axes *a, int64_t extent, int64_t stride) {
    if (a->n == MAX_RANK) {
        PyErr_Format(PyExc_IndexError, "dlx: the view would have more than %d axes", MAX_RANK);
        return -1;
    }
    a->shape[a->n] = extent;
    a->strides[a->n++] = stride;
    return 0;
}

// move_offset adds steps strides. Only in a tensor without elements that may overflow, where nobody uses the offset.
static void move_offset(Axes *a, int64_t steps, int64_t stride) {
    a->offset = (int64_t)((uint64_t)a->offset + (uint64_t)steps * (uint64_t)stride);
}

static int add_index(Axes *a, PyObject *key, const DLTensor *of, int axis) {
    int64_t extent = of->shape[axis], stride = of->strides[axis];
    if (PySlice_Check(key)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(key, &start, &stop, &step) != 0)
            return -1;
        Py_ssize_t n = PySlice_AdjustIndices((Py_ssize_t)extent, &start, &stop, step);
        if (n > 0)
            move_offset(a, start, stride);
        int64_t stepped;
        if (__builtin_mul_overflow(stride, (int64_t)step, &stepped)) // then there is at most one element
            stepped = stride;
        return add_axis(a, n, stepped);
    }
    if (PyBool_Check(key) || !PyIndex_Check(key)) {
        PyErr_Format(PyExc_TypeError, "dlx: an index must be an integer, a slice, None or an ellipsis, not %.100S", Py_TYPE(key));
        return -1;
    }
    Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return -1;
    if (i < -extent || i >= extent) {
        PyErr_Format(PyExc_IndexError, "dlx: index %zd is out of bounds for axis %d with %lld elements", i, axis,
                     (long long)extent);
        return -1;
    }
    move_offset(a, i < 0 ? i + extent : i, stride);
    return 0;
}

static PyObject *make_view(Tensor *of, const Axes *a) {
    Tensor *t = tensor_view(of, a->n);
    if (t == NULL)
        return NULL;
    for (int i = 0; i < a->n; i++) {
        t->t.shape[i] = a->shape[i];
        t->t.strides[i] = a->strides[i];
    }
    tame_strides(&t->t);
    if (a->offset != 0 && shift(t, a->offset) != 0) {
        Py_DECREF(t);
        return NULL;
    }
    return (PyObject *)t;
}

PyObject *tensor_subscript(PyObject *self, PyObject *key) {
    Tensor *of = tensor_of(self);
    bool tuple = PyTuple_Check(key);
    Py_ssize_t n = tuple ? PyTuple_Size(key) : 1;
    int used = 0, ellipses = 0, axis = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *k = tuple ? PyTuple_GetItem(key, i) : key;
        ellipses += k == Py_Ellipsis;
        used += k != Py_Ellipsis && k != Py_None;
    }
    if (ellipses > 1 || used > of->t.ndim) {
        PyErr_Format(PyExc_IndexError, ellipses > 1 ? "dlx: an index has at most one ellipsis" :
                     "dlx: %d indices for a tensor with %d axes", used, of->t.ndim);
        return NULL;
    }
    Axes a = {.n = 0, .offset = 0};
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *k = tuple ? PyTuple_GetItem(key, i) : key;
        if (k == Py_Ellipsis) {
            for (int left = of->t.ndim - used; left > 0; left--, axis++)
                if (add_axis(&a, of->t.shape[axis], of->t.strides[axis]) != 0)
                    return NULL;
        } else if (k == Py_None) {
            if (add_axis(&a, 1, 0) != 0)
                return NULL;
        } else if (add_index(&a, k, &of->t, axis++) != 0)
            return NULL;
    }
    for (; axis < of->t.ndim; axis++)
        if (add_axis(&a, of->t.shape[axis], of->t.strides[axis]) != 0)
            return NULL;
    // A tensor without elements has no memory to point into.
    for (int i = 0; i < a.n; i++)
        if (a.shape[i] == 0)
            a.offset = 0;
    return make_view(of, &a);
}

// integers reads the arguments of transpose and reshape: integers, or one sequence of them.
static int integers(PyObject *args, int64_t *values) {
    PyObject *list = NULL;
    PyObject *first = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL;
    bool tensor = first != NULL && tensor_check(first) && tensor_of(first)->t.ndim > 0;
    if (first != NULL && (tensor || !PyIndex_Check(first))) {
        if ((list = PySequence_Tuple(first)) == NULL)
            return -1;
        args = list;
    }
    Py_ssize_t n = PyTuple_Size(args);
    if (n > MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "dlx: at most %d axes are supported", MAX_RANK);
        n = -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        values[i] = PyNumber_AsSsize_t(PyTuple_GetItem(args, i), PyExc_OverflowError);
        if (values[i] == -1 && PyErr_Occurred())
            n = -1;
    }
    Py_XDECREF(list);
    return (int)n;
}

PyObject *tensor_T(PyObject *self, void *closure) {
    (void)closure;
    Tensor *of = tensor_of(self);
    Axes a = {.n = 0, .offset = 0};
    for (int i = of->t.ndim - 1; i >= 0; i--)
        add_axis(&a, of->t.shape[i], of->t.strides[i]);
    return make_view(of, &a);
}

PyObject *tensor_transpose(PyObject *self, PyObject *args) {
    Tensor *of = tensor_of(self);
    int64_t order[MAX_RANK];
    int n = integers(args, order);
    if (n < 0)
        return NULL;
    if (PyTuple_Size(args) == 0)
        return tensor_T(self, NULL);
    uint64_t seen = 0;
    Axes a = {.n = 0, .offset = 0};
    bool valid = n == of->t.ndim;
    for (int i = 0; valid && i < n; i++) {
        int64_t axis = order[i] < 0 ? order[i] + n : order[i];
        valid = axis >= 0 && axis < n && (seen >> axis & 1) == 0;
        if (valid) {
            seen |= (uint64_t)1 << axis;
            add_axis(&a, of->t.shape[axis], of->t.strides[axis]);
        }
    }
    if (!valid) {
        PyErr_Format(PyExc_ValueError, "dlx: transpose needs each of the %d axes once", of->t.ndim);
        return NULL;
    }
    return make_view(of, &a);
}

// regroup computes the strides of another shape with the same number of elements. It reports false if a copy would be
// needed: within a group of axes that are split or joined, elements must be equally far apart.
static bool regroup(const DLTensor *of, Axes *a) {
    int64_t shape[MAX_RANK], strides[MAX_RANK];
    int n = 0, i = 0, j = 0;
    for (int k = 0; k < of->ndim; k++)
        if (of->shape[k] != 1) {
            shape[n] = of->shape[k];
            strides[n++] = of->strides[k];
        }
    while (i < n && j < a->n) {
        int64_t left = shape[i], right = a->shape[j];
        int i2 = i + 1, j2 = j + 1;
        while (left != right)
            if (left < right) {
                if (strides[i2 - 1] != shape[i2] * strides[i2])
                    return false;
                left *= shape[i2++];
            } else
                right *= a->shape[j2++];
        int64_t stride = strides[i2 - 1];
        for (int k = j2 - 1; k >= j; k--) {
            a->strides[k] = stride;
            stride *= a->shape[k];
        }
        i = i2, j = j2;
    }
    for (; j < a->n; j++) // extents of 1
        a->strides[j] = 1;
    return true;
}

PyObject *tensor_reshape(PyObject *self, PyObject *args) {
    Tensor *of = tensor_of(self);
    Axes a = {.offset = 0};
    a.n = integers(args, a.shape);
    if (a.n < 0)
        return NULL;
    int64_t count = tensor_count(&of->t), known = 1;
    int open = -1;
    bool valid = true;
    for (int i = 0; i < a.n; i++) {
        if (a.shape[i] == -1 && open < 0)
            open = i;
        else
            valid &= a.shape[i] >= 0 && !__builtin_mul_overflow(known, a.shape[i], &known);
    }
    if (valid && open >= 0 && (valid = known > 0 && count % known == 0))
        known *= a.shape[open] = count / known;
    if (!valid || known != count) {
        PyErr_Format(PyExc_ValueError, "dlx: a tensor with %lld elements cannot have this shape", (long long)count);
        return NULL;
    }
    if (count == 0) {
        DLTensor t = {.ndim = a.n, .shape = a.shape, .strides = a.strides};
        row_major(&t);
    } else if (!regroup(&of->t, &a)) {
        PyErr_SetString(PyExc_ValueError, "dlx: the shape would need a copy: call copy() first");
        return NULL;
    }
    return make_view(of, &a);
}

static int64_t divisor(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// with_lanes makes a of the axes of t, with lanes numbers in each element. It returns a text for what is not possible.
static const char *with_lanes(const DLTensor *t, int64_t lanes, Axes *a) {
    int64_t was = t->dtype.lanes, common = divisor(was, lanes), split = was / common, group = lanes / common;
    bool empty = tensor_count(t) == 0;
    for (int i = t->ndim - 1; i >= 0; i--) {
        int64_t extent = t->shape[i], stride = t->strides[i], parts = 0;
        bool last = i == t->ndim - 1, steps = extent > 1 && !empty;
        if (last && __builtin_mul_overflow(extent, was, &parts))
            return "the last axis has more numbers than an int64 counts";
        if (last && parts / common % group != 0)
            return "the numbers along the last axis cannot be divided among such elements";
        if (last && steps && stride != 1)
            return "the elements along the last axis do not lie next to each other: call copy() first";
        a->shape[i] = last ? parts / common / group : extent;
        a->strides[i] = 1;
        if (last)
            continue;
        if (__builtin_mul_overflow(stride, split, &parts)) {
            if (steps)
                return "a stride overflows";
            parts = 0;
        }
        if (steps && parts % group != 0)
            return "a stride is no whole number of such elements: call copy() first";
        a->strides[i] = parts / group;
    }
    a->n = t->ndim;
    return t->ndim == 0 ? "a tensor without axes keeps its lanes" : NULL;
}

PyObject *tensor_with_lanes(PyObject *self, PyObject *lanes) {
    Tensor *of = tensor_of(self);
    Axes a = {.n = 0, .offset = 0};
    Py_ssize_t n = PyNumber_AsSsize_t(lanes, PyExc_ValueError);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    if (n < 1 || n > UINT16_MAX)
        return PyErr_Format(PyExc_ValueError, "dlx: lanes is %zd: an element has 1 to %d", n, UINT16_MAX);
    const char *problem = NULL;
    if (n == of->t.dtype.lanes) {
        a.n = of->t.ndim;
        memcpy(a.shape, of->t.shape, sizeof *a.shape * (size_t)a.n);
        memcpy(a.strides, of->t.strides, sizeof *a.strides * (size_t)a.n);
    } else
        problem = with_lanes(&of->t, n, &a);
    if (problem != NULL)
        return PyErr_Format(PyExc_ValueError, "dlx: the tensor cannot have elements of %zd lanes: %s", n, problem);
    PyObject *view = make_view(of, &a);
    if (view != NULL)
        tensor_of(view)->t.dtype.lanes = (uint16_t)n;
    return view;
}
