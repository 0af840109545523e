import cupy

from . import host_array

NAME, PACKAGES = "CuPy", ["cupy-cuda12x"]


def make(dtype, layout):
    return cupy.asarray(host_array(dtype, layout))


def take(t, copy):
    return cupy.from_dlpack(t) if copy is None else cupy.from_dlpack(t, copy=copy)
