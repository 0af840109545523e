"""Measures NumPy for the Go program that started it, one JSON line in, one out."""

import importlib
import itertools
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


def copy_rows(request):
    """A copy of rows of bytes, in turn, by NumPy or by PyTorch."""
    library = importlib.import_module(request["library"])
    pattern = np.arange(65521, dtype=np.uint32).astype(np.uint8)
    src = np.resize(pattern, (request["places"], request["size"]))
    dst = np.ones_like(src)
    if request["library"] == "torch":
        library.set_num_threads(request["threads"])
        copy = library.Tensor.copy_
        src, dst = library.from_numpy(src), library.from_numpy(dst)
    else:
        copy = np.copyto
    rows = itertools.cycle(list(zip(dst, src)))

    def sample(n):
        start = time.perf_counter_ns()
        for to, of in itertools.islice(rows, n):
            copy(to, of)
        return time.perf_counter_ns() - start

    return sample


def frames(request):
    """Frames RGBA become planes of float32: red, green and blue, scaled. Each library as its users write it."""
    library = importlib.import_module(request["library"])
    scale, mean = 1 / 255, (0.485, 0.456, 0.406)
    pixels = np.resize(np.arange(65521, dtype=np.uint32).astype(np.uint8), request["shape"])
    if request["library"] == "cv2":
        library.setNumThreads(request["threads"])
        raised = [255 * m for m in mean]

        def convert():
            colors = [library.cvtColor(frame, library.COLOR_RGBA2RGB) for frame in pixels]
            return library.dnn.blobFromImages(colors, scale, mean=raised)

    elif request["library"] == "torch":
        library.set_num_threads(request["threads"])
        source, offset = library.from_numpy(pixels), library.tensor(mean).view(3, 1, 1)

        def convert():
            planes = source[..., :3].permute(0, 3, 1, 2)
            return planes.to(library.float32, memory_format=library.contiguous_format).mul_(scale).sub_(offset)

    else:
        offset = np.array(mean, np.float32).reshape(3, 1, 1)
        n, height, width, _ = request["shape"]
        out = np.empty((n, 3, height, width), np.float32)

        def convert():
            np.multiply(pixels[..., :3].transpose(0, 3, 1, 2), np.float32(scale), out=out)
            return np.subtract(out, offset, out=out)

    expected = pixels[-1, -1, -1, :3].astype(np.float32) * np.float32(scale) - np.array(mean, np.float32)
    if not np.allclose(np.asarray(convert())[-1, :, -1, -1], expected, atol=1e-5):
        raise ValueError("the library does not make the same planes")

    def sample(n):
        start = time.perf_counter_ns()
        for _ in range(n):
            convert()
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


PREPARE = {f.__name__: f for f in (nothing, copyto, copy_rows, frames, from_dlpack)}

answer(numpy=np.__version__)
samples = {}  # of each library
for line in sys.stdin:
    request = json.loads(line)
    library = request.get("library", "numpy")
    try:
        if "prepare" in request:
            samples[library] = None  # the arrays before are freed first
            samples[library] = PREPARE[request["prepare"]](request)
            answer()
        else:
            answer(ns=samples[library](request["n"]))
    except Exception as e:  # the Go side decides what it means
        answer(error=f"{type(e).__name__}: {e}")
