import ctypes

import mlx.core as mx
import numpy as np

from capsule import look

from . import Absent, host_array

NAME, PACKAGES = "MLX", ["mlx", "mlx-cpu"]


def make(dtype, layout):
    if layout.readonly:
        raise Absent("MLX has no read-only arrays")
    base = host_array(dtype, layout)
    x = mx.array(base)
    if dtype.name != str(x.dtype).removeprefix("mlx.core."):
        raise Absent(f"MLX has no such type: it made {x.dtype} of it")
    x = x[layout.view] if layout.view is not ... else x
    mx.eval(x)
    return x


def take(t, copy):
    y = mx.from_dlpack(t) if copy is None else mx.from_dlpack(t, copy=copy)
    mx.eval(y)
    return y


def address(y):
    return look(y).address


def elements(y, dtype):
    return look(mx.contiguous(y)).bytes()


def shape(y):
    return tuple(y.shape)


def dtype(y):
    return str(y.dtype).removeprefix("mlx.core.")


def writable(y):
    return False
