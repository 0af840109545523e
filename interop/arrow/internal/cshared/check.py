"""Exchanges arrays of PyArrow with a Go library, the first argument, through the Arrow C device interface."""

import ctypes
import gc
import sys

import numpy as np
import pyarrow as pa
from pyarrow.cffi import ffi

library = ctypes.CDLL(sys.argv[1])
pointer = ctypes.c_void_p
library.dlx_give.restype = library.dlx_take.restype = ctypes.c_size_t
library.dlx_give.argtypes = [ctypes.c_int, ctypes.c_int, pointer, pointer]
library.dlx_take.argtypes = [pointer, pointer]
library.dlx_close.restype = ctypes.c_int64


def structs():
    array, schema = ffi.new("struct ArrowDeviceArray*"), ffi.new("struct ArrowSchema*")
    return array, schema, int(ffi.cast("uintptr_t", array)), int(ffi.cast("uintptr_t", schema))


def data(array):
    """Returns the address of the first element."""
    if isinstance(array, pa.ExtensionArray):
        return array.storage.values.buffers()[1].address + array.storage.values.offset * 4
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


# Go gives.
numbers = np.arange(24, dtype=np.float32)
for rank, turned in (1, 0), (3, 0), (3, 1):
    array, schema, at_array, at_schema = structs()
    address = library.dlx_give(rank, turned, at_array, at_schema)
    assert address, "dlx_give failed"
    assert array.device_id == -1 and array.device_type == 1 and array.sync_event == ffi.NULL
    got = pa.Array._import_from_c_device(at_array, at_schema)
    got.validate(full=True)
    assert data(got) == address, "something was copied"
    if rank == 1:
        assert got.type == pa.float32() and np.array_equal(got.to_numpy(), numbers)
    else:
        permutation = [1, 0] if turned else None
        assert got.type == pa.fixed_shape_tensor(pa.float32(), (3, 4), permutation=permutation), got.type
        expected = numbers.reshape(2, 3, 4)
        assert np.array_equal(got.to_numpy_ndarray(), expected.transpose(0, 2, 1) if turned else expected)
    del got
    gc.collect()

# Go takes.
tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(24, dtype=np.int32).reshape(4, 3, 2))
lists = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2))
for got, address in (
    (pa.array(range(10), pa.int16())[3:7], None),
    (tensors, None),
    (tensors[1:], tensors.storage.values.buffers()[1].address + 24),
    (lists, lists.values.buffers()[1].address),
):
    array, schema, at_array, at_schema = structs()
    got._export_to_c_device(at_array, at_schema)
    taken = library.dlx_take(at_array, at_schema)
    assert taken == (address or data(got)), (taken, address)
    assert array.array.release == ffi.NULL, "the array was not moved"
    del got
    gc.collect()
    open_now = library.dlx_close()
    assert open_now == 0, open_now

# Go refuses, and PyArrow keeps the array.
for got in pa.array([1, None, 3], pa.int32()), pa.array(["text"]), pa.array([True]):
    array, schema, at_array, at_schema = structs()
    got._export_to_c_device(at_array, at_schema)
    assert library.dlx_take(at_array, at_schema) == 0
    assert array.array.release != ffi.NULL
    assert pa.Array._import_from_c_device(at_array, got.type).equals(got)
print("ok")
