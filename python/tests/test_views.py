"""Views, the buffer protocol and the text of tensors, compared with NumPy's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dlx


def test_indices() -> None:
    a = np.arange(120).reshape(4, 5, 6)
    t = dlx.from_dlpack(a)
    keys: list[Any] = [
        0, -1, 3, slice(None), slice(1, 3), slice(None, None, -1), slice(10, 0, -2), slice(3, 1), ..., None,
        (1, 2), (1, 2, 3), (slice(1, 3), -1), (..., 2), (..., slice(None, None, -2)), (0, ..., 1),
        (None, 1, None, slice(2), 0), (slice(None, None, 2), slice(4, None, -1), slice(1, 5, 3)), (), (np.int64(2),),
        (slice(0, 0),), (..., None), (slice(-100, 100, 7), ..., slice(-2, None)),
    ]  # fmt: skip
    for key in keys:
        want, got = a[key], t[key]
        assert got.shape == np.shape(want), key
        np.testing.assert_array_equal(np.from_dlpack(got), want, err_msg=str(key))
        if np.size(want):
            assert np.shares_memory(np.from_dlpack(got), a)
    for key in (4, -5, (0, 5), (0, 0, 0, 0), (..., ...), (0, ..., 6)):
        with pytest.raises(IndexError, match="dlx: "):
            t[key]
    for key in ("x", 1.5, True, [0, 1], (slice(None), [1])):
        with pytest.raises(TypeError, match="dlx: "):
            t[key]
    with pytest.raises(IndexError, match="64 axes"):
        t[(None,) * 62]
    with pytest.raises(ValueError, match="zero"):
        t[::0]


def test_random_views_of_views() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        a = np.arange(210).reshape(2, 3, 5, 7)
        t = dlx.from_dlpack(a)
        for _ in range(4):
            key = tuple(
                slice(*(int(x) if rng.random() < 0.7 else None for x in rng.integers(-8, 9, 2)), int(rng.choice([-3, -1, 1, 2])))
                if rng.random() < 0.8 or n == 0
                else int(rng.integers(-n, n))
                for n in a.shape
            )
            a, t = a[key], t[key]
            if rng.random() < 0.3:
                order = rng.permutation(a.ndim)
                a, t = a.transpose(order), t.transpose(*map(int, order)) if a.ndim else t
        np.testing.assert_array_equal(np.from_dlpack(t), a)
        np.testing.assert_array_equal(np.from_dlpack(t.copy()), a)


def test_transpose_and_reshape() -> None:
    a = np.arange(24).reshape(2, 3, 4)
    t = dlx.from_dlpack(a)
    np.testing.assert_array_equal(np.from_dlpack(t.T), a.T)
    np.testing.assert_array_equal(np.from_dlpack(t.transpose(1, -1, 0)), a.transpose(1, -1, 0))
    np.testing.assert_array_equal(np.from_dlpack(t.transpose([1, 0, 2])), a.transpose([1, 0, 2]))
    for axes in ((0, 1), (0, 0, 1), (0, 1, 3)):
        with pytest.raises(ValueError, match="each of the 3 axes once"):
            t.transpose(*axes)
    for shape in ((24,), (6, 4), (-1, 2), (2, 1, 12), (1, 24, 1), (3, -1, 2, 2)):
        np.testing.assert_array_equal(np.from_dlpack(t.reshape(shape)), a.reshape(shape))
    np.testing.assert_array_equal(np.from_dlpack(t[:, :, ::2].reshape(6, 2)), a[:, :, ::2].reshape(6, 2))
    np.testing.assert_array_equal(np.from_dlpack(t[::-1, ::-1, ::-1].reshape(24)), a[::-1, ::-1, ::-1].reshape(24))
    for shape in ((5,), (-1, 7), (-1, -1), (2, -3, -4)):
        with pytest.raises(ValueError, match="cannot have this shape"):
            t.reshape(*shape)
    with pytest.raises(ValueError, match="would need a copy"):
        t.T.reshape(24)
    assert t[:0].reshape(0, 5).shape == (0, 5) and t[0, 0, 0].reshape(1, 1).tolist() == [[0]]


def test_buffer_protocol() -> None:
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    t = dlx.from_dlpack(a)
    m = memoryview(t)
    assert m.format == "i" and m.shape == (3, 4) and m.strides == (16, 4) and not m.readonly and m.tolist() == a.tolist()
    m[1, 2] = 99
    assert a[1, 2] == 99
    v = memoryview(t[::-1, ::2])
    assert v.strides == (-16, 8) and v.tolist() == a[::-1, ::2].tolist()
    assert bytes(memoryview(t)) == a.tobytes() and bytes(memoryview(t.T)) == a.T.tobytes()
    assert memoryview(t[1, 2]).tolist() == 99 and memoryview(t).obj is t
    import hashlib
    import struct

    with pytest.raises((BufferError, ValueError)):
        hashlib.sha256(t[:, ::2])  # wants bytes without gaps

    struct.pack_into("=i", t, 0, 5)
    assert a[0, 0] == 5
    frozen = a.copy()
    frozen.flags.writeable = False
    with pytest.raises((BufferError, TypeError)):
        struct.pack_into("=i", dlx.from_dlpack(frozen), 0, 5)
    assert np.asarray(t).ctypes.data == a.ctypes.data
    del t, m
    assert v.tolist()[0][0] == 8  # the view keeps the memory


def test_item_and_length() -> None:
    t = dlx.from_dlpack(np.arange(3.0))
    assert len(t) == 3 and t[1].item() == 1.0 and t[2:].item() == 2.0
    with pytest.raises(ValueError, match="one element"):
        t.item()
    with pytest.raises(TypeError, match="without axes"):
        len(t[0])


SHAPES = [(), (0,), (3, 0), (0, 3), (1,), (5,), (40,), (3, 4), (2, 3, 4), (1001,), (40, 40), (3, 5, 90), (7, 1, 2, 3, 2)]


def numbers(dtype: str, shape: tuple[int, ...], mode: int) -> np.ndarray:
    rng = np.random.default_rng(mode)
    x = np.asarray(rng.standard_normal(shape) * 10.0 ** np.array([0, 3, -5, 8, 0, 1, 0][mode]))
    if mode == 4:
        x = np.asarray(x * 10.0 ** rng.integers(-8, 8, shape))
    if mode == 5:
        x = np.round(x)
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return np.asarray(x > 0)
        if dtype.startswith("complex"):
            x = x + 1j * rng.standard_normal(shape)
        a = np.asarray(x).astype(dtype)
    if mode == 6 and a.size > 4 and a.dtype.kind in "fc":
        a.flat[0], a.flat[2], a.flat[3], a.flat[4] = np.nan, np.inf, -np.inf, -0.0
    return a


@pytest.mark.parametrize("dtype", "bool int8 int32 int64 uint64 float16 float32 float64 complex64 complex128".split())
def test_text_is_numpys(dtype: str) -> None:
    with np.printoptions(linewidth=75, legacy=False):
        for shape in SHAPES:
            for mode in range(7) if len(shape) < 2 or max(shape) < 40 else (4, 6):
                a = numbers(dtype, shape, mode)
                t = dlx.from_dlpack(a)
                assert str(t) == str(a)
                body = np.array2string(a, separator=", ", prefix="tensor(", suffix=")")
                text = repr(t)
                assert text.startswith("tensor(" + body)
                rest = text[len("tensor(" + body) :]
                want = [f"shape={a.shape}"] if (a.size == 0 and a.shape != (0,)) or a.size > 1000 else []
                want += [f"dtype={dtype}"] if dtype not in ("bool", "int64", "float64", "complex128") or a.size == 0 else []
                assert "".join(rest.split()) == "".join((", ".join(["", *want]) + ")").split())


@pytest.mark.parametrize("dtype", "float16 float32 float64 complex64 complex128".split())
def test_text_is_numpys_at_the_limits(dtype: str) -> None:
    """Numbers with and without an exponent, in arrays, and alone with all their digits."""
    limits = [x * (1 + e) for p in range(-6, 18) for x in (10.0**p, 3 * 10.0**p) for e in (-1e-3, -1e-7, -1e-16, 0, 1e-16, 1e-7, 1e-3)]
    with np.errstate(over="ignore", invalid="ignore"):
        every = np.array([*limits, 0.0, -0.0, 1, -0.1 - 0.2, np.inf, -np.inf, np.nan]).astype(dtype)
        if dtype.startswith("complex"):
            every = every + every[::-1] * np.array(1j, dtype)
    with np.printoptions(linewidth=75, legacy=False):
        for x in every:
            for a in (np.array(x), np.array([x]), np.array([x, 5], dtype), np.array([0.05, x], dtype)):
                t = dlx.from_dlpack(a)
                assert str(t) == str(a)
                assert repr(t).startswith("tensor(" + np.array2string(a, separator=", ", prefix="tensor(", suffix=")"))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of elements that are read for texts."""
    counts: list[int] = []
    whole, one = dlx._C.bytes_of, dlx._C.element_of

    def bytes_of(t: dlx.Tensor) -> bytes:
        counts.append(t.size * t.dtype.lanes)
        return whole(t)

    def element_of(t: dlx.Tensor, indices: tuple[int, ...]) -> bytes:
        counts.append(t.dtype.lanes)
        return one(t, indices)

    monkeypatch.setattr(dlx._C, "bytes_of", bytes_of)
    monkeypatch.setattr(dlx._C, "element_of", element_of)
    return counts


