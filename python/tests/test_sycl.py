"""Contexts of SYCL that dlx refuses. benchmarks/lab/frameworks/tests/test_dpnp.py has those of dpnp."""

from __future__ import annotations

import pytest

import dlx
from dlx import _C


class Device:
    def __init__(self, backend: str) -> None:
        self.backend = type("Backend", (), {"name": backend})


class Context:
    def __init__(self, *backends: str) -> None:
        self.backends = backends

    def addressof_ref(self) -> int:
        raise AssertionError("SYCL must not be called: it ends the process")

    def get_devices(self) -> list[Device]:
        return [Device(backend) for backend in self.backends]


@pytest.mark.parametrize("context", [None, 7, "context", object()])
def test_no_context(context: object) -> None:
    with pytest.raises(TypeError, match="is not a context of dpctl"):
        dlx.adopt_sycl_context(context)


def test_another_backend() -> None:
    with pytest.raises(ValueError, match="level_zero"):
        dlx.adopt_sycl_context(Context("opencl", "level_zero"))


def test_without_sycl() -> None:
    with pytest.raises(RuntimeError, match="has not loaded libsycl.so"):
        dlx.adopt_sycl_context(Context("opencl"))


def test_no_objects_of_opencl() -> None:
    with pytest.raises((RuntimeError, ValueError, BufferError)):
        _C.oneapi_adopt(0, 0)
