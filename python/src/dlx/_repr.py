"""The text of tensors, in the format of NumPy's arrays with its default settings.

It needs neither NumPy nor Go: a program prints tensors without either.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from itertools import product
from typing import Any

from . import _C
from ._format import HOST, element, elements, has_numbers, scalar, small_float
from ._types import dtype

_THRESHOLD = 1000  # with more elements, only those at the ends of the axes are printed
_EDGE = 3
_LIMIT = 10_000  # the largest number of elements in a summary such as NumPy's
_PRECISION = 8
_WIDTH = 75

# The numbers of digits that NumPy counts on, by type.
_DIGITS = {"float16": 3, "float32": 6, "float64": 15, "complex64": 6, "complex128": 15}


def _neighbours(x: float, kind: str) -> tuple[float, float, bool]:
    """Return the numbers of a type below and above a positive x, and whether the bits of x are even."""
    if kind == "float32":
        (code,) = struct.unpack("=I", struct.pack("=f", x))
        below, above = struct.unpack("=ff", struct.pack("=II", code - 1, code + 1))
        return below, 2 * x - below if math.isinf(above) else above, code % 2 == 0
    decode = small_float(kind)
    low, high = 0, (1 << dtype(kind).bits - (kind != "float8_e8m0fnu")) - 1
    while not math.isfinite(decode(high)):
        high -= 1
    top = high
    while low < high:  # positive numbers grow with their bits
        middle = (low + high) // 2
        if decode(middle) < x:
            low = middle + 1
        else:
            high = middle
    below = decode(low - 1) if low else 0.0
    return below, 2 * x - below if low == top else decode(low + 1), low % 2 == 0


def _shortest(x: float, kind: str) -> tuple[str, int]:
    """Return the fewest digits that identify a positive number of a type, and the power of ten of the first one."""
    if kind == "float64":
        text = f"{x!r}e0" if "e" not in repr(x) else repr(x)
        mantissa, _, exponent = text.partition("e")
        whole, _, fraction = mantissa.partition(".")
        fraction = "" if fraction == "0" else fraction
        digits = whole + fraction
        power = int(exponent) + len(whole) - 1
        stripped = digits.lstrip("0")
        return stripped.rstrip("0"), power - (len(digits) - len(stripped))
    below, above, even = _neighbours(x, kind)
    low, high = (below + x) / 2, (x + above) / 2
    for precision in range(17):
        text = f"{x:.{precision}e}"
        rounded = float(text)
        # A number in the middle between two is read as the even one.
        if low < rounded < high or even and rounded in (low, high):
            break
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def _limit(kind: str) -> float:
    """Return the number from which on arrays are printed with an exponent."""
    return float(10.0 ** min(8, _DIGITS.get(kind, 6)))


def _whole(x: Any, kind: str) -> str:
    """Return the text of a number with all its digits, as NumPy prints its scalars."""
    if isinstance(x, complex):
        part = "float32" if kind == "complex64" else "float64"
        imaginary = _digits(x.imag, part) + "j"
        if x.real == 0 and math.copysign(1, x.real) > 0:
            return imaginary
        return f"({_digits(x.real, part)}{'' if imaginary[0] == '-' else '+'}{imaginary})"
    if not isinstance(x, float):
        return str(x)
    text = _digits(x, kind)
    return text if not math.isfinite(x) or "e" in text or "." in text else text + ".0"


def _digits(x: float, kind: str) -> str:
    """Return the digits of a float, without a point if it is whole."""
    if not math.isfinite(x):
        return "nan" if math.isnan(x) else "-inf" if x < 0 else "inf"
    sign, size = "-" if math.copysign(1, x) < 0 else "", abs(x)
    if not size:
        return sign + "0"
    digits, power = _shortest(size, kind)
    if size < 1e-4 or size >= (1e16 if kind == "float64" else _limit(kind)):
        point = "." if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{point}{digits[1:]}e{'-' if power < 0 else '+'}{abs(power):02}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    whole, fraction = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return sign + whole + ("." + fraction if fraction else "")


class _Floats:
    """The common format of floats: all get the same width."""

    def __init__(self, values: list[float], kind: str, plus: bool = False) -> None:
        self.kind = kind
        self.plus = plus
        self.finite = [x for x in values if math.isfinite(x)]
        sizes = [abs(x) for x in self.finite if x]
        self.scientific = False
        if sizes:
            high, low = max(sizes), min(sizes)
            # NumPy rounds 0.0001 to the type, too, and so prints the float32 that is nearest to it without an exponent.
            self.scientific = high >= _limit(kind) or low < _round(0.0001, kind) or _round(high / low, kind) > 1000
        parts = [self.split(x) for x in self.finite]
        self.left = max((len(whole) for whole, _, _ in parts), default=0)
        self.right = max((len(fraction) for _, fraction, _ in parts), default=0)
        self.exponent = max((len(exponent) for _, _, exponent in parts), default=0)
        behind = self.right + (self.exponent + 1 if self.scientific else 0)
        if len(self.finite) < len(values):
            sign = 1 if plus or any(x == -math.inf for x in values) else 0
            self.left = max(self.left, 3 + sign - behind - 1)
        self.width = self.left + 1 + behind

    def sign(self, x: float) -> str:
        return "-" if math.copysign(1, x) < 0 else "+" if self.plus else ""

    def split(self, x: float) -> tuple[str, str, str]:
        """Return the text before the point, that behind it, and the exponent with its sign."""
        digits, power = ("0", 0) if x == 0 else _shortest(abs(x), self.kind)
        if self.scientific:
            if len(digits) > _PRECISION + 1:
                mantissa, _, exponent = f"{abs(x):.{_PRECISION}e}".partition("e")
                digits, power = mantissa.replace(".", "").rstrip("0") or "0", int(exponent)
            return self.sign(x) + digits[0], digits[1:], f"{power:+03d}"
        if power < 0:
            whole, fraction = "0", "0" * (-power - 1) + digits
        else:
            digits = digits.ljust(power + 1, "0")
            whole, fraction = digits[: power + 1], digits[power + 1 :]
        fraction = fraction.rstrip("0")
        if len(fraction) > _PRECISION:
            whole, _, fraction = f"{abs(x):.{_PRECISION}f}".partition(".")
            fraction = fraction.rstrip("0")
        return self.sign(x) + whole, fraction, ""

    def __call__(self, x: float) -> str:
        if not math.isfinite(x):
            text = ("+" if self.plus else "") + "nan" if math.isnan(x) else self.sign(x) + "inf"
            return text.rjust(self.width)
        whole, fraction, exponent = self.split(x)
        if not self.scientific:
            return whole.rjust(self.left) + "." + fraction.ljust(self.right)
        # All numbers have the same number of digits. Further digits are exact, not 0.
        mantissa, _, exact = f"{abs(x):.{self.right}e}".partition("e")
        text = self.sign(x) + mantissa + ("" if self.right else ".")
        power = int(exact)
        return (
            text.rjust(self.left + 1 + self.right)
            + "e"
            + ("-" if power < 0 else "+")
            + str(abs(power)).rjust(self.exponent - 1, "0")
        )


def _round(x: float, kind: str) -> float:
    """Round a quotient to a type, as NumPy computes it."""
    code = {"float32": "f", "complex64": "f", "float16": "e"}.get(kind)
    if code is None:
        return x
    try:
        return float(struct.unpack(code, struct.pack(code, x))[0])
    except OverflowError:
        return math.inf


def _formatter(values: list[Any], kind: dtype, axes: bool) -> Callable[[Any], str]:
    name = kind.name
    if name == "bool":
        return lambda x: str(x).rjust(5 if axes else 0)
    if name.startswith("complex"):
        part = "float32" if name == "complex64" else "float64"
        first = _Floats([x.real for x in values], part)
        second = _Floats([x.imag for x in values], part, plus=True)

        def both(x: complex) -> str:
            imaginary = second(x.imag)
            # The j follows the number directly, and the blanks that pad it come after it.
            stripped = imaginary.rstrip()
            return first(x.real) + stripped + "j" + " " * (len(imaginary) - len(stripped))

        return both
    if values and isinstance(values[0], float) or kind.code >= 2:
        return _Floats(values, name)
    width = max((len(str(x)) for x in values), default=0)
    return lambda x: str(x).rjust(width)


def _kept(shape: list[int], lanes: int, summary: bool) -> list[tuple[int, int]]:
    """Return for each axis how many entries are printed at its beginning, and at its end behind an ellipsis.

    The last axis is that of lanes, if the type has some; all lanes of an element are read. A summary is that of NumPy,
    unless very many axes would make it long: then only the first entry of the outer ones is printed.
    """
    if not summary:
        return [(n, 0) for n in shape]
    usual = [(_EDGE, _EDGE) if n > 2 * _EDGE else (n, 0) for n in shape]
    kept = usual[-1:] if lanes > 1 else []
    axes = usual[:-1] if lanes > 1 else usual
    if math.prod(front + back for front, back in axes) * lanes <= _LIMIT:
        return usual
    left = _THRESHOLD // lanes
    for front, back in reversed(axes):
        kept.insert(0, (front, back) if front + back <= left else (1, 0))
        left //= front + back
    return kept


def _printed(n: int, front: int, back: int) -> list[int]:
    return [*range(front), *range(n - back, n)]


def _edges(tensor: _C.Tensor, kept: list[tuple[int, int]]) -> list[Any]:
    """Return the numbers that are printed of a long tensor."""
    kind = tensor.dtype
    if kind.lanes > 1:  # all numbers of an element are read
        lanes = _printed(kind.lanes, *kept[-1])
        numbers = _edges_of(tensor, kept[:-1])
        return [numbers[i + k] for i in range(0, len(numbers), kind.lanes) for k in lanes]
    return _edges_of(tensor, kept)


def _edges_of(tensor: _C.Tensor, kept: list[tuple[int, int]]) -> list[Any]:
    """Return the numbers of the elements that are printed, with all their lanes."""
    if not kept:
        return elements(tensor)
    if tensor.dtype.bits < 8 and not tensor.flags & 4:  # a view of packed elements cannot begin inside of a byte
        axes = [_printed(n, *k) for n, k in zip(tensor.shape, kept)]
        return [x for indices in product(*axes) for x in element(tensor, indices)]
    if len(kept) > 1:
        return [x for i in _printed(tensor.shape[0], *kept[0]) for x in _edges_of(tensor[i], kept[1:])]
    front, back = kept[0]
    return elements(tensor[:front]) + (elements(tensor[-back:]) if back else [])


def _body(tensor: _C.Tensor, separator: str, prefix: str) -> str:
    lanes = tensor.dtype.lanes
    shape = [*tensor.shape, *([lanes] if lanes > 1 else [])]
    count = math.prod(shape)
    if count == 0:
        return "[]"
    summary = count > _THRESHOLD
    kept = _kept(shape, lanes, summary)
    values = _edges(tensor, kept) if summary else elements(tensor)
    word = _formatter(values, scalar(tensor.dtype), bool(shape))
    if not shape:
        return word(values[0])
    words = iter(values)

    def rows(axis: int, indent: str, width: int) -> str:
        inner = indent + " "
        front, back = kept[axis]
        if axis == len(shape) - 1:
            line, text = indent, ""
            limit = width - max(len(separator.rstrip()), 1)
            items = [word(next(words)) for _ in range(front + back)]
            if front + back < shape[axis]:
                items.insert(front, "...")
            for i, x in enumerate(items):
                last = i == len(items) - 1
                if len(line) + len(x) > limit and len(line) > len(indent):
                    text += line.rstrip() + "\n"
                    line = indent
                line += x + ("" if last else separator)
            return "[" + (text + line)[len(indent) :] + "]"
        parts = [rows(axis + 1, inner, width - 1) for _ in range(front + back)]
        if front + back < shape[axis]:
            parts.insert(front, "...")
        between = separator.rstrip() + "\n" * (len(shape) - 1 - axis) + indent
        return "[" + between.join(parts) + "]"

    return rows(0, " " * (len(prefix) + 1), _WIDTH - (1 if prefix else 0))


def array_str(tensor: _C.Tensor) -> str:
    """Return the elements in brackets, or the only element with all its digits if there are no axes."""
    if not _readable(tensor):
        return array_repr(tensor)
    if not tensor.ndim and tensor.dtype.lanes == 1:
        return _whole(elements(tensor)[0], tensor.dtype.name)
    return _body(tensor, " ", "")


def _readable(tensor: _C.Tensor) -> bool:
    return tensor.device.type in HOST and has_numbers(scalar(tensor.dtype))


def array_repr(tensor: _C.Tensor) -> str:
    """Return the text of a tensor, without the elements if they are not in host memory."""
    kind = tensor.dtype
    extras: list[str] = []
    if not _readable(tensor):
        return f"tensor(shape={tensor.shape}, dtype={kind}, device={tensor.device})"
    prefix = "tensor("
    text = prefix + _body(tensor, ", ", prefix)
    if (tensor.size == 0 and tensor.shape != (0,)) or tensor.size > _THRESHOLD:
        extras.append(f"shape={tensor.shape}")
    if kind not in ("bool", "int64", "float64", "complex128") or tensor.size == 0:
        extras.append(f"dtype={kind}")
    if tensor.device != "cpu":
        extras.append(f"device={tensor.device}")
    if not extras:
        return text + ")"
    text += ","
    extra = ", ".join(extras) + ")"
    last = len(text) - (text.rfind("\n") + 1)
    return text + ("\n" + " " * len(prefix) if last + len(extra) + 1 > _WIDTH else " ") + extra
