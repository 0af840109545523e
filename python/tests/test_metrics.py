"""dlx.metrics counts what libdlx has done in the process."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

import dlx


def entry(entries: list[dict[str, Any]], **keys: object) -> dict[str, Any]:
    """Return the entry with the given values, or one that counts nothing."""
    found = [e for e in entries if all(e[k] == v for k, v in keys.items())]
    assert len(found) <= 1
    return found[0] if found else dict.fromkeys(("allocs", "allocated_bytes", "moves", "bytes", "count"), 0)


def test_metrics(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(100))
    for device in dlx.devices():
        if device.type == "gl":  # DLPack has no such device
            continue
        before = dlx.metrics()
        assert set(before) - {"share"} == {"devices", "moves", "move_errors", "lost_tensors"}
        t = dlx.from_dlpack(np.zeros(1000, np.uint8)).to(device, copy=True) if device != "cpu" else None
        loaded = dlx.load(tmp_path / "x.npy", device, read="direct")
        after = dlx.metrics()
        was, now = (entry(m["devices"], device=device) for m in (before, after))
        count = 1 if t is None else 2
        assert now["allocs"] - was["allocs"] == count and now["tensors"] >= (1 if t is not None else 0)
        assert now["allocated_bytes"] - was["allocated_bytes"] == (800 if t is None else 1800)
        was, now = (entry(m["moves"], to=device, mechanism="load") for m in (before, after))
        assert (now["moves"] - was["moves"], now["bytes"] - was["bytes"]) == (1, 800)
        del loaded


def test_moves_that_fail() -> None:
    refused = 0
    before = entry(dlx.metrics()["move_errors"], error="not_supported")["count"]
    for device in dlx.devices():
        try:
            dlx.from_dlpack(np.zeros(100, np.uint8)[1:]).to(device, copy=False)
        except BufferError:
            refused += 1
    assert entry(dlx.metrics()["move_errors"], error="not_supported")["count"] - before == refused
    if len(dlx.devices()) > 1:
        assert refused > 0


def test_a_process_that_has_done_nothing() -> None:
    program = "import dlx; assert dlx.metrics() == {'devices': [], 'moves': [], 'move_errors': [], 'lost_tensors': 0}"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=env)


def test_a_child_of_fork_has_no_metrics() -> None:
    dlx.metrics()
    child = os.fork()
    if child == 0:
        try:
            dlx.metrics()
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
