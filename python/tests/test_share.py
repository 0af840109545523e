"""Connections of dlx.share, both ends of which are in this process. test_share_process.py has other processes."""

from __future__ import annotations

import array
import copy
import errno
import gc
import os
import pathlib
import pickle
import socket
import threading
import time
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from connections import LIMIT, pair, socketpair
from producer import Producer

import dlx
from dlx import share


def devices() -> list[dlx.Device]:
    return [d for d in dlx.devices() if d.type != "gl"]


def test_the_memory_is_shared() -> None:
    with pair() as (c, d):
        t = share.empty((2, 3))
        a = np.from_dlpack(t)
        a[:] = [[1, 2, 3], [4, 5, 6]]
        sent = c.send(t[:, 1:], "the label")
        assert (sent.mechanism, sent.bytes_copied, sent.label, sent["handle"]) == ("map", 0, "the label", "mem_fd")
        u, report = d.receive("cpu", timeout=LIMIT)
        assert (report.mechanism, report.bytes_copied, report.label) == ("map", 0, "the label")
        assert u.tolist() == [[2, 3], [5, 6]] and u.strides == (3, 1) and not u.readonly and u.device == "cpu"
        a[1, 2] = 7
        assert u.tolist() == [[2, 3], [5, 7]]
        np.from_dlpack(u)[0, 0] = 8
        assert a[0, 1] == 8
        assert c.stats["in_flight"] == 1 and d.stats["held"] == 1 and c.stats["memories_sent"] == 1
        again = c.send(t)
        assert not again["opened"]  # the memory is there
        v, _ = d.receive()
        del u, v
        c.wait_released(LIMIT)
        assert c.stats["released"] == c.stats["sent"] == d.stats["received"] == 2 and d.stats["memories_opened"] == 1
        assert c.peer == share.Peer(os.getpid(), os.getuid(), os.getgid(), ("cpu",))


def test_reports() -> None:
    before = dlx._live()["go"]
    with pair() as (c, d):
        sent = c.send(share.empty(3), "x")
        t, received = d.receive(timeout=LIMIT)
        del t
        unread = c.send(share.empty(3))
    assert list(sent) == list(dict(sent)) and len(sent) == len(dict(sent)) and "label" in sent and sent.get("none") is None
    assert repr(received) == repr(dict(received)) and received.label == "x"
    for again in (copy.copy(sent), copy.deepcopy(sent), pickle.loads(pickle.dumps(sent))):
        assert type(again) is share.Report and again == sent
    assert dlx._live()["go"] == before + 1  # a report that was read has no handle any more
    assert unread.mechanism == "map"
    assert dlx._live()["go"] == before
    with pytest.raises(ValueError, match="Capsule"):
        len(share.Report(3))


def test_other_memory_is_copied_once() -> None:
    with pair() as (c, d):
        for x, want in (
            (np.arange(6.0).reshape(2, 3)[:, ::2], [[0, 2], [3, 5]]),
            (np.array(5, np.int8), 5),
            (dlx.empty((0, 3)), []),
            (dlx.from_dlpack(np.arange(4, dtype=np.int16)), [0, 1, 2, 3]),
            (b"abc", [97, 98, 99]),
            (bytearray(b""), []),
            (array.array("d", [1.5, 2.5]), [1.5, 2.5]),
            (memoryview(b"abcdef")[::2], [97, 99, 101]),
            (memoryview(array.array("i", range(6))).cast("B").cast("i", (2, 3)), [[0, 1, 2], [3, 4, 5]]),
            (Producer(), [[0, 1, 2], [3, 4, 5]]),
        ):
            sent = c.send(x)
            u, report = d.receive(timeout=LIMIT)
            assert u.tolist() == want and report.bytes_copied == 0
            assert sent.bytes_copied == u.nbytes
            assert sum(step["bytes"] for step in sent["steps"]) == u.nbytes
            assert sent.mechanism == ("direct" if u.size else sent.mechanism)
        x = dlx.from_dlpack(np.arange(4.0).astype(ml_dtypes.bfloat16).view(np.uint16))
        c.send(x)
        assert d.receive()[0].tolist() == x.tolist()
        t = dlx.from_dlpack(Producer(shape=(2, 3), code=17, bits=4))  # packed
        c.send(t)
        u, _ = d.receive()
        assert (u.dtype, u.shape) == ("float4_e2m1fn", (2, 3)) and bytes(u) == bytes(t)


