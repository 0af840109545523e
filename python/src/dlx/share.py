"""Tensors that are passed between the processes of one machine, on the same memory.

Two processes are connected by a Unix socket: one calls ``listen`` and ``Listener.accept``, the other one ``connect``. The
other process may also use dlx in Go or C. ``Connection.send`` passes a tensor, and ``Connection.receive`` of the other
process returns a tensor on the same memory. ``empty`` and ``copy`` make tensors on memory that can be shared;
other memory is copied once, by ``send``.
docs/share.md of the repository has the rules.

Reading the elements is always possible. What may write them waits until the other process has released the tensor: a
memoryview of it, and an array that another library makes of it. Ctrl-C ends the wait, and every call here that waits.

A call on a connection that has ended raises EOFError if the other process has closed it, ConnectionResetError if that
process ended without closing it, such as one that was killed, and ConnectionAbortedError if one of the processes broke a
rule of the format or exceeded a limit. TimeoutError is raised after timeout seconds.

``Connection.publish`` makes a ring of slots, whose frames ``Connection.subscribe`` of other processes reads in place.
``pickling`` makes pickles of tensors pass memory, for multiprocessing.
"""

from __future__ import annotations

import json
import operator
import os
import socket as _socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, SupportsIndex, Union, cast

from . import _C
from ._handle import Owner
from ._pickling import pickling
from ._ring import MODES, Frame, Publisher, Subscription
from ._stream import _nanoseconds
from ._types import Device, Shape, _extents
from ._types import dtype as _dtype

