import mxnet as mx

from capsule import Look

from . import Absent, host_array, packed

NAME, PACKAGES = "MXNet", ["mxnet", "numpy"]


def make(dtype, layout):
    if layout.readonly:
        raise Absent("MXNet has no read-only arrays")
    if layout.name in ("strided", "negative"):
        raise Absent("MXNet's arrays are contiguous")
    base = host_array(dtype, layout)
    if base.dtype.name not in ("float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"):
        raise Absent("MXNet has no such type")
    if layout.name in ("zero-size", "0-d"):  # only in the semantics of NumPy
        raise Absent("MXNet's NDArray has no tensors of no elements, and none without axes")
    x = mx.nd.array(base, dtype=base.dtype)
    x = x if layout.view is ... else x[layout.view]
    x.wait_to_read()
    return x


def export(x):
    return x.to_dlpack_for_read()


def take(t, copy):
    if copy is None:
        return mx.nd.from_dlpack(t.__dlpack__())
    return mx.nd.from_dlpack(t.__dlpack__(), copy=copy)


def address(y):
    return Look(y.to_dlpack_for_read()).address


def elements(y, dtype):
    return packed(y.asnumpy(), dtype)


def shape(y):
    return y.shape


def dtype(y):
    import numpy as np
    return np.dtype(y.dtype).name


def writable(y):
    return True
