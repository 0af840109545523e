"""Tensors that are passed between machines, by UCX.

One process calls ``listen`` and ``Listener.accept``, the other one ``connect``. The other process may also use dlx in Go or C.
``Connection.send`` passes a tensor, and ``Connection.receive`` of the other process returns it on a device of its own.
``Listener.offer`` lets other processes read a tensor, or overwrite it, without a call of the program for each time: it returns
a descriptor, bytes that travel by any means, for ``fetch`` and ``Connection.put``. ``Connection.list`` finds offers that have names.
docs/remote.md of the repository has the rules.

The control connection is TLS 1.3, with a token that both sides know, with certificates of both sides, or with both. UCX encrypts
nothing: everybody on the network between the machines can read and change the elements.

A call on a connection that has ended raises EOFError if the other process has closed it, ConnectionResetError if that process
ended without closing it, the link was cut, or there was no sign of life, or, for receive, if the other process has closed it before
all tensors that it sent had come. ConnectionAbortedError is raised if one of the processes broke a rule of the format, and
TimeoutError after timeout seconds. Ctrl-C ends every wait. RuntimeError says what is missing if UCX is not there.
"""

from __future__ import annotations

import json
import operator
import os
import time
from abc import abstractmethod
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, SupportsIndex, Union

from . import _C, share
from ._handle import Owner
from ._stream import _nanoseconds
from ._types import dtype as _dtype

__all__ = [
    "Connection",
    "Description",
    "Listener",
    "Offered",
    "Part",
    "Report",
    "checksum",
    "connect",
    "describe",
    "dial",
    "fetch",
    "gather",
    "listen",
    "version",
]

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Report(share.Report):
    """How a tensor was moved, with its label, and the transports that UCX has chosen."""

    @property
    def transports(self) -> tuple[str, ...]:
        """The names of the transports of UCX, such as "tcp" or "sysv"."""
        return tuple(self["transports"] or ())


class Description(NamedTuple):
    """What a descriptor says of an offered tensor. It is what its sender claims: fetch and put find out whether it is so."""

    dtype: _dtype
    shape: tuple[int, ...]
    writable: bool
    """Whether put may overwrite the elements."""
    address: str
    """The address of the listener; "" for an offer of a connection."""
    expires: datetime | None
    """When the lease ends, by the clock of the machine that offers; None if it does not."""
    nbytes: int
    """The bytes of the elements."""


class Offered(NamedTuple):
    """An offer that has a name, and what its descriptor says of it, as Description has it."""

    name: str
    descriptor: bytes
    """For fetch and put, which also take the Offered."""
    dtype: _dtype
    shape: tuple[int, ...]
    writable: bool
    address: str
    expires: datetime | None
    nbytes: int


class Part(NamedTuple):
    """An offer that has rows of a tensor that gather makes."""

    descriptor: bytes | Offered
    at: int = 0
    """The row of the result at which they begin."""
    rows: slice | None = None
    """The rows of the offered tensor to use, without a step; None is all."""
    connection: Connection | None = None
    """On which to ask, and which stays open; None is one to the listener that the descriptor names, for the call."""


_List = list[Offered]  # in Connection, list is a method
_named = lru_cache(maxsize=256)(_dtype)  # a list has few types, and many of each

_Bytes = Union[bytes, None]
_Options = tuple[_Bytes, _Bytes, _Bytes, _Bytes, _Bytes, int, int, int, int, int, bool]


def _options(
    token: bytes | None,
    cert: Path | None,
    key: Path | None,
    ca: Path | None,
    server_name: str | None,
    insecure: bool,
    keep_alive: float | None,
    spin: float,
    limits: tuple[SupportsIndex, SupportsIndex, SupportsIndex],
) -> _Options:
    """Return the options as the extension takes them; limits are those of bytes, tensors and requests."""
    if not (token is None or isinstance(token, (bytes, bytearray, memoryview))):  # bytes(32) would be 32 zeros
        raise TypeError(f"dlx: token is of {type(token)}: pass bytes, such as those of secrets.token_bytes(32)")
    size, tensors, requests = map(operator.index, limits)
    if not (0 <= size < 1 << 63 and 0 <= tensors <= 1 << 16 and 0 <= requests <= 1 << 10):
        raise ValueError(
            f"dlx: limits are {tensors} tensors, {requests} requests and {size} bytes: at most 65536, 1024 and 2**63-1"
        )
    if not 0 <= spin <= 3600:
        raise ValueError(f"dlx: spin is {spin!r}: 0 to 3600 seconds are possible")
    secret = None if token is None else bytes(token)
    certificate, private, authorities, name = (None if x is None else os.fsencode(x) for x in (cert, key, ca, server_name))
    times = _nanoseconds(keep_alive, "keep_alive"), int(spin * 1e9)
    return (secret, certificate, private, authorities, name, *times, size, tensors, requests, insecure)


