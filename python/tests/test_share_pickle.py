"""Pickles that pass memory between processes: dlx.share.pickling. test_pickle.py has those that pass elements."""

from __future__ import annotations

import copy
import fcntl
import gc
import multiprocessing
import os
import pathlib
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from producer import Producer

import dlx
from dlx import _C, _pickling, share

METHODS = ["fork", "spawn", "forkserver"]
LIMIT = 60


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert _pickling._state.server is None and not _pickling._state.limits
    assert all(thread.name != "dlx.share.pickling" for thread in threading.enumerate())


def add_one(x: dlx.Tensor) -> tuple[int, str]:
    a = np.from_dlpack(x)
    a += 1
    return int(a.sum()), str(x.device)


def doubled(x: dlx.Tensor) -> dlx.Tensor:
    return dlx.from_dlpack(np.from_dlpack(x) * 2)


def is_mapped(x: dlx.Tensor) -> bool:
    found = _C.mapping_fd(x)
    if found is not None:
        os.close(found[0])
    return found is not None


def serve(jobs: Any, results: Any) -> None:
    while (x := jobs.get()) is not None:
        results.put((add_one(x), is_mapped(x)))


def produce(results: Any) -> None:
    share.pickling().open()  # a spawned process has no context of its own
    results.put(dlx.from_dlpack(np.arange(5)))  # and ends before it was read


@pytest.mark.parametrize("method", METHODS)
def test_a_queue(method: str) -> None:
    context = multiprocessing.get_context(method)
    jobs, results = context.Queue(), context.Queue()
    process = context.Process(target=serve, args=(jobs, results))
    with share.pickling():
        process.start()
        t = share.empty((10, 10), "int32")
        a = np.from_dlpack(t)
        a[:] = 1
        jobs.put(t)
        assert results.get(timeout=LIMIT) == ((200, "cpu"), True) and a.sum() == 200  # the same bytes
        jobs.put(t[2:4, ::3])
        assert results.get(timeout=LIMIT) == ((24, "cpu"), True) and a.sum() == 208
        b = np.ones(5, np.int32)
        jobs.put(dlx.from_dlpack(b))  # cannot be shared
        assert results.get(timeout=LIMIT) == ((10, "cpu"), True) and b.sum() == 5
        jobs.put(None)
        process.join(LIMIT)
        assert process.exitcode == 0
    for q in (jobs, results):
        q.close()
        q.join_thread()


@pytest.mark.parametrize("method", METHODS)
def test_a_pool(method: str) -> None:
    context = multiprocessing.get_context(method)
    with share.pickling(), context.Pool(2, initializer=share.pickling().open) as pool:
        t = share.empty(4, "int32")
        np.from_dlpack(t)[:] = 3
        results = pool.map(doubled, [t, t[1:], dlx.from_dlpack(np.array([7], np.int32))])
        assert [x.tolist() for x in results] == [[6, 6, 6, 6], [6, 6, 6], [14]]
        assert all(map(is_mapped, results))
        pool.close()
        pool.join()


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_ends_before_its_pickle_is_read(method: str) -> None:
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=produce, args=(Sender(sender),))
    process.start()
    with receiver, sender:
        assert receiver.poll(LIMIT)
        assert receiver.recv().tolist() == [0, 1, 2, 3, 4]
        process.join(LIMIT)
        assert process.exitcode == 0


