"""Exchanges tensors between dlx and NumPy, in both directions and both structs.

Run by TestNumPy with the path of the library that internal/cshared makes. Prints
the number of checks; an assertion that fails ends the run.
"""

import ctypes
import gc
import itertools
import json
import sys

import numpy as np

lib = ctypes.CDLL(sys.argv[1])
python = ctypes.pythonapi

for name, result, arguments in [
    ("dlx_make", ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64]),
    ("dlx_view", ctypes.c_void_p, [ctypes.c_int64, ctypes.c_char_p]),
    ("dlx_export", ctypes.c_void_p, [ctypes.c_int64, ctypes.c_int]),
    ("dlx_import", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]),
    ("dlx_delete", None, [ctypes.c_void_p, ctypes.c_int]),
    ("dlx_close", None, [ctypes.c_int64]),
    ("dlx_live", ctypes.c_void_p, []),
    ("dlx_table", ctypes.c_void_p, []),
    ("dlx_free", None, [ctypes.c_void_p]),
]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments

# A capsule's destructor gets an object whose count is 0 already: it must stay a
# plain address, and is looked at through functions that take one.
destructor_type = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, destructor_type]
python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

NAMES = [b"dltensor_versioned", b"dltensor"]  # indexed by "legacy"
USED = [b"used_dltensor_versioned", b"used_dltensor"]  # capsules keep the address: these live for ever
CPU = (1, 0)
READ_ONLY = 1

checks = 0


def check(condition, *what):
    global checks
    checks += 1
    assert condition, what


def ask(function, *arguments):
    """Calls dlx and returns its answer; an error is raised."""
    text = function(*arguments)
    answer = json.loads(ctypes.string_at(text))
    lib.dlx_free(text)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def destructor(legacy):
    def delete(capsule):
        if python.PyCapsule_IsValid(capsule, NAMES[legacy]):  # nobody took it
            lib.dlx_delete(python.PyCapsule_GetPointer(capsule, NAMES[legacy]), legacy)

    return destructor_type(delete)


DESTRUCTORS = [destructor(0), destructor(1)]


class Tensor:
    """A tensor of dlx that speaks DLPack."""

    def __init__(self, answer, legacy=False):
        self.number = answer["tensor"]
        self.address = answer["address"] if "address" in answer else 0
        self.shape = tuple(answer.get("shape", ()))
        self.strides = tuple(answer.get("strides", ()))
        self.flags = answer.get("flags", 0)
        self.legacy = int(legacy)
        self.asked_version = None

    def __dlpack_device__(self):
        return CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked_version = max_version
        managed = ask(lib.dlx_export, self.number, self.legacy)["managed"]
        return python.PyCapsule_New(managed, NAMES[self.legacy], DESTRUCTORS[self.legacy])

    def view(self, how):
        return Tensor(ask(lib.dlx_view, self.number, how.encode()), self.legacy)

    def close(self):
        lib.dlx_close(self.number)


