"""The element types and the layouts of the table, and the values of the tensors in it.

The element at position k of the memory has the value k + 1, or as near to it as its type can say, so that a wrong
offset or stride gives wrong values. No value is NaN.
"""

import struct
from typing import NamedTuple

INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6


class DType(NamedTuple):
    name: str
    code: int
    bits: int
    lanes: int = 1

    @property
    def width(self):
        """The bits of an element."""
        return self.bits * self.lanes

    def element(self, k):
        """The element at position k of the memory, as an integer of width bits."""
        one = _number(self, k + 1)
        return sum(one << (lane * self.bits) for lane in range(self.lanes))

    def pack(self, positions):
        """The bytes of the elements at the positions, one after the other without gaps."""
        value = count = 0
        for count, position in enumerate(positions, 1):
            value |= self.element(position) << ((count - 1) * self.width)
        return value.to_bytes((count * self.width + 7) // 8, "little")


def _number(dtype, n):
    if dtype.code == BOOL:
        return n % 3 % 2
    if dtype.code == BFLOAT:
        return int.from_bytes(struct.pack("<f", n), "little") >> 16
    if dtype.code == COMPLEX:
        half = DType("", FLOAT, dtype.bits // 2)
        return _number(half, n) | _number(half, n + 1) << half.bits
    if dtype.code == FLOAT:
        return int.from_bytes(struct.pack({16: "<e", 32: "<f", 64: "<d"}[dtype.bits], n), "little")
    return n % (1 << min(dtype.bits, 6))  # integers, and small floats as the number of their bits


DTYPES = [
    DType("bool", BOOL, 8),
    *(DType(f"{kind}{bits}", code, bits) for kind, code in (("int", INT), ("uint", UINT)) for bits in (8, 16, 32, 64)),
    *(DType(f"float{bits}", FLOAT, bits) for bits in (16, 32, 64)),
    DType("bfloat16", BFLOAT, 16),
    *(DType(f"complex{bits}", COMPLEX, bits) for bits in (32, 64, 128)),
    *(DType(f"float8_{kind}", code, 8) for code, kind in
      enumerate(("e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"), 7)),
    DType("float6_e2m3fn", 15, 6), DType("float6_e3m2fn", 16, 6), DType("float4_e2m1fn", 17, 4),
    *(DType(f"{kind}{bits}", code, bits) for kind, code in (("int", INT), ("uint", UINT)) for bits in (2, 4)),
    DType("float32x4", FLOAT, 32, 4),
]
BY_NAME = {d.name: d for d in DTYPES}


class Layout(NamedTuple):
    """A layout is a view of a contiguous tensor, base[view]."""
    name: str
    base: tuple
    view: object
    shape: tuple
    strides: tuple  # in elements
    start: int  # the position of the first element

    def positions(self):
        """The positions of the elements in the memory, in row-major order."""
        found = [self.start]
        for extent, stride in zip(self.shape, self.strides):
            found = [at + i * stride for at in found for i in range(extent)]
        return found

    @property
    def readonly(self):
        return self.name == "read-only"


WHOLE = ...  # base[...] is the base itself

# Rows have eight elements, so that they begin at a byte with every type.
LAYOUTS = [
    Layout("contiguous", (4, 8), WHOLE, (4, 8), (8, 1), 0),
    Layout("strided", (4, 16), (slice(None), slice(None, None, 2)), (4, 8), (16, 2), 0),
    Layout("negative", (4, 8), slice(None, None, -1), (4, 8), (-8, 1), 24),
    Layout("zero-size", (0, 8), WHOLE, (0, 8), (8, 1), 0),
    Layout("0-d", (), WHOLE, (), (), 0),
    Layout("byte offset", (4, 8), slice(1, None), (3, 8), (8, 1), 8),
    Layout("read-only", (4, 8), WHOLE, (4, 8), (8, 1), 0),
]
LAYOUT_BY_NAME = {l.name: l for l in LAYOUTS}

COPIES = {"default": None, "never": False, "always": True}
DIRECTIONS = ("to", "from")  # the framework takes a tensor of dlx; dlx takes one of the framework
