"""A file that is shortened while tensors of it are open: what dlx reads itself is an OSError, and not the end."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import dlx

READS = {
    "copy": "t.copy()",
    "tolist": "t.tolist()",
    "item": "t[-1:, -1:].item()",
    "repr": "repr(t)",
    "str": "str(t)",
    "bytes": "bytes(t)",
    "in": "5 in t",
    "number": "float(t[-1, -1])",
    "to": 't.to("cpu", copy=True)',
    "import": "dlx.from_dlpack(t, copy=True)",
    "export": "t.__dlpack__(max_version=(1, 0), copy=True)",
    "astype": 't.astype("int8")',
    "save": 'dlx.save(path + ".npy", t)',
    "device": "t.to(device)",
}

# Each process reads in all ways that its arguments name: a read that is not guarded ends it.
PROGRAM = """
import errno, os, sys, dlx
path, layout, again, device, *reads = sys.argv[1:]
t = dlx.open(path).tensor()
t = {"rows": t, "columns": t.T, "strided": t[::2, ::-3], "column": t[400:, 3:4]}[layout]
if again == "True":
    with open(path, "wb") as f: f.write(b"short")
else:
    os.truncate(path, 4096)
for read in reads:
    try:
        result = eval(read)
    except OSError as e:
        assert e.errno == errno.EFAULT and "truncated" in str(e), (read, e)
    else:
        assert read == "t.to(device)" and layout != "rows", (read, "no error")
"""


@pytest.mark.parametrize("layout", ["rows", "columns", "strided", "column"])
@pytest.mark.parametrize("again", [False, True])
def test_reads_of_a_shortened_file(layout: str, again: bool, tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "x.npy")
    devices = [d for d in dlx.devices() if d.type not in ("cpu", "gl")]
    for device in devices or ["cpu"]:
        np.save(path, np.arange(512 * 512, dtype="f4").reshape(512, 512))
        reads = [read for name, read in READS.items() if devices or name != "device"]
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, path, layout, str(again), device, *reads],
            capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert (result.returncode, result.stderr) == (0, ""), device


def test_what_is_left_can_be_read(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "x.npy")
    np.save(path, np.arange(1 << 16))
    t = dlx.open(path).tensor()
    os.truncate(path, 4096)
    assert t[10].item() == 10 and t[:3].copy().tolist() == [0, 1, 2]
    with pytest.raises(OSError) as caught:
        t[-1].item()
    assert caught.value.errno == errno.EFAULT


def test_copies_of_files(tmp_path: pathlib.Path) -> None:
    """They are made another way than other copies, and are like them."""
    path = tmp_path / "x.npy"
    a = np.arange(600, dtype="f4").reshape(20, 30)
    np.save(path, a)
    t = dlx.open(path).tensor()
    for view, want in ((t, a), (t.T, a.T), (t[::2, ::-3], a[::2, ::-3]), (t[3:3], a[3:3]), (t[1, 2], a[1, 2])):
        c = view.copy()
        assert c.tolist() == want.tolist() and c.contiguous and not c.readonly and c.device == "cpu"
        assert c.size == 0 or c.data_ptr != view.data_ptr and c.data_ptr % 256 == 0
    np.from_dlpack(t.copy())[:] = 1
    if hasattr(os, "fork"):
        program = (
            "import os, sys, dlx\n"
            "t = dlx.open(sys.argv[1]).tensor()\n"
            "pid = os.fork()\n"
            "if pid == 0: os._exit(0 if t.copy()[1, 2].item() == 32 and '599' in repr(t) else 1)\n"
            "sys.exit(os.waitpid(pid, 0)[1])"
        )
        subprocess.run([sys.executable, "-c", program, path], check=True, timeout=300)
