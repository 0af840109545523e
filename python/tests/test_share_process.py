"""Tensors that dlx.share passes to other processes; signals, Ctrl-C and fork."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from connections import LIMIT, pair, socketpair
from interrupts import interrupted

import dlx
from dlx import share


def python(program: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start another process with a program."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "import sys, time, os, numpy as np, dlx\nfrom dlx import share\n" + program, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def test_two_processes(tmp_path: pathlib.Path) -> None:
    """Frames go to another process and come back; the memory is passed once."""
    path = tmp_path / "socket"
    with share.listen(path) as listener:
        child = python(
            """
with share.connect(sys.argv[1]) as c:
    for frame, report in c:
        a = np.from_dlpack(frame)
        a += 1
        c.send(np.array([a.sum(), report.bytes_copied]), report.label)
        del a, frame
    print(c.stats["memories_opened"])
""",
            str(path),
        )
        with child, listener.accept(timeout=LIMIT) as c:
            t = share.empty((100, 7), "float64")
            for i in range(20):
                np.from_dlpack(t)[:] = i  # waits until the other process has released it
                sent = c.send(t, str(i))
                answer, report = c.receive(timeout=LIMIT)
                assert (answer.tolist(), report.label, sent.bytes_copied) == ([700.0 * (i + 1), 0], str(i), 0)
                assert c.peer.pid == child.pid
            del answer
            c.close()
            assert child.communicate()[0] == "1\n" and child.returncode == 0


def test_a_process_that_is_killed() -> None:
    one, two = socketpair()
    t = share.empty(3)
    with share.adopt(one) as c:
        child = python(
            "c = share.adopt(int(sys.argv[1])); t, _ = c.receive(); print('has it', flush=True); time.sleep(1000)",
            str(two.fileno()),
            pass_fds=[two.fileno()],
        )
        two.close()
        with child:
            c.send(t)
            assert child.stdout is not None and child.stdout.readline() == "has it\n"
            with pytest.raises(TimeoutError):
                c.wait_released(0.01)
            child.kill()
            with pytest.raises(ConnectionResetError):
                c.receive()
            np.from_dlpack(t)[:] = 1  # nobody has the memory any more
            with pytest.raises(ConnectionResetError):
                c.wait_released()


def test_go_receives_and_sends(tmp_path: pathlib.Path) -> None:
    """The command dlx is the other process, in Go."""
    command = [sys.executable, "-m", "dlx"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    path = tmp_path / "socket"
    receiver = subprocess.Popen([*command, "receive", path, "--to", "cpu", "--json"], stdout=subprocess.PIPE, env=environment)
    c = _connect(path, receiver)
    t = share.empty((3, 4))
    np.from_dlpack(t)[:] = 2
    with receiver, c:
        assert c.send(t, "shared").bytes_copied == 0
        assert c.send(np.zeros((5, 6)), "copied").bytes_copied == 240
        c.wait_released(LIMIT)
        c.close()
        output = json.loads(receiver.communicate()[0])["result"]
    assert receiver.returncode == 0
    assert [(x["tensor"], x["shape"]) for x in output["tensors"]] == [("shared", [3, 4]), ("copied", [5, 6])]
    np.savez(tmp_path / "x.npz", a=np.arange(6), b=np.ones((2, 2)))
    with share.listen(path) as listener:
        sender = subprocess.Popen([*command, "send", tmp_path / "x.npz", "--to", path, "--json"], stdout=subprocess.PIPE, env=environment)
        with sender, listener.accept(timeout=LIMIT) as c:
            got = []
            for frame, report in c:
                got.append((frame.tolist(), report.bytes_copied))
                del frame  # the command waits for that
            sent = json.loads(sender.communicate(timeout=LIMIT)[0])["result"]
        assert got == [([0, 1, 2, 3, 4, 5], 0), ([[1, 1], [1, 1]], 0)]
        assert sender.returncode == 0 and sent["bytes_copied"] == 0


def _connect(path: pathlib.Path, process: subprocess.Popen[Any]) -> share.Connection:
    """Connect to a process that is about to listen."""
    while True:
        try:
            return share.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            assert process.poll() is None
            time.sleep(0.001)


WAITS: dict[str, Callable[[share.Connection, share.Listener, dlx.Tensor], object]] = {
    "receive": lambda c, listener, t: c.receive(),
    "wait_released": lambda c, listener, t: c.wait_released(),
    "accept": lambda c, listener, t: listener.accept(),
    "send": lambda c, listener, t: c.send(t),
    "memoryview": lambda c, listener, t: memoryview(t),
    "dlpack": lambda c, listener, t: np.from_dlpack(t),
}


@pytest.mark.parametrize("name", WAITS)
def test_signals_end_each_wait(name: str, tmp_path: pathlib.Path) -> None:
    """The handler of a signal runs while a call waits, and its exception ends the call. Other threads run meanwhile."""
    with pair(tensors=1) as (c, d), share.listen(tmp_path / "socket") as listener:
        t = share.empty(3)
        c.send(t)
        with interrupted():
            WAITS[name](c, listener, t)
        u, _ = d.receive(timeout=LIMIT)  # nothing was lost
        del u
        c.wait_released(LIMIT)


def test_ctrl_c_ends_a_process() -> None:
    one, two = socketpair()
    child = python(
        # A shell that runs the tests in the background makes its children ignore the signal.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "c = share.adopt(int(sys.argv[1])); print('waits', flush=True); c.receive()",
        str(two.fileno()),
        pass_fds=[two.fileno()],
        stderr=subprocess.PIPE,
    )
    with one, child:
        two.close()
        assert child.stdout is not None and child.stdout.readline() == "waits\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=LIMIT)
        assert child.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


def test_a_child_of_fork() -> None:
    """It can read and write the memory, but not use connections."""
    with pair() as (c, d):
        t = share.empty(3, "int32")
        np.from_dlpack(t)[:] = 1
        c.send(t)
        u, _ = d.receive()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                np.from_dlpack(u)[1] = 2  # nobody waits
                np.from_dlpack(t)[2] = 3
                try:
                    c.send(t)
                except RuntimeError as error:
                    status = 0 if "fork" in str(error) and t.tolist() == u.tolist() == [1, 2, 3] else 2
                c.close()
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert u.tolist() == [1, 2, 3] and not c.closed
        c.check()
        del u
        c.wait_released(LIMIT)
