"""What mypy checks, see scripts/test-python.sh: the types that programs see. It also runs."""

from __future__ import annotations

import os
import pathlib
import socket
from typing import Any

import numpy as np

import dlx
from dlx._build import BUILD


def test_types() -> None:
    t: dlx.Tensor = dlx.from_dlpack(np.zeros((2, 3), np.float32), device="cpu", copy=None)
    shape: tuple[int, ...] = t.shape
    kind: dlx.dtype = t.dtype
    bits: int = kind.bits
    device: dlx.Device = t[0, ..., None, 1:].T.device
    index: int = device.id
    plan: str = t.plan("cpu", copy=None)
    moved: dlx.Tensor = dlx.empty((2, 3), "float32", device).to(device)
    pair: tuple[int, int] = t.__dlpack_device__()
    name: str = kind
    assert (shape, bits, index, pair, name) == ((2, 3), 32, 0, (1, 0), "float32")
    assert plan and moved.shape == shape
    assert np.from_dlpack(t).shape == shape
    assert memoryview(t).shape == shape


def test_types_of_load(tmp_path: pathlib.Path) -> None:
    path: os.PathLike[str] = tmp_path / "x.npy"
    dlx.save(path, np.zeros(4))
    loaded: dlx.Loaded = dlx.load([path], "cpu", only="x", slices={"x": (0, 0, 2)}, dtype=np.float32)
    t: dlx.Tensor = loaded["x"]
    names: list[str] = list(loaded)
    assert t.shape == (2,) and names == ["x"] and loaded.report["tensors"] == 1


def test_types_of_streams() -> None:
    with dlx.Stream("cpu") as s, s.record() as event:
        t: dlx.Tensor = dlx.empty(3, stream=s).to("cpu", copy=True, stream=s, source_stream=s).copy(stream=s)
        s.wait(event)
        s.wait(t)
        s.wait(s)
        s.synchronize(timeout=1.5)
        event.wait(1)
        device: dlx.Device = s.device
        native: int = s.native
        done: bool = event.done
        assert (device, native, done) == ("cpu", 0, True) and t.plan("cpu", stream=s)


def test_types_of_share(tmp_path: pathlib.Path) -> None:
    path: pathlib.Path = tmp_path / "socket"
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with dlx.share.listen(path, devices=["cpu"], tensors=3) as listener:
        listening: str = listener.path
        assert listening == str(path)
    with dlx.share.adopt(one) as c, dlx.share.adopt(two.detach(), read_only=True) as d:
        with dlx.share.pickling(limit=3):
            t: dlx.Tensor = dlx.share.empty((2, 3), "float32", "cpu")
            sent: dlx.share.Report = c.send(t, "label", timeout=60)
            received, report = d.receive("cpu", timeout=60)
            copied: int = sent.bytes_copied
            how: str = report.mechanism
            pid: int = c.peer.pid
            counts: dict[str, int] = c.stats
            shape: tuple[int, ...] = received.shape
            closed: bool = c.closed
            assert (copied, how, shape, closed, report.label) == (0, "map", (2, 3), False, "label")
            assert pid == os.getpid() and counts["sent"] == 1
            del received
            c.wait_released(60)
            c.check()


def test_types_of_metrics() -> None:
    numbers: dict[str, Any] = dlx.metrics()
    assert "devices" in numbers


def test_types_of_remote() -> None:
    assert dlx.remote.dial is dlx.remote.connect
    if "ucx" not in BUILD["tags"]:
        return
    with dlx.remote.listen("127.0.0.1:0", token=bytes(16)) as listener:
        address: str = listener.address
        with dlx.remote.connect(address, token=bytes(16)) as c, listener.accept(timeout=60.0) as d:
            sent: dlx.remote.Report = c.send(np.zeros(3), "label")
            t, report = d.receive("cpu", timeout=60.0)
            descriptor: bytes = listener.offer(t, lease=60.0, writable=True)
            listener.offer(np.zeros(3), name="x")
            listed: list[dlx.remote.Offered] = c.list(timeout=60.0)
            name: str = listed[0].name
            nbytes: int = listed[0].nbytes
            assert (name, nbytes) == ("x", 24)
            about: dlx.remote.Description = dlx.remote.describe(descriptor)
            u: dlx.Tensor = dlx.remote.fetch(descriptor, "cpu", rows=slice(2), token=bytes(16))[0]
            transports: tuple[str, ...] = c.put(descriptor, u, start=1).transports
            kind: dlx.dtype = about.dtype
            assert (sent.label, report.label, kind, u.shape) == ("label", "label", "float64", (2,)) and transports
