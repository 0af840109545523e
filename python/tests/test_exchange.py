"""Tensors to and from other libraries."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from producer import Producer, Versioned, api, read

import dlx

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


def layouts(dtype: str) -> dict[str, np.ndarray]:
    a = np.arange(60).astype(dtype).reshape(3, 4, 5)
    frozen = a.copy()
    frozen.flags.writeable = False
    return {
        "contiguous": a,
        "transposed": a.T,
        "strided": a[::2, 1:, ::2],
        "negative": a[::-1, :, ::-2],
        "empty": a[:0],
        "no axes": np.array(a[1, 2, 3]),
        "offset": a.ravel()[7:],
        "broadcast": np.broadcast_to(a[0, 0], (3, 5)),
        "read-only": frozen,
        "many axes": a.reshape([1] * 20 + [60]),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", layouts("int8"))
def test_numpy_both_ways(dtype: str, layout: str) -> None:
    a = layouts(dtype)[layout]
    t = dlx.from_dlpack(a)
    assert t.shape == a.shape and t.dtype == dtype and t.device == "cpu" and t.ndim == a.ndim
    assert t.size == a.size and t.nbytes == a.nbytes
    assert t.readonly == (not a.flags.writeable)
    if a.size:
        assert t.strides == tuple(s // a.itemsize for s in a.strides)
        assert t.data_ptr == a.ctypes.data
    b = np.from_dlpack(t)
    assert b.dtype == a.dtype and b.flags.writeable == a.flags.writeable
    np.testing.assert_array_equal(b, a)
    if a.size:
        assert b.ctypes.data == a.ctypes.data
    assert t.tolist() == a.tolist()
    c = t.copy()
    assert c.contiguous and not c.readonly and c.flags & 2
    np.testing.assert_array_equal(np.from_dlpack(c), a)
    assert c.size == 0 or c.data_ptr % 256 == 0 and c.data_ptr != t.data_ptr
    interface = t.__array_interface__
    assert interface["shape"] == a.shape and interface["data"][1] == (not a.flags.writeable)


def test_tvm_both_ways() -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t = dlx.from_dlpack(tvm_ffi.from_dlpack(a))
    assert t.data_ptr == a.ctypes.data
    back = tvm_ffi.from_dlpack(t)
    assert back.shape == (2, 3, 4)
    np.testing.assert_array_equal(np.from_dlpack(back), a)


def test_exchange_table_of_tvm() -> None:
    """tvm_ffi has a type with a table for tests, and uses ours for its own imports."""
    wrapper = tvm_ffi.core.DLTensorTestWrapper
    a = np.arange(6, dtype=np.int32).reshape(2, 3)
    t = dlx.from_dlpack(wrapper(tvm_ffi.from_dlpack(a)))
    assert t.tolist() == a.tolist() and t.data_ptr == a.ctypes.data


def test_subclass_that_overrides_dlpack_is_asked() -> None:
    wrapper = tvm_ffi.core.DLTensorTestWrapper

    class Mine(wrapper):  # type: ignore[misc,valid-type]
        def __dlpack__(self, **keywords: Any) -> Any:
            return np.arange(3).__dlpack__(**keywords)

    assert dlx.from_dlpack(Mine(tvm_ffi.from_dlpack(np.zeros(2)))).tolist() == [0, 1, 2]


class Header(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p)]


SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Out = ctypes.POINTER(ctypes.c_void_p)


class Table(ctypes.Structure):
    _fields_ = [
        ("header", Header),
        ("allocate", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Out, ctypes.c_void_p, SetError)),
        ("managed_from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, Out)),
        ("managed_to_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Out)),
        ("tensor_from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)),
        ("current_stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, Out)),
    ]


def table() -> Table:
    capsule = dlx.Tensor.__dlpack_c_exchange_api__
    return Table.from_address(api.PyCapsule_GetPointer(capsule, b"dlpack_exchange_api"))


def test_exchange_table() -> None:
    from producer import Deleter, DLTensor

    functions = table()
    assert (functions.header.major, functions.header.minor, functions.header.previous) == (1, 3, None)
    a = np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::-1]
    t = dlx.from_dlpack(a)
    out = ctypes.c_void_p()
    assert functions.managed_from_object(t, ctypes.byref(out)) == 0
    m = Versioned.from_address(out.value)
    assert m.tensor.data == a.ctypes.data and list(m.tensor.strides[:2]) == [3, -1]

    result = ctypes.c_void_p()
    assert functions.managed_to_object(out, ctypes.byref(result)) == 0
    t2 = ctypes.cast(result, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(t2))
    assert t2.tolist() == a.tolist()

    borrowed = DLTensor()
    assert functions.tensor_from_object(t, ctypes.byref(borrowed)) == 0
    assert borrowed.data == a.ctypes.data and list(borrowed.shape[:2]) == [2, 3]
    stream = ctypes.c_void_p(99)
    assert functions.current_stream(1, 0, ctypes.byref(stream)) == 0 and stream.value is None

    errors: list[tuple[bytes, bytes]] = []
    set_error = SetError(lambda context, kind, text: errors.append((kind, text)))
    p = Producer(shape=(5, 7))
    assert functions.allocate(ctypes.byref(p.m.tensor), ctypes.byref(out), None, set_error) == 0
    m = Versioned.from_address(out.value)
    assert list(m.tensor.shape[:2]) == [5, 7] and list(m.tensor.strides[:2]) == [7, 1] and m.tensor.data % 256 == 0
    Deleter(m.deleter)(out.value)
    for options in ({"device_type": 2}, {"ndim": -1}, {"bits": 0}, {"shape": (1 << 40, 1 << 40)}, {"shape": (1 << 50,)}):
        q = Producer(**options)
        assert functions.allocate(ctypes.byref(q.m.tensor), ctypes.byref(out), None, set_error) == -1
        assert out.value is None
    assert [kind for kind, _ in errors] == [b"BufferError", b"ValueError", b"ValueError", b"ValueError", b"MemoryError"]

    with pytest.raises(TypeError, match="not a dlx.Tensor"):
        functions.managed_from_object(a, ctypes.byref(out))
    with pytest.raises(TypeError, match="not a dlx.Tensor"):
        functions.tensor_from_object(a, ctypes.byref(borrowed))
    with pytest.raises(ValueError, match="NULL"):
        functions.managed_to_object(None, ctypes.byref(out))


def test_versions() -> None:
    t = dlx.from_dlpack(np.zeros((2, 3)))
    for version, name in ((None, b"dltensor"), ((0, 8), b"dltensor")):
        assert api.PyCapsule_GetName(t.__dlpack__(max_version=version)) == name
    for version in ((1, 0), (1, 3), (2, 5)):
        m = t.__dlpack__(max_version=version)
        assert api.PyCapsule_GetName(m) == b"dltensor_versioned"
        assert (read(m).major, read(m).minor) == (1, 3)
    legacy = t.__dlpack__()
    assert list(read(legacy).tensor.strides[:2]) == [3, 1]
    assert dlx.from_dlpack(legacy).shape == (2, 3)


def test_read_only() -> None:
    a = np.arange(6)
    a.flags.writeable = False
    t = dlx.from_dlpack(a)
    for view in (t, t[1:], t.T, t.reshape(2, 3), dlx.from_dlpack(t), dlx.from_dlpack(t[::-1])):
        assert view.readonly and memoryview(view).readonly
        assert read(view.__dlpack__(max_version=(1, 0))).flags == 1
        with pytest.raises(BufferError, match="read-only"):
            view.__dlpack__()
    assert api.PyCapsule_GetName(t.__dlpack__(copy=True)) == b"dltensor"
    assert read(t.__dlpack__(copy=True, max_version=(1, 0))).flags == 2


def test_copy() -> None:
    a = np.arange(6.0)
    assert dlx.from_dlpack(a, copy=False).data_ptr == a.ctypes.data
    assert dlx.from_dlpack(a, copy=None).data_ptr == a.ctypes.data
    c = dlx.from_dlpack(a, copy=True)
    assert c.data_ptr != a.ctypes.data and c.tolist() == a.tolist() and c.flags & 2
    assert dlx.from_dlpack(a, device="cpu", copy=False).data_ptr == a.ctypes.data
    # Others may use the memory of the copy through views and exports.
    assert dlx.from_dlpack(c).flags == 0
    assert read(c.__dlpack__(max_version=(1, 0))).flags == 0
    t = dlx.from_dlpack(a)
    assert read(t.__dlpack__(max_version=(1, 0), copy=False)).flags == 0
    assert read(t.__dlpack__(max_version=(1, 0), copy=True)).flags == 2
    assert dlx.from_dlpack(t, copy=True).data_ptr != t.data_ptr
    p = Producer(flags=2)
    with pytest.raises(BufferError, match="in spite of copy=False"):
        dlx.from_dlpack(p, copy=False)
    assert p.deleted == 1
    p = Producer(flags=2)
    assert dlx.from_dlpack(p, copy=True).data_ptr == ctypes.addressof(p.memory)
    assert p.keywords["copy"] is True and p.keywords["max_version"] == (1, 3)


def test_devices_are_carried() -> None:
    """dlx has no such devices here: tensors on them pass through."""
    for device, text in (((2, 1), "cuda:1"), ((7, 0), "vulkan:0"), ((3, 0), "cuda_host"), ((99, 2), "device99:2")):
        p = Producer(device_type=device[0], device_id=device[1], byte_offset=8, flags=1)
        t = dlx.from_dlpack(p)
        assert t.device == text and t.device.dlpack == device and t.__dlpack_device__() == device
        if device[0] not in (3,):
            assert repr(t) == f"tensor(shape=(2, 3), dtype=float32, device={text})"
            with pytest.raises(BufferError):
                memoryview(t)
            assert not hasattr(t, "__array_interface__")
        address = ctypes.addressof(p.memory)
        capsule = t.__dlpack__(max_version=(1, 0), **({"stream": -1} if device[0] == 2 else {}))
        m = read(capsule)
        assert (m.tensor.device_type, m.tensor.device_id) == device and m.flags == 1
        # The offset of an object is never added to its handle.
        expected = (address + 8, 0) if device[0] in (2, 3) else (address, 8)
        assert (m.tensor.data, m.tensor.byte_offset) == expected
        view = t[1]
        expected = (address + 20, 0) if device[0] in (2, 3) else (address, 20)
        assert (view.data_ptr, view.byte_offset) == expected
        del t, view, m, capsule
        assert p.deleted == 1


def test_streams() -> None:
    t = dlx.from_dlpack(Producer(device_type=2))
    assert "stream" not in Producer().__dict__
    t.__dlpack__(stream=1)  # that of the producer
    t.__dlpack__(stream=-1)
    t.__dlpack__()
    with pytest.raises(ValueError, match="stream 0 is not allowed"):
        t.__dlpack__(stream=0)
    r = dlx.from_dlpack(Producer(device_type=10))
    r.__dlpack__(stream=0)
    for stream in (1, 2, -2):
        with pytest.raises(ValueError, match="not allowed"):
            r.__dlpack__(stream=stream)


def test_pinned_memory_is_host_memory() -> None:
    t = dlx.from_dlpack(Producer(device_type=3))
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read(t.__dlpack__(max_version=(1, 0))).tensor.device_type == 3
    assert read(t.__dlpack__(max_version=(1, 0), dl_device=(1, 0))).tensor.device_type == 1
    c = t.to("cpu")
    assert c.device == "cpu" and c.data_ptr == t.data_ptr
    assert t.to("cpu", copy=True).data_ptr != t.data_ptr


@pytest.mark.parametrize(
    ("code", "bits", "flags", "name", "values"),
    [
        (4, 16, 0, "bfloat16", [0.0, 1.0, -2.5]),
        (10, 8, 0, "float8_e4m3fn", [0.0, 1.0, -2.5]),
        (12, 8, 0, "float8_e5m2", [0.0, 1.0, -2.5]),
        (17, 4, 0, "float4_e2m1fn", [0.0, 1.0, -6.0]),
        (17, 4, 4, "float4_e2m1fn", [0.0, 1.0, -6.0]),
        (15, 6, 0, "float6_e2m3fn", [0.0, 1.0, -2.5]),
        (0, 4, 0, "int4", [0, 1, -8]),
        (1, 4, 4, "uint4", [0, 1, 15]),
    ],
)
def test_small_types(code: int, bits: int, flags: int, name: str, values: list[float]) -> None:
    from dlx._format import _decoder

    kind = dlx.dtype(name)
    decode = _decoder(kind)
    codes = [next(c for c in range(1 << bits) if decode(c) == v) for v in values]
    p = Producer(shape=(3,), strides=(1,), code=code, bits=bits, flags=flags)
    memory = (ctypes.c_uint8 * 8).from_buffer(p.memory)
    packed = sum(c << (i * (8 if flags else bits)) for i, c in enumerate(codes))
    memory[:] = packed.to_bytes(8, "little")
    t = dlx.from_dlpack(p)
    assert t.dtype == name == kind and t.tolist() == values
    assert t[::-1].tolist() == values[::-1] if flags or bits % 8 == 0 else True
    assert read(t.__dlpack__(max_version=(1, 0))).flags == flags
    copied = t.copy()
    assert copied.tolist() == values and copied.nbytes == (3 if flags else (3 * bits + 7) // 8)
    assert repr(t).endswith(f"dtype={name})")
    if bits < 8 and flags:
        with pytest.raises(BufferError, match="padded"):
            t.__dlpack__()
    if bits < 8 and not flags:
        with pytest.raises(BufferError, match="inside of a byte"):
            t[1:]


def test_zero_size_data_is_null() -> None:
    t = dlx.empty((0, 3))
    assert not read(t.__dlpack__(max_version=(1, 0))).tensor.data
    p = Producer(shape=(0, 3), data=None)
    t = dlx.from_dlpack(p)
    assert t.shape == (0, 3) and t[:, 1:].shape == (0, 2) and np.from_dlpack(t).shape == (0, 3)
    assert memoryview(t).nbytes == 0 and t.copy().shape == (0, 3)


def test_null_strides() -> None:
    t = dlx.from_dlpack(Producer(shape=(2, 3, 4), strides=None))
    assert t.strides == (12, 4, 1)
    assert dlx.from_dlpack(Producer(shape=(), strides=None)).item() == 0


def test_weak_references() -> None:
    t = dlx.empty(3)
    dead: list[int] = []
    r = weakref.ref(t, lambda _: dead.append(1))
    assert r() is t
    del t
    gc.collect()
    assert r() is None and dead == [1]


def test_empty() -> None:
    t = dlx.empty((3, 4), "int16")
    assert t.shape == (3, 4) and t.dtype == "int16" and t.data_ptr % 256 == 0 and t.contiguous
    np.from_dlpack(t)[:] = 7
    assert t.tolist() == [[7] * 4] * 3
    assert dlx.empty(5).shape == (5,) and dlx.empty((), np.float64).dtype == "float64"
    assert dlx.empty(2, np.dtype("complex64")).dtype == "complex64" and dlx.empty(2, bool).dtype == "bool"