__all__ = [
    "Connection",
    "Frame",
    "Listener",
    "Peer",
    "Publisher",
    "Report",
    "Subscription",
    "adopt",
    "connect",
    "copy",
    "empty",
    "listen",
    "pickling",
]

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Report(Mapping[str, Any]):
    """How a tensor was passed: what dlx reports of a move, with the label of the tensor.

    It is a mapping of the fields that the report has in JSON, which are read when they are first used.
    """

    __slots__ = ("_source",)

    def __init__(self, source: object) -> None:
        """Take a dict, or what the extension returns. Connection.send and Connection.receive make reports."""
        self._source = source

    def _fields(self) -> dict[str, Any]:
        """Return the fields."""
        if not isinstance(self._source, dict):
            self._source = json.loads(_C.report_text(self._source))
        return cast("dict[str, Any]", self._source)

    def __getitem__(self, field: str) -> Any:
        """Return a field, or raise KeyError."""
        return self._fields()[field]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the fields."""
        return iter(self._fields())

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self._fields())

    def __repr__(self) -> str:
        """Return the report as a dict prints it."""
        return repr(self._fields())

    def __reduce__(self) -> tuple[type[Report], tuple[dict[str, Any]]]:
        """Return what copies and pickles are made of."""
        return type(self), (self._fields(),)

    @property
    def mechanism(self) -> str:
        """How the memory was passed: "alias" or "map" without a copy."""
        return str(self["mechanism"])

    @property
    def bytes_copied(self) -> int:
        """The number of bytes that were copied; a byte that was copied twice counts twice."""
        return int(self["bytes_copied"])

    @property
    def label(self) -> str:
        """The text that was sent with the tensor."""
        return str(self.get("label", ""))


class Peer(NamedTuple):
    """The process at the other end, as the system reported it when the connection was made."""

    pid: int
    """The number of the process; 0 if it is in another PID namespace."""
    uid: int
    gid: int
    devices: tuple[str, ...]
    """The devices on which it opens memory, by its own names; empty until it has said which."""


def _options(
    devices: Iterable[object],
    tensors: SupportsIndex,
    memories: SupportsIndex,
    size: SupportsIndex,
    read_only: bool,
    mode: int = 0,
    user: tuple[SupportsIndex, SupportsIndex, SupportsIndex] = (0, 0, 0),
) -> tuple[tuple[object, ...], int, int, int, bool, int, int, int, int]:
    """Return the options as the extension takes them. The host is always among the devices."""
    named = (devices,) if isinstance(devices, str) else devices
    opened = dict.fromkeys(["cpu", *map(Device, named)])
    limits = operator.index(size), operator.index(memories), operator.index(tensors)
    if not (0 <= limits[0] < 1 << 63 and 0 <= limits[1] <= 1 << 16 and 0 <= limits[2] <= 1 << 16):
        raise ValueError(f"dlx: limits are {tensors} tensors, {memories} memories of {size} bytes: at most 65536 and 2**63-1")
    if not 0 <= mode <= 0o777:
        raise ValueError(f"dlx: mode is {mode:#o}: it can have permissions only")
    connections, descriptors, together = map(operator.index, user)
    if not (0 <= connections < 1 << 31 and 0 <= descriptors < 1 << 31 and 0 <= together < 1 << 63):
        raise ValueError(
            f"dlx: limits for each user are {connections} connections, {descriptors} descriptors and {together} bytes: "
            "at most 2**31-1, 2**31-1 and 2**63-1"
        )
    return (tuple(opened), *limits, bool(read_only), mode, together, connections, descriptors)


class Connection(Owner):
    """A connection to another process, which a with statement closes. Threads may use it at the same time.

    Iterating over it receives until the other process has closed the connection: each item is a tensor and its report.
    """

    _closed = "the connection was closed before"

    def __init__(self, handle: int) -> None:
        """Take a handle of libdlx. connect, Listener.accept and adopt make connections."""
        self._handle = handle

    def send(self, x: object, label: str = "", *, timeout: float | None = None) -> Report:
        """Pass a tensor to the other process, and return how.

        x is a tensor, or anything that from_dlpack takes or that has the buffer protocol. The memory of ``empty`` and
        memory of a GPU that can be exported is shared; other memory is copied once. Until the other process has released
        the tensor, its memory stays allocated, and whatever may write it waits.

        label is a text for the programs, of at most 1024 bytes. send waits for the last write to the tensor, and while
        more is in flight than the other process permits.

        Errors: RuntimeError if the memory can be neither shared nor copied, MemoryError if it is more than the other
        process permits. Then nothing was sent, and the connection goes on.
        """
        limit = _nanoseconds(timeout)
        handle = self._open()
        if isinstance(x, _C.Tensor):
            return Report(_C.connection_send(handle, x, label, limit))
        if hasattr(x, "__dlpack__") or type(x).__name__ == "PyCapsule":
            return Report(_C.connection_send(handle, _C.from_dlpack(x), label, limit))
        t = _of_buffer(x)
        report = Report(_C.connection_send(handle, t, label, limit))
        if t.size > 0:
            copied = {"what": "copy the buffer into memory that can be shared", "bytes": t.nbytes}
            report = Report({**report, "mechanism": "direct", "bytes_copied": t.nbytes, "steps": [copied, *report["steps"]]})
        return report

    def receive(self, device: object = None, *, timeout: float | None = None) -> tuple[_C.Tensor, Report]:
        """Wait for the next tensor of the other process. Return it, and how it came.

        It lies on the device, or where its memory was opened. If the memory can be opened on the device, or mapped there,
        nothing is copied. The tensor is released when it is gone, with all arrays and views of its memory.

        After TimeoutError the tensor stays the next one, and after other errors it was released. RuntimeError if no
        device can open the memory.
        """
        tensor, report = _C.connection_receive(self._open(), device, _nanoseconds(timeout))
        return tensor, Report(report)

    def publish(
        self,
        name: str,
        *,
        shape: Shape,
        dtype: object = "float32",
        slots: SupportsIndex = 4,
        mode: str = "queue",
        device: object = None,
        timeout: float | None = None,
    ) -> Publisher:
        """Make a ring of slots, to which the other process can subscribe by name. The caller closes it.

        Each slot holds a tensor of the type and shape, on the device, or in host memory that only this process can
        write. mode is "queue", in which every subscriber gets every frame, and a slow one makes loan wait, or "latest", in
        which each gets the newest frame when it asks. A ring of the mode "latest" needs two slots, and one more for each frame
        that a subscriber holds.

        ValueError is raised for a ring that cannot be, or if this process has published the name on the connection, and
        RuntimeError if the other process cannot open the memory.
        """
        if mode not in MODES:
            raise ValueError(f"dlx: mode is {mode!r}: use 'queue' or 'latest'")
        kind, count = _dtype(dtype), operator.index(slots)
        if not 0 < count <= 256:
            raise ValueError(f"dlx: a ring has 1 to 256 slots, and not {count}")
        return Publisher(
            _C.ring_publish(
                self._open(),
                name,
                _extents(shape),
                kind.code,
                kind.bits,
                kind.lanes,
                device,
                count,
                MODES[mode],
                _nanoseconds(timeout),
            )
        )

    def subscribe(
        self, name: str, *, device: object = None, hold: SupportsIndex = 1, timeout: float | None = None
    ) -> Subscription:
        """Wait until the other process has published a ring of the name, and begin to receive its frames.

        Frames are used on the device, or where their memory was opened. hold is how many frames of a ring of the mode
        "latest" are held at once. RuntimeError is raised if no device can open the memory, and MemoryError if the publisher has
        no slots for another subscriber.
        """
        count = operator.index(hold)
        if not 0 < count <= 256:
            raise ValueError(f"dlx: 1 to 256 frames can be held, and not {count}")
        return Subscription(_C.ring_subscribe(self._open(), name, device, count, _nanoseconds(timeout)), self)

    def wait_released(self, timeout: float | None = None) -> None:
        """Wait until the other process has released all tensors that were sent."""
        _C.connection_wait_released(self._open(), _nanoseconds(timeout))

    def check(self) -> None:
        """Raise the error of a connection that has ended.

        The end of a connection releases all tensors. So a program that has read elements of a received tensor in place
        calls this function afterwards: if it returns, they are those that were sent.
        """
        _C.connection_check(self._open())

    @property
    def closed(self) -> bool:
        """Whether the connection has ended, or was closed here."""
        if self._handle is None:
            return True
        try:
            self.check()
        except (OSError, EOFError, ValueError):
            return True
        return False

    @property
    def peer(self) -> Peer:
        """The process at the other end."""
        peer = json.loads(_C.connection_json(self._open()))["peer"]
        return Peer(peer["pid"], peer["uid"], peer["gid"], tuple(d["id"] for d in peer["devices"] or ()))

    @property
    def stats(self) -> dict[str, int]:
        """What the connection has done: tensors, bytes and memories that were sent, received, copied and released."""
        stats: dict[str, int] = json.loads(_C.connection_json(self._open()))["stats"]
        return stats

    def __iter__(self) -> Iterator[tuple[_C.Tensor, Report]]:
        """Receive until the other process has closed the connection.

        A variable of a loop keeps its tensor until the next one comes. Delete it at the end of the loop's body if the other
        process waits for the release.
        """
        while True:
            try:
                item = self.receive()
            except EOFError:
                return
            yield item
            del item  # the caller decides how long the tensor is kept

    def close(self) -> None:
        """End the connection. Closing it twice is safe.

        Tensors that were sent are released, whether or not the other process still reads them: call wait_released before.
        Tensors that were received stay readable.
        """
        self._release(_C.connection_close)


class Listener(Owner):
    """A Unix socket at which other processes connect. A with statement closes it, which removes the socket."""

    _closed = "the listener was closed before"

    def __init__(self, handle: int, path: str) -> None:
        """Take a handle of libdlx. listen makes listeners."""
        self._handle = handle
        self.path = path
        """The path of the socket."""

    def accept(self, *, timeout: float | None = None) -> Connection:
        """Wait for a process that connects."""
        return Connection(_C.listener_accept(self._open(), _nanoseconds(timeout)))

    def close(self) -> None:
        """Remove the socket. Connections stay open. Closing it twice is safe."""
        self._release(_C.listener_close)


def listen(
    path: Path,
    *,
    devices: Iterable[object] = (),
    tensors: SupportsIndex = 0,
    memories: SupportsIndex = 0,
    size: SupportsIndex = 0,
    read_only: bool = False,
    mode: int = 0o600,
    user_connections: SupportsIndex = 0,
    user_descriptors: SupportsIndex = 0,
    user_size: SupportsIndex = 0,
) -> Listener:
    """Make a Unix socket at path. A socket that a dead process has left there is replaced.

    devices names the devices, in addition to the host, on which memory of the other process is opened. Name each GPU whose
    memory is to be received without a copy; it stays open until the process ends.

    What the other process may have passed at any time is limited: tensors that are not released, by default 64; memories,
    256; and their bytes together, size, 64 GiB. read_only makes tensors that are sent read-only for the other process.
    mode is the permissions of the socket: 0o600 is for the same user only.

    What all processes of one user have at this listener together is limited, too: user_connections, by default 256;
    user_descriptors, which are connections, memories, rings and semaphores, 8192; and user_size, the bytes of memories and
    rings, 1 TiB. A process that connects beyond that is refused, and one that passes more loses the connection.

    FileExistsError is raised if another process listens at path or something else is there, and OSError or ValueError if
    path cannot be used.
    """
    handle = _C.share_listen(path, _options(devices, tensors, memories, size, read_only, mode, (user_connections, user_descriptors, user_size)))
    return Listener(handle, os.path.abspath(os.fsdecode(path)))


def connect(
    path: Path,
    *,
    devices: Iterable[object] = (),
    tensors: SupportsIndex = 0,
    memories: SupportsIndex = 0,
    size: SupportsIndex = 0,
    read_only: bool = False,
    timeout: float | None = None,
) -> Connection:
    """Connect to the process that listens at path. The options are those of listen.

    FileNotFoundError or ConnectionRefusedError is raised if no process listens there, and PermissionError if this one may
    not connect.
    """
    options = _options(devices, tensors, memories, size, read_only)
    return Connection(_C.share_connect(path, options, _nanoseconds(timeout)))


def adopt(
    socket: _socket.socket | SupportsIndex,
    *,
    devices: Iterable[object] = (),
    tensors: SupportsIndex = 0,
    memories: SupportsIndex = 0,
    size: SupportsIndex = 0,
    read_only: bool = False,
) -> Connection:
    """Make a connection of one end of socket.socketpair(AF_UNIX, SOCK_SEQPACKET), whose other end another process has.

    socket is a socket or a descriptor, which the connection owns on success. The options are those of listen. ValueError
    is raised if it is no such socket.
    """
    options = _options(devices, tensors, memories, size, read_only)
    if not isinstance(socket, _socket.socket):
        return Connection(_C.share_adopt(operator.index(socket), options))
    own = os.dup(socket.fileno())
    try:
        connection = Connection(_C.share_adopt(own, options))
    except BaseException:
        os.close(own)
        raise
    socket.close()
    return connection


def empty(shape: Shape, dtype: object = "float32", device: object = "cpu") -> _C.Tensor:
    """Allocate a row-major tensor, whose elements are not initialized, on memory that other processes can open.

    RuntimeError is raised if the device has no such memory.
    """
    kind = _dtype(dtype)
    return _C.share_empty(_extents(shape), kind.code, kind.bits, kind.lanes, device)


def copy(x: object, device: object = None) -> _C.Tensor:
    """Copy a tensor, or anything that from_dlpack takes, into memory that other processes can open.

    device is the one of the copy, by default that of x. RuntimeError is raised if it has no such memory.
    """
    return _C.share_copy(x if isinstance(x, _C.Tensor) else _C.from_dlpack(x), device)


_FORMATS = {"c": "uint", "e": "float", "f": "float", "d": "float", "?": "bool"}


def _of_buffer(x: object) -> _C.Tensor:
    """Copy an object with the buffer protocol into memory that can be shared."""
    try:
        view = memoryview(x)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"dlx: {type(x)} is no tensor: an object with __dlpack__ or the buffer protocol is needed"
        ) from None
    with view:
        code = view.format.removeprefix("@").removeprefix("=").removeprefix("<")
        name = _FORMATS.get(code) or {True: "int", False: "uint"}.get(code.islower()) if len(code) == 1 else None
        if name is None or code not in "cefd?bBhHiIlLqQnN":
            raise ValueError(f"dlx: a buffer of the format {view.format!r} has no element type of dlx")
        t = empty(view.shape or (), name if name == "bool" else f"{name}{8 * view.itemsize}")
        if t.size > 0:
            with memoryview(t) as to, to.cast("B") as raw:
                raw[:] = view.cast("B") if view.c_contiguous else view.tobytes()
        return t
