"""Python's operators and special methods: numbers of the elements, or an error with a hint, and never a wrong value."""

from __future__ import annotations

import math
import operator
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from producer import Producer

import dlx

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


def devices() -> list[dlx.Device]:
    """The devices that DLPack knows."""
    return [d for d in dlx.devices() if d.type != "gl"]


def test_memory_is_not_parsed_as_text() -> None:
    assert int(dlx.from_dlpack(np.array(49, "u1"))) == 49
    assert int(dlx.from_dlpack(np.array(0x31323334, "i4"))) == 0x31323334
    with pytest.raises(TypeError, match="one element"):
        float(dlx.from_dlpack(np.array([51, 46, 53], "u1")))
    with pytest.raises(TypeError, match="one element"):
        complex(dlx.from_dlpack(np.array([51, 46, 53], "u1")))
    assert bytes(dlx.from_dlpack(np.array(3, "u1"))) == b"\3"


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype: str) -> None:
    for value in (0, 1, 49, 100):
        a = np.array(value).astype(dtype)
        for shape in ((), (1,), (1, 1, 1)):
            for device in devices():
                t = dlx.from_dlpack(a.reshape(shape)).to(device)
                assert bool(t) is bool(a) and complex(t) == complex(a) and t.item() == a.item()
                if not dtype.startswith("complex"):
                    assert int(t) == int(a) and type(int(t)) is int and float(t) == float(a)
                    continue
                for convert in (int, float):
                    with pytest.raises(TypeError):
                        convert(t)
    for shape in ((0,), (2,), (3, 0), (2, 2)):
        t = dlx.from_dlpack(np.zeros(shape, dtype))
        for convert in (int, float, complex):
            with pytest.raises(TypeError, match="one element"):
                convert(t)
        with pytest.raises(ValueError, match="one element"):
            bool(t)
    t = dlx.from_dlpack(np.array(5).astype(dtype))
    if dtype == "bool" or np.dtype(dtype).kind not in "iu":
        with pytest.raises(TypeError, match="must be an integer"):
            operator.index(t)
    else:
        for device in devices():
            assert operator.index(t.to(device)) == 5
        with pytest.raises(TypeError, match="without axes"):
            operator.index(t.reshape(1))


def test_conversions_of_odd_numbers() -> None:
    for x in (math.nan, math.inf, -math.inf, -0.0, 1e300):
        t = dlx.from_dlpack(np.array(x))
        assert repr(float(t)) == repr(x) and bool(t) is bool(x)
        for error, odd in ((ValueError, math.isnan(x)), (OverflowError, math.isinf(x))):
            if odd:
                with pytest.raises(error):
                    int(t)
    assert not dlx.from_dlpack(np.array([0.0])) and dlx.from_dlpack(np.array([2j]))
    assert math.floor(dlx.from_dlpack(np.array(1.5))) == 1
    t = dlx.from_dlpack(Producer(shape=(), strides=None, code=4, bits=64))  # a type without numbers
    for convert in (int, float, complex, bool):
        with pytest.raises(TypeError, match="bfloat64"):
            convert(t)
    t = dlx.from_dlpack(Producer(shape=(), strides=None, code=0, bits=8, lanes=4))
    for convert in (int, float, complex, bool):
        with pytest.raises(TypeError, match="int8x4"):
            convert(t)


def test_integers_are_indices() -> None:
    one = dlx.from_dlpack(np.array(1))
    assert [5, 6, 7][one] == 6 and dlx.from_dlpack(np.arange(3))[one].item() == 1 and dlx.empty(one).shape == (1,)
    shape = dlx.from_dlpack(np.array([2, 3]))
    assert dlx.empty(shape).shape == (2, 3) and dlx.empty(6).reshape(shape).shape == (2, 3)
    for key in (np.array(True), np.array([1]), np.array(1.0)):
        with pytest.raises(TypeError, match="must be an integer"):
            dlx.empty(3)[dlx.from_dlpack(key)]
    with pytest.raises(TypeError):
        dlx.empty(2.5)  # type: ignore[arg-type]


