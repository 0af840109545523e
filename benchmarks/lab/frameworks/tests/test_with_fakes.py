"""Fakes of CuPy and MXNet: what these do at the boundary, in C of our own (native/interop_fakes.c).

CuPy needs a card. Its arrays are on CUDA, its producers ask for the consumer's stream, and its from_dlpack refuses
host memory. The memory here is that of the simulated CUDA driver. MXNet's capsules are legacy, without strides, and its
engine calls deleters on its own threads.

The CUDA device stays open afterwards, so these tests come after those of test_libdlx.py, which count what is open.
"""

import gc
import os
import threading

import interop_fakes as native
import numpy as np
import pytest
from conftest import becomes

import dlx

CUDA = 2


class CuPy:
    """A producer that keeps the rules of CuPy's __dlpack__."""

    def __init__(self, address, shape, owner):
        self.arguments = (address, (CUDA, 0), (2, 32, 1), shape, owner)
        self.streams = []

    def __dlpack_device__(self):
        return CUDA, 0

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        if stream == 0:
            raise ValueError("On CUDA, the stream 0 is ambiguous")
        self.streams.append(stream)
        return native.produce(*self.arguments)


def cupy_from_dlpack(x):
    """Takes a tensor as CuPy's from_dlpack does: device first, then with its stream, versions last."""
    kind, _ = x.__dlpack_device__()
    if kind != CUDA:
        raise TypeError("CPU arrays cannot be directly imported to CuPy.")
    return native.consume(x.__dlpack__(stream=1))


needs_simulator = pytest.mark.skipif(not os.path.exists(os.environ.get("DLX_CUDA_LIBRARY", "")),
                                     reason="no simulated CUDA driver: DLX_CUDA_LIBRARY names none")


def on_cuda():
    return dlx.from_dlpack(np.arange(12, dtype=np.float32).reshape(3, 4)).to("cuda:0")


@needs_simulator
def test_cupy_takes():
    t = on_cuda()
    number, address, device, shape = cupy_from_dlpack(t)
    assert (address, device, shape) == (t.data_ptr + t.byte_offset, (CUDA, 0), (3, 4))
    del t
    native.drop(number)


@needs_simulator
@pytest.mark.parametrize("stream, refused", [(None, False), (-1, False), (1, False), (2, False), (0, True)])
def test_streams_of_consumers(stream, refused):
    t = on_cuda()
    if refused:
        with pytest.raises((BufferError, ValueError)):
            t.__dlpack__(stream=stream)
    else:
        t.__dlpack__(stream=stream)


def test_cupy_refuses_host_memory():
    with pytest.raises(TypeError, match="CPU arrays"):
        cupy_from_dlpack(dlx.empty((2,), "float32"))
    with pytest.raises((BufferError, ValueError)):
        dlx.empty((2,), "float32").__dlpack__(stream=1)  # a CPU has no streams


@needs_simulator
def test_cupy_gives():
    t = on_cuda()
    array = CuPy(t.data_ptr, (3, 4), t)
    y = dlx.from_dlpack(array)
    assert str(y.device) == "cuda:0" and y.shape == (3, 4) and y.strides == (4, 1) and y.data_ptr == t.data_ptr
    assert array.streams and 0 not in array.streams
    del y, array
    assert becomes(native.alive, 0)


@needs_simulator
def test_memory_of_cupy_moves():
    t = on_cuda()
    expected = np.arange(12.0).reshape(3, 4)
    y = dlx.from_dlpack(CuPy(t.data_ptr, (3, 4), t))
    assert y.plan("cpu").startswith("cuda:0 -> cpu")
    for view, values in ((y, expected), (y[::-1, ::2], expected[::-1, ::2]), (y[1], expected[1]), (y[:, :0], expected[:, :0])):
        for copy in (None, True):
            for there in ("cuda:0", "cuda:1"):
                assert np.from_dlpack(view.to(there, copy=copy).to("cpu")).tolist() == values.tolist()
            assert np.from_dlpack(view.to("cpu", copy=copy)).tolist() == values.tolist()
    assert dlx.from_dlpack(CuPy(t.data_ptr, (3, 4), t), device="cpu").tolist() == expected.tolist()
    kept = y.to("cuda:1", copy=True)  # has nothing to do with the memory of the other library any more
    del y, view
    assert becomes(native.alive, 0) and kept.to("cpu").tolist() == expected.tolist()


@needs_simulator
def test_memory_that_the_driver_does_not_know():
    t = on_cuda()
    for device, address, why in (((CUDA, 7), t.data_ptr, "no device cuda:7"), ((CUDA, 0), 4096, "not memory of CUDA"),
                                 ((14, 0), t.data_ptr, "oneapi")):
        capsule = native.produce(address, device, (2, 32, 1), (3, 4), t)
        y = dlx.from_dlpack(capsule)
        for move in (y.to, y.plan):
            with pytest.raises((ValueError, RuntimeError), match=why):
                move("cpu")
        del y, capsule, move
        assert becomes(native.alive, 0)


@needs_simulator
def test_moves_in_threads_while_the_collector_runs():
    """Deleters take the interpreter's lock in threads of Go, while others hold it and call libdlx."""
    t = on_cuda()
    before = dlx._live()
    stop, errors = threading.Event(), []

    def collect():
        while not stop.is_set():
            gc.collect()

    def move():
        try:
            for _ in range(20):
                y = dlx.from_dlpack(CuPy(t.data_ptr, (3, 4), t))
                assert y.to("cpu").tolist()[2] == [8, 9, 10, 11]
                cycle = [y, y[::-1].to("cuda:1"), dlx.from_dlpack(np.arange(6.0)).to("cuda:0", copy=True)]
                cycle.append(cycle)
        except BaseException as error:
            errors.append(error)

    collector, threads = threading.Thread(target=collect), [threading.Thread(target=move) for _ in range(4)]
    collector.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    collector.join()
    assert errors == []
    assert becomes(lambda: (dlx._live(), native.alive()), (before, 0))


def test_mxnet_gives():
    a = np.arange(6.0)
    capsule = native.produce(a.ctypes.data, (1, 0), (2, 64, 1), (2, 3), a)
    y = dlx.from_dlpack(capsule)
    assert y.strides == (3, 1) and np.from_dlpack(y).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises((BufferError, ValueError)):
        dlx.from_dlpack(capsule)  # used
    del y, capsule
    assert becomes(native.alive, 0)


def test_an_unused_capsule_is_freed():
    a = np.arange(6.0)
    native.produce(a.ctypes.data, (1, 0), (2, 64, 1), (6,), a)
    assert becomes(native.alive, 0)


def test_mxnet_takes_and_deletes_on_another_thread():
    held = []
    for source in (dlx.empty((2, 3), "float64"), dlx.from_dlpack(np.ones((2, 3)))):
        number, address, device, shape = native.consume(source.__dlpack__())
        assert address == source.data_ptr and device == (1, 0) and shape == (2, 3)
        held.append(number)
    del source
    gc.collect()
    for number in held:
        native.drop(number)


def test_the_legacy_struct_refuses_read_only_tensors():
    a = np.arange(3)
    a.flags.writeable = False
    t = dlx.from_dlpack(a)
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__()
