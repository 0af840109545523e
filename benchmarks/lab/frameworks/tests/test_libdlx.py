"""Go's tensors and NumPy's in one process with the library libdlx alone, which ctypes calls: no extension in between."""

import ctypes
import gc
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np

import capsule
import dlx

FOREVER = 0


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("truncated", ctypes.c_int32), ("native_code", ctypes.c_int64),
                ("origin", ctypes.c_char * 32), ("call", ctypes.c_char * 64), ("text", ctypes.c_char * 1936)]


class Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Spec(ctypes.Structure):
    _fields_ = [("dtype", Dtype), ("rank", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("flags", ctypes.c_uint64), ("reserved", ctypes.c_uint64 * 4)]


LIBRARY = ctypes.CDLL(str(pathlib.Path(dlx.__file__).with_name("libdlx.so")))
POINTER, LONG = ctypes.c_void_p, ctypes.c_int64
ARGUMENTS = {
    "registry_open": [POINTER], "registry_close": [POINTER], "device_open": [POINTER, ctypes.c_char_p, LONG, POINTER],
    "device_close": [POINTER], "tensor_alloc": [POINTER, POINTER, POINTER, LONG, POINTER], "tensor_close": [POINTER],
    "tensor_wait_ready": [POINTER, LONG], "tensor_export": [POINTER, POINTER], "tensor_import": [POINTER, POINTER, POINTER],
    "to": [POINTER, POINTER, POINTER, LONG, POINTER, POINTER], "live": [ctypes.c_char_p, POINTER],
    "file_save": [ctypes.c_char_p, POINTER, POINTER, ctypes.c_size_t, ctypes.c_int32, LONG],
}


def call(name, *arguments):
    """Calls dlx_NAME, which reports an error in its last argument."""
    function = getattr(LIBRARY, "dlx_" + name)
    function.restype, function.argtypes = ctypes.c_int32, [*ARGUMENTS[name], POINTER]
    error = Error()
    if function(*arguments, ctypes.addressof(error)) != 0:
        raise RuntimeError(error.text.decode())


def made(name, *arguments):
    """The handle that a function makes, which it stores where its last argument points."""
    handle = POINTER()
    call(name, *arguments, ctypes.addressof(handle))
    return handle.value


class Go:
    """A registry with the host opened."""

    def __enter__(self):
        self.registry = made("registry_open")
        self.cpu = made("device_open", self.registry, b"cpu", FOREVER)
        return self

    def __exit__(self, failed, *_):
        if failed:
            return
        gc.collect()
        call("device_close", self.cpu)
        call("registry_close", self.registry)
        assert live() == 0

    def alloc(self, shape, dtype=(2, 64, 1)):
        spec = Spec(dtype=Dtype(*dtype), rank=len(shape), shape=(LONG * len(shape))(*shape))
        return made("tensor_alloc", self.cpu, ctypes.addressof(spec), None, FOREVER)

    def copied(self, tensor):
        """A tensor with the elements of another, which Go has read."""
        options = (ctypes.c_uint8 * 128)()
        options[0] = 2  # DLX_COPY_ALWAYS
        result = POINTER()
        call("to", tensor, self.cpu, ctypes.addressof(options), FOREVER, ctypes.addressof(result), None)
        call("tensor_wait_ready", result.value, FOREVER)
        return result.value


def live():
    count = LONG()
    call("live", None, ctypes.addressof(count))
    return count.value


class Exported:
    """What NumPy takes: a capsule with the managed tensor of Go."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        assert max_version[0] >= 1
        managed = made("tensor_export", self.tensor)
        self.address = capsule.Versioned.from_address(managed).tensor.data
        return capsule.wrap(managed)


def imported(array):
    """A tensor of Go with the memory of an array of NumPy."""
    return made("tensor_import", capsule.consume(array.__dlpack__(max_version=(1, 3))), None)


def address(array):
    return array.__array_interface__["data"][0]


def test_go_allocates_numpy_writes_go_reads(tmp_path):
    with Go() as go:
        tensor = go.alloc((3, 4))
        exported = Exported(tensor)
        a = np.from_dlpack(exported)
        assert address(a) == exported.address and a.shape == (3, 4) and a.flags.writeable
        a[:] = np.arange(12).reshape(3, 4)
        # Go reads what NumPy wrote: into other memory, and into a file.
        copied = go.copied(tensor)
        b = np.from_dlpack(Exported(copied))
        assert address(b) != address(a) and (b == a).all()
        name = str(tmp_path / "x.npy").encode()
        names, tensors = (ctypes.c_char_p * 1)(b"x"), (POINTER * 1)(tensor)
        call("file_save", name, ctypes.addressof(tensors), ctypes.addressof(names), 1, 0, FOREVER)
        assert (np.load(name.decode()) == a).all()
        # The array keeps Go's memory when the handle is closed.
        call("tensor_close", tensor)
        call("tensor_close", copied)
        assert live() > 2  # the device, the registry, and the memory
        assert a.sum() == 66
        del a, b


def test_numpy_gives_and_go_reads():
    with Go() as go:
        a = np.arange(60.0).reshape(6, 10)[1:, ::-2]
        tensor = imported(a)
        seen = np.from_dlpack(Exported(tensor))
        assert address(seen) == address(a) and seen.strides == a.strides
        a[0, 0] = -1
        copied = go.copied(tensor)
        expected, there = a.copy(), np.from_dlpack(Exported(copied))
        del a, seen
        assert (there == expected).all()
        call("tensor_close", copied)
        call("tensor_close", tensor)
        del there


def hammer():
    """Both collectors run all the time, while eight threads exchange in both directions."""
    stop, errors = threading.Event(), []

    def collect():
        while not stop.is_set():
            gc.collect()

    def work(go, seed):
        try:
            for i in range(200):
                tensor = go.alloc((256,))
                a = np.from_dlpack(Exported(tensor))
                a[:] = seed * 1000 + i
                copied = go.copied(tensor)
                call("tensor_close", tensor)
                assert (np.from_dlpack(Exported(copied)) == a).all()
                call("tensor_close", copied)
                given = imported(np.full(128, float(i)))
                copied = go.copied(given)
                call("tensor_close", given)
                cycle = [np.from_dlpack(Exported(copied)), a]
                cycle.append(cycle)  # only the collector frees this
                call("tensor_close", copied)
                assert (cycle[0] == i).all()
        except BaseException as error:
            errors.append(error)

    with Go() as go:
        threads = [threading.Thread(target=work, args=(go, seed)) for seed in range(8)]
        collector = threading.Thread(target=collect)
        for thread in [collector, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        collector.join()
        if errors:
            raise errors[0]
    print("counters at zero")


def test_both_collectors_run_hard():
    ended = subprocess.run([sys.executable, __file__], env=os.environ | {"GOGC": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "counters at zero" in ended.stdout


if __name__ == "__main__":
    hammer()