def test_iteration() -> None:
    a = np.arange(12).reshape(3, 4)
    for device in devices():
        t = dlx.from_dlpack(a).to(device)
        assert len(t) == 3 and [row.to("cpu").tolist() for row in t] == a.tolist()
        assert [x.item() for x in t[1]] == a[1].tolist() and list(t[:0]) == []
        with pytest.raises(TypeError, match="without axes"):
            iter(t[0, 0])


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("dtype", DTYPES)
def test_contains(dtype: str) -> None:
    values = [0, 1, 2, 0.1, -0.1, 300, -1, 2**53 + 1, 2.0**53, 1e5, -1e5, 1e300, -1e300, 0.5, 1j, 0.1 + 0.1j, math.nan, math.inf, True]
    with np.errstate(all="ignore"):
        elements = np.array(values).astype(dtype)
        for k in range(len(elements)):
            a = elements[k : k + 2]
            t = dlx.from_dlpack(a)
            for x in [*values, np.float64(0.1), np.float32(0.1), np.int64(300), np.True_]:
                assert (x in t) is (x in a), (x, a)
    assert dlx.from_dlpack(np.array(1)) in dlx.from_dlpack(np.arange(2))
    with pytest.raises(TypeError, match="looks for a number"):
        "a" in dlx.empty(3)
    if dtype.startswith(("float", "complex")):
        with pytest.raises(OverflowError):
            10**400 in t
    for device in devices()[1:]:
        with pytest.raises(BufferError, match="to\\("):
            1 in dlx.from_dlpack(a).to(device)


def test_contains_rounds_to_small_floats() -> None:
    ml = pytest.importorskip("ml_dtypes")
    for name, code in (("bfloat16", 4), ("float8_e4m3fn", 10), ("float8_e5m2", 12), ("float8_e4m3fnuz", 11)):
        kind = np.dtype(getattr(ml, name))
        t = dlx.from_dlpack(Producer(shape=(256,), strides=(1,), code=code, bits=8 * kind.itemsize))
        a = np.array(t.tolist())
        for x in (0.1, 0.3, 1.0625, 2.125, 0.0, -0.0, 17.0, 447.0, 449.0, 1e-9):
            rounded = float(np.array(x).astype(kind))
            assert (x in t) is bool((a == rounded).any()), (name, x)


BINARY: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, divmod, operator.pow,
    operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("act", BINARY)
def test_operators_are_refused_with_a_hint(act: Callable[[Any, Any], Any]) -> None:
    a = np.array([2, 3])
    t = dlx.from_dlpack(a)
    for other in (t, dlx.empty(()), 1, 1.5, 1j, True):
        for pair in ((t, other), (other, t)):
            with pytest.raises(TypeError, match=r"no operator .*numpy\.from_dlpack"):
                act(*pair)
    # An array of NumPy has its answer.
    if act is not operator.pow:
        np.testing.assert_array_equal(act(t, a), act(a, a))
        np.testing.assert_array_equal(act(a, t), act(a, a))
    comparison = act.__name__ in {"eq", "ne", "lt", "le", "gt", "ge"}
    for other in (None, object(), "x", [2, 3]):
        with pytest.raises(TypeError, match="no operator" if comparison or isinstance(other, (str, list)) else "unsupported operand"):
            act(t, other)


def test_other_operators() -> None:
    t = dlx.from_dlpack(np.array(3))
    for act in (operator.neg, operator.pos, operator.invert, abs):
        with pytest.raises(TypeError, match="numpy.from_dlpack"):
            act(t)
    for wrong in ([1, 2], (1, 2), "ab", b"ab", bytearray(b"ab")):  # would be repeated
        with pytest.raises(TypeError, match="no operator"):
            wrong * t
    with pytest.raises(TypeError, match="no operator"):
        operator.iadd(t, 1)
    with pytest.raises(TypeError, match="no operator"):
        pow(t, 2, 5)
    with pytest.raises(TypeError, match="no operator"):
        t in [dlx.empty(1)]
    for spoil in (lambda: operator.setitem(t, 0, 1), lambda: operator.delitem(t, 0)):
        with pytest.raises(TypeError, match="no assignment"):
            spoil()
    with pytest.raises(TypeError, match="unhashable"):
        hash(t)
    assert not hasattr(t, "__array_namespace__")

    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

    assert t == Anything() and Anything() == t


# The special methods of the array object in the standard, 2025.12.
STANDARD = """abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge getitem gt index int invert
le lshift lt matmul mod mul ne neg or pos pow rshift setitem sub truediv xor""".split()


def test_readme_decides_on_each_method_of_the_standard() -> None:
    readme = pathlib.Path(__file__).resolve().parent.parent / "README.md"
    text = readme.read_text()
    rows = set(re.findall(r"`(__\w+__)`", "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `__"))))
    assert {f"__{name}__" for name in STANDARD} <= rows
    for name in rows - {"__array_namespace__", "__hash__"}:
        assert getattr(dlx.Tensor, name, None) is not None, name
