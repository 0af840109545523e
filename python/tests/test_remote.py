"""Tensors that are passed between processes by dlx.remote, over the loopback interface."""

from __future__ import annotations

import array
import datetime
import gc
import hashlib
import os
import pathlib
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import pytest
from interrupts import interrupted
from producer import Producer

import dlx
from dlx import remote

LIMIT = 60.0
"""Seconds after which a call that ought to return has failed."""

TOKEN = bytes(range(32))

BUILT = "ucx" in dlx.__build__["tags"]
needs_ucx = pytest.mark.skipif(not BUILT, reason="the build has no UCX: its tags are " + ",".join(dlx.__build__["tags"]))


@contextmanager
def pair(**options: Any) -> Iterator[tuple[remote.Connection, remote.Connection, remote.Listener]]:
    """Make a listener, and a connection with both ends here."""
    with remote.listen("127.0.0.1:0", token=TOKEN, **options) as listener:
        with remote.connect(listener.address, token=TOKEN, timeout=LIMIT, **options) as c:
            with listener.accept(timeout=LIMIT) as d:
                yield c, d, listener


def python(program: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start another process with a program."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    head = f"import sys, time, os, signal, numpy as np, dlx\nfrom dlx import remote\nTOKEN = {TOKEN!r}\n"
    command = [sys.executable, "-c", head + program, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def in_thread(call: Callable[[], Any]) -> Callable[[], Any]:
    """Start a call in a thread, and return a function that waits for its result."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append((call(), None))
        except BaseException as error:
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()

    def join() -> Any:
        thread.join(LIMIT)
        [(result, error)] = results
        if error is not None:
            raise error
        return result

    return join


def test_a_build_without_ucx_says_so() -> None:
    if BUILT:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DLX_UCX_LIBRARY": "/nonexistent/libucp.so"}
        program = "from dlx import remote\nremote.listen('127.0.0.1:0', insecure=True)"
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert child.returncode == 1 and "RuntimeError: dlx: " in child.stderr and "/nonexistent/libucp.so" in child.stderr
        assert remote.version()[0].isdigit()
        return
    for call in (remote.version, lambda: remote.listen("127.0.0.1:0", insecure=True)):
        with pytest.raises(RuntimeError, match="built without UCX"):
            call()


@needs_ucx
def test_send_and_receive() -> None:
    with pair() as (c, d, listener):
        assert listener.address.startswith("127.0.0.1:") and c.peer == listener.address
        for x, want in (
            (np.arange(6.0).reshape(2, 3)[:, ::2], [[0, 2], [3, 5]]),
            (np.array(5, np.int8), 5),
            (dlx.empty((0, 3)), []),
            (np.array([True, False]), [True, False]),
            (b"abc", [97, 98, 99]),
            (bytearray(b""), []),
            (array.array("d", [1.5, 2.5]), [1.5, 2.5]),
            (Producer(), [[0, 1, 2], [3, 4, 5]]),
        ):
            sent = c.send(x, "é😀")
            u, report = d.receive(timeout=LIMIT)
            assert u.tolist() == want and u.device == "cpu" and report.bytes_copied == 0
            assert sent.label == report.label == "é😀" and report["bytes"] == u.nbytes
        c.wait_received(LIMIT)
        assert sent.mechanism == "direct" and report.transports and c.transports
        assert c.stats["sent"] == d.stats["received"] == 8 and c.stats["in_flight"] == 0
        t = dlx.from_dlpack(Producer(shape=(2, 3), code=17, bits=4))  # packed
        c.send(t)
        u, _ = d.receive()
        assert (u.dtype, u.shape) == ("float4_e2m1fn", (2, 3)) and bytes(u) == bytes(t)


@needs_ucx
def test_the_end_of_a_stream() -> None:
    """What has arrived comes before the end, and a stream that is cut does not end as a complete one."""
    for large in (0, 1):
        with pair() as (c, d, _):
            for i in range(3):
                c.send(bytes([i]))
            if large:
                sent = in_thread(lambda: c.send(np.zeros(1 << 20)))
            while d.stats["waiting"] != 3 + large:
                time.sleep(0.001)
            c.close()
            got = []
            with pytest.raises(ConnectionResetError, match="1 of the 4 tensors") if large else nullcontext():
                for u, _ in d:
                    got.append(u.tolist())
            assert got == [[0], [1], [2]]
            if large:
                with suppress(ValueError, OSError):  # no error if the other side has dropped the tensor by then
                    sent()


@needs_ucx
def test_large_tensors_both_ways() -> None:
    """Longer than a piece. Other threads run meanwhile, also the one that receives."""
    with pair() as (c, d, _):
        x, y = np.arange(3 << 20, dtype=np.float32), np.arange(2 << 20, dtype=np.int64)
        sent = in_thread(lambda: c.send(x)), in_thread(lambda: d.send(y))
        there, back = in_thread(lambda: d.receive(timeout=LIMIT)), in_thread(lambda: c.receive(timeout=LIMIT))
        assert np.array_equal(np.from_dlpack(there()[0]), x) and np.array_equal(np.from_dlpack(back()[0]), y)
        assert [join().bytes_copied for join in sent] == [0, 0]


@needs_ucx
def test_what_is_wrong() -> None:
    with pair(size=1 << 20) as (c, d, listener):
        for wrong in (3, None, "text", object()):
            for call in (c.send, listener.offer, lambda x: c.put(b"", x)):
                with pytest.raises(TypeError, match="dlx: "):
                    call(wrong)
        t = dlx.from_dlpack(np.arange(3))
        with pytest.raises(ValueError, match="1025 bytes"):
            c.send(t, "x" * 1025)
        with pytest.raises(ValueError, match="null"):
            c.send(t, "a\0b")
        for timeout in (0, -1, float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                c.receive(timeout=timeout)
        for device in ("nonsense", "cpu\0", "cpu\0:1"):
            with pytest.raises(ValueError, match="not a device"):
                c.receive(device)
        for seconds in (0, -1.0, float("inf"), 10**400):
            with pytest.raises(ValueError, match="timeout is"):
                remote.fetch(listener.offer(t), token=TOKEN, timeout=seconds)
            with pytest.raises(ValueError, match="lease is"):
                listener.offer(t, lease=seconds)
        with pytest.raises(MemoryError, match="permits 1048576"):
            c.send(np.zeros(1 << 20))
        for wrong in (b"", b"nonsense", bytes(900), bytes(1 << 20)):
            for call in (remote.describe, c.fetch, remote.fetch):
                with pytest.raises(ValueError, match="dlx: "):
                    call(wrong)
        with pytest.raises(TimeoutError):
            d.receive(timeout=0.01)
        for owner in (c, listener):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(owner)
        c.check()
        d.check()


@needs_ucx
def test_options() -> None:
    for wrong, error in (
        ({}, ValueError),
        ({"token": b"short"}, ValueError),
        ({"token": b""}, ValueError),
        ({"token": "text of sixteen bytes"}, TypeError),
        ({"token": 32}, TypeError),  # bytes(32) is a token that everybody knows
        ({"token": [1] * 32}, TypeError),
        ({"insecure": "no"}, TypeError),
        ({"insecure": 2}, TypeError),
        ({"token": TOKEN, "insecure": True}, ValueError),
        ({"token": TOKEN, "tensors": -1}, ValueError),
        ({"token": TOKEN, "requests": 1025}, ValueError),
        ({"token": TOKEN, "size": 1 << 63}, ValueError),
        ({"token": TOKEN, "keep_alive": 0.001}, ValueError),
        ({"token": TOKEN, "spin": -1}, ValueError),
        ({"cert": "/nonexistent"}, ValueError),
        ({"cert": "/nonexistent", "key": "/nonexistent", "ca": "/nonexistent"}, FileNotFoundError),
        ({"cert": "a\0b", "key": "/nonexistent", "ca": "/nonexistent"}, ValueError),
    ):
        for call in (remote.listen, remote.connect):
            with pytest.raises(error):
                call("127.0.0.1:0", **wrong)  # type: ignore[operator]
    for address in ("nonsense", "127.0.0.1:99999", "a\0b"):
        for call in (remote.listen, remote.connect):
            with pytest.raises(ValueError):
                call(address, token=TOKEN)  # type: ignore[operator]
    with pytest.raises(ValueError, match="keep_alive is 0"):
        remote.listen("127.0.0.1:0", token=TOKEN, keep_alive=0)
    with pytest.raises(ValueError, match="loopback"):
        remote.listen("0.0.0.0:0", insecure=True)
    with remote.listen("127.0.0.1:0", insecure=True, spin=0.001) as listener:
        with remote.dial(listener.address, insecure=True, spin=0.001) as c, listener.accept() as d:
            c.send(b"abc")
            assert d.receive()[0].tolist() == [97, 98, 99]
        with pytest.raises(OSError, match="in use"):
            remote.listen(listener.address, insecure=True)


@needs_ucx
def test_who_may_connect() -> None:
    with remote.listen("127.0.0.1:0", token=TOKEN) as listener:
        address = listener.address
        with pytest.raises(ConnectionRefusedError, match="another token"):
            remote.connect(address, token=bytes(16))
        with pytest.raises(ConnectionError):
            remote.connect(address, insecure=True)
        with pytest.raises(TimeoutError):
            listener.accept(timeout=0.01)
    with pytest.raises(ValueError, match="closed"):
        listener.accept()
    with pytest.raises(ConnectionRefusedError, match="start the process"):
        remote.connect(address, token=TOKEN)


@needs_ucx
def test_certificates(tmp_path: pathlib.Path) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=test")
    for ca in ("ca", "other"):
        openssl("req", "-x509", *new, "-keyout", f"{ca}.key", "-out", f"{ca}.pem", "-days", "2")
    openssl("req", *new, "-keyout", "key.pem", "-out", "request.pem")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:peer.test\n")
    openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "cert.pem")  # fmt: skip
    files: dict[str, Any] = {name: tmp_path / f"{name}.pem" for name in ("cert", "key", "ca")}
    with remote.listen("127.0.0.1:0", **files) as listener:
        for name in (None, "peer.test"):
            with remote.connect(listener.address, **files, server_name=name) as c, listener.accept() as d:
                c.send(b"abc")
                assert d.receive()[0].tolist() == [97, 98, 99]
        with pytest.raises(ConnectionRefusedError, match="certificate"):
            remote.connect(listener.address, **{**files, "ca": tmp_path / "other.pem"})
        with pytest.raises(ConnectionRefusedError, match="certificate"):
            remote.connect(listener.address, **files, server_name="other.test")
        with pytest.raises(ValueError, match="PEM"):
            remote.connect(listener.address, **{**files, "ca": tmp_path / "names"})


@needs_ucx
def test_offers() -> None:
    with pair() as (c, d, listener):
        a = np.arange(12).reshape(4, 3)
        descriptor = listener.offer(a)
        assert type(descriptor) is bytes
        about = remote.describe(descriptor)
        assert about == ("int64", (4, 3), False, listener.address, None, 96)
        t, report = c.fetch(descriptor, timeout=LIMIT)
        assert t.tolist() == a.tolist() and report["bytes"] == 96 and report.mechanism == "direct"
        for rows in (slice(1, 3), slice(-1, None), slice(2, 1), slice(None), slice(3, 99)):
            options: dict[str, Any] = {"requests": 1, "keep_alive": 30, "spin": 0.001}
            t, report = remote.fetch(descriptor, rows=rows, token=TOKEN, timeout=LIMIT, **options)
            assert t.tolist() == a[rows].tolist() and report["bytes"] == a[rows].nbytes
        for wrong in ({"requests": 1025}, {"keep_alive": 0.001}, {"spin": -1}):
            with pytest.raises(ValueError, match="dlx: "):
                remote.fetch(descriptor, token=TOKEN, **wrong)
        with pytest.raises(ValueError, match="step"):
            c.fetch(descriptor, rows=slice(None, None, 2))
        with pytest.raises(BufferError, match="read-only"):
            c.put(descriptor, a)
        a[0, 0] = 42
        assert c.fetch(descriptor)[0][0, 0].item() == 42  # the memory, and no copy of it
        listener.withdraw(descriptor)
        listener.withdraw(descriptor)
        with pytest.raises(ValueError, match="closed"):
            c.fetch(descriptor)
        with pytest.raises(ValueError, match="no axes"):
            c.fetch(listener.offer(np.array(1.0)), rows=slice(1))
        copied = listener.offer(b"abc")
        assert c.fetch(copied)[0].tolist() == [97, 98, 99]
        with pytest.raises(BufferError, match="copy"):
            listener.offer(b"abc", writable=True)
        leased = listener.offer(a, lease=1e-9)
        while not dlx._C.remote_offer_ended(listener._offers[leased]):  # soon after
            time.sleep(0.001)
        with pytest.raises(ValueError, match="closed"):
            c.fetch(leased)
        own = d.offer(a)  # for the other end only
        assert remote.describe(own).address == "" and c.fetch(own)[0].tolist() == a.tolist()
        with pytest.raises(ValueError, match="no address"):
            remote.fetch(own, token=TOKEN)
        lease = remote.describe(listener.offer(a, lease=3600, address="example.test:1"))
        assert lease.address == "example.test:1" and lease.expires is not None
        assert abs(lease.expires - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(hours=2)
        for expires in (1 << 51, 1 << 60):  # from a peer that lies
            with pytest.raises(ValueError, match="expires"):
                remote.describe(own[:24] + expires.to_bytes(8, "little") + own[32:])
        d.close()
        with pytest.raises(EOFError):
            c.fetch(own)


@needs_ucx
def test_offers_with_names() -> None:
    with pair() as (c, d, listener):
        assert c.list(timeout=LIMIT) == []
        a = np.arange(12).reshape(4, 3)
        listener.offer(a)  # nobody finds it
        first = listener.offer(a, name="weights/é😀")
        packed = Producer(shape=(2, 3), code=17, bits=4)  # it must outlive its memory
        own = d.offer(packed, name="weights/é😀", writable=True)
        leased = listener.offer(np.array(1.5), name="leased", lease=3600, address="example.test:1")
        for listed, descriptor, name in zip(c.list(), (first, own, leased), ("weights/é😀", "weights/é😀", "leased"), strict=True):
            assert listed == (name, descriptor, *remote.describe(descriptor))
        assert [(x.dtype, x.shape, x.nbytes, x.writable, x.address) for x in c.list()] == [
            ("int64", (4, 3), 96, False, listener.address),
            ("float4_e2m1fn", (2, 3), 3, True, ""),
            ("float64", (), 8, False, "example.test:1"),
        ]
        assert c.fetch(c.list()[0].descriptor)[0].tolist() == a.tolist()
        for offerer, name in ((listener, "leased"), (d, "weights/é😀")):
            with pytest.raises(ValueError, match="another offer has the name"):
                offerer.offer(a, name=name)
        for wrong in ("x" * 1025, "a\0b", "\udc80"):
            with pytest.raises(ValueError):
                listener.offer(a, name=wrong)
        listener.withdraw(first)
        assert [x.descriptor for x in c.list()] == [own, leased]
        again = listener.offer(a, name="weights/é😀")  # the name is free
        # More than fit into a message, and than libdlx describes in one text.
        many = [listener.offer(np.zeros(i % 7), name=f"tensor {i}") for i in range(4200)]
        assert [x.descriptor for x in c.list()] == [own, leased, again, *many]
        assert all(x[2:] == remote.describe(x) for x in c.list())
        assert d.list() == []
        c.close()
        with pytest.raises(ValueError, match="closed"):
            c.list()
        with pytest.raises(EOFError):
            d.list()


@needs_ucx
def test_serve() -> None:
    """A program that only offers. Connections that have ended are closed, more of them than wait for accept."""
    a = np.arange(5)
    with remote.listen("127.0.0.1:0", token=TOKEN) as listener:
        serving = in_thread(listener.serve)
        descriptor = listener.offer(a)
        for i in range(70):
            assert remote.fetch(descriptor, rows=slice(i % 5, None), token=TOKEN, timeout=LIMIT)[0].tolist() == a[i % 5 :].tolist()
        with remote.connect(listener.address, token=TOKEN, timeout=LIMIT) as c:
            later = listener.offer(a, name="later")
            assert [x.descriptor for x in c.list()] == [later]
            listener.close()
            assert serving() is None
            with pytest.raises(EOFError):  # serve has closed its connections
                c.receive(timeout=LIMIT)
        with pytest.raises(ValueError, match="closed"):
            listener.serve()
    with remote.listen("127.0.0.1:0", token=TOKEN) as listener:
        with pytest.raises(TimeoutError):
            listener.serve(timeout=0.01)
        with pytest.raises(ValueError, match="timeout"):
            listener.serve(timeout=0)


@needs_ucx
def test_checksums() -> None:
    with pair() as (c, d, listener):
        a = np.arange(3 << 18, dtype=np.float32).reshape(-1, 3)  # of several pieces
        for x in (a, a[::2], a[:, 1:], np.array(5, np.int8), np.zeros((0, 3))):
            descriptor = listener.offer(x)
            sum = hashlib.sha256(x.tobytes()).digest()
            assert c.checksum(descriptor, timeout=LIMIT) == remote.checksum(x) == sum
            assert remote.checksum(c.fetch(descriptor)[0], timeout=LIMIT) == sum
        part = hashlib.sha256(a[5:-1].tobytes()).digest()
        descriptor = listener.offer(a, writable=True)
        assert c.checksum(descriptor, rows=slice(5, -1)) == remote.checksum(a[5:-1]) == part
        c.put(descriptor, np.ones((1, 3), np.float32), start=5)
        assert c.checksum(descriptor, rows=slice(5, -1)) == remote.checksum(a[5:-1]) != part
        producer = Producer(shape=(2, 3), code=17, bits=4)  # it must outlive its memory
        packed = dlx.from_dlpack(producer)
        assert remote.checksum(packed) == c.checksum(listener.offer(packed)) == hashlib.sha256(bytes(packed)).digest()
        assert remote.checksum(b"abc") == hashlib.sha256(b"abc").digest()
        with pytest.raises(ValueError, match="step"):
            c.checksum(descriptor, rows=slice(None, None, 2))
        with pytest.raises(TypeError, match="dlx: "):
            remote.checksum("text")
        listener.withdraw(descriptor)
        with pytest.raises(ValueError, match="closed"):
            c.checksum(descriptor)
        d.close()
        with pytest.raises(EOFError):
            c.checksum(descriptor)


@needs_ucx
def test_gather() -> None:
    a = np.arange(3 << 20, dtype=np.float32).reshape(-1, 3)
    with pair() as (c, d, listener), remote.listen("127.0.0.1:0", token=TOKEN) as other:
        serving = in_thread(other.serve)
        whole, begin, end = other.offer(a), listener.offer(a[:1000]), d.offer(a[1000:])
        t, report = remote.gather([whole], token=TOKEN, timeout=LIMIT)
        assert np.array_equal(np.from_dlpack(t), a) and report["bytes"] == a.nbytes
        parts = [remote.Part(begin, 0, None, c), remote.Part(end, 1000, connection=c), whole]
        for size in (0, a.nbytes):
            t, report = remote.gather(parts, token=TOKEN, size=size, timeout=LIMIT)
            assert np.array_equal(np.from_dlpack(t), a)
            peers = [listener.address] * 2 + [other.address]  # a source that was never asked has none
            assert all(s["peer"] == peer for s, peer in zip(report["sources"], peers, strict=True) if s["bytes"])
            assert sum(s["bytes"] for s in report["sources"]) == report["bytes"] == a.nbytes
        t, _ = remote.gather([remote.Part(begin, 2, slice(-2, None), c), remote.Part(end, 0, slice(1, 3), c)])  # without options
        assert t.tolist() == np.concatenate([a[1001:1003], a[998:1000]]).tolist()
        gone = other.offer(a)
        other.withdraw(gone)
        t, report = remote.gather([gone, whole], token=TOKEN, timeout=LIMIT)
        assert np.array_equal(np.from_dlpack(t), a) and "error" in report["sources"][0]
        assert "error" not in report["sources"][1]
        for wrong, match in (
            ([], "no source"),
            ([b"nonsense"], "descriptor"),
            ([end], "no address"),
            ([remote.Part(begin, 1, None, c)], "no source has the rows 0 to 1"),
            ([remote.Part(begin, 0, slice(0, 0), c)], "no rows"),
            ([remote.Part(begin, -1, None, c)], "row -1"),
            ([remote.Part(begin, 0, slice(None, None, 2), c)], "step"),
            ([whole, other.offer(np.zeros((2, 3)))], "type"),
            ([whole, other.offer(np.zeros((2, 4), np.float32))], "shape"),
            ([gone], "no source is left"),
        ):
            with pytest.raises(ValueError, match=match):
                remote.gather(wrong, token=TOKEN, timeout=LIMIT)
        with pytest.raises(MemoryError):
            remote.gather([whole], token=TOKEN, size=1000)
        with pytest.raises(ValueError, match="neither a token nor a certificate"):
            remote.gather([whole])
        other.close()
        serving()
        with pytest.raises(ConnectionRefusedError):
            remote.gather([whole], token=TOKEN, timeout=LIMIT)
        with remote.listen("127.0.0.1:0", token=bytes(16)) as stranger:  # it does not accept the token
            with pytest.raises(ConnectionRefusedError, match="token"):
                remote.gather([listener.offer(a, address=stranger.address)], token=TOKEN, timeout=LIMIT)
        d.close()
        with pytest.raises(ConnectionResetError, match="no source is left"):
            remote.gather([remote.Part(begin, connection=c)])
        c.close()
        with pytest.raises(ValueError, match="closed"):
            remote.gather([remote.Part(begin, connection=c)])


@needs_ucx
def test_arguments_of_a_wrong_type() -> None:
    with pair() as (c, d, listener):
        a = np.arange(12).reshape(4, 3)
        descriptor = listener.offer(a, name=None)
        assert c.list() == []
        listener.offer(a, name="a")
        [offered] = c.list()
        for x in (descriptor, bytearray(descriptor), memoryview(descriptor), offered):
            part = remote.Part(x, connection=c)  # type: ignore[arg-type]
            for t, _ in (c.fetch(x), remote.fetch(x, token=TOKEN), remote.gather([x], token=TOKEN), remote.gather([part])):
                assert t.tolist() == a.tolist()
            assert c.checksum(x) == remote.checksum(a) and remote.describe(x).shape == (4, 3)
        listener.withdraw(offered)
        assert c.list() == []
        part = remote.Part(descriptor, connection=c)
        wrong: list[Any] = [10**13, "text", None, (descriptor, 0), [descriptor], part]
        for x in wrong:
            for call in (
                remote.describe,
                remote.fetch,
                c.fetch,
                c.checksum,
                listener.withdraw,
                lambda x: c.put(x, a),
                lambda x: listener.relay(x, [listener.address], 0),
                lambda x: remote.gather([x if x is not part else (part,)]),
                lambda x: remote.gather([remote.Part(x)]),
            ):
                with pytest.raises(TypeError, match="dlx: .* no descriptor"):
                    call(x)
        for call in (
            lambda: remote.gather(part),
            lambda: remote.gather(offered),
            lambda: remote.gather(descriptor),
            lambda: remote.gather([part._replace(connection=listener)]),
            lambda: c.fetch(descriptor, rows=range(1, 3)),
            lambda: c.checksum(descriptor, rows=(1, 3)),
            lambda: remote.gather([part._replace(rows=2)]),
            lambda: listener.offer(a, name=b"bytes"),
            lambda: listener.offer(a, writable="no"),
            lambda: listener.offer(a, address=b"127.0.0.1:1"),
            lambda: listener.relay(descriptor, listener.address, 0),
            lambda: listener.relay(descriptor, listener.address.encode(), 0),
            lambda: listener.relay(descriptor, [b"127.0.0.1:1"], 0),
        ):
            with pytest.raises(TypeError, match="dlx: "):
                call()
        for at in (-1, 1 << 63, 1 << 70):
            with pytest.raises(ValueError, match=f"dlx: .* row {at}"):
                remote.gather([part._replace(at=at)])


@needs_ucx
def test_another_thread_withdraws() -> None:
    """An offer whose handle is closed by another thread while offer looks for those that have ended."""
    with pair() as (_, __, listener):
        withdrawn = listener.offer(b"abc")
        handle = listener._offers[withdrawn]
        dlx._C.remote_offer_close(handle)
        with pytest.raises(ValueError, match="closed"):
            dlx._C.remote_offer_ended(handle)
        for _ in range(100):  # more than the number at which it looks
            listener.offer(b"abc")
        del listener._offers[withdrawn]


@needs_ucx
def test_another_thread_closes_the_listener() -> None:
    """The handle of an offer that was made while another thread closed the listener."""
    with pair() as (_, __, listener):
        offered = listener.offer(b"abc")
        handle = listener._offers.pop(offered)
        listener.close()
        listener._keep(offered, handle)  # what offer does last
        assert not listener._offers
        with pytest.raises(ValueError, match="closed"):
            dlx._C.remote_offer_ended(handle)


@needs_ucx
def test_many_threads() -> None:
    """More calls at the same time than the other process serves wait, and none is refused."""
    with pair(requests=2) as (c, _, listener):
        descriptor = listener.offer(np.zeros(1 << 14))
        for join in [in_thread(lambda: [c.fetch(descriptor, timeout=LIMIT) for _ in range(50)]) for _ in range(16)]:
            assert len(join()) == 50
        parts = [remote.Part(descriptor, i << 14, None, c) for i in range(100)]
        assert remote.gather(parts)[0].shape == (100 << 14,)


@needs_ucx
def test_relay() -> None:
    """Each of three listeners gets the tensor, and the source sends it once."""
    a = np.arange(3 << 20, dtype=np.float32).reshape(-1, 3)
    with remote.listen("127.0.0.1:0", token=TOKEN) as source:
        listeners = [remote.listen("127.0.0.1:0", token=TOKEN) for _ in range(3)]
        serving = [in_thread(listener.serve) for listener in (source, *listeners)]
        peers = [listener.address for listener in listeners]
        descriptor = source.offer(a)
        relays = [
            in_thread(lambda i=i, x=x: x.relay(descriptor, peers, i, width=1, timeout=LIMIT))  # type: ignore[misc]
            for i, x in enumerate(listeners)
        ]
        for i, join in enumerate(relays):
            t, own, report = join()
            assert np.array_equal(np.from_dlpack(t), a)
            above, *others = [s for s in report["sources"] if s["bytes"]]
            assert (above["peer"], others) == ((source.address, *peers)[i], [])
            t, _ = remote.fetch(own, rows=slice(1), token=TOKEN, timeout=LIMIT)  # also from there
            assert t.tolist() == [[0, 1, 2]] and remote.describe(own).address == peers[i]
        with pytest.raises(ValueError, match="offers the tensor already"):
            listeners[0].relay(descriptor, peers, 0)
        listeners[0].withdraw(listeners[0].relay(source.offer(a[:5]), peers, 0)[1])
        for index, width in ((3, 0), (-1, 0), (0, -1), (1 << 31, 0)):
            with pytest.raises(ValueError, match="dlx: "):
                listeners[0].relay(descriptor, peers, index, width=width)
        with pytest.raises(ValueError, match="descriptor"):
            listeners[0].relay(b"nonsense", peers, 0)
        with remote.listen("127.0.0.1:0", token=bytes(16)) as stranger:  # it does not accept the token
            with pytest.raises(ConnectionRefusedError, match="token"):
                listeners[0].relay(source.offer(a, address=stranger.address), peers, 0, timeout=LIMIT)
        for listener in (source, *listeners):
            listener.close()
        for ended in serving:
            ended()


@needs_ucx
def test_put() -> None:
    with pair() as (c, d, listener):
        a = np.zeros((4, 3), np.float32)
        for offerer in (listener, d):
            descriptor = offerer.offer(a, writable=True)
            assert remote.describe(descriptor).writable
            c.put(descriptor, np.full((4, 3), 1, np.float32))
            report = c.put(descriptor, np.full((2, 3), 2, np.float32), start=1, timeout=LIMIT)
            assert a[:, 0].tolist() == [1, 2, 2, 1] and report["bytes"] == 24
            for wrong, start in ((np.zeros((4, 3)), None), (np.zeros((4, 4), np.float32), None), (a[:2], 3)):
                with pytest.raises(ValueError, match="dlx: "):
                    c.put(descriptor, wrong, start=start)
            with pytest.raises(ValueError, match="start is -1"):
                c.put(descriptor, a, start=-1)
        with pytest.raises(BufferError, match="read-only"):
            listener.offer(read_only(a), writable=True)
        with pytest.raises(ValueError, match="contiguous"):
            listener.offer(a[:, ::2], writable=True)
        while d.stats["served"] != 4:  # a request is counted after its answer
            time.sleep(0.001)


def read_only(a: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written."""
    view = a.view()
    view.flags.writeable = False
    return view


@needs_ucx
def test_each_device() -> None:
    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    with pair() as (c, d, listener):
        for device in (x for x in dlx.devices() if x.type not in ("gl", "cpu")):
            t = dlx.from_dlpack(a).to(device)
            sent = c.send(t)
            u, report = d.receive(device, timeout=LIMIT)
            assert u.device == device and u.to("cpu").tolist() == a.tolist()
            assert sent.mechanism == report.mechanism == "staged" and sent.bytes_copied == report.bytes_copied == a.nbytes
            descriptor = listener.offer(t, writable=True)
            v, _ = c.fetch(descriptor, device, rows=slice(1, 3))
            assert remote.checksum(v) == c.checksum(descriptor, rows=slice(1, 3)) == remote.checksum(a[1:])
            assert v.device == device and v.to("cpu").tolist() == a[1:].tolist()
            c.put(descriptor, u[:1], start=2)
            assert t.to("cpu").tolist() == [a[0].tolist(), a[1].tolist(), a[0].tolist()]
            listener.withdraw(descriptor)


@needs_ucx
def test_the_end() -> None:
    with pair() as (c, d, listener):
        c.send(b"abc")
        u, _ = d.receive()
        offer = c.offer(u)
        assert not c.closed and not d.closed
        c.check()
        c.close()
        c.close()
        assert c.closed and u.tolist() == [97, 98, 99]
        for call in (c.send, c.receive, c.wait_received, c.check, lambda: c.peer, lambda: c.stats, c.offer):
            with pytest.raises(ValueError, match="closed"):
                call(u) if call in (c.send, c.offer) else call()  # type: ignore[operator]
        for call in (d.receive, d.check, lambda: d.send(u), lambda: d.fetch(offer)):
            with pytest.raises(EOFError, match="closed the connection"):
                call()
        assert list(d) == [] and d.closed
        listener.close()
        with pytest.raises(ValueError, match="closed"):
            listener.offer(u)


@needs_ucx
def test_iteration() -> None:
    with pair() as (c, d, _):
        for i in range(5):
            c.send(np.arange(i), str(i))
        ended = in_thread(lambda: (c.wait_received(LIMIT), c.close()))
        assert [(t.size, report.label) for t, report in d] == [(i, str(i)) for i in range(5)]
        ended()


@needs_ucx
def test_another_thread_closes() -> None:
    with pair() as (c, _, listener):
        waits = in_thread(c.receive), in_thread(listener.accept)
        time.sleep(0.01)
        c.close()
        listener.close()
        for join in waits:
            with pytest.raises((ValueError, EOFError)):
                join()


@needs_ucx
def test_a_process_that_is_killed() -> None:
    with remote.listen("127.0.0.1:0", token=TOKEN) as listener:
        program = "c = remote.connect(sys.argv[1], token=TOKEN); d = c.receive(); print('has it', flush=True); time.sleep(1000)"
        with python(program, listener.address) as child, listener.accept(timeout=LIMIT) as c:
            descriptor = c.offer(np.zeros(3))
            c.send(b"abc")
            assert child.stdout is not None and child.stdout.readline() == "has it\n"
            large = in_thread(lambda: c.send(np.zeros(1 << 20)))  # waits for the receiver
            child.kill()
            for call in (large, c.receive, lambda: c.wait_received(LIMIT), c.check, lambda: c.fetch(descriptor)):
                with pytest.raises(ConnectionResetError):
                    call()


WAITS: dict[str, Callable[[remote.Connection, remote.Listener], object]] = {
    "receive": lambda c, listener: c.receive(),
    "accept": lambda c, listener: listener.accept(),
    "serve": lambda c, listener: listener.serve(),
    "send": lambda c, listener: c.send(np.zeros(1 << 20)),
    "wait_received": lambda c, listener: c.wait_received(),
    "connect": lambda c, listener: connect_to_nobody(),
    "gather": lambda c, listener: gather_from_nobody(listener),
}


def connect_to_nobody() -> None:
    """Connect to a process that listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote.connect(f"127.0.0.1:{silent.getsockname()[1]}", token=TOKEN)


def gather_from_nobody(listener: remote.Listener) -> None:
    """Gather a tensor from a process that listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        remote.gather([listener.offer(np.zeros(3), address=address)], token=TOKEN, keep_alive=LIMIT)


@needs_ucx
@pytest.mark.parametrize("name", WAITS)
def test_signals_end_each_wait(name: str) -> None:
    """The handler of a signal runs while a call waits, and its exception ends the call. Other threads run meanwhile."""
    with pair() as (c, d, listener):
        c.send(b"abc")
        with interrupted():
            WAITS[name](c, listener)
        assert d.receive(timeout=LIMIT)[0].tolist() == [97, 98, 99]  # it was not lost


@needs_ucx
def test_ctrl_c_ends_a_process() -> None:
    with remote.listen("127.0.0.1:0", token=TOKEN) as listener:
        # A shell that runs the tests in the background makes its children ignore the signal.
        program = "signal.signal(signal.SIGINT, signal.default_int_handler); c = remote.connect(sys.argv[1], token=TOKEN); c.receive()"
        with python(program, listener.address, stderr=subprocess.PIPE) as child, listener.accept(timeout=LIMIT):
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=LIMIT)
            assert child.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


@needs_ucx
def test_a_child_of_fork() -> None:
    with pair() as (c, d, listener):
        descriptor = listener.offer(np.zeros(3))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                try:
                    c.send(b"abc")
                except RuntimeError as error:
                    status = 0 if "fork" in str(error) else 2
                c.close()
                listener.close()
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        c.send(b"abc")
        assert d.receive()[0].tolist() == [97, 98, 99] and c.fetch(descriptor)[0].tolist() == [0, 0, 0]


@needs_ucx
def test_a_thousand_objects() -> None:
    """Memory and descriptors do not grow with what is closed, nor with leases that have ended."""

    def open_now() -> tuple[int, int]:
        gc.collect()
        return dlx._live()["go"], len(os.listdir("/proc/self/fd"))

    with pair() as (c, d, listener):
        x = np.arange(100)

        def some(n: int) -> None:
            for _ in range(n):
                c.send(x)
                d.receive()
                c.fetch(descriptor, rows=slice(5))
                listener.offer(x, lease=1e-9)
                listener.withdraw(listener.offer(x))
                assert len(listener._offers) < 1000

        descriptor = listener.offer(x)
        some(100)
        before = open_now()
        some(250)
        end = time.monotonic() + LIMIT  # leases end, and memory is freed, soon after
        while (now := open_now()) > before and time.monotonic() < end:
            for d_, offer in list(listener._offers.items()):
                if d_ != descriptor and dlx._C.remote_offer_ended(offer):
                    listener.withdraw(d_)
            time.sleep(0.01)
        assert now[0] <= before[0] and now[1] <= before[1]


@needs_ucx
def test_owners_that_nobody_closes() -> None:
    listener = remote.listen("127.0.0.1:0", token=TOKEN)
    c = remote.connect(listener.address, token=TOKEN)
    listener.offer(np.zeros(3))
    c.offer(np.zeros(3))
    del listener, c
    gc.collect()