def test_what_cannot_be_sent() -> None:
    with pair() as (c, d):
        for wrong in (3, None, "text", object()):
            with pytest.raises(TypeError, match="dlx: "):
                c.send(wrong)
        for x in (array.array("u", "a"), np.zeros(2, "S3").data, memoryview(b"abcdefgh").cast("P")):
            with pytest.raises(ValueError, match="format"):
                c.send(x)
        t = share.empty(3)
        with pytest.raises(ValueError, match="1025 bytes"):
            c.send(t, "x" * 1025)
        with pytest.raises(ValueError, match="null"):
            c.send(t, "a\0b")
        with pytest.raises(TypeError):
            c.send(t, 3)  # type: ignore[arg-type]
        with pytest.raises(UnicodeEncodeError):
            c.send(t, "\ud800")
        for timeout in (0, -1, float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                c.send(t, timeout=timeout)
        with pytest.raises(ValueError, match="not a device"):
            d.receive("nonsense")
        c.send(t, "é😀")
        assert d.receive()[1].label == "é😀"
        for shape, dtype, device, error in (
            ((-1,), "float32", "cpu", ValueError),
            ((1 << 40, 1 << 40), "float32", "cpu", ValueError),
            ((1,) * 65, "float32", "cpu", ValueError),
            ((1,), "nonsense", "cpu", ValueError),
            ((1.5,), "float32", "cpu", TypeError),
            (1, "float32", "oneapi:0", RuntimeError),
        ):
            with pytest.raises(error):
                share.empty(shape, dtype, device)  # type: ignore[arg-type]


def test_each_device() -> None:
    for device in devices():
        with pair(devices=[device]) as (c, d):
            a = np.arange(12, dtype=np.int32).reshape(3, 4)
            t = dlx.from_dlpack(a).to(device)
            c.send(t, "x")
            u, report = d.receive(device, timeout=LIMIT)
            assert (u.device, u.shape, report.label) == (device, (3, 4), "x")
            assert u.to("cpu").tolist() == a.tolist()
            c.send(t.to("cpu") if device != "cpu" else t)
            v, _ = d.receive(device)
            assert v.device == device and v.to("cpu").tolist() == a.tolist()
            try:
                w = share.empty((3, 4), "int32", device)
            except RuntimeError as error:
                assert "no memory that other processes can open" in str(error)
            else:
                sent = c.send(w)
                x, report = d.receive(device)
                assert sent.bytes_copied == report.bytes_copied == 0 and sent.mechanism == report.mechanism == "map"
                w = share.copy(a, device)
                sent = c.send(w[1:])
                x, report = d.receive(device)
                assert sent.bytes_copied == report.bytes_copied == 0 and x.device == device
                assert x.to("cpu").tolist() == a[1:].tolist() and share.copy(w).device == device
                del w, x
            del t, u, v
            c.wait_released(LIMIT)


def test_writing_waits_and_reading_does_not() -> None:
    with pair() as (c, d):
        t = share.empty(3, "int8")
        np.from_dlpack(t)[:] = 5
        c.send(t)
        u, _ = d.receive()
        assert t.tolist() == [5, 5, 5] and t.copy().tolist() == t.astype("float32").tolist() == [5.0] * 3 and t[1].item() == 5
        released = threading.Event()

        def writer() -> None:
            np.from_dlpack(t)[0] = 6
            released.set()

        thread = threading.Thread(target=writer)
        thread.start()
        assert not released.wait(0.05) and u.tolist() == [5, 5, 5]
        del u
        thread.join(LIMIT)
        assert released.is_set() and t.tolist() == [6, 5, 5]


def test_read_only() -> None:
    with pair(read_only=True) as (c, d):
        t = share.empty(3)
        c.send(t)
        u, _ = d.receive()
        assert u.readonly and not t.readonly
        with pytest.raises(BufferError, match="read-only"):
            u.__dlpack__()
        assert memoryview(u).readonly  # and it waits for nobody


def test_limits() -> None:
    with pair(tensors=2, memories=1, size=1 << 16) as (c, d):
        t = share.empty(3)
        c.send(t)
        c.send(t)
        with pytest.raises(TimeoutError):
            c.send(t, timeout=0.01)
        with pytest.raises(TimeoutError):
            c.wait_released(0.01)
        first, second = d.receive()[0], d.receive()[0]
        with pytest.raises(TimeoutError):
            c.send(t, timeout=0.01)
        del first
        c.send(t, timeout=LIMIT)
        del second
        d.receive()
        with pytest.raises(MemoryError, match="65536"):
            c.send(share.empty(1 << 16))
        c.check()
    for wrong in ({"tensors": -1}, {"memories": 65537}, {"size": 1 << 63}, {"devices": ["cpu"] + [f"cuda:{i}" for i in range(99)]}):
        one, two = socketpair()
        with one, two:
            with pytest.raises((ValueError, RuntimeError), match="dlx: "):
                share.adopt(one, **wrong)  # type: ignore[arg-type]
            assert one.fileno() >= 0


def test_limits_of_users(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"

    def connections(listener: share.Listener) -> tuple[share.Connection, share.Connection]:
        accepted: list[share.Connection] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept(timeout=LIMIT)))
        thread.start()
        c = share.connect(path, timeout=LIMIT)
        thread.join(LIMIT)
        return c, accepted[0]

    with share.listen(path, user_connections=1) as listener:
        c, d = connections(listener)
        with c, d:
            refusing = threading.Thread(target=lambda: pytest.raises(ValueError, listener.accept))
            refusing.start()
            with pytest.raises(MemoryError, match="1 connections together, and may have 1: close some"):
                share.connect(path, timeout=LIMIT)
            listener.close()
            refusing.join(LIMIT)
    for limit in ({"user_size": 4096}, {"user_descriptors": 1}):
        with share.listen(path, **limit) as listener:
            c, d = connections(listener)
            with c, d:
                with suppress(ConnectionAbortedError):  # the answer may be there first
                    c.send(share.empty(2048))
                with pytest.raises(ConnectionAbortedError, match="processes of user"):
                    d.receive(timeout=LIMIT)
    with share.listen(path, user_connections=1, user_descriptors=2, user_size=8192) as listener:
        c, d = connections(listener)
        with c, d:
            c.send(share.empty(2048))
            assert d.receive(timeout=LIMIT)[0].shape == (2048,)
    for wrong in ({"user_connections": -1}, {"user_descriptors": 1 << 31}, {"user_size": -1}):
        with pytest.raises(ValueError, match="limits for each user"):
            share.listen(path, **wrong)


