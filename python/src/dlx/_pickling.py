"""Pickles of tensors that pass their memory, for multiprocessing: dlx.share.pickling.

A pickle has the path of a socket and a ticket. The process that makes the pickle keeps a descriptor of the memory for the
ticket, and a thread of it gives the descriptor to the first process of the same user that shows the ticket. This needs
no libdlx, whose threads do not survive fork.
"""

from __future__ import annotations

import os
import secrets
import selectors
import shutil
import socket
import struct
import tempfile
import threading
import time
from multiprocessing import util
from types import TracebackType
from typing import Any

from . import _C, _number
from ._format import HOST

_TIMEOUT = 60.0
"""How many seconds a process waits for an answer, which a thread of the other process gives at once."""

_CLIENTS = 64
"""How many processes may be connected that have not shown a ticket yet."""


def _same_user(connection: socket.socket) -> bool:
    """Report whether the process at the other end has the user of this one."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid & 0xFFFFFFFF == os.geteuid())


class _Server:
    """The descriptors of one process, and the thread that gives them away."""

    def __init__(self) -> None:
        """Make a socket in a folder that only this user can enter, and start the thread."""
        self.pid = os.getpid()
        self.at_exit: util.Finalize | None = None
        self.folder = tempfile.mkdtemp(prefix="dlx-")  # of the mode 0700
        self.path = os.path.join(self.folder, "s")
        self._mu = threading.Lock()
        self._fds: dict[str, int] = {}
        self._empty = threading.Condition(self._mu)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wake, self._woken = socket.socketpair()
        try:
            self._socket.bind(self.path)
            self._socket.listen(128)
            self._socket.setblocking(False)
            self._thread = threading.Thread(target=self._serve, name="dlx.share.pickling", daemon=True)
            self._thread.start()
        except BaseException:
            self._drop()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def offer(self, fd: int, limit: int) -> str | None:
        """Keep a descriptor, which belongs to the server then, and return its ticket; None beyond the limit."""
        ticket = secrets.token_hex(16)
        with self._mu:
            if len(self._fds) >= limit:
                return None
            self._fds[ticket] = fd
        return ticket

    def waiting(self) -> int:
        """Count the descriptors that nobody has asked for."""
        with self._mu:
            return len(self._fds)

    def _serve(self) -> None:
        """Answer until close is called."""
        clients: dict[socket.socket, None] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken:
                        for left in clients:
                            left.close()
                        return
                    if key.fileobj is self._socket:
                        connected = self._accept()
                        if connected is None:
                            continue
                        if len(clients) >= _CLIENTS:
                            oldest = next(iter(clients))
                            selector.unregister(oldest)
                            del clients[oldest]
                            oldest.close()
                        clients[connected] = None
                        selector.register(connected, selectors.EVENT_READ, connected)
                        continue
                    client = key.data
                    if client in clients:  # and was not closed for another one
                        selector.unregister(client)
                        del clients[client]
                        with client:
                            self._answer(client)

    def _accept(self) -> socket.socket | None:
        """Return a process of the same user that has connected."""
        try:
            client, _ = self._socket.accept()
        except OSError:  # it has gone again, or there is no descriptor for it: it is served or refused later
            time.sleep(0.001)
            return None
        client.setblocking(False)
        if _same_user(client):
            return client
        client.close()
        return None

    def _answer(self, client: socket.socket) -> None:
        """Give the descriptor of a ticket away, or say that there is none."""
        try:
            ticket = client.recv(64).decode("ascii", "replace")
            with self._mu:
                fd = self._fds.pop(ticket, None)
                if not self._fds:
                    self._empty.notify_all()
            if fd is None:
                client.send(b"none")
                return
            try:
                socket.send_fds(client, [b"here"], [fd])
            finally:
                os.close(fd)
        except OSError:  # the process has ended: nobody else has its pickle
            return

    def linger(self, seconds: float) -> None:
        """Wait until all descriptors were given away, for at most some seconds."""
        end = time.monotonic() + seconds
        with self._mu:
            while self._fds and (left := end - time.monotonic()) > 0:
                self._empty.wait(left)

    def close(self) -> None:
        """End the thread, and close all descriptors. Only the process that has made the server calls it, once."""
        if self.at_exit is not None:
            self.at_exit.cancel()
        self._wake.send(b"x")
        self._thread.join()
        self._drop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _drop(self) -> None:
        """Close what is open. In a child of fork, that leaves the server of the parent alone."""
        for s in (self._socket, self._wake, self._woken):
            s.close()
        fds, self._fds = self._fds, {}
        for fd in fds.values():
            os.close(fd)


class _State:
    """What the process has for all contexts that are open."""

    def __init__(self) -> None:
        """Begin without a context."""
        self.mu = threading.RLock()
        self.limits: list[int] = []  # of the contexts that are open; the last one counts
        self.server: _Server | None = None

    def offer(self, fd: int) -> tuple[str, str] | None:
        """Keep a descriptor, which belongs to the server from the call on. Return a path and a ticket, or None."""
        try:
            with self.mu:
                if not self.limits:
                    return None
                if self.server is None:
                    self.server = _Server()
                    # Multiprocessing calls it at the end of each process, after what a Queue still holds was pickled.
                    self.server.at_exit = util.Finalize(None, self.finish, args=(self.server,), exitpriority=-10)
                ticket = self.server.offer(fd, self.limits[-1])
                if ticket is None:
                    return None
                fd = -1
                return self.server.path, ticket
        finally:
            if fd >= 0:
                os.close(fd)

    def finish(self, server: _Server) -> None:
        """Close the server at the end of the process, which may not have waited for those that read its pickles."""
        server.linger(_TIMEOUT / 6)
        with self.mu:
            if self.server is server:
                self.server = None
                server.close()

    def forked(self) -> None:
        """Begin anew in a child of fork: its pickles are its own. The contexts stay open."""
        self.mu = threading.RLock()
        server, self.server = self.server, None
        if server is not None:
            server._drop()


_state = _State()
os.register_at_fork(after_in_child=_state.forked)


class pickling:
    """While this context is open, pickles of tensors pass the memory and not the elements.

    They are for multiprocessing: its Queue, Pipe, Pool and Process pass tensors to processes of the same user on this machine,
    whichever the start method is. The context is open for all threads of this process, and for children of fork that are
    started in it. In other processes, pickles can be read without it; a process that is to pass memory itself, such as one
    of a Pool that returns tensors, calls ``dlx.share.pickling().open()``, in its initializer for example.

    Memory of ``dlx.share.empty``, and memory that came by such a pickle, is not copied: both processes then have the same
    bytes, and neither waits for the other one. Other memory is copied once, into memory that can be shared; that of a device
    comes back in host memory, as it does without the context.

    Each pickle can be read once. Its memory is kept until then, or until the context is closed or the process has ended,
    which waits some seconds for those that have not read yet. If more than limit pickles were not read, further ones have the
    elements again. What a pickle without its memory raises is a RuntimeError.
    """

    def __init__(self, limit: int = 256) -> None:
        """Set how many pickles that nobody has read may keep memory, each with an open descriptor."""
        if not 0 < limit <= 1 << 16:
            raise ValueError(f"dlx: limit is {limit}: 1 to 65536 pickles can keep their memory")
        self._limit = limit
        self._opened = 0

    def open(self) -> None:
        """Open the context, as a with statement does."""
        with _state.mu:
            _state.limits.append(self._limit)
            self._opened += 1

    def close(self) -> None:
        """Close the context, as the end of a with statement does. Closing a closed one is safe."""
        with _state.mu:
            if self._opened == 0:
                return
            self._opened -= 1
            _state.limits.reverse()  # the last one of this limit
            _state.limits.remove(self._limit)
            _state.limits.reverse()
            server = None if _state.limits else _state.server
            if server is not None:
                _state.server = None
                server.close()

    def __enter__(self) -> pickling:
        """Open the context."""
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the context."""
        self.close()


