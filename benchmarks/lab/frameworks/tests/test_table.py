"""The table survives frameworks that end their process, and says whose fault it is."""

import os

import pytest
import table

ADAPTER = """
import os, signal
import numpy as np
from . import Absent
from .numpy import address, dtype, elements, shape, writable
NAME, PACKAGES = "Crash", []

def make(dtype, layout):
    raise Absent("nothing")

def take(t, copy):
    if copy is not None or t.shape != ():  # one cell of each type is enough
        raise TypeError("no such cell")
    kind = getattr(t.dtype, "name", str(t.dtype))
    if kind == "int16":  # whoever made it
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "int32" and type(t).__module__.startswith("dlx"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "int8":
        return np.from_dlpack(t)
    raise TypeError("no such type")
"""


def test_crashes(tmp_path, monkeypatch):
    (tmp_path / "crash.py").write_text(ADAPTER)
    (tmp_path / "sitecustomize.py").write_text(f"import adapters\nadapters.__path__.append({str(tmp_path)!r})\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    # A few cells crash; the others are tried all the same.
    head, results = table.fill("crash")
    assert head["name"] == "Crash" and list(results) == table.cell_keys()
    kinds = {dtype: results["to", dtype, "0-d", "default"] for dtype in ("int8", "int16", "int32", "float32")}
    assert kinds["int8"] == ("passed", "shared") and kinds["float32"][0] == "refused"
    assert kinds["int16"] == ("crashed", "SIGKILL")
    assert kinds["int32"] == ("failed", "SIGSEGV, with the tensor of dlx alone")
    assert all(kind == "refused" for (way, _, layout, _), (kind, _) in results.items() if way == "to" and layout != "0-d")


def test_framework_that_does_not_start():
    with pytest.raises(SystemExit, match="does not start"):
        table.fill("no_such_framework")
