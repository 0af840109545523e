"""Contexts of SYCL that dlx refuses. benchmarks/lab/frameworks/tests/test_dpnp.py has those of dpnp."""

from __future__ import annotations

import pytest

import dlx
from dlx import _C, _sycl


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


class Native(Device):
    """A device with an address, for which the test says what SYCL returns."""

    def __init__(self, address: int) -> None:
        super().__init__("opencl")
        self.address = address

    def addressof_ref(self) -> int:
        return self.address


class Two:
    """A context at an address with the devices 1 and 2."""

    def __init__(self, address: int) -> None:
        self.address = address

    def addressof_ref(self) -> int:
        return self.address

    def get_devices(self) -> list[Native]:
        return [Native(1), Native(2)]


def test_a_failure_restores_what_was_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    uses: dict[int, int] = {}  # contexts, by device
    broken = set[int]()  # contexts that device 2 refuses

    def adopt(context: int, device: int) -> None:
        if device == 2 and context in broken:
            raise RuntimeError("refused")
        uses[device] = context

    monkeypatch.setattr(_C, "oneapi_adopt", adopt)
    monkeypatch.setattr(_sycl, "_libsycl", lambda: None)
    monkeypatch.setattr(_sycl, "_get", lambda sycl, kind, address: address)
    monkeypatch.setattr(_sycl, "_adopted", {})
    broken |= {10, 30}
    with pytest.raises(RuntimeError, match="refused"):
        dlx.adopt_sycl_context(Two(10))
    assert uses == {1: 0}
    dlx.adopt_sycl_context(Two(20))
    with pytest.raises(RuntimeError, match="refused"):
        dlx.adopt_sycl_context(Two(30))
    assert uses == {1: 20, 2: 20}
