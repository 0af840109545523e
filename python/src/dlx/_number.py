"""Elements as Python's numbers: what item, int, float, bool, iteration and "in" do with tensors."""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from . import _C
from ._format import HOST, elements, has_numbers, scalar, small_float
from ._types import dtype


_dtype = dtype


def item(tensor: _C.Tensor) -> Any:
    """Return the only element, from any device."""
    if tensor.size != 1 or tensor.dtype.lanes != 1:
        raise ValueError(f"dlx: item() needs a tensor with one element, not {tensor.size} of {tensor.dtype}")
    return elements(tensor if tensor.device.type in HOST else tensor.to("cpu"))[0]


def _only(tensor: _C.Tensor, name: str) -> Any:
    """Return the only element for a conversion of Python, which reports TypeError."""
    if tensor.size != 1 or tensor.dtype.lanes != 1 or not has_numbers(tensor.dtype):
        raise TypeError(f"dlx: {name}() needs a tensor with one element that is a number, not {_kind(tensor)}")
    return item(tensor)


def _kind(tensor: _C.Tensor) -> str:
    return f"{tensor.dtype} with shape {tensor.shape}"


def to_int(tensor: _C.Tensor) -> int:
    """Convert the only element."""
    return int(_only(tensor, "int"))


def to_float(tensor: _C.Tensor) -> float:
    """Convert the only element."""
    return float(_only(tensor, "float"))


def to_complex(tensor: _C.Tensor) -> complex:
    """Convert the only element."""
    return complex(_only(tensor, "complex"))


def to_bool(tensor: _C.Tensor) -> bool:
    """Convert the only element."""
    if tensor.size != 1:
        raise ValueError(
            f"dlx: bool() needs a tensor with one element, not {_kind(tensor)}: "
            "compare size or len() with 0, or use any() or all() of an array such as numpy.from_dlpack(t)"
        )
    return bool(_only(tensor, "bool"))


def to_index(tensor: _C.Tensor) -> int:
    """Return the integer of a tensor without axes."""
    if tensor.ndim or tensor.dtype.code > 1:
        raise TypeError(f"dlx: an index must be an integer without axes, not {_kind(tensor)}: use int()")
    return int(_only(tensor, "index"))


def reduce(tensor: _C.Tensor) -> tuple[Any, ...]:
    """Return what pickle needs: the elements, also of a tensor on a device, which comes back in host memory."""
    kind = tensor.dtype
    host = tensor if tensor.device.type in HOST else tensor.to("cpu")
    padded = bool(tensor.flags & 4)
    return _C.from_bytes, (tensor.shape, kind.code, kind.bits, kind.lanes, padded, _C.bytes_of(host))


def astype(tensor: _C.Tensor, dtype: object) -> _C.Tensor:
    """Convert the elements to another type, on the host."""
    kind = _dtype(dtype)
    host = tensor if tensor.device.type in HOST else tensor.to("cpu")
    return _C.as_type(host, kind.code, kind.bits, kind.lanes)


def iterate(tensor: _C.Tensor) -> Iterator[_C.Tensor]:
    """Return an iterator over the views along the first axis."""
    if not tensor.ndim:
        raise TypeError("dlx: a tensor without axes has nothing to iterate over: use item()")
    return (tensor[i] for i in range(len(tensor)))


def contains(tensor: _C.Tensor, x: object) -> bool:
    """Report whether an element equals a number. As in NumPy, Python's own numbers are first rounded to the type."""
    if isinstance(x, _C.Tensor):
        x = _only(x, "in")
    exact = type(x) not in (int, float, complex)
    convert = getattr(x, "item", None)  # a number of NumPy or of another library
    x = convert() if callable(convert) else x
    if not isinstance(x, (int, float, complex)):
        raise TypeError(f'dlx: "in" looks for a number, not {type(x).__name__}: use numpy.from_dlpack(t)')
    kind = scalar(tensor.dtype)
    values = elements(tensor)
    if kind == "bool" or kind.code < 2:
        if not isinstance(x, int):
            values = list(map(complex if isinstance(x, complex) else float, values))
    elif isinstance(x, complex):
        x = x if exact else complex(rounded(x.real, kind), rounded(x.imag, kind))
    else:
        x = x if exact else rounded(float(x), kind)
    return any(v == x for v in values)


def rounded(x: float, kind: dtype) -> float:
    """Round a number to a type of floats, or to that of the parts of a complex type."""
    if kind.bits == 64 and kind.code == 2 or kind == "complex128" or not math.isfinite(x):
        return x
    code = {"float32": "f", "complex64": "f", "float16": "e"}.get(kind)
    if code is None:
        return _rounded_small(x, kind.name)
    try:
        return float(struct.unpack(code, struct.pack(code, x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


@lru_cache(maxsize=None)
def _positive(name: str) -> list[float]:
    """Return the numbers of a small type of floats from 0 on, which grow with their bits."""
    decode = small_float(name)
    codes = range(1 << dtype(name).bits - (name != "float8_e8m0fnu"))
    return [x for x in map(decode, codes) if math.isfinite(x)]


def _rounded_small(x: float, name: str) -> float:
    values = _positive(name)
    size = abs(x)
    above = bisect_left(values, size)
    if above == len(values):
        # What is nearer to the next number, if there were one, is infinite.
        nearest = values[-1] if size < values[-1] + (values[-1] - values[-2]) / 2 else math.inf
    elif above == 0:
        nearest = values[0]
    else:
        below, low, high = above - 1, size - values[above - 1], values[above] - size
        nearest = values[below] if low < high or low == high and below % 2 == 0 else values[above]
    return math.copysign(nearest, x)
