import numpy as np
import pyarrow as pa

from . import host_array, numpy

NAME, PACKAGES = "PyArrow", ["pyarrow", "numpy"]


def make(dtype, layout):
    return pa.Tensor.from_numpy(numpy.make(dtype, layout))


def take(t, copy):
    return pa.Tensor.from_dlpack(t) if copy is None else pa.Tensor.from_dlpack(t, copy=copy)


def address(y):
    return numpy.address(y.to_numpy())


def elements(y, dtype):
    return numpy.elements(y.to_numpy(), dtype)


def shape(y):
    return tuple(y.shape)


def dtype(y):
    return {"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(y.type), str(y.type))


def writable(y):
    return y.is_mutable
