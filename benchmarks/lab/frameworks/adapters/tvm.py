import tvm

from . import Absent, host_array, tvm_ffi

NAME, PACKAGES = "TVM", ["apache-tvm", "apache-tvm-ffi"]
address, elements, shape, dtype, writable = (
    tvm_ffi.address, tvm_ffi.elements, tvm_ffi.shape, tvm_ffi.dtype, tvm_ffi.writable)


def make(dtype, layout):
    if layout.readonly:
        raise Absent("TVM has no read-only tensors")
    if layout.name not in ("contiguous", "zero-size", "0-d", "byte offset"):
        raise Absent("TVM's own tensors are contiguous")
    x = tvm.runtime.tensor(host_array(dtype, layout))
    if layout.name == "byte offset":
        return x._create_view(layout.shape, dtype=x.dtype, relative_byte_offset=layout.start * dtype.width // 8)
    return x


def take(t, copy):
    return tvm.runtime.from_dlpack(t) if copy is None else tvm.runtime.from_dlpack(t, copy=copy)