def test_text_is_short(read: list[int]) -> None:
    """A text has few elements, and no more are read, whatever the type and however many axes there are."""
    x = np.arange(2**18, dtype=np.int8)
    many = dlx.from_dlpack(x)
    packed = [many.astype("int4"), many.astype("float4_e2m1fn"), many.astype("uint2"), many.astype("float6_e2m3fn")]
    pairs = packed[1].with_lanes(2)
    cases = [
        many.reshape((2,) * 18),
        many.reshape((8,) * 6),
        many.reshape((2, 2, 2**16)),
        many.reshape((1,) * 40 + (2,) * 18),
        many.with_lanes(2**15).reshape(2, 2, 2),
        many[:2].with_lanes(2),
        pairs,
        pairs.reshape(2, 2**8, 2**8),
        *packed,
        *(p.reshape((2,) * 18) for p in packed),
        *(p.reshape(2**9, 2**9).T for p in packed),
    ]
    for t in cases:
        for text in (repr, str):
            read.clear()
            assert len(text(t)) < 60_000, (t.shape, t.dtype)
            assert sum(read) <= max(10_000, t.dtype.lanes), (t.shape, t.dtype)
    endless = dlx.from_dlpack(np.broadcast_to(np.int8(5), (2,) * 62))
    assert repr(endless).count("5") < 10_000 and str(endless).startswith("[" * 62 + "5")