def make(array, legacy):
    """Copies an array into a tensor of dlx."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    return Tensor(
        ask(lib.dlx_make, array.dtype.name.encode(), shape, array.ndim, array.ctypes.data, array.nbytes), legacy
    )


def take(array, legacy):
    """Hands an array to dlx without a copy."""
    capsule = array.__dlpack__() if legacy else array.__dlpack__(max_version=(1, 0))
    name = NAMES[legacy]
    check(python.PyCapsule_IsValid(id(capsule), name), "NumPy's capsule has another name")
    managed = python.PyCapsule_GetPointer(id(capsule), name)
    python.PyCapsule_SetName(capsule, USED[legacy])
    return Tensor(ask(lib.dlx_import, managed, legacy), legacy)


def address(array):
    return array.__array_interface__["data"][0]


def check_nothing_lives(where):
    gc.collect()
    live = ask(lib.dlx_live)["live"]
    check(not any(live.values()), where, live)


DTYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bool".split()
SHAPES = [(), (1,), (5,), (0,), (3, 0), (4, 6), (2, 3, 4), (1, 2, 1, 3, 2, 1, 2)]


def sample(dtype, shape):
    n = int(np.prod(shape, dtype=int))
    values = np.arange(n)
    if dtype == "bool":
        values = values % 3 == 0
    elif dtype.startswith("complex"):
        values = values - 1j * values
    return values.astype(dtype).reshape(shape)


def views(array):
    """The views of dlx by name, each with what NumPy makes of the same."""
    yield "share", array
    yield "transpose", array.transpose()
    yield "readonly", array
    if array.ndim and array.shape[0]:
        yield "reverse", array[::-1]
        yield "step", array[::2]


def numpy_takes(dtype, shape, legacy):
    want = sample(dtype, shape)
    base = make(want, legacy)
    for how, expected in views(want):
        view = base.view(how)
        if legacy and how == "readonly":
            try:
                np.from_dlpack(view)
            except RuntimeError as error:
                check("read-only" in str(error), error)
            else:
                check(False, "a read-only tensor was exported to the legacy struct")
            view.close()
            continue
        got = np.from_dlpack(view)
        where = (dtype, shape, legacy, how)
        check(got.dtype == expected.dtype and got.shape == expected.shape, where, got.dtype, got.shape)
        check(np.array_equal(got, expected), where, got, expected)
        if got.size:
            check(address(got) == view.address, where, "NumPy made a copy")
        if not legacy:
            check(view.asked_version is not None, where, "NumPy did not ask for a version")
            if got.size:  # NumPy makes an array of its own where data is NULL
                check(got.flags.writeable == (how != "readonly"), where, got.flags)
        view.close()
        check(np.array_equal(got, expected), where, "the memory went with the tensor")
        del got
    base.close()


def dlx_takes(dtype, shape, legacy):
    array = sample(dtype, shape)
    count = sys.getrefcount(array)
    candidates = [array, array.transpose()]
    if array.ndim and array.shape[0]:
        candidates += [array[::-1], array[::2], array[..., ::-1]]
    for given in candidates:
        where = (dtype, shape, legacy, given.strides)
        tensor = take(given, legacy)
        check(tensor.shape == given.shape, where, tensor.shape)
        if given.size:
            check(tensor.address == address(given), where, "dlx made a copy")
            check(
                all(n == 1 or a * given.itemsize == b for n, a, b in zip(given.shape, tensor.strides, given.strides)),
                where,
                tensor.strides,
            )
        back = np.from_dlpack(tensor)
        check(np.array_equal(back, given), where, back, given)
        tensor.close()
        check(np.array_equal(back, given), where, "the array went with the tensor")
        del back
    del given, candidates
    check_nothing_lives(("dlx took", dtype, shape, legacy))
    check(sys.getrefcount(array) == count, dtype, shape, legacy, "the array was not given back")


def read_only_survives():
    array = sample("float32", (3, 4))
    array.flags.writeable = False
    tensor = take(array, 0)
    check(tensor.flags & READ_ONLY, "READ_ONLY of NumPy was lost")
    back = np.from_dlpack(tensor)
    check(not back.flags.writeable, "READ_ONLY was lost on the way back")
    tensor.close()


def writes_are_seen():
    array = sample("int32", (2, 3))
    tensor = take(array, 0)
    back = np.from_dlpack(tensor)
    back[1, 2] = 77
    check(array[1, 2] == 77, "the memory is not shared")
    tensor.close()


def unused_capsules_are_deleted():
    for legacy in (0, 1):
        tensor = make(sample("float64", (2, 2)), legacy)
        tensor.__dlpack__()  # dropped at once
        tensor.close()
        check_nothing_lives(("unused capsule", legacy))


def python_errors_of_the_table():
    class Table(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32 * 2)] + [
            (name, ctypes.c_void_p) for name in ("previous", "allocate", "from_object", "to_object", "borrow", "stream")
        ]

    table = Table.from_address(lib.dlx_table())
    convert = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    stream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    out = ctypes.c_void_p()
    for call in (
        lambda: convert(table.from_object)(None, out),
        lambda: convert(table.to_object)(None, out),
        lambda: stream(table.stream)(2, 0, out),
    ):
        try:
            call()
        except BufferError as error:
            check("dlx" in str(error), error)
        else:
            check(False, "no exception was set")
    check(stream(table.stream)(1, 0, out) == 0 and out.value is None, "the CPU has no stream")


for dtype, shape, legacy in itertools.product(DTYPES, SHAPES, (0, 1)):
    numpy_takes(dtype, shape, legacy)
    check_nothing_lives(("NumPy took", dtype, shape, legacy))
    dlx_takes(dtype, shape, legacy)
read_only_survives()
writes_are_seen()
unused_capsules_are_deleted()
python_errors_of_the_table()
check_nothing_lives("the end")
print(checks, "checks with NumPy", np.__version__)
