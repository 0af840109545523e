"""What other libraries make of a tensor by the protocols of NumPy: an array of the same elements, or an error."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from producer import Producer

import dlx
from dlx import _format

# The types that only ml_dtypes gives NumPy, with their codes in DLPack.
SMALL = {
    "bfloat16": (4, 16), "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8), "float6_e2m3fn": (15, 6), "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4),
    "int2": (0, 2), "int4": (0, 4), "uint2": (1, 2), "uint4": (1, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("padded", [False, True])
def test_types_of_ml_dtypes(name: str, padded: bool) -> None:
    code, bits = SMALL[name]
    if padded and bits >= 8:
        pytest.skip("there is nothing to pad")
    kind = np.dtype(getattr(ml_dtypes, name))
    p = Producer(shape=(16, 16), strides=(16, 1), code=code, bits=bits, flags=4 if padded else 0)
    t = dlx.from_dlpack(p)
    assert t.dtype == kind and kind == np.result_type(t)
    for view in (t, t.T, t[0], t[4:8], t[:0], t[2:, ::2] if bits >= 8 or padded else t[2:]):
        a = np.asarray(view)
        assert a.dtype == kind and a.shape == view.shape
        np.testing.assert_array_equal(a.astype(np.float64), np.array(view.tolist(), np.float64).reshape(view.shape))
    shared = bits >= 8  # the padding may be anything
    a = np.asarray(t)
    assert (a.ctypes.data == t.data_ptr) is shared
    assert np.array(t, copy=True).ctypes.data != t.data_ptr
    if shared:
        assert np.array(t, copy=False).ctypes.data == t.data_ptr
    else:
        with pytest.raises(ValueError, match="copy=False"):
            np.array(t, copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        t.__array__(np.float64, copy=False)
    assert np.asarray(t, np.float64).dtype == np.float64


def test_without_ml_dtypes() -> None:
    program = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import dlx, numpy as np\n"
        "t = dlx.empty(3, 'bfloat16')\n"
        "try: np.asarray(t)\n"
        "except TypeError as e: print(e)\n"
        "assert not hasattr(t, '__numpy_dtype__')"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert "install ml_dtypes" in result.stdout, result.stderr


def test_no_type_of_numpy() -> None:
    for code, bits, lanes in ((0, 8, 4), (4, 64, 1), (3, 64, 1), (2, 24, 1), (200, 16, 1)):
        t = dlx.from_dlpack(Producer(code=code, bits=bits, lanes=lanes))
        for make in (np.asarray, lambda t: np.array([t, t]), lambda t: np.add(t, 1), lambda t: np.array(t, dtype=object)):
            with pytest.raises(TypeError, match="dlx: NumPy has no type for elements of"):
                make(t)
        with pytest.raises((TypeError, ValueError)):
            np.result_type(t)


def test_device_is_named() -> None:
    others = [d for d in dlx.devices() if d.type not in ("cpu", "gl")]
    if not others:
        pytest.skip(f"the build has no other device here; its tags are {dlx.__build__['tags']}")
    for device in others:
        t = dlx.from_dlpack(np.arange(3.0)).to(device)
        for make in (np.asarray, lambda t: np.array([t, t]), np.sum, lambda t: np.add(t, 1), lambda t: t + np.arange(3)):
            with pytest.raises(TypeError, match=f'on {device}.*call .to."cpu". first'):
                make(t)
        assert np.result_type(t) == np.float64


def test_array_of_numpys_types() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = dlx.from_dlpack(a)
    for b in (t.__array__(), t.__array__(None), t.__array__(np.float32, copy=False), t.__array__(copy=None)):
        assert b.ctypes.data == a.ctypes.data
    b = t.__array__(copy=True)
    assert b.ctypes.data != a.ctypes.data and b.tolist() == a.tolist()
    assert t.__array__("float64").dtype == np.float64
    b = np.asarray(dlx.from_dlpack(np.broadcast_to(np.float64(3), (2, 2))))
    assert b.tolist() == [[3, 3], [3, 3]] and not b.flags.writeable
    assert np.result_type(t, np.float64) == np.float64 and np.dtype(t) == np.float32


def test_types_equal_those_of_other_libraries() -> None:
    d = dlx.empty(1).dtype
    for same in ("float32", np.float32, np.dtype("f4"), np.zeros(1, "f4").dtype, dlx.dtype("float32")):
        assert d == same and same == d and not d != same
    for other in ("float64", np.float64, np.dtype("i4"), float, int, None, object(), 3, "f4"):
        assert d != other and not d == other
    assert dlx.dtype("float64") == float and dlx.dtype("bool") == bool and dlx.dtype("bfloat16") == ml_dtypes.bfloat16
    assert hash(d) == hash("float32") and {"float32": 1}[d] == 1

    class Torch:
        def __repr__(self) -> str:
            return "torch.float32"

    assert d == Torch()


def test_pyarrow_asks_for_its_array(monkeypatch: pytest.MonkeyPatch) -> None:
    class Arrow:
        @staticmethod
        def array(a: Any, type: Any = None) -> tuple[Any, Any]:
            return a, type

    monkeypatch.setitem(sys.modules, "pyarrow", Arrow)
    a = np.arange(3.0)
    array, kind = dlx.from_dlpack(a).__arrow_array__(type="x")
    assert array.ctypes.data == a.ctypes.data and kind == "x"


def test_read_only_hint() -> None:
    a = np.zeros(3)
    a.flags.writeable = False
    with pytest.raises(BufferError, match=r"call \.copy\(\) first"):
        dlx.from_dlpack(a).__dlpack__()


def test_packed_numbers_are_decoded_a_few_bytes_at_a_time() -> None:
    # A number of Python that has all bits takes time in proportion to them for each number that is taken out of it.
    class Whole(bytes):
        def __bytes__(self) -> bytes:
            raise AssertionError("all bytes became one number")

    for bits in range(1, 8):
        for count in (0, 1, 7, 8, 9, 1000):
            codes = [i * 37 & (1 << bits) - 1 for i in range(count)]
            whole = sum(code << i * bits for i, code in enumerate(codes))
            data = whole.to_bytes((count * bits + 7) // 8, "little")
            assert _format._codes(Whole(data), count, bits, padded=False) == codes
