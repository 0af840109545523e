"""Producers of DLPack that a test controls field by field."""

from __future__ import annotations

import ctypes
from typing import Any

api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Producer:
    """A producer of a float32 tensor, whose fields a test changes before it is asked for."""

    def __init__(
        self,
        shape: tuple[int, ...] = (2, 3),
        strides: tuple[int, ...] | None = (3, 1),
        legacy: bool = False,
        **fields: Any,
    ) -> None:
        self.memory = (ctypes.c_float * 256)(*range(256))
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.deleted = 0
        self.legacy = legacy
        self.m: Any = Legacy() if legacy else Versioned(major=1, minor=3)
        t = self.m.tensor
        t.data = ctypes.addressof(self.memory)
        t.device_type, t.device_id, t.ndim = 1, 0, len(shape)
        t.code, t.bits, t.lanes = 2, 32, 1
        t.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        if self.strides is not None:
            t.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        self.callback = Deleter(self._delete)
        self.m.deleter = ctypes.cast(self.callback, ctypes.c_void_p)
        self.name = b"dltensor" if legacy else b"dltensor_versioned"
        for name, value in fields.items():
            setattr(t if hasattr(t, name) and name != "deleter" else self.m, name, value)

    def _delete(self, pointer: int) -> None:
        assert pointer == ctypes.addressof(self.m)
        self.deleted += 1

    def __dlpack__(self, **keywords: Any) -> Any:
        self.keywords = keywords
        return api.PyCapsule_New(ctypes.addressof(self.m), self.name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.m.tensor.device_type, self.m.tensor.device_id


def read(capsule: Any) -> Any:
    """Return the struct of a capsule, which keeps it."""
    name = api.PyCapsule_GetName(capsule)
    pointer = api.PyCapsule_GetPointer(capsule, name)
    return (Legacy if name == b"dltensor" else Versioned).from_address(pointer)
