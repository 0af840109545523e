"""Measures NumPy for the Go program that started it, one JSON line in, one out."""

import json
import sys
import time


def answer(**fields):
    print(json.dumps(fields), flush=True)


try:
    import numpy as np
except ImportError as e:
    answer(error=str(e))
    sys.exit()


def nothing(request):
    return None


def copyto(request):
    """A copy of a strided view into a row-major array. Every byte is set before."""
    dtype = np.dtype(request["dtype"])
    base = np.empty(request["size"], dtype)
    pattern = np.arange(65521, dtype=np.uint32).astype(np.uint8)
    base.view(np.uint8)[:] = np.resize(pattern, base.nbytes)
    strides = [s * dtype.itemsize for s in request["strides"]]
    src = np.ndarray(request["shape"], dtype, base, request.get("offset", 0), strides)
    dst = np.ones(request["shape"], dtype)

    def sample(n):
        start = time.perf_counter_ns()
        for _ in range(n):
            np.copyto(dst, src)
        return time.perf_counter_ns() - start

    return sample


def from_dlpack(request):
    """A tensor from NumPy to NumPy."""
    array = np.zeros(request["shape"], request["dtype"])

    def sample(n):
        start = time.perf_counter_ns()
        for _ in range(n):
            np.from_dlpack(array)
        return time.perf_counter_ns() - start

    return sample


PREPARE = {f.__name__: f for f in (nothing, copyto, from_dlpack)}

answer(numpy=np.__version__)
sample = None
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "prepare" in request:
            sample = None  # the arrays before are freed first
            sample = PREPARE[request["prepare"]](request)
            answer()
        else:
            answer(ns=sample(request["n"]))
    except Exception as e:  # the Go side decides what it means
        answer(error=f"{type(e).__name__}: {e}")
