"""Streams and events, and the order of work on devices."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import dlx
from test_exchange import Table, table

A = np.arange(12, dtype=np.float32).reshape(3, 4)


def devices() -> list[dlx.Device]:
    return [d for d in dlx.devices() if d.type != "gl"]  # which DLPack does not have


def cuda() -> dlx.Device:
    found = [d for d in dlx.devices() if d.type == "cuda"]
    if not found:
        pytest.skip(f"the build has no device of CUDA here; its tags are {dlx.__build__['tags']}")
    return found[0]


def test_streams_and_events() -> None:
    for device in devices():
        with dlx.Stream(device) as s, dlx.Stream(str(device)) as other:
            assert s.device == device and isinstance(s.device, dlx.Device)
            assert isinstance(s.native, int) and (s.native != 0 or device.type not in ("cuda", "rocm"))
            t = dlx.empty((3, 4), "float32", device, stream=s)
            assert t.device == device and t.shape == (3, 4)
            u = dlx.from_dlpack(A).to(device, copy=True, stream=s)
            other.wait(u)
            v = u.copy(stream=other, source_stream=s)
            back = v.to("cpu", source_stream=other)
            back.wait()
            assert u.device == v.device == device and back.tolist() == A.tolist()
            assert (v.data_ptr, v.byte_offset) != (u.data_ptr, u.byte_offset)
            with s.record() as event:
                event.wait()
                event.wait(60)
                assert event.done is True
                other.wait(event)
                other.wait(s)
            s.synchronize()
            other.synchronize(timeout=60)
        s.close()
        for call in (s.record, s.synchronize, lambda s=s: s.native, lambda s=s, u=u: s.wait(u), lambda s=s, u=u: u.to("cpu", source_stream=s)):
            with pytest.raises(ValueError, match="closed"):
                call()  # type: ignore[operator]
        for call in (event.wait, lambda event=event: event.done):
            with pytest.raises(ValueError, match="closed"):
                call()  # type: ignore[operator]


def test_no_stream_is_left_open() -> None:
    s = dlx.Stream()
    e = s.record()
    del s, e  # the fixture counts


def test_the_stream_waits_for_a_tensor_that_stays() -> None:
    """Also where nothing moves: the result shares the memory."""
    for device in devices():
        with dlx.Stream(device) as s:
            t = dlx.from_dlpack(A).to(device, copy=True)
            same = t.to(device, copy=False, stream=s)
            assert (same.data_ptr, same.byte_offset) == (t.data_ptr, t.byte_offset) and same.device == device
            assert same.to("cpu").tolist() == A.tolist()
            assert device in t.plan(device, stream=s)


def test_wrong_arguments() -> None:
    with dlx.Stream() as s:
        t = dlx.from_dlpack(A)
        for wrong in (3, "cpu", object(), None):
            with pytest.raises(TypeError):
                s.wait(wrong)  # type: ignore[arg-type]
        for wrong in (3, "cpu", object()):
            for call in (t.copy, lambda **k: t.to("cpu", **k), lambda **k: t.plan("cpu", **k), lambda **k: dlx.empty(3, **k)):
                with pytest.raises(TypeError, match="dlx.Stream"):
                    call(stream=wrong)
        for wrong in (0, -1, float("nan"), float("inf"), 1e30):
            with pytest.raises(ValueError, match="timeout"):
                s.synchronize(wrong)
        with pytest.raises(ValueError, match="CPU|cpu|number"):
            dlx.Stream("cpu", external=3)
        with pytest.raises(TypeError):
            dlx.Stream("cpu", external="a")
        with pytest.raises(ValueError, match="not a device"):
            dlx.Stream("nonsense")
        with pytest.raises(RuntimeError, match="oneapi"):
            dlx.Stream("oneapi:0")
        with pytest.raises(AttributeError):
            s.__cuda_stream__
        for device in devices():
            if device != "cpu":
                if device.type in ("cuda", "rocm"):  # the others have no pool in the order of streams
                    with pytest.raises(ValueError, match="stream"):
                        dlx.empty(3, "float32", device, stream=s)
                with pytest.raises(ValueError, match="stream"):
                    t.to(device, stream=s)
                with pytest.raises(ValueError, match="stream"):
                    t.plan(device, stream=s)


def test_streams_of_other_libraries() -> None:
    device = cuda()

    class Torch:
        cuda_stream = 0  # the default stream

    class Core:
        def __init__(self, s: dlx.Stream) -> None:
            self.of = s

        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, self.of.native)

    with dlx.Stream(device) as owner:
        assert owner.__cuda_stream__() == (0, owner.native)
        external: Any
        for external, native in ((1, 1), (Torch(), 1), (owner.native, owner.native), (Core(owner), owner.native), (owner, owner.native)):
            with dlx.Stream(device, external=external) as s:
                assert s.native == native
                t = dlx.from_dlpack(A).to(device, copy=True, stream=s)
                owner.wait(s)
                assert t.to("cpu", source_stream=owner).tolist() == A.tolist()
        owner.synchronize()  # it stayed open
    with pytest.raises(ValueError, match="0"):
        dlx.Stream(device, external=0)
    for other in devices():
        if other.type in ("vulkan", "opencl"):
            with pytest.raises(RuntimeError, match="stream"):
                dlx.Stream(other, external=1)


def test_dlpack_orders_the_consumers_stream() -> None:
    device = cuda()
    with dlx.Stream(device) as s:
        t = dlx.from_dlpack(A).to(device, copy=True, stream=s)
        for number in (None, 1, 2, -1, s.native):
            capsule = t.__dlpack__(stream=number, max_version=(1, 0))
            assert dlx.from_dlpack(capsule).to("cpu").tolist() == A.tolist()


api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
USED = b"used_dltensor_versioned"


class TableProducer:
    """A producer with an exchange table, which calls the default stream NULL, as that of PyTorch does."""

    def __init__(self, of: Any) -> None:
        self.of = of


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
def managed_from_object(x: Any, out: Any) -> int:
    capsule = x.of.__dlpack__(max_version=(1, 0))
    out[0] = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    return int(api.PyCapsule_SetName(capsule, USED))


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
def current_stream(kind: int, index: int, out: Any) -> int:
    out[0] = None
    return 0


TABLE = Table.from_buffer_copy(table())
TABLE.managed_from_object = ctypes.cast(managed_from_object, type(TABLE.managed_from_object))
TABLE.current_stream = ctypes.cast(current_stream, type(TABLE.current_stream))
NAME = b"dlpack_exchange_api"
TableProducer.__dlpack_c_exchange_api__ = api.PyCapsule_New(ctypes.addressof(TABLE), NAME, None)  # type: ignore[attr-defined]


def test_the_default_stream_of_a_producer() -> None:
    """DLPack calls it 1 in the argument stream, and its handle is NULL."""
    device = cuda()
    t = dlx.from_dlpack(A).to(device, copy=True)
    ours = dlx.from_dlpack(TableProducer(tvm_ffi.from_dlpack(t)))
    assert ours.device == device and ours.data_ptr == t.data_ptr
    assert device in ours.plan("cpu")
    assert ours.to("cpu").tolist() == A.tolist()
    with dlx.Stream(device) as s:
        s.wait(ours)
        assert ours.copy(stream=s).to("cpu").tolist() == A.tolist()
    ours.__dlpack__(stream=2, max_version=(1, 0))


def test_a_child_of_fork_cannot_use_streams() -> None:
    s = dlx.Stream()
    event = s.record()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            s.synchronize()
        except RuntimeError:
            event.close()
            s.close()  # nothing to do there
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    event.close()
    s.close()
