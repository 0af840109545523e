"""A plan says what the move does: the same way, or the same refusal."""

from __future__ import annotations

import gc
import pathlib
import re
import time
from typing import Any

import numpy as np
import pytest

import dlx

A = np.arange(4096, dtype=np.float32).reshape(64, 64)


def devices() -> list[dlx.Device]:
    return [d for d in dlx.devices() if d.type != "gl"]  # which DLPack does not have


@pytest.fixture(scope="module", autouse=True)
def staging_memory() -> None:
    """Let moves by staging memory make it: libdlx keeps it for later ones, and it would count as left open."""
    for source in devices():
        for device in devices():
            if "staged" in dlx.empty((64, 64), "float32", source).plan(device):
                result = dlx.empty((64, 64), "float32", source).to(device)
                np.from_dlpack(result.to("cpu", copy=True))  # waits for the work
                del result
    gc.collect()
    live, since, end = dlx._live(), time.monotonic(), time.monotonic() + 60
    while time.monotonic() - since < 1 and time.monotonic() < end:  # devices free memory a moment after their work
        time.sleep(0.01)
        if dlx._live() != live:
            live, since = dlx._live(), time.monotonic()


def tensors(folder: pathlib.Path) -> dict[str, dlx.Tensor]:
    """Tensors of every kind of memory."""
    dlx.save(folder / "x.safetensors", {"w": A})
    np.save(folder / "x.npy", A)
    dlx.save(folder / "x.npz", {"w": A}, compress=True)
    read_only = A.copy()
    read_only.flags.writeable = False
    found = {
        "array": dlx.from_dlpack(A.copy()),
        "rows backwards": dlx.from_dlpack(A.copy())[::-2],
        "columns": dlx.from_dlpack(A.copy()).T,
        "read-only array": dlx.from_dlpack(read_only),
        "bytes": dlx.from_dlpack(np.frombuffer(b"bytes of a text " * 1024, np.uint8)),
        "bytearray": dlx.from_dlpack(np.frombuffer(bytearray(b"bytes of a text " * 1024), np.uint8)),
        "no elements": dlx.empty((0, 3)),
        "one element": dlx.from_dlpack(np.array(1.5)),
        "packed": dlx.from_dlpack(A.copy()).astype("float4_e2m1fn"),
        "memory of dlx": dlx.empty((64, 64)),
        "mapped by NumPy": dlx.from_dlpack(np.load(folder / "x.npy", mmap_mode="r")),
        "mapped by NumPy to write": dlx.from_dlpack(np.load(folder / "x.npy", mmap_mode="r+")),
        "mapped by NumPy, copied on writes": dlx.from_dlpack(np.load(folder / "x.npy", mmap_mode="c")),
        "file": dlx.open(folder / "x.safetensors")["w"],
        "rows of a file": dlx.open(folder / "x.npy")["x"][3:9],
        "archive": dlx.open(folder / "x.npz")["w"],
        "loaded": dlx.load(folder / "x.npy", read="map")["x"],
        "loaded to write": dlx.load(folder / "x.npy", read="map", writable=True)["x"],
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        found["torch"] = dlx.from_dlpack(torch.from_numpy(A.copy()))
    for device in devices():
        found[f"on {device}"] = dlx.from_dlpack(A).to(device, copy=True)
        found[f"rows on {device}"] = found[f"on {device}"][1::3]
        found[f"allocated on {device}"] = dlx.empty((64, 64), "float32", device)
        found[f"loaded on {device}"] = dlx.load(folder / "x.npy", device, read="direct")["x"]
    return found


def planned(t: dlx.Tensor, device: dlx.Device, copy: bool | None) -> str:
    """Return the mechanism of a plan, or the exception."""
    try:
        text = t.plan(device, copy=copy)
    except (BufferError, RuntimeError, ValueError) as error:
        return type(error).__name__
    found = re.match(re.escape(f"{t.device} -> {device}: ") + r"(\w+), (\d+) bytes copied", text)
    assert found, text
    assert (int(found[2]) > 0) == (found[1] in ("peer", "direct", "staged") and t.size > 0), text
    return found[1]


def moves() -> dict[tuple[str, str, str], int]:
    return {(m["from"], m["to"], m["mechanism"]): m["moves"] for m in dlx.metrics()["moves"]}


def moved(t: dlx.Tensor, device: dlx.Device, copy: bool | None) -> str:
    """Return the mechanism of a move, or the exception."""
    before = moves()
    try:
        result = t.to(device, copy=copy)
    except (BufferError, RuntimeError, ValueError) as error:
        return type(error).__name__
    assert result.device == device and result.shape == t.shape and result.dtype == t.dtype
    counted = [key for key, n in moves().items() if n > before.get(key, 0)]
    if counted:
        [(source, to, mechanism)] = counted
        assert (source, to) == (t.device, device)
        return mechanism
    # The exchange and copies of host memory do without libdlx.
    same = (result.data_ptr, result.byte_offset) == (t.data_ptr, t.byte_offset)
    return "alias" if not t.size or (same and copy is not True) else "direct"


def test_a_plan_is_what_the_move_does(tmp_path: pathlib.Path) -> None:
    wrong: list[Any] = []
    for name, t in tensors(tmp_path).items():
        for device in devices():
            if {t.device.type, device.type} == {"cuda", "rocm"}:
                continue  # only the drivers can tell that the memory is another vendor's
            for copy in (None, False, True):
                plan, did = planned(t, device, copy), moved(t, device, copy)
                if plan != did:
                    wrong.append((name, str(device), copy, plan, did))
    assert not wrong


def test_a_plan_with_streams_is_what_the_move_does(tmp_path: pathlib.Path) -> None:
    for device in devices():
        with dlx.Stream(device) as s:
            for t in (dlx.from_dlpack(A), dlx.from_dlpack(A).to(device, copy=True)):
                for copy in (None, True):
                    text = t.plan(device, copy=copy, stream=s)
                    before = moves()
                    t.to(device, copy=copy, stream=s)
                    [(source, to, mechanism)] = [key for key, n in moves().items() if n > before.get(key, 0)]
                    assert text.startswith(f"{source} -> {to}: {mechanism}, ")


def test_what_no_backend_knows_is_refused_alike() -> None:
    t = dlx.from_dlpack(A)
    for device in ("oneapi:0", "hexagon:0"):
        for copy in (None, False, True):
            with pytest.raises((RuntimeError, BufferError)) as plan:
                t.plan(device, copy=copy)
            with pytest.raises((RuntimeError, BufferError)) as move:
                t.to(device, copy=copy)
            assert (plan.type, str(plan.value)) == (move.type, str(move.value))