def _tensor(x: object) -> tuple[_C.Tensor, int]:
    """Return a tensor on the memory of x, or on a copy of its buffer, and the bytes that were copied."""
    if isinstance(x, _C.Tensor):
        return x, 0
    if hasattr(x, "__dlpack__") or type(x).__name__ == "PyCapsule":
        return _C.from_dlpack(x), 0
    t = share._of_buffer(x)
    return t, t.nbytes


def _descriptor(x: object) -> bytes:
    """Return a descriptor, or that of an Offered, as bytes."""
    if isinstance(x, Offered):
        x = x.descriptor
    if not isinstance(x, (bytes, bytearray, memoryview)):
        raise TypeError(f"dlx: {type(x)} is no descriptor: pass the bytes that offer has returned, or an Offered")
    return bytes(x)


def _text(what: str, x: object) -> bytes | None:
    """Return a text as the extension takes it; None is none."""
    if x is None:
        return None
    if not isinstance(x, str):
        raise TypeError(f"dlx: {what} is of {type(x)}: pass a str")
    return x.encode()


def _range(descriptor: bytes, rows: slice | None) -> tuple[int, int]:
    """Return the first row of an offered tensor and the one after the last; -1 as the latter means all."""
    if rows is None:
        return 0, -1
    if not isinstance(rows, slice):
        raise TypeError(f"dlx: rows is {rows!r}: pass a slice, such as slice(1, 3)")
    shape = describe(descriptor).shape
    if not shape:
        raise ValueError("dlx: the offered tensor has no axes, and so no rows")
    start, stop, step = rows.indices(shape[0])
    if step != 1:
        raise ValueError(f"dlx: rows has the step {step}: only 1 is possible")
    return start, max(start, stop)


def _report(text: str, copied: int = 0) -> Report:
    """Return a report, with bytes that were copied before."""
    fields = json.loads(text)
    fields["bytes_copied"] += copied
    return Report(fields)


class _Offering(Owner):
    """What offers are made on. It has their handles, and closes them at its end."""

    _of_connection: bool

    def __init__(self, handle: int) -> None:
        """Take a handle of libdlx."""
        self._handle = handle
        self._offers: dict[bytes, int] = {}
        self._sweep = 64  # offers, with which those are looked for whose lease is over

    def offer(
        self,
        x: object,
        *,
        name: str | None = None,
        lease: float | None = None,
        writable: bool = False,
        address: str | None = None,
    ) -> bytes:
        """Permit other processes to read a tensor, or with writable to overwrite it, and return the descriptor.

        Whoever has the descriptor, and may connect, can do so: for an offer of a listener all processes that connect to it,
        and for an offer of a connection the one at its other end. The offer ends after lease seconds, with withdraw, and with the
        listener or connection. It keeps the memory, and waits for the last write to x.

        x is a tensor, or anything that from_dlpack takes; with writable its memory is overwritten, and it must be contiguous. A
        buffer, such as bytes, is copied, and cannot be writable. address is where fetch finds a listener that listens at all addresses
        of the machine, such as "10.0.0.7:7470"; by default it is that of the listener.

        name is a text of at most 1024 bytes, by which Connection.list of other processes finds the offer: all that may connect can
        then read it. None, or "", is no name.

        BufferError is raised if x is read-only and writable is true, and ValueError if another offer has the name.
        """
        t, copied = _tensor(x)
        if writable and copied:
            raise BufferError(f"dlx: a copy of {type(x)} would be overwritten: pass a tensor, or what has __dlpack__")
        self._forget()
        where, named, ends = _text("address", address), _text("name", name) or None, _nanoseconds(lease, "lease")
        offer, descriptor = _C.remote_offer(self._open(), self._of_connection, t, ends, writable, where, named)
        self._keep(descriptor, offer)
        return descriptor

    def _keep(self, descriptor: bytes, offer: int) -> None:
        """Keep the handle of an offer until its end."""
        self._offers[descriptor] = offer
        if self._handle is None:  # another thread has closed the owner, maybe before it could close this handle
            self.withdraw(descriptor)

    def _forget(self) -> None:
        """Close the handles of offers that have ended, if there are many."""
        if len(self._offers) >= self._sweep:
            for d, offer in list(self._offers.items()):
                with suppress(ValueError):  # another thread has withdrawn it meanwhile, which closes the handle
                    if _C.remote_offer_ended(offer):
                        self.withdraw(d)
            self._sweep = 64 + 2 * len(self._offers)

    def withdraw(self, descriptor: bytes | Offered) -> None:
        """End an offer, given by its descriptor. Requests that have begun go on. An offer that has ended is no error."""
        offer = self._offers.pop(_descriptor(descriptor), None)
        if offer is not None:
            _C.remote_offer_close(offer)

    @abstractmethod
    def _close_handle(self, handle: int) -> None:
        """Close the handle."""

    def close(self) -> None:
        """Close it, and end its offers. Closing it twice is safe."""
        self._release(self._close_handle)
        for descriptor in list(self._offers):
            self.withdraw(descriptor)


