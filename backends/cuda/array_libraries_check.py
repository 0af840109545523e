"""Exchanges tensors on a card between dlx and the array libraries that are installed: PyTorch, CuPy.

Called with the path of the library that internal/cshared makes. Prints the number of
checks for each library, or that it is not there or too old; a check that fails ends the run.
"""

import ctypes
import gc
import importlib
import json
import sys

lib = ctypes.CDLL(sys.argv[1])
python = ctypes.pythonapi

for name, result, arguments in [
    ("dlx_open", ctypes.c_void_p, []),
    ("dlx_make", ctypes.c_void_p, [ctypes.c_int64]),
    ("dlx_read", ctypes.c_void_p, [ctypes.c_void_p]),
    ("dlx_live", ctypes.c_void_p, []),
    ("dlx_free", None, [ctypes.c_void_p]),
]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments

python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"  # capsules keep the address: these live for ever
CUDA = 2
SIZES = [1, 1000, 1 << 20]


def ask(function, *arguments):
    """Calls dlx and returns its answer; an error is raised."""
    text = function(*arguments)
    answer = json.loads(ctypes.string_at(text))
    lib.dlx_free(text)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


class Tensor:
    """A tensor of dlx, to be taken once. Its work is done: no stream has to wait for it."""

    def __init__(self, answer):
        self.managed = answer["managed"]

    def __dlpack_device__(self):
        return CUDA, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert max_version is not None and max_version[0] >= 1, max_version
        return python.PyCapsule_New(self.managed, NAME, None)


def take(capsule):
    """Hands the struct in a capsule to dlx, which reads it."""
    managed = python.PyCapsule_GetPointer(capsule, NAME)
    python.PyCapsule_SetName(capsule, USED)
    return ask(lib.dlx_read, managed)


def arange(library, size):
    """The numbers from 0 on, on the card."""
    return library.arange(size, dtype=library.float32, **({"device": "cuda"} if library.__name__ == "torch" else {}))


def exchange(library, address_of, synchronize):
    checks = 0
    for size in SIZES:
        # Ours there: the same address, and what they write is what we read back.
        answer = ask(lib.dlx_make, size)
        theirs = library.from_dlpack(Tensor(answer))
        assert address_of(theirs) == answer["address"], (library, "dlx's tensor was copied")
        assert float(theirs[-1]) == size - 1
        theirs += 1
        synchronize()
        back = take(theirs.__dlpack__(max_version=(1, 1)))
        assert back["address"] == answer["address"], (library, "the tensor was copied on its way back")
        assert back["values"][0] == 1 and back["values"][-1] == size, back["values"][:3]
        # Theirs here.
        own = arange(library, size)
        synchronize()
        read = take(own.__dlpack__(max_version=(1, 1)))
        assert read["address"] == address_of(own), (library, "its tensor was copied")
        assert read["place"] == "cuda:0" and read["values"][-1] == size - 1
        checks += 8
        del theirs, own
        gc.collect()
    print(f"{checks} checks with {library.__name__} {library.__version__}")


print("on", ask(lib.dlx_open)["place"])
for name, address_of, synchronize in [
    ("torch", lambda t: t.data_ptr(), lambda m: m.cuda.synchronize()),
    ("cupy", lambda a: a.data.ptr, lambda m: m.cuda.Device().synchronize()),
]:
    try:
        module = importlib.import_module(name)
        module.from_dlpack  # and it must know the struct with a version, which came with DLPack 1.0
        arange(module, 1).__dlpack__(max_version=(1, 1))
    except (ImportError, AttributeError, TypeError) as reason:
        print(f"skipped: {name}: {reason}")
        continue
    exchange(module, address_of, lambda: synchronize(module))
live = {kind: n for kind, n in ask(lib.dlx_live)["live"].items() if n}
assert not live, live
