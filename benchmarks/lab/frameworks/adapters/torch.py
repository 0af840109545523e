import ctypes

import torch

from . import Absent

NAME, PACKAGES = "PyTorch", ["torch"]


def make(dtype, layout):
    kind = getattr(torch, dtype.name, None)
    if kind is None:
        raise Absent("PyTorch has no such type")
    if layout.readonly:
        raise Absent("PyTorch has no read-only tensors")
    count = 1
    for extent in layout.base:
        count *= extent
    data = bytearray(dtype.pack(range(count)))
    x = torch.empty(count, dtype=kind)
    if x.element_size() * count != len(data):
        raise Absent("PyTorch has the name of the type, and no storage for it")
    ctypes.memmove(x.data_ptr(), bytes(data), len(data))
    return x.reshape(layout.base)[layout.view]


def take(t, copy):
    return torch.from_dlpack(t) if copy is None else torch.from_dlpack(t, copy=copy)


def address(y):
    return y.data_ptr()


def elements(y, dtype):
    y = y.contiguous()
    return ctypes.string_at(y.data_ptr(), y.numel() * y.element_size()) if y.numel() else b""


def shape(y):
    return tuple(y.shape)


def dtype(y):
    return str(y.dtype).removeprefix("torch.")


def writable(y):
    return True
