"""dpnp and dlx exchange unified shared memory in one context of SYCL, without a copy. make test-dpnp installs dpnp."""

import json
import os
import pathlib
import subprocess
import sys

import oneapi
import pytest

import dlx

dpnp = pytest.importorskip("dpnp", reason="dpnp is not installed here: make test-dpnp has it")


@pytest.fixture(scope="module", autouse=True)
def adopted():
    dlx.adopt_sycl_context(dpnp.empty(1))


@pytest.fixture(scope="module")
def table():
    """What docs/interop.json says."""
    return json.loads((pathlib.Path(__file__).parents[4] / "docs" / "interop.json").read_text())["oneapi"]["rows"]


@pytest.mark.parametrize("dtype", oneapi.DTYPES)
@pytest.mark.parametrize("kind", oneapi.KINDS)
def test_from_dpnp(kind, dtype, table):
    oneapi.from_dpnp(kind, dtype)
    assert dtype in next(row for row in table if (row["direction"], row["kind"]) == ("from", kind))["passed"]


@pytest.mark.parametrize("dtype", oneapi.DTYPES)
def test_to_dpnp(dtype, table):
    oneapi.to_dpnp(dtype)
    assert dtype in next(row for row in table if row["direction"] == "to")["passed"]


def test_an_open_device_keeps_its_context():
    dlx.from_dlpack(dpnp.ones(3)).to("cpu")
    with pytest.raises(RuntimeError, match="before the first use"):
        dlx.adopt_sycl_context(dpnp.empty(1))


def alone(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ)


def test_without_the_context():
    """An array of another context is refused, and its memory is not touched."""
    ended = alone("import dlx, dpnp; dlx.from_dlpack(dpnp.ones(3)).to('cpu')")
    assert ended.returncode == 1 and "adopt_sycl_context" in ended.stderr, ended.stderr
