"""Contexts of SYCL."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any

from . import _C

if TYPE_CHECKING:
    import ctypes


_adopting = threading.Lock()
_adopted: dict[int, int] = {}  # the cl_context that each cl_device_id has adopted; changed with _adopting held


def adopt_sycl_context(context: Any) -> None:
    """Make the devices oneapi:N use a context of SYCL, so that its arrays and those of dlx are exchanged without a copy.

    context is a dpctl.SyclContext, such as the sycl_context of an array of dpnp, or an object with such an attribute. Its
    devices must be those of OpenCL. An allocation of SYCL belongs to one context, and other contexts know nothing of it;
    dpctl has one default context for each device. Call this before the first use of a device of oneAPI: a device that is
    open keeps its context, and the call raises RuntimeError.
    """
    context = getattr(context, "sycl_context", context)
    if not hasattr(context, "addressof_ref") or not hasattr(context, "get_devices"):
        raise TypeError(f"dlx: {type(context).__name__} is not a context of dpctl: pass a dpctl.SyclContext, or an array that has one")
    devices = context.get_devices()
    for device in devices:
        # SYCL ends the process if it is asked for the objects of another backend.
        if device.backend.name != "opencl":
            raise ValueError(f"dlx: a device of the context is one of {device.backend.name}, and dlx shares memory with those of opencl: set ONEAPI_DEVICE_SELECTOR=opencl:*")
    sycl = _libsycl()
    native = _get(sycl, "context", context.addressof_ref())
    natives = [_get(sycl, "device", device.addressof_ref()) for device in devices]
    with _adopting:
        for done, device in enumerate(natives):
            try:
                _C.oneapi_adopt(native, device)
            except BaseException:
                for changed in natives[:done]:
                    _C.oneapi_adopt(_adopted.get(changed, 0), changed)
                raise
        _adopted.update(dict.fromkeys(natives, native))


def _libsycl() -> ctypes.CDLL:
    """Return the library of SYCL that the process has loaded."""
    import ctypes  # here, since other interpreters than the first one cannot import it in CPython 3.12

    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        found = re.search(r"/.*/libsycl\.so\.[\d.]+", maps.read())
    if not found:
        raise RuntimeError("dlx: the process has not loaded libsycl.so: import dpctl first")
    return ctypes.CDLL(found[0], mode=os.RTLD_NOLOAD | os.RTLD_NOW)


def _get(sycl: ctypes.CDLL, kind: str, address: int) -> int:
    """Call sycl::context::get() or sycl::device::get(), which return the object of OpenCL."""
    import ctypes

    name = f"_ZNK4sycl3_V1{len(kind)}{kind}3getEv"
    try:
        get = getattr(sycl, name)
    except AttributeError:
        raise RuntimeError(f"dlx: {sycl._name} has no function {name}: dlx knows libsycl.so.8 and 9") from None
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    native = get(address)  # SYCL may retain it for its caller; a context that is adopted lasts as long as the process
    if not native:
        raise RuntimeError(f"dlx: {name} of {sycl._name} returned NULL")
    return int(native)
