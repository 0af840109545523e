import ctypes

import onnxruntime as ort

from . import Absent, host_array

NAME, PACKAGES = "ONNX Runtime", ["onnxruntime"]
# The numbers of ONNX.
TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
         11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
         19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu",
         25: "uint2", 26: "int2"}
NUMBERS = {name: number for number, name in TYPES.items()}


def make(dtype, layout):
    if layout.view is not ...:
        raise Absent("ONNX Runtime's tensors are contiguous and have no views")
    if layout.readonly:
        raise Absent("ONNX Runtime has no read-only tensors")
    if dtype.name not in NUMBERS:
        raise Absent("ONNX has no such type")
    x = ort.OrtValue.ortvalue_from_shape_and_type(list(layout.base), NUMBERS[dtype.name])
    count = 1
    for extent in layout.base:
        count *= extent
    data = dtype.pack(range(count))
    ctypes.memmove(x.data_ptr(), data, len(data))
    return x


def take(t, copy):
    return ort.OrtValue.from_dlpack(t) if copy is None else ort.OrtValue.from_dlpack(t, copy=copy)


def address(y):
    return y.data_ptr()


def elements(y, dtype):
    size = y.tensor_size_in_bytes()
    return ctypes.string_at(y.data_ptr(), size) if size else b""


def shape(y):
    return tuple(y.shape())


def dtype(y):
    return TYPES.get(y.element_type(), str(y.element_type()))


def writable(y):
    return True
