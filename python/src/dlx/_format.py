"""The elements of tensors in host memory as Python's numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from . import _C
from ._types import dtype

# The kinds of memory that the host reads.
HOST = frozenset({"cpu", "cuda_host", "rocm_host", "cuda_managed"})

# The small floats: bits of the exponent and of the mantissa, the bias, and how infinity and NaN are written: "ieee",
# "nan" for the largest number, "zero" for the negative zero, or not at all.
_SMALL: dict[str, tuple[int, int, int, str]] = {
    "float16": (5, 10, 15, "ieee"),
    "bfloat16": (8, 7, 127, "ieee"),
    "float8_e3m4": (3, 4, 3, "ieee"),
    "float8_e4m3": (4, 3, 7, "ieee"),
    "float8_e4m3b11fnuz": (4, 3, 11, "zero"),
    "float8_e4m3fn": (4, 3, 7, "nan"),
    "float8_e4m3fnuz": (4, 3, 8, "zero"),
    "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e5m2fnuz": (5, 2, 16, "zero"),
    "float6_e2m3fn": (2, 3, 1, ""),
    "float6_e3m2fn": (3, 2, 3, ""),
    "float4_e2m1fn": (2, 1, 1, ""),
}

# The types that the module struct knows.
_STRUCT = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
    "complex64": "f",
    "complex128": "d",
}


@lru_cache(maxsize=None)
def small_float(name: str) -> Callable[[int], float]:
    """Return the function that decodes the bits of a float of at most 16 bits."""
    if name == "float8_e8m0fnu":
        return lambda code: float("nan") if code == 255 else 2.0 ** (code - 127)
    exponent_bits, mantissa_bits, bias, special = _SMALL[name]
    sign_bit = 1 << (exponent_bits + mantissa_bits)
    ones = (1 << exponent_bits) - 1

    def decode(code: int) -> float:
        sign = -1.0 if code & sign_bit else 1.0
        exponent = code >> mantissa_bits & ones
        mantissa = code & ((1 << mantissa_bits) - 1)
        if special == "zero" and code == sign_bit:
            return float("nan")
        if special == "nan" and code & (sign_bit - 1) == sign_bit - 1:
            return float("nan")
        if special == "ieee" and exponent == ones:
            return float("nan") if mantissa else sign * float("inf")
        if exponent == 0:
            return sign * float(mantissa) * 2.0 ** (1 - bias - mantissa_bits)
        return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)

    return decode


def scalar(kind: dtype) -> dtype:
    """Return the type of one lane."""
    return kind if kind.lanes == 1 else dtype._of(kind.code, kind.bits, 1)


def has_numbers(kind: dtype) -> bool:
    """Report whether elements of a type are numbers of Python."""
    return kind in _STRUCT or kind in _SMALL or kind == "float8_e8m0fnu" or (kind.code < 2 and kind.bits < 8)


def elements(tensor: _C.Tensor) -> list[Any]:
    """Return the numbers of a tensor in row-major order, with their lanes one after another."""
    kind = scalar(tensor.dtype)
    if not has_numbers(kind):
        raise BufferError(f"dlx: elements of {tensor.dtype} have no numbers in Python")
    return _numbers(_C.bytes_of(tensor), tensor.size * tensor.dtype.lanes, kind, bool(tensor.flags & 4))


def element(tensor: _C.Tensor, indices: tuple[int, ...]) -> list[Any]:
    """Return the numbers of one element, which may also be a packed one that begins inside of a byte."""
    return _numbers(_C.element_of(tensor, indices), tensor.dtype.lanes, scalar(tensor.dtype), bool(tensor.flags & 4))


def _numbers(data: bytes, count: int, kind: dtype, padded: bool) -> list[Any]:
    """Return the numbers of a type without lanes that bytes hold."""
    if kind in _STRUCT:
        parts = 2 if kind.name.startswith("complex") else 1
        values: list[Any] = list(struct.unpack(f"={count * parts}{_STRUCT[kind]}", data))
        if parts == 2:
            return [complex(values[i], values[i + 1]) for i in range(0, len(values), 2)]
        return values
    return list(map(_decoder(kind), _codes(data, count, kind.bits, padded)))


def _decoder(kind: dtype) -> Callable[[int], Any]:
    if kind.code == 0:
        half = 1 << (kind.bits - 1)
        return lambda code: (code ^ half) - half
    return int if kind.code == 1 else small_float(kind)


def _codes(data: bytes, count: int, bits: int, padded: bool) -> list[int]:
    """Return the bits of numbers of at most 16 bits."""
    if bits == 16:
        return list(struct.unpack(f"={count}H", data))
    mask = (1 << bits) - 1
    if bits == 8 or padded:
        return [byte & mask for byte in data]
    codes: list[int] = []
    for at in range(0, len(data), bits):  # bits bytes have 8 numbers
        group = int.from_bytes(data[at : at + bits], "little")
        codes += [group >> shift & mask for shift in range(0, 8 * bits, bits)]
    return codes[:count]


def tolist(tensor: _C.Tensor) -> Any:
    """Return nested lists of the elements, a number for a tensor without axes."""
    shape = [*tensor.shape, *([tensor.dtype.lanes] if tensor.dtype.lanes > 1 else [])]
    result: list[Any] = elements(tensor)
    if 0 in shape:
        for extent in reversed(shape[: shape.index(0) + 1]):
            result = [result] * extent if extent else []
        return result
    for extent in reversed(shape):
        result = [result[i : i + extent] for i in range(0, len(result), extent)]
    return result[0]