class Sender:
    """A connection with the method of a queue."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def put(self, x: object) -> None:
        self.connection.send(x)


@pytest.mark.parametrize("method", METHODS)
def test_an_argument_of_a_process(method: str) -> None:
    context = multiprocessing.get_context(method)
    results = context.SimpleQueue()
    t = share.empty(4, "int32")
    a = np.from_dlpack(t)
    a[:] = 3
    with share.pickling():
        process = context.Process(target=put_sum, args=(results, t))
        process.start()
        process.join(LIMIT)
    assert process.exitcode == 0 and results.get() == 16 and a.tolist() == [4, 4, 4, 4]
    results.close()


def put_sum(results: Any, t: dlx.Tensor) -> None:
    results.put(add_one(t)[0])


def test_in_one_process() -> None:
    for dtype in "bool int8 uint16 int64 float16 float32 complex128".split():
        a = np.arange(24).astype(dtype).reshape(2, 3, 4)
        for view in (a, a.T, a[:, ::-2], a[:0], np.array(a[1, 2, 3]), a[:, None, 1]):
            t = dlx.from_dlpack(view)
            with share.pickling():
                for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                    data = pickle.dumps(t, protocol)
                    u = pickle.loads(data)
                    assert (u.shape, u.dtype, u.device, u.readonly) == (t.shape, t.dtype, "cpu", False)
                    assert u.tolist() == t.tolist() and is_mapped(u) == (t.size > 0)
                again = pickle.loads(pickle.dumps(u))
                if t.size > 0 and t.dtype != "bool":
                    memory = np.from_dlpack(u)
                    memory[...] = 1
                    assert again.tolist() == u.tolist()  # the same bytes
    # Outside, pickles have the elements.
    assert pickle.dumps(t) == pickle.dumps(copy.copy(t))


def test_types_and_flags() -> None:
    with share.pickling():
        for code, bits, lanes, flags in [(4, 16, 1, 0), (17, 4, 1, 0), (17, 4, 1, 4), (0, 4, 2, 0), (15, 6, 1, 0), (200, 24, 3, 0)]:
            t = dlx.from_dlpack(Producer(shape=(2, 3), strides=(3, 1), code=code, bits=bits, lanes=lanes, flags=flags))
            u = pickle.loads(pickle.dumps(t))
            assert (u.shape, u.dtype, u.flags & 4) == (t.shape, t.dtype, t.flags & 4) and bytes(u) == bytes(t) and is_mapped(u)
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with share.adopt(one) as c, share.adopt(two, read_only=True) as d:
            d.send(share.empty(3))
            t, _ = c.receive()
            u = pickle.loads(pickle.dumps(t))  # memory of another process is copied
            assert not u.readonly and is_mapped(u) and t.readonly


def test_devices() -> None:
    a = np.arange(6.0).reshape(2, 3)
    for device in dlx.devices():
        if device.type == "gl":  # DLPack has no such device
            continue
        t = dlx.from_dlpack(a).to(device)
        with share.pickling():
            u = pickle.loads(pickle.dumps(t[:, 1:]))
        assert u.device == "cpu" and u.tolist() == a[:, 1:].tolist() and is_mapped(u)


def test_each_pickle_is_read_once() -> None:
    t = share.empty(3)
    with share.pickling():
        data, unread = pickle.dumps(t), pickle.dumps(t)
        assert pickle.loads(data).shape == (3,)
        with pytest.raises(RuntimeError, match="read before"):
            pickle.loads(data)
    for pickled in (data, unread):
        with pytest.raises(RuntimeError, match="closed its context"):
            pickle.loads(pickled)
    with share.pickling(), pytest.raises(RuntimeError, match="closed its context"):  # it is another one
        pickle.loads(unread)


def test_contexts() -> None:
    t = share.empty(3)
    outer, inner = share.pickling(limit=2), share.pickling(limit=1)
    with outer:
        kept = [pickle.dumps(t)]
        with inner:
            assert b"_open" not in pickle.dumps(t)  # beyond the limit of the inner one
        kept.append(pickle.dumps(t))
        assert _pickling._state.server is not None and _pickling._state.server.waiting() == 2
        assert b"_open" not in pickle.dumps(t) and b"from_bytes" in pickle.dumps(t)
        assert [pickle.loads(data).shape for data in kept] == [(3,), (3,)]
        assert b"_open" in pickle.dumps(t)
        folder = pathlib.Path(_pickling._state.server.folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        inner.close()  # it is closed
    outer.close()
    assert not folder.exists() and b"_open" not in pickle.dumps(t)
    for wrong in (0, -1, 1 << 17):
        with pytest.raises(ValueError, match="limit"):
            share.pickling(wrong)


def test_what_was_not_read_is_closed() -> None:
    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    t = dlx.from_dlpack(np.zeros(3))
    with share.pickling():
        pickle.dumps(t)
    before = descriptors()
    for _ in range(5):
        with share.pickling(limit=20):
            for _ in range(30):
                pickle.dumps(t)
    assert descriptors() <= before


def test_a_reader_that_is_killed() -> None:
    """It has the memory, or it has a part of the answer: others go on."""
    t = share.empty(3, "int32")
    np.from_dlpack(t)[:] = 1
    with share.pickling():
        pickle.dumps(t)
        assert _pickling._state.server is not None
        path = _pickling._state.server.path
        silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(_pickling._CLIENTS + 5)]
        for s in silent:
            s.connect(path)
        gone = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gone.connect(path)
        gone.send(b"x" * 1000)
        gone.close()
        assert pickle.loads(pickle.dumps(t)).tolist() == [1, 1, 1]
        for s in silent:
            s.close()
        program = "import os, pickle, signal, sys; t = pickle.load(sys.stdin.buffer); os.kill(os.getpid(), signal.SIGKILL)"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        result = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(t), env=environment)
        assert result.returncode == -signal.SIGKILL
        assert pickle.loads(pickle.dumps(t)).tolist() == [1, 1, 1]


def test_another_user() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    t = share.empty(3)
    with share.pickling():
        function, arguments = t.__reduce__()
        assert function is _pickling._open
        path, ticket = arguments[:2]

        def as_nobody() -> str:
            """Ask for the memory as another user, and return what happens."""
            program = f"""