def reduce(tensor: _C.Tensor) -> tuple[Any, ...]:
    """Return what pickle needs: where the memory is, while a context is open, and otherwise the elements."""
    if not _state.limits or tensor.size == 0:
        return _number.reduce(tensor)
    host = tensor if tensor.device.type in HOST else tensor.to("cpu")
    found = _C.mapping_fd(host)
    if found is None:
        host = _C.mapping_copy(host)
        found = _C.mapping_fd(host)
    if found is None:
        return _number.reduce(host)
    fd, offset = found
    offered = _state.offer(fd)
    if offered is None:
        return _number.reduce(host)
    kind = host.dtype
    return _open, (*offered, offset, host.shape, host.strides, kind.code, kind.bits, kind.lanes, host.flags & 5)


def _open(
    path: str,
    ticket: str,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    code: int,
    bits: int,
    lanes: int,
    flags: int,
) -> _C.Tensor:
    """Make a tensor of a pickle, on the memory that the other process gives away."""
    gone = "dlx: the memory of a pickled tensor is gone"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(_TIMEOUT)
        try:
            connection.connect(path)
            if not _same_user(connection):
                raise PermissionError(f"{gone}: another user listens at {path}")
            connection.send(ticket.encode())
            answer, fds, _, _ = socket.recv_fds(connection, 16, 4)
        except (FileNotFoundError, ConnectionError) as error:
            raise RuntimeError(
                f"{gone}: the process that pickled it has ended or has closed its context (dlx.share.pickling)"
            ) from error
    try:
        if answer != b"here" or len(fds) != 1:
            raise RuntimeError(f"{gone}: the pickle was read before, and each can be read once")
        return _C.mapping_open(fds[0], offset, shape, strides, code, bits, lanes, flags)
    finally:
        for fd in fds:
            os.close(fd)