class Connection(_Offering):
    """A connection to another process, which a with statement closes. Threads may use it at the same time.

    Iterating over it receives to the host until the other process has closed the connection: each item is a tensor and its report.
    ConnectionResetError is raised if that process closes it before all tensors that it sent have come.
    """

    _closed = "the connection was closed before"
    _of_connection = True

    def send(self, x: object, label: str = "", *, timeout: float | None = None) -> Report:
        """Send the elements of a tensor to the other process, and return how.

        x is a tensor, or anything that from_dlpack takes, or that has the buffer protocol, which is copied first. label is a text
        for the programs, of at most 1024 bytes.

        send waits for the last write to the tensor, and while the other process has as many tensors to receive as it permits. It
        returns when the elements may be overwritten: at once for at most 8 KiB, and otherwise when the other process has received
        them, or has dropped them, such as for want of memory. So two processes that send larger tensors to each other must receive at
        the same time. After TimeoutError and Ctrl-C the other process may get the tensor or not, and UCX may still read the memory,
        which stays allocated that long.

        MemoryError is raised if the tensor is larger than the other process permits.
        """
        t, copied = _tensor(x)
        return _report(_C.remote_send(self._open(), t, label, _nanoseconds(timeout)), copied)

    def receive(self, device: object = "cpu", *, timeout: float | None = None) -> tuple[_C.Tensor, Report]:
        """Wait for the next tensor of the other process. Return it, in new memory of the device, and how it came.

        If TimeoutError is raised, or Ctrl-C comes, before the tensor has begun to arrive, it stays the next one; after other errors
        it is lost. After the other process has closed the connection, receive returns what has arrived, and then raises EOFError, or
        ConnectionResetError if tensors that were sent have not come.
        """
        tensor, report = _C.remote_receive(self._open(), device, _nanoseconds(timeout))
        return tensor, _report(report)

    def list(self, *, timeout: float | None = None) -> _List:
        """Return the offers of the other process that have names, in the order in which they were made.

        They are those of the connection, and those of the listener that has accepted it. One that is made or ends meanwhile may be
        missing. What is not UTF-8 in a name of a program in Go or C is replaced. RuntimeError is raised if the other process has a
        version of dlx without lists.
        """
        texts = _C.remote_list(self._open(), _nanoseconds(timeout))
        texts.reverse()
        result = []
        while texts:
            result += [Offered(d["name"], a2b_base64(d["descriptor"]), *_description(d)) for d in json.loads(texts.pop())]
        return result

    def fetch(
        self, descriptor: bytes | Offered, device: object = "cpu", *, rows: slice | None = None, timeout: float | None = None
    ) -> tuple[_C.Tensor, Report]:
        """Read a tensor that the other process has offered, or some rows of its first axis, and only these are sent.

        It is in new memory of the device. rows is a slice without a step. ValueError is raised if the offer has ended or the other
        process does not know it, and MemoryError if it is larger than this process permits.
        """
        d = _descriptor(descriptor)
        start, stop = _range(d, rows)
        tensor, report = _C.remote_fetch(self._open(), d, start, stop, device, _nanoseconds(timeout))
        return tensor, _report(report)

    def checksum(self, descriptor: bytes | Offered, *, rows: slice | None = None, timeout: float | None = None) -> bytes:
        """Return the SHA-256 of a tensor that the other process has offered, or of some rows, as that process computes it.

        It comes encrypted and authenticated, which elements do not. If it is that of the tensor that fetch has returned, by the
        function checksum, the elements were not changed on the way. Errors are those of fetch, and RuntimeError if the other process
        has a version of dlx without checksums.
        """
        d = _descriptor(descriptor)
        start, stop = _range(d, rows)
        return _C.remote_connection_checksum(self._open(), d, start, stop, _nanoseconds(timeout))

    def put(
        self, descriptor: bytes | Offered, x: object, *, start: SupportsIndex | None = None, timeout: float | None = None
    ) -> Report:
        """Overwrite a tensor that the other process has offered as writable, and return how, when the elements are there.

        x is what send takes, of the same element type and shape. With start it overwrites as many rows of the first axis as x has,
        from that one on. If put fails half-way, some elements are overwritten.

        BufferError is raised if the offer is not writable, and ValueError as for fetch, or for another type or shape.
        """
        first = -1 if start is None else operator.index(start)
        if start is not None and not 0 <= first < 1 << 63:
            raise ValueError(f"dlx: start is {first}: it is the number of a row, from 0 on")
        d = _descriptor(descriptor)
        t, copied = _tensor(x)
        return _report(_C.remote_put(self._open(), d, first, t, _nanoseconds(timeout)), copied)

    def wait_received(self, timeout: float | None = None) -> None:
        """Wait until the other process has received all tensors that were sent. close may lose what is on its way."""
        _C.remote_wait_received(self._open(), _nanoseconds(timeout))

    def check(self) -> None:
        """Raise the error of a connection that has ended."""
        _C.remote_check(self._open())

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
    def peer(self) -> str:
        """The address of the other process."""
        return str(self._json()["peer"])

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports that UCX has chosen, such as "tcp". It chooses when the first message is on its way."""
        return tuple(self._json()["transports"])

    @property
    def stats(self) -> dict[str, int]:
        """What the connection has done: tensors and bytes that were sent, received and copied, and requests."""
        stats: dict[str, int] = self._json()["stats"]
        return stats

    def _json(self) -> dict[str, Any]:
        """Return what libdlx says of the connection."""
        text: dict[str, Any] = json.loads(_C.remote_json(self._open()))
        return text

    def __iter__(self) -> Iterator[tuple[_C.Tensor, Report]]:
        """Receive to the host until the other process has closed the connection."""
        while True:
            try:
                item = self.receive()
            except EOFError:
                return
            yield item
            del item  # the caller decides how long the tensor is kept

    def _close_handle(self, handle: int) -> None:
        """Close the connection, and its end in the other process: tensors that were received stay."""
        _C.remote_close(handle)


class Listener(_Offering):
    """An address at which other processes connect. A with statement closes it. Connections stay open."""

    _closed = "the listener was closed before"
    _of_connection = False

    @property
    def address(self) -> str:
        """The address, with the port that the system has chosen."""
        return _C.remote_address(self._open())

    def accept(self, *, timeout: float | None = None) -> Connection:
        """Wait for a process that has proved who it is. One that does not prove it is no error."""
        return Connection(_C.remote_accept(self._open(), _nanoseconds(timeout)))

    def serve(self, *, timeout: float | None = None) -> None:
        """Accept processes for a program that only offers tensors, until the listener is closed.

        Each connection is closed when the other process has ended it. The program may call offer and withdraw meanwhile, from other
        threads. TimeoutError is raised after timeout seconds. When serve ends, also by Ctrl-C, it closes the connections.
        """
        _C.remote_serve(self._open(), _nanoseconds(timeout))

    def relay(
        self,
        descriptor: bytes | Offered,
        peers: Iterable[str],
        index: SupportsIndex,
        device: object = "cpu",
        *,
        width: SupportsIndex = 0,
        timeout: float | None = None,
    ) -> tuple[_C.Tensor, bytes, Report]:
        """Get a tensor that many processes need, and pass its rows on while they arrive.

        All these processes call relay with the same arguments but index and device: the descriptor of an offer of a listener, and the
        addresses of their own listeners in one order. This process is number index of them, and accepts connections meanwhile, by
        serve in another thread. width is to how many processes each one sends: 1 makes a chain, 2 a tree, and 0 is the faster one of
        these.

        Return the tensor, the descriptor of the offer by which others read it, and the report, as gather does, when the tensor is
        complete. Call withdraw with the descriptor when no process needs it any more. Do not write the tensor before that. If the
        process above this one fails, or does not offer the tensor within keep_alive seconds, the next one above takes its place, and
        at last the source. Errors are those of gather; ValueError is also raised if the listener offers the tensor already.
        """
        number, most = operator.index(index), operator.index(width)
        if not (0 <= number < 1 << 31 and 0 <= most < 1 << 31):
            raise ValueError(f"dlx: index is {number} and width {most}: 0 to {(1 << 31) - 1} are possible")
        d, addresses = _descriptor(descriptor), tuple(peers)
        if isinstance(peers, str) or not all(isinstance(x, str) for x in addresses):
            raise TypeError(f"dlx: peers is {peers!r}: pass a list of addresses, each a str")
        self._forget()
        (tensor, report), (offer, own) = _C.remote_relay(
            self._open(), d, addresses, number, most, device, _nanoseconds(timeout)
        )
        self._keep(own, offer)
        return tensor, own, _report(report)

    def _close_handle(self, handle: int) -> None:
        """Close the listener."""
        _C.remote_listener_close(handle)


def listen(
    address: str,
    *,
    token: bytes | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
    insecure: bool = False,
    tensors: SupportsIndex = 0,
    size: SupportsIndex = 0,
    requests: SupportsIndex = 0,
    keep_alive: float | None = None,
    spin: float = 0,
) -> Listener:
    """Listen at a TCP address, such as "10.0.0.7:7470", or "127.0.0.1:0" for a port that the system chooses.

    token is a secret of 16 to 1024 random bytes that both sides know; each proves it to the other one. cert, key and ca are files
    in the format PEM: the certificate of this process, its private key, and the authorities that certificates of other processes
    come from. insecure does without both, on the loopback interface only.

    Limits: tensors that the other process has sent and that were not received, by default 64; the bytes of one tensor, size, 64
    GiB; and requests of fetch and put that are served, or made on a connection, at the same time, 16. keep_alive is how many seconds the other process may show
    no sign of life, by default 10. spin is how many seconds a call looks for messages before it lets the system wake it, which takes
    a processor and saves microseconds.

    ValueError is raised for wrong options, and OSError if the address cannot be used or a file cannot be read.
    """
    limits = size, tensors, requests
    return Listener(_C.remote_listen(address, _options(token, cert, key, ca, None, insecure, keep_alive, spin, limits)))


def connect(
    address: str,
    *,
    token: bytes | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
    server_name: str | None = None,
    insecure: bool = False,
    tensors: SupportsIndex = 0,
    size: SupportsIndex = 0,
    requests: SupportsIndex = 0,
    keep_alive: float | None = None,
    spin: float = 0,
    timeout: float | None = None,
) -> Connection:
    """Connect to the process that listens at an address. The options are those of listen.

    server_name is the name in the certificate of the listener, by default the host of the address. ConnectionRefusedError is raised
    if no process listens there, or one of the processes does not accept the other one, such as for another token, and ValueError for
    wrong options, and for a text that is no address.
    """
    options = _options(token, cert, key, ca, server_name, insecure, keep_alive, spin, (size, tensors, requests))
    return Connection(_C.remote_connect(address, options, _nanoseconds(timeout)))


dial = connect  # its name in Go


def fetch(
    descriptor: bytes | Offered,
    device: object = "cpu",
    *,
    rows: slice | None = None,
    token: bytes | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
    server_name: str | None = None,
    insecure: bool = False,
    size: SupportsIndex = 0,
    requests: SupportsIndex = 0,
    keep_alive: float | None = None,
    spin: float = 0,
    timeout: float | None = None,
) -> tuple[_C.Tensor, Report]:
    """Connect to the listener that a descriptor names, read the tensor or some rows of it, and close the connection.

    It raises what connect and Connection.fetch raise. Programs that fetch more keep a connection.
    """
    limit, began = _nanoseconds(timeout), time.monotonic()
    address = describe(descriptor).address
    if not address:
        raise ValueError("dlx: the descriptor has no address: it is of an offer of a connection, so use that connection")
    options = _options(token, cert, key, ca, server_name, insecure, keep_alive, spin, (size, 0, requests))
    with Connection(_C.remote_connect(address, options, limit)) as connection:
        left = None if timeout is None else max(timeout - (time.monotonic() - began), 1e-9)
        return connection.fetch(descriptor, device, rows=rows, timeout=left)


def gather(
    parts: Iterable[bytes | Offered | Part],
    device: object = "cpu",
    *,
    token: bytes | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
    server_name: str | None = None,
    insecure: bool = False,
    size: SupportsIndex = 0,
    requests: SupportsIndex = 0,
    keep_alive: float | None = None,
    spin: float = 0,
    timeout: float | None = None,
) -> tuple[_C.Tensor, Report]:
    """Make a tensor of rows that several processes offer, in new memory of the device.

    parts are descriptors or Offered, for copies of the tensor, or Part. The rows of the result are those of the parts, from row
    0 on, without a gap. Rows that several parts have come from all of them at the same time. If a process fails, or does not
    answer for keep_alive seconds, its rows come from the others that have them. The options are those of connect, for parts
    without a connection. size bounds the result only if there is such a part, and a connection of a part bounds it by its own
    size. In the report, "sources" has for each part the address, the bytes that came from there, and why it was not used to the
    end, if it was not.

    ValueError is raised if the parts do not fit together or leave a gap, or if no process is left that has some rows because
    offers have ended. If a connection to one of these has ended or was refused, it is ConnectionResetError,
    ConnectionRefusedError, or the OSError of the system. MemoryError is raised if the result is larger than size, or than a
    connection of a part permits.
    """
    if isinstance(parts, (Part, Offered, str, bytes, bytearray, memoryview)):
        raise TypeError(f"dlx: parts is of {type(parts)}: pass a list of parts")
    sources = []
    for part in parts:
        p = part if isinstance(part, Part) else Part(_descriptor(part))
        d, at = _descriptor(p.descriptor), operator.index(p.at)
        start, stop = _range(d, p.rows)
        if start == stop and describe(d).shape[0] > 0:  # for libdlx, rows 0 to 0 are all
            raise ValueError(f"dlx: a part has no rows: its rows are {p.rows}")
        if not 0 <= at < 1 << 63:
            raise ValueError(f"dlx: a part begins at row {at}: 0 to 2**63-1 are possible")
        if not (p.connection is None or isinstance(p.connection, Connection)):
            raise TypeError(f"dlx: the connection of a part is of {type(p.connection)}: pass a Connection")
        sources.append((d, 0 if p.connection is None else p.connection._open(), start, stop, at))
    options = _options(token, cert, key, ca, server_name, insecure, keep_alive, spin, (size, 0, requests))
    tensor, report = _C.remote_gather(tuple(sources), device, options, _nanoseconds(timeout))
    return tensor, _report(report)


def describe(descriptor: bytes | Offered) -> Description:
    """Read a descriptor. ValueError is raised for bytes that are no descriptor, or of another version."""
    return Description(*_description(json.loads(_C.remote_describe(_descriptor(descriptor)))))


def _description(d: dict[str, Any]) -> tuple[_dtype, tuple[int, ...], bool, str, datetime | None, int]:
    """Return the fields of a Description from JSON of libdlx."""
    expires = None
    if "expires" in d:  # Python 3.10 knows neither Z nor other than three or six digits
        text = d["expires"].replace("Z", "+00:00")
        whole, dot, rest = text.partition(".")
        expires = datetime.fromisoformat(f"{whole}.{rest[:-6]:0<6}{rest[-6:]}" if dot else text)
    return _named(d["dtype"]), tuple(d["shape"]), d.get("writable", False), d.get("address", ""), expires, d["bytes"]


def checksum(x: object, *, timeout: float | None = None) -> bytes:
    """Return the SHA-256 of the elements of a tensor, in row-major order, which Connection.checksum returns for an offered one.

    x is what Connection.send takes. checksum waits for the last write to it.
    """
    return _C.remote_checksum(_tensor(x)[0], _nanoseconds(timeout))


def version() -> str:
    """Return the version of UCX. RuntimeError says what is missing if it cannot be used."""
    return _C.remote_version()
