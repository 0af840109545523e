"""The frameworks' own tests of DLPack, with a tensor of dlx in between.

    python -m suites TABLE    runs all, and adds their results to the table

A plugin of pytest, one of through_*.py, puts the tensor there. A test that fails with it is run without: one that fails
then, too, is the framework's affair.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Callable
from typing import NamedTuple

from . import fetch

HERE = pathlib.Path(__file__).resolve().parent


class Suite(NamedTuple):
    name: str
    fetch: Callable
    files: tuple
    plugins: tuple
    left_out: dict = {}  # tests that ask for what a tensor in between changes, and why
    environment: dict = {}


BY_NAME = "nanobind converts and rearranges the elements of arrays whose module it knows by name, and dlx is none of them"
SUITES = [
    Suite("NumPy", fetch.installed("numpy"), ("_core/tests/test_dlpack.py",), ("numpy",), {
        "test_writeable": "NumPy takes a tensor that has only the legacy struct as read-only; dlx offers it with a version"}),
    Suite("PyArrow", fetch.installed("pyarrow"), ("tests/test_dlpack.py",), ("numpy",), {
        "test_dlpack_not_supported": "dlx reports PyArrow's TypeError as a BufferError, with the same words"}),
    Suite("nanobind", fetch.nanobind, ("test_ndarray.py",), ("numpy", "nanobind"), {
        "test20_return_array_api": "it asks for the refusal of copy=True, for which dlx makes the copy"} | dict.fromkeys((
        "test10_implicit_conversion", "test10b_implicit_conversion_unusual_module", "test11_implicit_conversion_pytorch",
        "test33_force_contig_numpy", "test34_force_contig_pytorch", "test46_implicit_conversion_contiguous_complex"), BY_NAME)),
    Suite("tvm-ffi, exchange table", fetch.sdist("apache-tvm-ffi", "tests/python"), ("test_dlpack_exchange_api.py",),
          ("tvm_ffi_table",)),
    Suite("tvm-ffi, tensors", fetch.sdist("apache-tvm-ffi", "tests/python"),
          ("test_tensor.py", "test_container_dlpack_conversion.py"), ("tvm_ffi",)),
    Suite("PyTorch", fetch.debian("pytorch", "trixie", "test/test_dlpack.py"), ("test_dlpack.py",), ("numpy", "torch")),
    Suite("array-api-tests", fetch.git("https://github.com/data-apis/array-api-tests",
                                       "55fcc60179efa2680ddd6cd926ddf17b83530e2b", "DLX_ARRAY_API_TESTS"),
          ("array_api_tests/test_dlpack.py",), ("numpy", "array_api"), {}, {"ARRAY_API_TESTS_MODULE": "array_api_strict"}),
]
QUICK = SUITES[:5]  # the others are fetched by make interop


def outcomes(suite, folder, plugins):
    """The outcome of each test of a suite: passed, skipped, or the text of its failure."""
    # Not the folder of a package, whose modules would hide others of their names.
    beside = "" if pathlib.Path(folder, "__init__.py").exists() else str(folder)
    paths = [str(HERE.parent), beside, os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory() as work:
        report = pathlib.Path(work, "report.xml")
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-o", "addopts=", f"--junitxml={report}",
             *(f"-psuites.through_{plugin}" for plugin in plugins), *(pathlib.Path(folder, file) for file in suite.files)],
            capture_output=True, text=True, cwd=folder if beside else work,
            env=os.environ | suite.environment | {"PYTHONPATH": os.pathsep.join(filter(None, paths))})
        if not report.exists():
            raise RuntimeError(f"{suite.name} did not run: {ended.stdout[-1000:]}{ended.stderr[-1000:]}")
        found = {}
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            bad = [child for child in case if child.tag in ("failure", "error")]
            name = case.get("name")
            found[name] = bad[0].get("message") if bad else "skipped" if case.find("skipped") is not None else "passed"
        return found


def run(suite):
    """The results of a suite. wrong has the tests that only fail with dlx; unneeded, those left out that pass."""
    folder, source = suite.fetch()
    through = outcomes(suite, folder, suite.plugins)
    failed = {name for name, outcome in through.items() if outcome not in ("passed", "skipped")}
    left_out = {name for name in failed if name.split("[")[0] in suite.left_out}
    own = set()
    if failed - left_out:
        without = outcomes(suite, folder, ())
        own = {name for name in failed - left_out if without.get(name) not in ("passed", "skipped")}
    return {
        "name": suite.name, "source": source, "files": list(suite.files),
        "passed": list(through.values()).count("passed"), "skipped": list(through.values()).count("skipped"),
        "own": sorted(own), "left_out": {name: suite.left_out[name.split("[")[0]] for name in sorted(left_out)},
        "wrong": {name: through[name] for name in sorted(failed - left_out - own)},
        "unneeded": sorted(set(suite.left_out) - {name.split("[")[0] for name in left_out}),
    }
