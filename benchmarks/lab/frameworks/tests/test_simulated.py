"""Consumers that do not touch the elements exchange tensors on the simulated cuda:0 with dlx."""

import json
import subprocess
import sys

import pytest
import simulated

import dlx

pytestmark = pytest.mark.skipif(not simulated.available(), reason="no simulated CUDA driver: DLX_CUDA_LIBRARY names none")


@pytest.mark.parametrize("name", ["tvm_ffi", "nanobind"])
def test_framework(name):
    result = simulated.attempt(name)
    assert result["takes"] == "passed", result
    if "no opened device owns the memory" in result.get("home", ""):
        pytest.xfail(f"dlx does not move memory that another library holds on a device: {result['home'][:120]}")
    assert result.get("home", "passed") == "passed", result


def test_refusals_are_of_frameworks():
    """NumPy refuses the device, in its own words."""
    ended = subprocess.run([sys.executable, simulated.__file__, "--one", "numpy"], capture_output=True, text=True)
    result = json.loads(ended.stdout.splitlines()[-1])
    assert result["takes"] == "refused" and "device" in result["text"], result


def test_dlx_asks_producers_for_a_stream():
    """On CUDA the number 0 is ambiguous. To ask for none means the default stream, as 1 does."""
    foreign = simulated.Spy(simulated.on_card())
    taken = dlx.from_dlpack(foreign)
    assert str(taken.device) == "cuda:0"
    assert foreign.streams and set(foreign.streams) <= {"none", None, 1}


@pytest.mark.parametrize("stream", ["1", 1.5, -2, 1 << 70, object()])
def test_no_such_stream(stream):
    with pytest.raises((TypeError, ValueError, OverflowError, BufferError)):
        simulated.on_card().__dlpack__(stream=stream)


def test_streams_of_hosts():
    with pytest.raises((BufferError, ValueError)):
        dlx.empty((2,), "int8").__dlpack__(stream=2)
    with pytest.raises((BufferError, ValueError)):
        simulated.on_card().__dlpack__(dl_device=(1, 0), copy=False)
