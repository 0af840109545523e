"""Elements of several lanes, such as the pairs of packed 4-bit floats that PyTorch has."""

from __future__ import annotations

import importlib.util
import itertools
import pathlib

import numpy as np
import pytest
from producer import Producer

import dlx

VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def weights() -> dlx.Tensor:
    """All 16 numbers of 4 bits, of the shape (2, 8)."""
    return dlx.from_dlpack(np.array(VALUES).reshape(2, 8)).astype("float4_e2m1fn")


def test_packed_numbers_both_ways(tmp_path: pathlib.Path) -> None:
    t = weights()
    pairs = t.with_lanes(2)
    assert pairs.dtype == "float4_e2m1fnx2" and pairs.shape == (2, 4) and pairs.nbytes == t.nbytes == 8
    assert pairs.data_ptr == t.data_ptr and pairs.contiguous
    assert pairs.tolist() == np.array(VALUES).reshape(2, 4, 2).tolist()
    back = pairs.with_lanes(1)
    assert back.dtype == t.dtype and back.shape == (2, 8) and back.tolist() == t.tolist()
    assert pairs[1].with_lanes(4).shape == (2,) and pairs[1].with_lanes(1).tolist() == VALUES[8:]
    # As the tensors of files, and on devices.
    dlx.save(tmp_path / "x.safetensors", {"w": t, "pairs": pairs})
    for loaded in (dlx.open(tmp_path / "x.safetensors"), dlx.load(tmp_path / "x.safetensors")):
        for name in ("w", "pairs"):
            assert loaded[name].dtype == "float4_e2m1fn" and loaded[name].shape == (2, 8)
            assert loaded[name].with_lanes(2).tolist() == pairs.tolist()
    for device in dlx.devices():
        if device.type != "gl":  # which DLPack does not have
            moved = pairs.to(device, copy=True)
            assert moved.dtype == pairs.dtype and moved.with_lanes(1).shape == (2, 8)
            assert moved.with_lanes(1).to("cpu").tolist() == t.tolist()
            assert moved.with_lanes(1)[1].to("cpu").tolist() == VALUES[8:]
            assert moved.with_lanes(4)[::-1].to("cpu").tolist() == np.array(VALUES).reshape(2, 2, 4)[::-1].tolist()
            assert moved.with_lanes(1)[:, :6].to("cpu").tolist() == np.array(VALUES).reshape(2, 8)[:, :6].tolist()
            assert moved.with_lanes(1)[1:1].to("cpu").shape == (0, 8)
            ints = dlx.from_dlpack(np.arange(24, dtype=np.int16).reshape(4, 6)).to(device, copy=True)[::-1]
            assert ints.with_lanes(3)[:, 1:].to("cpu").tolist() == np.arange(24).reshape(4, 2, 3)[::-1, 1:].tolist()


def test_what_another_library_gives() -> None:
    p = Producer(shape=(2, 4), strides=(4, 1), code=17, bits=4, lanes=2)
    t = dlx.from_dlpack(p)
    assert t.dtype == "float4_e2m1fnx2" and t.with_lanes(1).shape == (2, 8)
    assert t.with_lanes(1).data_ptr == t.data_ptr
    padded = dlx.from_dlpack(Producer(shape=(2, 4), strides=(4, 1), code=17, bits=4, flags=4))
    assert padded.with_lanes(2).nbytes == padded.nbytes == 8 and padded.with_lanes(2).flags == 4


def test_numbers_stay_where_they_are() -> None:
    a = np.arange(48, dtype=np.int16)
    for rows, columns, was, lanes in itertools.product((1, 2, 3), (1, 2, 4), (1, 2, 3, 4), (1, 2, 3, 4)):
        t = dlx.from_dlpack(a[: rows * columns * was].reshape(rows, columns * was)).with_lanes(was)
        if columns * was % lanes != 0:
            with pytest.raises(ValueError, match="divided"):
                t.with_lanes(lanes)
            continue
        u = t.with_lanes(lanes)
        assert u.shape == (rows, columns * was // lanes) and u.dtype.lanes == lanes and u.contiguous
        assert np.ravel(u.tolist()).tolist() == a[: rows * columns * was].tolist()
    assert dlx.from_dlpack(a.reshape(4, 12)[::2, :4]).with_lanes(4).strides == (6, 1)
    t = dlx.from_dlpack(a)
    assert t.with_lanes(np.int64(2)).shape == (24,)  # type: ignore[arg-type]
    assert dlx.empty((0, 4)).with_lanes(2).shape == (0, 2) and dlx.empty((3, 0)).with_lanes(2).shape == (3, 0)
    assert t[::2].with_lanes(1).strides == (2,) and dlx.empty(()).with_lanes(1).shape == ()


def test_what_cannot_be_divided() -> None:
    t = dlx.from_dlpack(np.arange(48, dtype=np.int16).reshape(6, 8))
    for wrong, lanes, text in (
        (t, 3, "divided"),
        (t[:, ::2], 2, "next to each other"),
        (t[:, ::-1], 2, "next to each other"),
        (t.T, 2, "next to each other"),
        (dlx.from_dlpack(np.arange(45, dtype=np.int16).reshape(9, 5))[:, :4], 2, "whole number"),
        (t[0, 0], 2, "without axes"),
        (t, 0, "1 to 65535"),
        (t, 65536, "1 to 65535"),
        (t, -1, "1 to 65535"),
        (t, 1 << 80, "cannot fit|large"),
    ):
        with pytest.raises(ValueError, match=text):
            wrong.with_lanes(lanes)
    with pytest.raises(TypeError):
        t.with_lanes("2")  # type: ignore[arg-type]


def test_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not in this environment")
    import torch

    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip(f"PyTorch {torch.__version__} does not have float4_e2m1fn_x2")
    t = weights()
    theirs = torch.from_dlpack(t.with_lanes(2))
    assert theirs.dtype == torch.float4_e2m1fn_x2 and theirs.shape == (2, 4) and theirs.data_ptr() == t.data_ptr
    back = dlx.from_dlpack(theirs).with_lanes(1)
    assert back.dtype == t.dtype and back.tolist() == t.tolist()
