"""Python and Go exchange tensors in one process, in both directions, without a copy. Go is in the library libdlx."""

import numpy as np
import pytest

import dlx
from capsule import look


def address(array):
    return array.__array_interface__["data"][0]


def test_go_opens_a_file_and_python_reads_it(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(24, dtype=np.int32).reshape(4, 6))
    t = dlx.open(tmp_path / "x.npy")
    if isinstance(t, dlx.File):
        t = t[list(t)[0]] if not hasattr(t, "keys") else t[next(iter(t.keys()))]
    a = np.from_dlpack(t)
    assert a.tolist() == np.arange(24).reshape(4, 6).tolist()
    assert address(a) == look(t).address
    # The pages are Go's mapping of the file.
    with open("/proc/self/maps") as maps:
        lines = [line for line in maps if "x.npy" in line]
    assert any(int(low, 16) <= address(a) < int(high, 16) for low, high in (line.split()[0].split("-") for line in lines))
    assert not a.flags.writeable, "a mapped file is read-only"


def test_python_writes_and_go_reads():
    """Go copies what NumPy wrote, and NumPy reads what Go copied."""
    a = np.zeros((64, 32), dtype=np.float32)
    t = dlx.from_dlpack(a)
    a[:] = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    copied = t.to("cpu", copy=True)
    assert copied.data_ptr != t.data_ptr
    assert (np.from_dlpack(copied) == a).all()


def test_python_writes_into_memory_of_go():
    copied = dlx.from_dlpack(np.zeros(16)).to("cpu", copy=True)
    a = np.from_dlpack(copied)
    assert address(a) == look(copied).address
    a[:] = 7
    assert (np.from_dlpack(copied.to("cpu", copy=True)) == 7).all()


@pytest.mark.parametrize("step", [1, -1, 3])
def test_go_copies_strides_of_python(step):
    a = np.arange(60.0).reshape(6, 10)[:, ::step]
    assert (np.from_dlpack(dlx.from_dlpack(a).to("cpu", copy=True)) == a).all()
