"""Streams and events."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex, Union

from . import _C
from ._handle import Owner
from ._types import Device

_DEFAULT = {"cuda": 1}
"""What DLPack calls the default stream, of which the API has the handle 0."""


def _nanoseconds(seconds: float | None, name: str = "timeout") -> int:
    """Return a time as libdlx takes it, where 0 is None."""
    if seconds is None:
        return 0
    if not 0 < seconds < 2**33:
        raise ValueError(f"dlx: {name} is {seconds!r}: pass a positive number of seconds, or None")
    return max(int(seconds * 1e9), 1)


def _number(external: object, device: Device) -> int:
    """Return the number that DLPack has for a stream of another library."""
    protocol = getattr(external, "__cuda_stream__", None)
    if protocol is not None:
        handle = protocol()[1]
    elif hasattr(external, "cuda_stream"):  # that of PyTorch, also on ROCm
        handle = external.cuda_stream
    else:
        return operator.index(external)  # type: ignore[arg-type]
    return operator.index(handle) or _DEFAULT.get(device.type, 0)


class Event(Owner):
    """A point in the work of a stream, which is done when all work before it is. Stream.record makes it."""

    _closed = "the event was closed before"

    def __init__(self, handle: int) -> None:
        """Take a handle of libdlx."""
        self._handle = handle

    @property
    def done(self) -> bool:
        """Whether the work is done. It raises the error of the work if that failed."""
        return _C.event_done(self._open())

    def wait(self, timeout: float | None = None) -> None:
        """Block until the work is done, and raise its error. TimeoutError after timeout seconds."""
        _C.event_wait(self._open(), _nanoseconds(timeout))

    def close(self) -> None:
        """Close the event. The work goes on."""
        self._release(_C.event_close)


class Stream(Owner):
    """An ordered queue of work on a device.

    ``Tensor.to``, ``Tensor.copy`` and ``empty`` take it as their argument stream. With external it is a stream of another
    library, which stays open when this one is closed, and must not be closed before: an object with __cuda_stream__, a
    stream of PyTorch, or the number that DLPack has for the stream, such as 1 for the legacy default stream of CUDA. Only
    some devices can use streams of other libraries: RuntimeError.
    """

    _closed = "the stream was closed before"

    def __init__(self, device: object = "cpu", *, external: object = None) -> None:
        """Make a stream on a device."""
        self._device = Device(device)
        self._handle = _C.stream_open(self._device, None if external is None else _number(external, self._device))

    @property
    def device(self) -> Device:
        """The device."""
        return self._device

    @property
    def native(self) -> int:
        """The handle that the API has for the stream, such as a CUstream; 0 if there is none.

        It belongs to the stream: code that enqueues work on it must not do so after close.
        """
        return _C.stream_native(self._open())

    def __getattr__(self, name: str) -> Any:
        """Return __cuda_stream__, which libraries for CUDA call, of a stream of CUDA only."""
        if name == "__cuda_stream__" and self._device.type == "cuda":
            return lambda: (0, self.native)
        raise AttributeError(f"'dlx.Stream' object has no attribute {name!r}")

    def record(self) -> Event:
        """Return an event that is done when all work that was enqueued before is done."""
        return Event(_C.stream_record(self._open()))

    def wait(self, other: Union[Event, Stream, _C.Tensor]) -> None:
        """Make work that is enqueued later wait.

        It waits for an event, for the work that was enqueued on another stream before, or until a tensor may be
        read here. This does not block, except for a tensor whose work the stream cannot wait for. RuntimeError if the
        device cannot wait for the event: call its wait() then.
        """
        if isinstance(other, Stream):
            with other.record() as event:
                _C.stream_wait(self._open(), event._open())
        elif isinstance(other, Event):
            _C.stream_wait(self._open(), other._open())
        else:
            _C.stream_wait_tensor(self._open(), other)

    def synchronize(self, timeout: float | None = None) -> None:
        """Block until all work that was enqueued before is done.

        It raises the first error of the work since the last call, and TimeoutError after timeout seconds. The work then
        goes on.
        """
        _C.stream_synchronize(self._open(), _nanoseconds(timeout))

    def close(self) -> None:
        """Wait for the work, and close the stream. It raises the error of work that synchronize did not raise."""
        self._release(_C.stream_close)
