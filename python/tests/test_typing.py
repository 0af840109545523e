"""What mypy checks, see scripts/test-python.sh: the types that programs see. It also runs."""

from __future__ import annotations

import numpy as np

import dlx


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
