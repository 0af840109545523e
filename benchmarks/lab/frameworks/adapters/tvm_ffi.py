import tvm_ffi

from capsule import READ_ONLY, Producer, read

from . import Absent

NAME, PACKAGES = "tvm-ffi", ["apache-tvm-ffi"]


def make(dtype, layout):
    # tvm-ffi makes no memory of its own: it holds the tensors of others.
    count = 1
    for extent in layout.base:
        count *= extent
    memory = bytearray(dtype.pack(range(count)) or b"\0")
    return tvm_ffi.from_dlpack(Producer(memory, dtype, layout.shape, layout.strides, layout.start * dtype.width // 8,
                                        READ_ONLY if layout.readonly else 0))


def take(t, copy):
    return tvm_ffi.from_dlpack(t) if copy is None else tvm_ffi.from_dlpack(t, copy=copy)


def address(y):
    return y.data_ptr()


def elements(y, dtype):
    return read(y.data_ptr(), dtype.width, y.shape, y.strides)


def shape(y):
    return tuple(y.shape)


def dtype(y):
    return str(y.dtype)


def writable(y):
    return None
