"""Structs with random fields: each is refused with a text of ours, or works, and its deleter is called once."""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any

from producer import Deleter, Legacy, Versioned, api

import dlx

ROUNDS = int(os.environ.get("DLX_HOSTILE", "20000"))
SEED = int(os.environ.get("DLX_SEED", "0")) or random.randrange(1, 1 << 32)

NUMBERS = [0, 1, 1, 2, 3, 4, 7, -1, -2, 255, 1 << 31, 1 << 40, 1 << 60, 1 << 62, (1 << 63) - 1, -(1 << 63), -(1 << 61)]
WIDTHS = {6: 8, 15: 6, 16: 6, 17: 4} | {code: 8 for code in range(7, 15)}
ADDRESSED = {1, 2, 3, 10, 11, 13}


class Hostile:
    """One managed tensor, whose fields change from round to round."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.memory = ctypes.create_string_buffer(1 << 16)
        self.middle = ctypes.addressof(self.memory) + (1 << 15)
        self.shape = (ctypes.c_int64 * 70)()
        self.strides = (ctypes.c_int64 * 70)()
        self.deleted = 0
        self.callback = Deleter(self.delete)
        self.versioned, self.legacy = Versioned(), Legacy()

    def delete(self, pointer: int) -> None:
        self.deleted += 1
        self.shape[0], self.strides[0] = -1, 1 << 62  # nobody may look at them any more

    def mostly(self, usual: Any, others: list[Any]) -> Any:
        return usual if self.r.random() < 0.9 else self.r.choice(others)

    def fill(self) -> None:
        """Choose all fields."""
        r, mostly = self.r, self.mostly
        self.is_legacy = r.random() < 0.3
        self.m: Any = self.legacy if self.is_legacy else self.versioned
        t = self.m.tensor
        n = mostly(r.randrange(5), [-1, 5, 64, 65, -(1 << 31), (1 << 31) - 1])
        small = r.random() < 0.6
        for i in range(max(0, min(n, 70))):
            self.shape[i] = r.randrange(4) if small else mostly(r.randrange(5), NUMBERS)
            self.strides[i] = r.randrange(-9, 10) if small else mostly(r.randrange(-9, 10), NUMBERS)
        address = ctypes.POINTER(ctypes.c_int64)
        t.shape = ctypes.cast(self.shape, address) if r.random() < 0.97 else address()
        t.strides = ctypes.cast(self.strides, address) if r.random() < 0.7 else address()
        t.data = mostly(self.middle, [None, 1, 4096, (1 << 64) - 1, 1 << 63])
        t.device_type = mostly(1, [0, 2, 3, 4, 7, 8, 10, 13, 14, 15, 34, 35, -1, 1 << 30])
        t.device_id = mostly(0, [1, -1, 1 << 30])
        t.ndim = n
        t.code = mostly(r.choice([0, 1, 2, 4, 5, 6]), [3, 7, 14, 15, 16, 17, 18, 255])
        t.bits = mostly(WIDTHS.get(t.code, r.choice([8, 16, 32, 64])), [0, 1, 3, 4, 6, 24, 128, 255])
        t.lanes = mostly(1, [0, 2, 4, 65535])
        t.byte_offset = mostly(r.choice([0, 8]), [1, 1 << 62, 1 << 63, (1 << 64) - 1])
        self.m.deleter = ctypes.cast(self.callback, ctypes.c_void_p) if r.random() < 0.95 else None
        if not self.is_legacy:
            self.m.major = mostly(1, [0, 2, 1 << 31])
            self.m.minor = mostly(3, [0, 99])
            self.m.flags = mostly(r.randrange(8), [8, 1 << 63])

    def reach(self) -> tuple[int, int, int]:
        """Return the number of elements, and how far they reach before and after the first one."""
        t, count, low, high, stride = self.m.tensor, 1, 0, 0, 1
        for i in reversed(range(t.ndim)):
            step = self.strides[i] if t.strides else stride
            stride *= max(self.shape[i], 1)
            count *= self.shape[i]
            low, high = low + min(0, (self.shape[i] - 1) * step), high + max(0, (self.shape[i] - 1) * step)
        return (count, low, high) if count else (0, 0, 0)

    def valid(self) -> bool:
        """Say whether the struct keeps the rules of DLPack, with whole numbers of any size."""
        m, t, limit = self.m, self.m.tensor, (1 << 63) - 1
        if not self.is_legacy and (m.major != 1 or m.flags > 7):
            return False
        if not 0 <= t.ndim <= 64 or (t.ndim and not t.shape) or not t.bits or not t.lanes or t.device_type == 34:
            return False
        if WIDTHS.get(t.code, t.bits) != t.bits or any(self.shape[i] < 0 for i in range(t.ndim)) or t.byte_offset > limit:
            return False
        count, low, high = self.reach()
        unit = self.unit()
        if count > limit or (high - low + 1) * unit > limit or -low * unit > limit or (count * unit + 7) // 8 > limit:
            return False
        if not count:
            return True
        if not t.data and (t.device_type == 1 or t.device_type in ADDRESSED):
            return False
        start = (t.data or 0) + t.byte_offset
        return t.device_type not in ADDRESSED or (start < 1 << 64 and start > -low * unit // 8 and start + high * unit // 8 < 1 << 64)

    def unit(self) -> int:
        t = self.m.tensor
        padded = not self.is_legacy and self.m.flags & 4
        return int((8 if padded and t.bits < 8 else t.bits) * t.lanes)

    def readable(self) -> bool:
        """Say whether all elements lie in our memory."""
        t, (count, low, high) = self.m.tensor, self.reach()
        room, unit = (1 << 15) - 16, self.unit()
        near = t.data == self.middle and t.byte_offset < 16
        return t.device_type == 1 and near and -low * unit < room * 8 and (high + 1) * unit < room * 8 and count < room


def use(h: Hostile, t: dlx.Tensor) -> None:
    """Do what needs no memory, and where the memory is ours, read it."""
    r = h.r
    assert t.ndim == h.m.tensor.ndim and t.shape == tuple(h.shape[: t.ndim])
    views = [t, t.T, t[..., None] if t.ndim < 64 else t]
    for _ in range(2):
        key = tuple(r.choice([r.choice(NUMBERS), slice(*r.choices([None, *NUMBERS[:-4]], k=2), r.choice([None, 1, 2, -1, -(1 << 62)]))])
                    for _ in range(r.randrange(t.ndim + 1)))
        try:
            views.append(t[key])
        except (IndexError, ValueError, BufferError):
            pass
        try:
            views.append(t.reshape(r.choice([(-1,), (1, -1), (2, -1), (r.choice(NUMBERS), -1), ()])))
        except ValueError:
            pass
    for v in views:
        v.nbytes, v.size, v.strides, v.contiguous, v.dtype, v.device
        try:
            dlx.from_dlpack(v.__dlpack__(max_version=r.choice([None, (1, 0)])))
        except BufferError:  # read-only or padded, which the legacy struct cannot say; or a device cannot be waited for
            pass
        for interface in (memoryview, lambda x: x.__array_interface__):
            try:
                interface(v)
            except (BufferError, AttributeError):
                pass
        if h.readable() and v.size < 100:
            assert v.copy().shape == v.shape
            assert repr(v).startswith("tensor(")


def test_random_structs() -> None:
    print("DLX_SEED", SEED)
    h = Hostile(random.Random(SEED))
    accepted = 0
    for i in range(ROUNDS):
        h.fill()
        h.deleted = 0
        valid = h.valid()
        deletes = bool(h.m.deleter)
        capsule = api.PyCapsule_New(ctypes.addressof(h.m), b"dltensor" if h.is_legacy else b"dltensor_versioned", None)
        try:
            t = dlx.from_dlpack(capsule)
        except (ValueError, BufferError) as e:
            assert not valid and "dlx: " in str(e), (SEED, i, str(e))
        else:
            assert valid, (SEED, i)
            accepted += 1
            assert h.deleted == 0
            if i % 4 == 0:
                use(h, t)
            assert h.deleted == 0, (SEED, i)
            del t
        assert h.deleted == deletes, (SEED, i)
    assert ROUNDS // 8 < accepted < ROUNDS * 7 // 8