def test_the_end() -> None:
    with pair() as (c, d):
        t = share.empty(3)
        np.from_dlpack(t)[:] = 4
        c.send(t)
        u, _ = d.receive()
        assert not c.closed and not d.closed
        c.check()
        c.close()
        c.close()
        assert c.closed and u.tolist() == [4, 4, 4]
        for call in (c.send, c.receive, c.wait_released, c.check, lambda: c.peer, lambda: c.stats):
            with pytest.raises(ValueError, match="closed"):
                call(t) if call == c.send else call()  # type: ignore[operator]
        for call in (d.receive, d.check, lambda: d.send(t)):
            with pytest.raises(EOFError, match="closed the connection"):
                call()  # type: ignore[operator]
        assert list(d) == [] and d.closed
        assert np.from_dlpack(t)[0] == 4  # nobody has it any more


def test_iteration() -> None:
    with pair() as (c, d):
        t = share.empty(3, "int32")
        for i in range(5):
            c.send(t, str(i))
        thread = threading.Thread(target=lambda: (c.wait_released(LIMIT), c.close()))
        thread.start()
        labels = []
        for frame, report in d:
            labels.append(report.label)
            assert frame.shape == (3,)
            del frame  # else the loop keeps the last one, for whose release the sender waits
        thread.join()
        assert labels == ["0", "1", "2", "3", "4"]


def test_another_thread_closes() -> None:
    with pair() as (c, _):
        failed: list[BaseException] = []

        def receive() -> None:
            try:
                c.receive()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        time.sleep(0.01)
        c.close()
        thread.join(LIMIT)
        assert not thread.is_alive() and isinstance(failed[0], (ValueError, EOFError))


