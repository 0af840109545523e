import numpy as np

from . import host_array, packed

NAME, PACKAGES = "NumPy", ["numpy"]


def make(dtype, layout):
    x = host_array(dtype, layout)[layout.view]
    if layout.readonly:
        x.flags.writeable = False
    return x


def take(t, copy):
    return np.from_dlpack(t) if copy is None else np.from_dlpack(t, copy=copy)


def address(y):
    return y.__array_interface__["data"][0]


def elements(y, dtype):
    return packed(y, dtype)


def shape(y):
    return y.shape


def dtype(y):
    return y.dtype.name


def writable(y):
    return y.flags.writeable
