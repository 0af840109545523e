"""Rings of slots that dlx.share publishes and subscribes to."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from connections import LIMIT, pair, socketpair

import dlx
from dlx import share


def put(p: share.Publisher, value: float) -> int:
    """Send a frame with one number."""
    t = p.loan(timeout=LIMIT)
    np.from_dlpack(t)[:] = value
    return p.send(t, timeout=LIMIT)


def first(t: dlx.Tensor) -> float:
    """Return the first number of a frame."""
    return float(t[0].item())


def test_a_queue_has_every_frame() -> None:
    with pair() as (c, d), c.publish("frames", shape=3, slots=4) as p, d.subscribe("frames", timeout=LIMIT) as s:
        p.wait_readers(timeout=LIMIT)
        assert [(r["mechanism"], r["bytes_copied"], r["peer"]["pid"]) for r in p.readers] == [("map", 0, os.getpid())]
        for i in range(1, 20):
            assert put(p, i) == i
            with s.receive(timeout=LIMIT) as frame:
                assert (frame.sequence, frame.tensor.shape, frame.tensor.readonly) == (i, (3,), True)
                assert first(frame.tensor) == i
                frame.check()
            with pytest.raises(ValueError, match="released"):
                frame.tensor
        p.wait_released(LIMIT)
        put(p, 20)
        put(p, 21)
        p.close()
        assert [(frame.sequence, first(frame.tensor)) for frame in s] == [(20, 20), (21, 21)]
        with pytest.raises(EOFError, match="ended the ring"):
            s.receive()


def test_the_latest_frame() -> None:
    with pair() as (c, d), c.publish("x", shape=(3,), mode="latest", slots=5) as p, d.subscribe("x", hold=2, timeout=LIMIT) as s:
        p.wait_readers(timeout=LIMIT)
        for i in range(1, 200):
            put(p, i)
        one = s.receive(timeout=LIMIT)
        assert one.sequence == 199 and first(one.tensor) == 199
        with pytest.raises(TimeoutError):
            s.receive(timeout=0.01)
        put(p, 200)
        two = s.receive(timeout=LIMIT)
        put(p, 201)
        with pytest.raises(MemoryError, match="held"):
            s.receive(timeout=LIMIT)
        assert (first(one.tensor), first(two.tensor)) == (199, 200)
        for frame in (one, two):
            frame.close()
            frame.close()
        assert s.receive(timeout=LIMIT).sequence == 201
        kept = [p.loan() for _ in range(1)]
        with pytest.raises(MemoryError, match="slots"):
            while True:
                kept.append(p.loan())


def test_arrays_keep_their_slot() -> None:
    with pair() as (c, d), c.publish("x", shape=3, slots=2) as p, d.subscribe("x", timeout=LIMIT) as s:
        p.wait_readers(timeout=LIMIT)
        put(p, 1)
        frame = s.receive(timeout=LIMIT)
        view = memoryview(frame.tensor)
        frame.close()
        with pytest.raises(TimeoutError):
            p.wait_released(0.01)
        assert view[0] == 1
        view.release()
        p.wait_released(LIMIT)
        t = p.loan()  # at the publisher, too
        a = np.from_dlpack(t)
        p.send(t)
        for wrong in (t, t[1:], share.empty(3), dlx.empty(3)):
            with pytest.raises(ValueError, match="loan"):
                p.send(wrong)
        s.receive().close()
        del t
        other = p.loan()
        with pytest.raises(TimeoutError):
            p.loan(timeout=0.01)
        del a
        again = p.loan(timeout=LIMIT)
        del other, again  # they are not sent
        put(p, 2)
        with s.receive(timeout=LIMIT) as frame:
            assert first(frame.tensor) == 2 and frame.sequence == 3


def test_memory_outlives_its_ring() -> None:
    with pair() as (c, d):
        p = c.publish("x", shape=3)
        s = d.subscribe("x", timeout=LIMIT)
        p.wait_readers(timeout=LIMIT)
        loaned = p.loan()
        t = p.loan()
        np.from_dlpack(t)[:] = 7
        p.send(t)
        frame = s.receive()
        u = frame.tensor
        p.close()
        s.close()
    for x in (t, u):
        assert x.tolist() == [7, 7, 7]
    np.from_dlpack(loaned)[:] = 1
    for closed in (p.loan, s.receive, p.wait_released, lambda: p.readers, lambda: p.send(loaned)):
        with pytest.raises(ValueError, match="closed"):
            closed()  # type: ignore[operator]
    frame.close()


def test_each_device() -> None:
    for device in dlx.devices():
        if device.type == "gl":
            continue
        with pair(devices=[device]) as (c, d):
            try:
                p = c.publish("x", shape=3, device=device)
            except RuntimeError as error:
                assert "export" in str(error) or "open" in str(error) or "not supported" in str(error)
                continue
            with p, d.subscribe("x", device=device, timeout=LIMIT) as s:
                p.wait_readers(timeout=LIMIT)
                t = p.loan()
                assert t.device == device
                p.send(t)
                with s.receive(timeout=LIMIT) as frame:
                    assert frame.tensor.device == device and frame.tensor.shape == (3,)


def test_errors_name_nothing_of_go() -> None:
    with pair() as (c, d):
        for device in dlx.devices():
            if device.type == "cpu":
                continue
            with pytest.raises(RuntimeError) as raised:
                c.publish("x", shape=3, device=device)
            assert "name the same device at both sides" in str(raised.value) or "exports no memory" in str(raised.value)
            assert "Options" not in str(raised.value)
        with c.publish("y", shape=3, slots=4, mode="latest") as p, d.subscribe("y", hold=2, timeout=LIMIT) as s:
            frames = []
            for i in range(2):
                put(p, i)
                frames.append(s.receive(timeout=LIMIT))
            put(p, 2)
            with pytest.raises(MemoryError, match="release one, or subscribe to hold more$"):
                s.receive(timeout=LIMIT)
            for frame in frames:
                frame.close()
            with pytest.raises(TimeoutError, match="dlx: the time limit of the call has passed$"):
                d.subscribe("nobody", timeout=0.01)
            with pytest.raises(ValueError, match="send the tensor of a loan, once"):
                p.send(share.empty(3))


def test_several_subscribers() -> None:
    with pair() as (c, d), pair() as (e, f), c.publish("x", shape=3) as p:
        p.offer(e)
        with d.subscribe("x", timeout=LIMIT) as s, f.subscribe("x", timeout=LIMIT) as t:
            p.wait_readers(2, timeout=LIMIT)
            for i in range(10):
                put(p, i)
                assert [first(x.tensor) for x in (s.receive(timeout=LIMIT), t.receive(timeout=LIMIT))] == [i, i]


def test_wrong_rings() -> None:
    with pair() as (c, d):
        with c.publish("x", shape=3), pytest.raises(ValueError, match="another name"):
            c.publish("x", shape=3)
        for options in (
            {"shape": 3, "slots": 0},
            {"shape": 3, "slots": 257},
            {"shape": 3, "slots": 2, "mode": "latest"},
            {"shape": 3, "mode": "newest"},
            {"shape": -1},
            {"shape": (0, 3)},
            {"shape": (1,) * 65},
            {"shape": 3, "dtype": "nonsense"},
            {"shape": 3, "device": "nonsense"},
        ):
            with pytest.raises(ValueError, match="dlx: "):
                c.publish("y", **options)  # type: ignore[arg-type]
        for name in ("", "x" * 2000, "a\0b"):
            with pytest.raises(ValueError):
                c.publish(name, shape=3)
        for hold in (0, 257):
            with pytest.raises(ValueError, match="held"):
                d.subscribe("x", hold=hold)
        with pytest.raises(TimeoutError):
            d.subscribe("nothing", timeout=0.01)
        c.close()
        for call in (lambda: d.subscribe("x"), lambda: d.publish("x", shape=3)):
            with pytest.raises(EOFError):
                call()


def child(program: str, fd: int) -> subprocess.Popen[str]:
    """Start another process, which has one end of a connection."""
    source = f"import sys, time, numpy as np, dlx\nfrom dlx import share\nc = share.adopt({fd})\n" + program
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", source], env=environment, stdout=subprocess.PIPE, text=True, pass_fds=[fd])


def test_two_processes() -> None:
    one, two = socketpair()
    with share.adopt(one) as c, c_child("print(sum(int(f.tensor[0].item()) for f in c.subscribe('x')))", two) as process:
        with c.publish("x", shape=(100, 100), dtype="int32", timeout=LIMIT) as p:
            p.wait_readers(timeout=LIMIT)
            for i in range(100):
                put(p, i)
            p.wait_released(LIMIT)
        assert process.communicate(timeout=LIMIT)[0] == "4950\n" and process.returncode == 0


def c_child(program: str, end: socket.socket) -> subprocess.Popen[str]:
    """Start another process with a program in which frames are matrices, and close its end here."""
    process = child(program.replace("f.tensor[0].item()", "f.tensor[0, 0].item()"), end.fileno())
    end.close()
    return process


def test_a_subscriber_that_is_killed() -> None:
    one, two = socketpair()
    process = child("s = c.subscribe('x')\nf = s.receive()\nprint('has it', flush=True)\ntime.sleep(1000)", two.fileno())
    two.close()
    with share.adopt(one) as c, process, c.publish("x", shape=3, slots=1, timeout=LIMIT) as p:
        p.wait_readers(timeout=LIMIT)
        put(p, 1)
        assert process.stdout is not None and process.stdout.readline() == "has it\n"
        with pytest.raises(TimeoutError):
            p.loan(timeout=0.01)
        process.kill()
        p.loan(timeout=LIMIT)  # its slot is free


def test_a_publisher_that_is_killed() -> None:
    one, two = socketpair()
    program = """