def test_wrong_indices_of_an_element() -> None:
    t = dlx.from_dlpack(np.arange(4, dtype=np.int8)).astype("int4")
    for indices, error in (((4,), IndexError), ((-1,), IndexError), ((1 << 70,), IndexError), ((), TypeError), ((0, 0), TypeError), (("a",), TypeError)):
        with pytest.raises(error):
            dlx._C.element_of(t, indices)
    with pytest.raises(TypeError):
        dlx._C.element_of(3, (0,))


def test_text_of_packed_elements(read: list[int]) -> None:
    """The summary of packed elements has those that the text of an array has."""
    x = np.arange(-60_000, 60_000).reshape(3, 200, 200) % 5 + np.arange(200) % 2
    packed = {"int4": x - 3, "uint4": x, "uint1": x % 2, "int7": x * 9 - 40, "uint3": x}
    assert len({x[0, 0, 0], x[0, 0, 1], x[0, 0, -1], x[2, -1, -2]}) > 2
    with np.printoptions(linewidth=75, legacy=False):
        for kind, values in packed.items():
            t = dlx.from_dlpack(values.astype(np.int8)).astype(kind)
            for view in (lambda t: t, lambda t: t.transpose(2, 0, 1), lambda t: t[::2, :, ::8], lambda t: t[1]):
                assert str(view(t)) == str(view(values)), kind
                assert repr(view(t)).startswith("tensor(" + np.array2string(view(values), separator=", ", prefix="tensor("))


def test_buffers_without_elements() -> None:
    for shape in ((0,), (0, 3), (3, 0), (2, 0, 3)):
        for dtype in ("uint8", "float32", "complex128"):
            t = dlx.empty(shape, dtype)
            for view in (t, dlx.from_dlpack(np.zeros(shape, dtype)), t.T.T, t[::-1]):
                m = memoryview(view)
                assert m.c_contiguous and m.contiguous and m.nbytes == 0 and m.tobytes() == b"" and m.shape == shape
                assert len(shape) > 1 or m.strides == (m.itemsize,)
                if len(shape) == 1 and dtype != "complex128":  # what memoryview can cast
                    assert m.cast("B").nbytes == 0


def test_public_names() -> None:
    assert {name for name in dir(dlx) if not name.startswith("_")} == set(dlx.__all__)


def test_dtypes_and_devices() -> None:
    d = dlx.dtype("float32")
    assert d == "float32" and d in {"float32"} and (d.code, d.bits, d.lanes, d.itemsize) == (2, 32, 1, 4)
    assert dlx.dtype("int4x2").lanes == 2 and dlx.dtype("complex64").lanes == 1 and dlx.dtype("code42b7").code == 42
    assert dlx.dtype(np.float16) == "float16" and dlx.dtype(np.dtype("i8")) == "int64" and dlx.dtype("torch.bool") == "bool"
    assert np.dtype(d) == np.float32
    for name in ("", "float", "float0", "float032", "int8x1", "int8x0", "x", "int300", "code300b1x"):
        with pytest.raises(ValueError, match="not an element type"):
            dlx.dtype(name)
    e = dlx.Device("cuda")
    assert e == "cuda:0" and (e.type, e.id, e.dlpack) == ("cuda", 0, (2, 0)) and dlx.Device((1, 0)) == "cpu"
    assert pickle.loads(pickle.dumps(d)) == d and pickle.loads(pickle.dumps(e)) == e
