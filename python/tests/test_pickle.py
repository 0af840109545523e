"""Pickles and copies of tensors: by value."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from producer import Producer

import dlx


def test_pickle() -> None:
    for dtype in "bool int8 uint16 int64 float16 float32 complex128".split():
        a = np.arange(24).astype(dtype).reshape(2, 3, 4)
        for view in (a, a.T, a[:, ::-2], a[:0], np.array(a[1, 2, 3]), a[:, None, 1]):
            t = dlx.from_dlpack(view)
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                u = pickle.loads(pickle.dumps(t, protocol))
                assert (u.shape, u.dtype, u.device, u.readonly) == (t.shape, t.dtype, "cpu", False)
                assert u.tolist() == t.tolist() and u.contiguous and (u.size == 0 or u.data_ptr != t.data_ptr)


@pytest.mark.parametrize(("code", "bits", "lanes", "flags"), [(4, 16, 1, 0), (17, 4, 1, 0), (17, 4, 1, 4), (0, 4, 2, 0), (1, 2, 3, 4), (15, 6, 1, 0), (3, 64, 1, 0), (200, 24, 3, 0)])
def test_pickle_of_other_types(code: int, bits: int, lanes: int, flags: int) -> None:
    t = dlx.from_dlpack(Producer(shape=(2, 3), strides=(3, 1), code=code, bits=bits, lanes=lanes, flags=flags))
    for u in (pickle.loads(pickle.dumps(t)), copy.copy(t), copy.deepcopy([t])[0]):
        assert (u.shape, u.dtype, u.flags & 4) == (t.shape, t.dtype, t.flags & 4)
        assert bytes(u) == bytes(t) and u.data_ptr != t.data_ptr


def test_devices() -> None:
    a = np.arange(6.0).reshape(2, 3)
    for device in dlx.devices():
        if device.type == "gl":  # DLPack has no such device
            continue
        t = dlx.from_dlpack(a).to(device)
        u = pickle.loads(pickle.dumps(t[:, 1:]))
        assert u.device == "cpu" and u.tolist() == a[:, 1:].tolist()
        for u in (copy.copy(t), copy.deepcopy({"t": t})["t"]):
            assert u.device == device and u.to("cpu").tolist() == a.tolist()


def test_copies_do_not_share() -> None:
    a = np.zeros(3)
    t = dlx.from_dlpack(a)
    copies = [copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))]
    a[:] = 1
    assert all(u.tolist() == [0, 0, 0] for u in copies) and t.tolist() == [1, 1, 1]


def test_wrong_pickles() -> None:
    make, arguments = dlx.empty((2, 3)).__reduce__()
    shape, code, bits, lanes, padded, data = arguments
    for wrong in (
        (shape, code, bits, lanes, padded, data[1:]),
        ((2, -3), code, bits, lanes, padded, data),
        ((1 << 40, 1 << 40), code, bits, lanes, padded, data),
        ((1,) * 65, code, bits, lanes, padded, data),
        (shape, 300, bits, lanes, padded, data),
        (shape, code, 0, lanes, padded, data),
        (shape, code, bits, 0, padded, data),
    ):
        with pytest.raises(ValueError, match="dlx: "):
            make(*wrong)
    with pytest.raises(TypeError):
        make(shape, code, bits, lanes, padded, "text")
