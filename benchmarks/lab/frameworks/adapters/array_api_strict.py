import array_api_strict as xp

from . import Absent, host_array, numpy

NAME, PACKAGES = "array-api-strict", ["array-api-strict", "numpy"]


def make(dtype, layout):
    if layout.readonly:
        raise Absent("array-api-strict has no read-only arrays")
    base = host_array(dtype, layout)
    view = layout.view if isinstance(layout.view, tuple) or layout.view is ... else (layout.view, ...)
    return xp.asarray(base)[view]


def take(t, copy):
    return xp.from_dlpack(t) if copy is None else xp.from_dlpack(t, copy=copy)


def address(y):
    return numpy.address(y._array)


def elements(y, dtype):
    return numpy.elements(y._array, dtype)


def shape(y):
    return y.shape


def dtype(y):
    return y._array.dtype.name


def writable(y):
    return y._array.flags.writeable
