"""Compare what dlx takes to exchange tensors with what others take, side by side in one process.

Each line is the median of many short runs, with the quartiles, in nanoseconds for one call. The empty loop of timeit
is subtracted. The calls take turns, so that a change of the processor's speed affects all of them.

    python python/bench/exchange.py [rounds]
"""

from __future__ import annotations

import ctypes
import pathlib
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import dlx

NUMBER = 2000


def cases() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the calls to measure."""
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    names: dict[str, Any] = {"dlx": dlx, "np": np, "a": a, "t": dlx.from_dlpack(a)}
    found = {
        "dlx.from_dlpack(np)": "dlx_from(a)",
        "np.from_dlpack(np)": "np_from(a)",
        "np.from_dlpack(dlx)": "np_from(t)",
        "dlx.from_dlpack(dlx)": "dlx_from(t)",
        "dlx.__dlpack__": "t.__dlpack__(max_version=v)",
        "np.__dlpack__": "a.__dlpack__(max_version=v)",
    }
    names |= {"dlx_from": dlx.from_dlpack, "np_from": np.from_dlpack, "v": (1, 3)}
    try:
        import tvm_ffi

        names |= {"tvm_from": tvm_ffi.from_dlpack, "tv": tvm_ffi.from_dlpack(a)}
        found |= {
            "tvm_ffi.from_dlpack(dlx)": "tvm_from(t)",
            "tvm_ffi.from_dlpack(np)": "tvm_from(a)",
            "np.from_dlpack(tvm_ffi)": "np_from(tv)",
            "dlx.from_dlpack(tvm_ffi)": "dlx_from(tv)",
        }
        table = getattr(tvm_ffi.core, "DLTensorTestWrapper", None)
        if table is not None:
            names["w"] = table(tvm_ffi.from_dlpack(a))
            found["dlx.from_dlpack(a table's tensor)"] = "dlx_from(w)"
    except ImportError:
        pass
    try:
        import torch

        x = torch.from_numpy(a)
        names |= {"torch_from": torch.from_dlpack, "x": x}
        found |= {
            "torch.from_dlpack(dlx)": "torch_from(t)",
            "torch.from_dlpack(np)": "torch_from(a)",
            "dlx.from_dlpack(torch)": "dlx_from(x)",
            "np.from_dlpack(torch)": "np_from(x)",
        }
    except ImportError:
        pass
    return {name: (call, names) for name, call in found.items()}


def table(x: Any) -> Any:
    """Return the address of the exchange table of a tensor's type, None if it has none."""
    capsule = getattr(type(x), "__dlpack_c_exchange_api__", None)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return None if capsule is None else ctypes.c_void_p(pointer(capsule, b"dlpack_exchange_api"))


def in_c(names: dict[str, Any], folder: str) -> dict[str, Callable[[], float]]:
    """Return the calls that a consumer in C makes, without Python's own time to call a function."""
    source, library = pathlib.Path(__file__).with_name("table.c"), pathlib.Path(folder) / "table.so"
    include = sysconfig.get_path("include")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", library], check=True)
    c = ctypes.PyDLL(str(library))
    for function in (c.give_ns, c.look_ns, c.take_ns, c.call_ns):
        function.restype = ctypes.c_double
    found: dict[str, Callable[[], float]] = {}
    one, tables = ctypes.py_object, {k: (names[k], table(names[k])) for k in ("t", "tv", "x") if k in names}
    tables = {k: (x, api) for k, (x, api) in tables.items() if api is not None}
    libraries = {"t": "dlx", "tv": "tvm_ffi", "x": "torch"}
    for k, (x, api) in tables.items():
        name = libraries[k]
        found[f"C: {name}'s table, export"] = lambda x=x, api=api: c.give_ns(api, one(x), NUMBER)
        found[f"C: {name}'s table, look"] = lambda x=x, api=api: c.look_ns(api, one(x), NUMBER)
        found[f"C: {name}'s table, export and import"] = lambda x=x, api=api: c.take_ns(api, api, one(x), NUMBER)
        found[f"C: dlx.from_dlpack({name})"] = lambda x=x: c.call_ns(one(dlx.from_dlpack), one(x), NUMBER)
    found["C: dlx.from_dlpack(np)"] = lambda: c.call_ns(one(dlx.from_dlpack), one(names["a"]), NUMBER)
    found["C: np.from_dlpack(np)"] = lambda: c.call_ns(one(np.from_dlpack), one(names["a"]), NUMBER)
    found["C: np.from_dlpack(dlx)"] = lambda: c.call_ns(one(np.from_dlpack), one(names["t"]), NUMBER)
    return found


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 101
    calls = cases()
    timers = {name: timeit.Timer(call, globals=names) for name, (call, names) in calls.items()}
    empty = min(timeit.Timer("pass").repeat(51, NUMBER))
    times: dict[str, list[float]] = {name: [] for name in timers}
    with tempfile.TemporaryDirectory() as folder:
        direct = in_c(next(iter(calls.values()))[1], folder)
        times |= {name: [] for name in direct}
        for _ in range(rounds):
            for name, timer in timers.items():
                times[name].append((timer.timeit(NUMBER) - empty) / NUMBER * 1e9)
            for name, call in direct.items():
                times[name].append(call())
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{name:40s} {middle:8.1f} ns   ({low:.1f} to {high:.1f}; best {min(values):.1f})")


if __name__ == "__main__":
    main()
