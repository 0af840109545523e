"""Producers that are wrong: an error with our text, the deleter called once, and never a crash."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest
from producer import Deleter, Producer, api

import dlx


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (BufferError, "version 2.0", {"major": 2, "minor": 0}),
        (BufferError, "version 0.8", {"major": 0, "minor": 8}),
        (BufferError, "unknown flags 0x80", {"flags": 0x81}),
        (ValueError, "ndim is -1", {"ndim": -1}),
        (ValueError, "ndim is 65", {"ndim": 65}),
        (ValueError, r"shape\[1\] is -3", {"shape": (2, -3)}),
        (ValueError, "than an int64 counts", {"shape": (1 << 40, 1 << 40), "strides": None}),
        (ValueError, "than an int64 counts", {"shape": (3, 3), "strides": (1 << 62, 1 << 62)}),
        (ValueError, "than an int64 counts", {"shape": (2,), "strides": (-(1 << 63),)}),
        (ValueError, "than an int64 counts", {"shape": (1 << 62,), "strides": (1,)}),
        (ValueError, "address space", {"shape": (2,), "strides": (-(1 << 57),)}),
        (ValueError, "address space", {"data": 8, "shape": (3,), "strides": (-1,)}),  # the last one at address 0
        (ValueError, "byte_offset", {"byte_offset": 1 << 63}),
        (ValueError, "data is NULL", {"data": None}),
        (ValueError, "0 bits", {"bits": 0}),
        (ValueError, "0 lanes", {"lanes": 0}),
        (ValueError, "type code 6 has 8", {"code": 6, "bits": 1}),
        (ValueError, "type code 17 has 4", {"code": 17, "bits": 8}),
        (ValueError, "OpenGL", {"device_type": 34}),
    ],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_lies(error: type[Exception], text: str, options: dict[str, Any], legacy: bool) -> None:
    if legacy and {"major", "flags"} & options.keys():
        pytest.skip("the legacy struct has neither version nor flags")
    p = Producer(legacy=legacy, **options)
    with pytest.raises(error, match=text):
        dlx.from_dlpack(p)
    assert p.deleted == 1


def test_shape_is_null() -> None:
    p = Producer()
    p.m.tensor.shape = ctypes.POINTER(ctypes.c_int64)()
    with pytest.raises(ValueError, match="shape is NULL"):
        dlx.from_dlpack(p)
    assert p.deleted == 1


def test_null_deleter() -> None:
    p = Producer(deleter=None)
    t = dlx.from_dlpack(p)
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]
    p = Producer(deleter=None, ndim=-1)
    with pytest.raises(ValueError, match="ndim"):
        dlx.from_dlpack(p)


def test_producer_changes_its_shape_later() -> None:
    p = Producer()
    t = dlx.from_dlpack(p)
    p.shape[0] = 1 << 40
    p.strides[0] = 1 << 40
    assert t.shape == (2, 3) and t.strides == (3, 1)
    assert t[1].tolist() == [3, 4, 5]
    del t
    assert p.deleted == 1


def test_used_capsule() -> None:
    p = Producer()
    capsule = p.__dlpack__()
    t = dlx.from_dlpack(capsule)
    with pytest.raises(ValueError, match="already used"):
        dlx.from_dlpack(capsule)
    del t
    assert p.deleted == 1

    class Again:
        def __dlpack__(self, **keywords: Any) -> Any:
            return capsule

    with pytest.raises(ValueError, match="already used"):
        dlx.from_dlpack(Again())


@pytest.mark.parametrize("name", [b"dltensor_v2", b"", None])
def test_wrong_name(name: bytes | None) -> None:
    p = Producer()
    p.name = name
    with pytest.raises(ValueError, match="the capsule's name"):
        dlx.from_dlpack(p)
    assert p.deleted == 0  # it is not known what the capsule holds


def test_no_capsule() -> None:
    class Wrong:
        def __dlpack__(self, **keywords: Any) -> Any:
            return 42

    with pytest.raises(BufferError, match="not a capsule"):
        dlx.from_dlpack(Wrong())


def test_no_producer() -> None:
    for x in (42, object(), [1, 2], None):
        with pytest.raises(TypeError, match="from_dlpack needs an object with __dlpack__"):
            dlx.from_dlpack(x)


@pytest.mark.parametrize("kind", [RuntimeError, OSError, AttributeError, KeyError, TypeError])
def test_producer_raises(kind: type[Exception]) -> None:
    class Raises:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise kind("in the middle")

    with pytest.raises(BufferError, match=f"{kind.__name__}.*in the middle") as caught:
        dlx.from_dlpack(Raises())
    assert isinstance(caught.value.__cause__, kind)


def test_errors_of_the_protocol_stay() -> None:
    class Refuses:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError("its own words")

    with pytest.raises(BufferError, match="^its own words$"):
        dlx.from_dlpack(Refuses())

    class Interrupted:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dlx.from_dlpack(Interrupted())


def test_old_producer_without_keywords() -> None:
    p = Producer(legacy=True)

    class Old:
        def __dlpack__(self) -> Any:
            return p.__dlpack__()

    t = dlx.from_dlpack(Old())
    assert t.shape == (2, 3)
    c = dlx.from_dlpack(Old(), copy=True)
    assert c.data_ptr != t.data_ptr and c.tolist() == t.tolist()


def test_deleter_that_raises_and_looks() -> None:
    """A deleter of Python runs while an error is on its way, and must not see or replace it."""
    p = Producer(ndim=-1)
    seen: list[Any] = []

    def delete(pointer: int) -> None:
        seen.append(sys.exc_info()[0])
        [].append(1)

    callback = Deleter(delete)
    p.m.deleter = ctypes.cast(callback, ctypes.c_void_p)
    with pytest.raises(ValueError, match="ndim is -1"):
        dlx.from_dlpack(p)
    assert seen == [None]


def test_arguments() -> None:
    a = np.zeros(3)
    for call in (
        lambda: dlx.from_dlpack(),
        lambda: dlx.from_dlpack(a, a),
        lambda: dlx.from_dlpack(a, nonsense=1),
        lambda: dlx.from_dlpack(a).__dlpack__(1),
        lambda: dlx.from_dlpack(a).__dlpack__(nonsense=1),
        lambda: dlx.from_dlpack(a).__dlpack__(max_version="1.0"),
        lambda: dlx.Tensor(),
    ):
        with pytest.raises(TypeError):
            call()
    t = dlx.from_dlpack(a)
    for flag in ("x", "", [], 2, object()):
        for call in (
            lambda: dlx.from_dlpack(a, copy=flag),
            lambda: dlx.from_dlpack(t, copy=flag),
            lambda: t.to("cpu", copy=flag),
            lambda: t.plan("cpu", copy=flag),
            lambda: t.__dlpack__(copy=flag),
            lambda: dlx.save("/nonexistent/x.npz", {"a": t}, compress=flag),
        ):
            with pytest.raises(TypeError, match="must be True, False or None"):
                call()
    assert dlx.from_dlpack(a, copy=np.True_).data_ptr != a.ctypes.data == dlx.from_dlpack(a, copy=np.False_).data_ptr
    for device in ((99, 0), (0, 0), (-1, 0), (5, 0), "device99", (1, 5), (2, -1), (1 << 40, 0), (1 << 70, 0), (1, 1 << 70)):
        for call in (
            lambda: dlx.from_dlpack(a, device=device),
            lambda: dlx.from_dlpack(t, device=device),
            lambda: t.to(device),
            lambda: t.plan(device),
            lambda: dlx.empty(3, device=device),
        ):
            with pytest.raises(ValueError, match="dlx: "):
                call()
    for call in (
        lambda: dlx.from_dlpack(a, device="nonsense"),
        lambda: dlx.from_dlpack(a, device="cuda:-1"),
        lambda: dlx.from_dlpack(a, device=(1,)),
        lambda: dlx.from_dlpack(a).__dlpack__(stream=1),
        lambda: dlx.empty((1 << 40, 1 << 40)),
        lambda: dlx.empty((-1,)),
        lambda: dlx.empty([1] * 65),
        lambda: dlx.empty(1, "float33x"),
    ):
        with pytest.raises(ValueError, match="dlx: "):
            call()
    with pytest.raises(MemoryError):
        dlx.empty(1 << 50)


def test_table_of_another_type() -> None:
    """A table whose functions fail, or lie, is treated like any other producer."""
    class Fake:
        __dlpack_c_exchange_api__ = api.PyCapsule_New(ctypes.addressof(ctypes.create_string_buffer(64)), b"other", None)

        def __dlpack__(self, **keywords: Any) -> Any:
            return np.arange(3).__dlpack__(**keywords)

    assert dlx.from_dlpack(Fake()).tolist() == [0, 1, 2]


def test_deleter_while_an_exception_is_set() -> None:
    """Tensors and capsules go while an exception is on its way; deleters in Python neither see nor replace it."""
    seen: list[Any] = []

    def delete(pointer: int) -> None:
        seen.append(sys.exc_info()[0])
        [str(i) for i in range(3)]

    callback = Deleter(delete)
    for make in (dlx.from_dlpack, lambda p: dlx.from_dlpack(p).__dlpack__(), lambda p: dlx.from_dlpack(p).__dlpack__(max_version=(1, 0))):
        p = Producer()
        p.m.deleter = ctypes.cast(callback, ctypes.c_void_p)
        with pytest.raises(TypeError, match="not subscriptable|indices must be|index must be"):
            [][make(p)]
    assert seen == [None] * 3


def test_exception_without_text() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise OSError("in __str__")

    class Raises:
        def __dlpack__(self, **keywords: Any) -> Any:
            raise Mute

    with pytest.raises(BufferError, match="Mute.*without text"):
        dlx.from_dlpack(Raises())


def test_producer_that_knows_no_way_to_the_host() -> None:
    """from_dlpack asks the producer for host memory first, and then moves the tensor itself."""
    p = Producer(device_type=13)  # managed memory: the host can read it
    asked: list[Any] = []

    class Refuses:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 3, 0

        def __dlpack__(self, *, dl_device: Any = None, **keywords: Any) -> Any:
            asked.append(dl_device)
            if dl_device is not None:
                raise BufferError("cannot copy to another device")
            return p.__dlpack__()

    p.m.tensor.device_type = 3
    t = dlx.from_dlpack(Refuses(), device="cpu")
    assert asked == [(1, 0), None] and t.device == "cpu" and t.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BufferError, match="cannot copy"):
        dlx.from_dlpack(Refuses(), device="cpu", copy=False)


def test_strides_along_which_nobody_steps() -> None:
    """They may be any number, and their bytes need not fit an int64."""
    huge = (1 << 63) - 1
    t = dlx.from_dlpack(Producer((1, 3), (huge, 1)))
    assert t.tolist() == [[0, 1, 2]] and np.asarray(t).tolist() == [[0, 1, 2]]
    assert memoryview(t)[0, 2] == 2 and t[::-huge].T.copy().tolist() == [[0], [1], [2]]
    t = dlx.from_dlpack(Producer((0, 1 << 40), (1, huge)))
    assert t[:, 1 << 39].shape == (0,) and np.asarray(t).shape == (0, 1 << 40)


def test_elements_without_numbers() -> None:
    for code, bits in ((4, 64), (3, 64), (2, 24), (200, 16)):
        t = dlx.from_dlpack(Producer(code=code, bits=bits))
        assert repr(t) == str(t) == f"tensor(shape=(2, 3), dtype={t.dtype}, device=cpu)"
        with pytest.raises(BufferError, match="no numbers"):
            t.tolist()
