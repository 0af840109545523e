"""Element types and devices, which are strings with attributes."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

from . import _C

if TYPE_CHECKING:
    from ._stream import Stream

# The names of DLPack's type codes, as in core/dtype.go: with their width, or 0 if the width follows the name.
_CODES: tuple[tuple[str, int], ...] = (
    ("int", 0),
    ("uint", 0),
    ("float", 0),
    ("handle", 0),
    ("bfloat", 0),
    ("complex", 0),
    ("bool", 8),
    ("float8_e3m4", 8),
    ("float8_e4m3", 8),
    ("float8_e4m3b11fnuz", 8),
    ("float8_e4m3fn", 8),
    ("float8_e4m3fnuz", 8),
    ("float8_e5m2", 8),
    ("float8_e5m2fnuz", 8),
    ("float8_e8m0fnu", 8),
    ("float6_e2m3fn", 6),
    ("float6_e3m2fn", 6),
    ("float4_e2m1fn", 4),
    ("bcomplex", 0),
)


def _name(code: int, bits: int, lanes: int) -> str:
    text = f"code{code}b{bits}"
    if code < len(_CODES):
        name, width = _CODES[code]
        if width == 0:
            text = f"{name}{bits}"
        elif width == bits:
            text = name
    return text if lanes == 1 else f"{text}x{lanes}"


def _scalar(text: str) -> tuple[int, int] | None:
    for code, (name, width) in enumerate(_CODES):
        if width and text == name:
            return code, width
        if not width and text.startswith(name) and text[len(name) :].isdecimal():
            return code, int(text[len(name) :])
    match = re.fullmatch(r"code(\d+)b(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def numbers(name: object) -> tuple[int, int, int]:
    """Return the code, the bits and the lanes of an element type."""
    found = dtype(name)
    return found.code, found.bits, found.lanes


def voids(names: object) -> tuple[tuple[int, int, int], ...]:
    """Return the numbers of void_as, which is a type, several of them, or None."""
    if names is None:
        return ()
    several = isinstance(names, Iterable) and not isinstance(names, (str, type))
    return tuple(map(numbers, names if several else (names,)))  # type: ignore[call-overload]


class dtype(str):
    """An element type: its name, such as "float32", which it equals, and its numbers in DLPack.

    It also equals such a type of another library, such as numpy.float32. dtype(x) accepts the name of a type, or any object that prints as one or has such a name, such as numpy.float32.
    """

    code: int
    """The type code of DLPack, such as 2 for a float."""
    bits: int
    """The number of bits of one number."""
    lanes: int
    """The number of numbers in an element, mostly 1."""

    __slots__ = ("bits", "code", "lanes")

    def __new__(cls, name: object) -> dtype:
        """Parse a name."""
        if isinstance(name, dtype):
            return name
        # A type of NumPy has a name, one of PyTorch prints as torch.float32, and one of Python is a class.
        builtin = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
        if isinstance(name, type):
            text = builtin.get(name, name.__name__)
        else:
            text = name if isinstance(name, str) else str(getattr(name, "name", None) or name)
        text = text.rpartition(".")[2]
        if text.endswith("_"):
            text = text[:-1]
        found = _scalar(text)
        lanes = 1
        if found is None and "x" in text:
            scalar, _, count = text.rpartition("x")
            found = _scalar(scalar)
            lanes = int(count) if count.isdecimal() else 0
        if found is None or _name(*found, lanes) != text or not (found[0] < 256 and 0 < found[1] < 256 and 0 < lanes < 65536):
            raise ValueError(f"dlx: {name!r} is not an element type; examples: float32, bfloat16, uint8, bool, int4x2")
        return cls._of(*found, lanes)

    @classmethod
    @lru_cache(maxsize=256)
    def _of(cls, code: int, bits: int, lanes: int) -> dtype:
        self = super().__new__(cls, _name(code, bits, lanes))
        self.code, self.bits, self.lanes = code, bits, lanes
        return self

    def __eq__(self, other: object) -> bool:
        """Compare with a name, or with the type of another library, such as numpy.float32."""
        if isinstance(other, str):
            return str.__eq__(self, other)
        try:
            return str.__eq__(self, dtype(other))
        except ValueError:
            return False

    def __ne__(self, other: object) -> bool:
        """Report the opposite of ==."""
        return not self == other

    __hash__ = str.__hash__

    @property
    def name(self) -> str:
        """The name, as a plain string."""
        return str.__str__(self)

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element, rounded up."""
        return (self.bits * self.lanes + 7) // 8

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name."""
        return dtype, (str.__str__(self),)


class Device(str):
    """A device: its name, such as "cuda:0", which it equals, and its numbers in DLPack."""

    type: str
    """The kind of memory, such as "cuda"."""
    id: int
    """The index among the devices of this kind."""
    dlpack: tuple[int, int]
    """The type and the index, as integers of DLPack."""

    __slots__ = ("dlpack", "id", "type")

    def __new__(cls, name: object) -> Device:
        """Parse a name, or a pair of a type and an index."""
        return cls._of(*_C.device_pair(name))

    @classmethod
    @lru_cache(maxsize=256)
    def _of(cls, type: int, id: int) -> Device:
        text = _C.device_text((type, id))
        self = super().__new__(cls, text)
        self.type, self.id, self.dlpack = text.partition(":")[0], id, (type, id)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name."""
        return Device, (str.__str__(self),)


Shape = Union[SupportsIndex, Iterable[SupportsIndex]]


def _extents(shape: Shape) -> tuple[SupportsIndex, ...]:
    """Return the extents of a shape, which may be one extent."""
    # A tensor or an array may be both, an integer and iterable.
    try:
        return (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        if not isinstance(shape, Iterable):
            raise
        return tuple(shape)


def empty(
    shape: Shape, dtype: object = "float32", device: object = "cpu", *, stream: Stream | None = None
) -> _C.Tensor:
    """Allocate a row-major tensor, whose elements are not initialized.

    The address of host memory is a multiple of 256. stream is the stream of the device that uses the memory first.
    """
    kind = _dtype(dtype)
    return _C.empty(_extents(shape), kind.code, kind.bits, kind.lanes, device, stream)


_dtype = dtype


def devices() -> list[Device]:
    """List the devices that can be opened. ``python -m dlx devices`` says why others are missing."""
    document = json.loads(_C.devices_json())
    return [Device(d["id"]) for backend in document["backends"] for d in backend.get("devices") or ()]


def metrics() -> dict[str, Any]:
    """Return what the process has allocated, moved, opened and waited for, by the names of core.ReadMetrics of Go.

    docs/metrics.md of the repository says what the numbers count. They are those of libdlx: host memory that empty and
    copy allocate, and the exchange with other libraries, do not need libdlx and are not counted.
    """
    document: dict[str, Any] = json.loads(_C.metrics_json())
    return document
