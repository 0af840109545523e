"""Exchanges tensors on a card between dlx and array libraries: the small one below, PyTorch, CuPy and JAX.

The argument is the path of the library that internal/cshared makes. The script prints the number of checks for each
array library, or why the library cannot be used. It ends with the first check that fails.
"""

import array
import ctypes
import gc
import importlib
import json
import os
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

NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"  # never freed, since capsules keep their addresses
CUDA = 2
SIZES = [1, 1000, 1 << 20]


def ask(function, *arguments):
    """Calls a function of dlx and returns its answer. Raises RuntimeError for an error."""
    text = function(*arguments)
    answer = json.loads(ctypes.string_at(text))
    lib.dlx_free(text)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


class Tensor:
    """A tensor of dlx, which can be imported once. The work on it is done, so no stream has to wait."""

    def __init__(self, answer):
        self.managed = answer["managed"]

    def __dlpack_device__(self):
        return CUDA, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert max_version is not None and max_version[0] >= 1, max_version
        return python.PyCapsule_New(self.managed, NAME, None)


def take(capsule):
    """Takes the struct out of a capsule and returns its address. The caller must release the struct."""
    managed = python.PyCapsule_GetPointer(capsule, NAME)
    python.PyCapsule_SetName(capsule, USED)
    return managed


def read_by_dlx(capsule):
    """Lets dlx take the struct in a capsule, and returns what dlx reads."""
    return ask(lib.dlx_read, take(capsule))


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned and its DLTensor."""

    DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Driver:
    """An array library that uses CUDA's driver. It has only rows of float32, and waits for all its work."""

    __name__, __version__ = "the driver", "alone"
    float32 = (2, 32, 1)  # kDLFloat

    def __init__(self):
        self.cuda = ctypes.CDLL(os.environ.get("DLX_CUDA_LIBRARY", "libcuda.so.1"))
        self.exported = {}  # structs and their rows, by the address of the struct
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)

    def close(self):
        assert not self.exported, self.exported
        self.call("cuCtxSetCurrent", None)
        self.call("cuDevicePrimaryCtxRelease_v2", 0)

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        assert result == 0, (name, result)

    def arange(self, size, dtype):
        assert dtype == self.float32
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * size))
        row = Row(self, address.value, size, lambda: self.free(address))
        row.write(array.array("f", range(size)))
        return row

    def free(self, address):
        """Frees memory. Any thread may call it."""
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuMemFree_v2", address)
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def from_dlpack(self, tensor):
        at = take(tensor.__dlpack__(max_version=(1, 1)))
        m = Managed.from_address(at)
        assert (m.major, m.ndim, m.device[:]) == (1, 1, [CUDA, 0]), (m.major, m.ndim, m.device[:])
        assert (m.code, m.bits, m.lanes) == self.float32 and (not m.strides or m.strides[0] == 1)
        return Row(self, m.data + m.byte_offset, m.shape[0], lambda: m.deleter(at))


class Row:
    """A row of float32 on the card. release releases its memory."""

    def __init__(self, driver, address, size, release):
        self.driver, self.address, self.size, self.release = driver, address, size, release

    def __del__(self):
        self.release()

    def read(self):
        values = (ctypes.c_float * self.size)()
        self.driver.call("cuMemcpyDtoH_v2", values, ctypes.c_uint64(self.address), ctypes.c_size_t(4 * self.size))
        return array.array("f", values)

    def write(self, values):
        raw = (ctypes.c_float * self.size).from_buffer(values)
        self.driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), raw, ctypes.c_size_t(4 * self.size))

    def __getitem__(self, i):
        return self.read()[i]

    def __iadd__(self, n):
        self.write(array.array("f", (x + n for x in self.read())))
        return self

    def __dlpack__(self, *, max_version):
        m = Managed(major=1, minor=1, deleter=delete, data=self.address, device=(CUDA, 0), ndim=1)
        m.code, m.bits, m.lanes = self.driver.float32
        m.shape, m.strides = (ctypes.c_int64 * 1)(self.size), (ctypes.c_int64 * 1)(1)
        self.driver.exported[ctypes.addressof(m)] = m, self
        return python.PyCapsule_New(ctypes.addressof(m), NAME, None)


@Managed.DELETER
def delete(managed):
    """Deletes the struct of a row. dlx calls it, on any thread, when it has closed its tensor."""
    driver.exported.pop(managed)


def arange(library, size):
    """Returns the numbers 0, 1, 2 and so on, on the card."""
    return library.arange(size, dtype=library.float32, **({"device": "cuda"} if library.__name__ == "torch" else {}))


def exchange(library, address_of, synchronize, mutable=True):
    """Exchanges tensors in both directions. Without mutable, += makes a new array, as in JAX."""
    checks = 0
    for size in SIZES:
        # The library imports a tensor of dlx, adds 1, and exports it to dlx again.
        answer = ask(lib.dlx_make, size)
        imported = library.from_dlpack(Tensor(answer))
        assert address_of(imported) == answer["address"], (library, "dlx's tensor was copied")
        assert float(imported[-1]) == size - 1
        imported += 1
        synchronize(imported)
        assert mutable == (address_of(imported) == answer["address"])
        back = read_by_dlx(imported.__dlpack__(max_version=(1, 1)))
        assert back["address"] == address_of(imported), (library, "the tensor was copied on its way back")
        assert back["values"][0] == 1 and back["values"][-1] == size, back["values"][:3]
        # dlx imports a tensor of the library.
        own = arange(library, size)
        synchronize(own)
        read = read_by_dlx(own.__dlpack__(max_version=(1, 1)))
        assert read["address"] == address_of(own), (library, "its tensor was copied")
        assert read["place"] == "cuda:0" and read["values"][-1] == size - 1
        checks += 8
        del imported, own
        gc.collect()
    root = sys.modules.get(library.__name__.partition(".")[0], library)  # jax.numpy has no version
    print(f"{checks} checks with {library.__name__} {root.__version__}")


print("on", ask(lib.dlx_open)["place"])
driver = Driver()
exchange(driver, lambda row: row.address, lambda _: None)
for name, address_of, synchronize in [
    ("torch", lambda t: t.data_ptr(), lambda m, _: m.cuda.synchronize()),
    ("cupy", lambda a: a.data.ptr, lambda m, _: m.cuda.Device().synchronize()),
    ("jax.numpy", lambda a: a.unsafe_buffer_pointer(), lambda _, a: a.block_until_ready()),
]:
    try:
        module = importlib.import_module(name)
        module.from_dlpack  # a library also needs the versioned struct of DLPack 1.0
        own = arange(module, 1)
        if "CUDA" not in repr(getattr(own, "device", "CUDA")).upper():
            raise RuntimeError(f"it uses {own.device}")
        own.__dlpack__(max_version=(1, 1))
    # PyTorch raises AssertionError if it is built without CUDA, and RuntimeError if it finds no card.
    except (ImportError, AttributeError, TypeError, AssertionError, RuntimeError) as reason:
        print(f"skipped: {name}: {reason}")
        continue
    exchange(module, address_of, lambda a: synchronize(module, a), mutable=name != "jax.numpy")
live = {kind: n for kind, n in ask(lib.dlx_live)["live"].items() if n}
assert not live, live
driver.close()