p = c.publish('x', shape=3)
p.wait_readers()
t = p.loan()
np.from_dlpack(t)[:] = 5
p.send(t)
time.sleep(1000)
"""
    process = child(program, two.fileno())
    two.close()
    with share.adopt(one) as c, process, c.subscribe("x", timeout=LIMIT) as s:
        frame = s.receive(timeout=LIMIT)
        process.kill()
        with pytest.raises(ConnectionResetError):
            s.receive(timeout=LIMIT)
        assert frame.tensor.tolist() == [5, 5, 5]
        frame.close()


@pytest.mark.parametrize("name", ["loan", "receive", "wait_readers", "wait_released", "subscribe"])
def test_signals_end_each_wait(name: str) -> None:
    class Stop(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Stop

    with pair() as (c, d), c.publish("x", shape=3, slots=1) as p, d.subscribe("x", timeout=LIMIT) as s:
        p.wait_readers(timeout=LIMIT)
        put(p, 1)
        if name == "receive":
            s.receive().close()
        calls = {
            "loan": p.loan,
            "receive": s.receive,
            "wait_readers": lambda: p.wait_readers(2),
            "wait_released": p.wait_released,
            "subscribe": lambda: d.subscribe("nothing"),
        }
        previous = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Stop):
                calls[name]()  # type: ignore[operator]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        if name != "receive":
            s.receive(timeout=LIMIT).close()
        put(p, 2)
        with s.receive(timeout=LIMIT) as frame:  # nothing was lost
            assert first(frame.tensor) == 2


def test_threads() -> None:
    """One thread publishes while another one receives, which waits for it."""
    with pair() as (c, d), c.publish("x", shape=1000, slots=3) as p, d.subscribe("x", timeout=LIMIT) as s:

        def publish() -> None:
            p.wait_readers(timeout=LIMIT)
            for i in range(500):
                put(p, i)
            p.wait_released(LIMIT)
            p.close()

        thread = threading.Thread(target=publish)
        thread.start()
        assert [first(frame.tensor) for frame in s] == list(range(500))
        thread.join()


def test_owners_that_nobody_closes() -> None:
    with pair() as (c, d):
        p = c.publish("x", shape=3)
        s = d.subscribe("x", timeout=LIMIT)
        p.wait_readers(timeout=LIMIT)
        put(p, 1)
        frame = s.receive(timeout=LIMIT)
        del p, s
        gc.collect()
        assert first(frame.tensor) == 1
        del frame
        gc.collect()
