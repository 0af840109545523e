"""Loads files with the loaders of other projects, for the program in this folder.

It reads requests from standard input, one JSON object a line, and answers each with one line: {"loader", "path"} with
{"seconds", "tensors", "bytes"}, {"open": path} (which reads a header and no tensor) with {"seconds", "tensors"},
{"prepare", "path", "to"} (which writes the tensors of path with torch.save) with {}, and {"versions": true} with the
versions of those loaders that are installed. An answer with "error" says what did not work.

The time is that of the call of the loader, and of touching one byte of each page of the memory where a loader maps the
file and leaves its pages for later. So all bytes are in the memory of the process when the time ends, as for dlx.
"""

import ctypes
import gc
import json
import sys
import time

PAGE = 4096


def touch(tensors):
    """Reads a byte of each page of tensors that lie in mapped files, in as few pieces as their addresses allow."""
    import numpy

    spans = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors if t.nbytes)
    total, at = 0, 0
    while at < len(spans):
        begin, end = spans[at]
        at += 1
        while at < len(spans) and spans[at][0] - end < PAGE:  # what lies between them is in a mapped page, too
            end = max(end, spans[at][1])
            at += 1
        memory = (ctypes.c_uint8 * (end - begin)).from_address(begin)
        total += int(numpy.frombuffer(memory, numpy.uint8)[::PAGE].sum()) + memory[end - begin - 1]
    return total


def safetensors_torch(path):
    from safetensors.torch import load_file

    tensors = load_file(path)
    touch(tensors.values())
    return tensors


def safetensors_numpy(path):
    from safetensors.numpy import load_file

    return load_file(path)


def torch_mmap(path):
    import torch

    tensors = torch.load(path, mmap=True, weights_only=True)
    touch(tensors.values())
    return tensors


def torch_plain(path):
    import torch

    return torch.load(path, weights_only=True)


def fastsafetensors(path):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    loader = SafeTensorsFileLoader(SingleGroup(), device="cpu", nogds=True)
    loader.add_filenames({0: [path]})
    buffers = loader.copy_files_to_device()
    tensors = {name: buffers.get_tensor(name) for name in list(buffers.key_to_rank_lidx)}
    return Held(tensors, buffers.close, loader.close)


def runai(path):
    from runai_model_streamer import SafetensorsStreamer

    streamer = SafetensorsStreamer()
    streamer.__enter__()
    streamer.stream_file(path)
    tensors = dict(streamer.get_tensors())
    return Held(tensors, lambda: streamer.__exit__(None, None, None))


class Held(dict):
    """Tensors that belong to a loader, which is closed after them."""

    def __init__(self, tensors, *closers):
        super().__init__(tensors)
        self.closers = closers


LOADERS = {
    "safetensors.torch": safetensors_torch,
    "safetensors.numpy": safetensors_numpy,
    "torch.load(mmap=True)": torch_mmap,
    "torch.load": torch_plain,
    "fastsafetensors": fastsafetensors,
    "runai-model-streamer": runai,
}


def prepare(path, to):
    import torch
    from safetensors.torch import load_file

    torch.save({name: t.clone() for name, t in load_file(path).items()}, to)
    return {}


def versions():
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0]}
    for name in ["torch", "safetensors", "fastsafetensors", "runai-model-streamer", "numpy"]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass  # its cases fail, and say so
    return found


def load(name, path):
    gc.collect()
    begin = time.perf_counter()
    tensors = LOADERS[name](path)
    seconds = time.perf_counter() - begin
    answer = {"seconds": seconds, "tensors": len(tensors), "bytes": sum(t.nbytes for t in tensors.values())}
    closers = getattr(tensors, "closers", ())
    tensors.clear()
    for close in closers:
        close()
    del tensors, closers
    gc.collect()
    return answer


def open_header(path):
    from safetensors import safe_open

    begin = time.perf_counter()
    file = safe_open(path, framework="numpy")
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "tensors": len(file.keys())}


def answer(request):
    try:
        if "open" in request:
            return open_header(request["open"])
        if "versions" in request:
            return versions()
        if "prepare" in request:
            return prepare(request["path"], request["to"])
        return load(request["loader"], request["path"])
    except Exception as e:  # whatever a loader raises is its result
        return {"error": f"{type(e).__name__}: {e}"}


def main():
    out, sys.stdout = sys.stdout, sys.stderr  # a loader may print
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=out, flush=True)


main()