def test_hostile_peers() -> None:
    for nonsense in (b"x", b"DLXS" + bytes(20), b"DLXS\1\0\3\0" + bytes(16), bytes(8000)):
        one, two = socketpair()
        with share.adopt(one) as c, two:
            two.send(nonsense)
            with pytest.raises(ConnectionAbortedError, match="dlx: "):
                c.receive()
            with pytest.raises(ConnectionAbortedError):
                c.check()
            assert c.closed
    one, two = socketpair()
    with share.adopt(one) as c:
        two.close()
        with pytest.raises(ConnectionResetError):
            c.receive()
    one, two = socketpair()
    with share.adopt(one) as c, two:  # it says nothing
        assert c.peer.devices == ()
        with pytest.raises(TimeoutError):
            c.send(share.empty(3), timeout=0.01)


def test_what_cannot_be_adopted() -> None:
    read, write = os.pipe()
    stream, other = socket.socketpair()
    with stream, other:
        for wrong in (read, stream, stream.fileno(), -1, 1 << 20):
            with pytest.raises(ValueError, match="dlx: "):
                share.adopt(wrong)
        stream.send(b"x")
        assert other.recv(2) == b"x"
    os.write(write, b"y")
    assert os.read(read, 2) == b"y"
    os.close(read)
    os.close(write)
    one, two = socketpair()
    with two, share.adopt(one.detach()) as c:  # a number belongs to the connection
        assert not c.closed


def test_sockets(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    with pytest.raises(FileNotFoundError, match="start the process"):
        share.connect(path)
    with share.listen(path, mode=0o640) as listener:
        assert listener.path == str(path) and path.stat().st_mode & 0o777 == 0o640
        with pytest.raises(FileExistsError, match="another process listens"):
            share.listen(path)
        with pytest.raises(TimeoutError):
            listener.accept(timeout=0.01)
        accepted: list[share.Connection] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept()))
        thread.start()
        with share.connect(bytes(path), timeout=LIMIT) as c:
            thread.join(LIMIT)
            with accepted[0] as d:
                c.send(np.arange(3))
                assert d.receive()[0].tolist() == [0, 1, 2]
    assert not path.exists()
    with pytest.raises(ValueError, match="closed"):
        listener.accept()
    path.write_text("")
    with pytest.raises(FileExistsError, match="not a socket"):
        share.listen(path)
    with pytest.raises(ConnectionRefusedError):
        share.connect(path)
    for wrong in ("", "@abstract", tmp_path / ("x" * 200)):
        with pytest.raises((ValueError, OSError)):
            share.listen(wrong)
    with pytest.raises(ValueError, match="mode"):
        share.listen(tmp_path / "other", mode=0o1777)
    for call in (share.listen, share.connect):
        with pytest.raises(ValueError, match="null"):
            call("a\0b")
        with pytest.raises(TypeError):
            call(3)  # type: ignore[arg-type]


def test_owners_that_nobody_closes() -> None:
    one, two = socketpair()
    c = share.adopt(one)
    d = share.adopt(two)
    c.send(share.empty(3))
    u, _ = d.receive()
    del c, d
    gc.collect()
    assert u.shape == (3,)


def test_no_descriptor_stays_open() -> None:
    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def some() -> None:
        with pair() as (c, d):
            for _ in range(3):
                c.send(share.empty(3))
                d.receive()
            for wrong in (b"x", "text"):
                with pytest.raises((TypeError, ValueError)):
                    c.send(wrong, "a\0b")

    some()
    before = descriptors()
    for _ in range(10):
        some()
    end = time.monotonic() + LIMIT  # memory is freed soon after its tensor
    while descriptors() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert descriptors() <= before


def test_errors_of_the_system(tmp_path: pathlib.Path) -> None:
    if os.getuid() == 0:
        pytest.skip("root may connect to every socket")
    with share.listen(tmp_path / "socket", mode=0o000):
        with pytest.raises(PermissionError) as caught:
            share.connect(tmp_path / "socket")
        assert caught.value.errno == errno.EACCES
