"""Rings of slots, which dlx.share passes on: publishers and subscriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from . import _C
from ._handle import Owner
from ._stream import _nanoseconds

if TYPE_CHECKING:
    from .share import Connection

MODES = {"queue": 1, "latest": 2}


class Publisher(Owner):
    """The writer of a ring. A with statement closes it, which ends the ring. Connection.publish makes it."""

    _closed = "the publisher was closed before"

    def __init__(self, handle: int) -> None:
        """Take a handle of libdlx."""
        self._handle = handle

    def loan(self, *, timeout: float | None = None) -> _C.Tensor:
        """Return the tensor of a free slot, whose elements are anything. Fill it, and pass it to send.

        In the mode "queue" this waits until all subscribers have released a slot. A tensor that is not sent gives its slot
        back when it is gone. A slot is not loaned again while the program has arrays or views of it, also after send: in
        the mode "latest" MemoryError is raised if these are too many.
        """
        return _C.publisher_loan(self._handle or self._open(), timeout)

    def send(self, tensor: _C.Tensor, *, timeout: float | None = None) -> int:
        """Pass a tensor that loan has returned to all subscribers, and return the number of the frame, from 1 on.

        The program does not use the tensor, and arrays of it, any more. ValueError is raised if it is not on loan.
        """
        return _C.publisher_send(self._handle or self._open(), tensor, timeout)

    def offer(self, connection: Connection, *, timeout: float | None = None) -> None:
        """Let the other process of a further connection subscribe to the ring."""
        _C.publisher_offer(self._open(), connection._open(), _nanoseconds(timeout))

    def wait_readers(self, count: int = 1, *, timeout: float | None = None) -> None:
        """Wait until there are count subscribers. A frame that nobody has subscribed to is lost."""
        if count < 0:
            raise ValueError(f"dlx: there cannot be {count} subscribers")
        _C.publisher_wait(self._open(), count, _nanoseconds(timeout))

    def wait_released(self, timeout: float | None = None) -> None:
        """Wait until no subscriber needs a frame that was sent."""
        _C.publisher_wait(self._open(), -1, _nanoseconds(timeout))

    @property
    def readers(self) -> list[dict[str, Any]]:
        """The subscribers, and how each gets the frames: "peer", "to", "mechanism" and "bytes_copied" of each frame."""
        readers: list[dict[str, Any]] = json.loads(_C.publisher_json(self._open()))
        return readers

    def close(self) -> None:
        """End the ring. Subscribers of a queue still receive what was sent. Closing it twice is safe."""
        self._release(_C.publisher_close)


class Frame:
    """A tensor of a ring. A with statement releases it, and so does a loop over a subscription before the next frame."""

    __slots__ = ("__weakref__", "_tensor", "sequence")

    _tensor: _C.Tensor | None  # its memory owns the handle of libdlx, which so outlives arrays and views
    sequence: int
    """The number of the frame. The publisher's frames have the numbers from 1 on."""

    def __init__(self, sequence: int, tensor: _C.Tensor) -> None:
        """Take what libdlx has returned. Subscription.receive makes frames."""
        self.sequence = sequence
        self._tensor = tensor

    @property
    def tensor(self) -> _C.Tensor:
        """The tensor, which is read-only unless it was copied to another device."""
        tensor = self._tensor
        if tensor is None:
            raise ValueError("dlx: the frame was released before")
        return tensor

    def check(self) -> None:
        """Raise ConnectionResetError if the elements may not be those that were sent.

        A program that reads them in place calls it afterwards: if the connection has ended, the publisher may have written
        the slot again.
        """
        _C.frame_check(self.tensor)

    def close(self) -> None:
        """Release the frame: its slot is given back when all arrays and views of the tensor are gone, too."""
        self._tensor = None

    def __enter__(self) -> Frame:
        """Return the frame, which is released at the end of the with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the frame."""
        self._tensor = None

    def __reduce__(self) -> NoReturn:
        """Refuse: a slot belongs to this process."""
        raise TypeError(f"dlx: {type(self)} cannot be pickled or copied: it belongs to this process")


class Subscription(Owner):
    """A reader of a ring. A with statement closes it. Connection.subscribe makes it.

    Iterating over it receives until the publisher has ended the ring. Each frame is released before the next one is
    waited for; arrays of its tensor keep the slot until they are gone.
    """

    _closed = "the subscription was closed before"

    def __init__(self, handle: int, connection: Connection) -> None:
        """Take a handle of libdlx, and keep the connection."""
        self._handle = handle
        self._connection = connection

    def receive(self, *, timeout: float | None = None) -> Frame:
        """Wait for the next frame: in the mode "queue" the one after the last, and in the mode "latest" the newest.

        EOFError is raised when the publisher has ended the ring and all frames were received, and MemoryError if more
        frames would be held than hold of Connection.subscribe allows.
        """
        connection = self._connection
        found = _C.subscription_receive(self._handle or self._open(), connection._handle or connection._open(), timeout)
        if found is None:
            raise EOFError("dlx: the publisher has ended the ring")
        return Frame(*found)

    def __iter__(self) -> Iterator[Frame]:
        """Receive until the publisher has ended the ring."""
        while True:
            try:
                frame = self.receive()
            except EOFError:
                return
            with frame:
                yield frame

    def close(self) -> None:
        """End the subscription. Frames that were received stay valid. Closing it twice is safe."""
        self._release(_C.subscription_close)