import os, socket
os.setuid(65534)
try:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect({path!r})
        s.send({ticket!r}.encode())
        print(socket.recv_fds(s, 16, 4)[:2])
except OSError as error:
    print(type(error).__name__)
"""
            return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()

        assert as_nobody() == "PermissionError"
        os.chmod(os.path.dirname(path), 0o711)
        os.chmod(path, 0o777)
        assert as_nobody() in ("(b'', [])", "ConnectionResetError", "BrokenPipeError")
        assert function(*arguments).shape == (3,)  # the ticket is still there


class Liar:
    """A process that answers as it likes."""

    def __init__(self, folder: pathlib.Path, answer: bytes, fds: list[int]) -> None:
        self.path, self.answer, self.fds = str(folder / "s"), answer, fds
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        self.socket.listen()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        client, _ = self.socket.accept()
        with client:
            client.recv(64)
            socket.send_fds(client, [self.answer], self.fds)

    def close(self) -> None:
        self.thread.join()
        self.socket.close()
        os.unlink(self.path)


def memfd(size: int, seals: int) -> int:
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.truncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def test_wrong_answers(tmp_path: pathlib.Path) -> None:
    plain = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.truncate(plain, 4096)
    good = memfd(4096, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    unsealed = memfd(4096, fcntl.F_SEAL_GROW)
    rest = ((4,), (1,), 2, 32, 1, 0)
    before = len(os.listdir("/proc/self/fd"))
    for answer, fds, offset, description, error in (
        (b"here", [], 0, rest, RuntimeError),
        (b"here", [good, good], 0, rest, RuntimeError),
        (b"there", [good], 0, rest, RuntimeError),
        (b"here", [plain], 0, rest, ValueError),
        (b"here", [unsealed], 0, rest, ValueError),
        (b"here", [good], 4084, rest, ValueError),
        (b"here", [good], -4, rest, ValueError),
        (b"here", [good], 1 << 62, rest, ValueError),
        (b"here", [good], 0, ((4,), (-1,), 2, 32, 1, 0), ValueError),
        (b"here", [good], 0, ((4,), (1 << 61,), 2, 32, 1, 0), ValueError),
        (b"here", [good], 0, ((1 << 40, 1 << 40), (1, 1), 2, 32, 1, 0), ValueError),
        (b"here", [good], 0, ((4,), (1, 1), 2, 32, 1, 0), ValueError),
        (b"here", [good], 0, ((4,) * 65, (1,) * 65, 2, 32, 1, 0), ValueError),
        (b"here", [good], 0, ((-4,), (1,), 2, 32, 1, 0), ValueError),
        (b"here", [good], 0, ((0,), (1,), 2, 32, 1, 0), ValueError),
        (b"here", [good], 0, ((4,), (1,), 2, 0, 1, 0), ValueError),
        (b"here", [good], 0, ((4,), (1,), 2, 32, 1, 8), ValueError),
    ):
        liar = Liar(tmp_path, answer, fds)
        with pytest.raises(error, match="dlx: "):
            _pickling._open(liar.path, "ticket", offset, *description)
        liar.close()
        assert len(os.listdir("/proc/self/fd")) == before
    liar = Liar(tmp_path, b"here", [good])
    t = _pickling._open(liar.path, "ticket", 12, (4,), (-1,), 2, 32, 1, 1)
    liar.close()
    os.pwrite(good, struct.pack("4f", 1, 2, 3, 4), 0)
    assert t.tolist() == [4, 3, 2, 1] and t.readonly
    del t
    for fd in (plain, good, unsealed):
        os.close(fd)
