"""Writes arrays with NumPy and safetensors, or reads a folder with them, and prints what is in
the files as JSON: file, name, dtype, shape, and the elements in row-major order as hexadecimal."""

import json
import pathlib
import sys

import numpy as np
import safetensors

NUMPY_TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
SHAPES = {"scalar": (), "none": (0, 3), "row": (5,), "box": (2, 3, 4)}

# The library's name for a type when it serializes, its code in the file, and bits of an element.
PACKED_TYPES = {
    "bool": ("BOOL", 8), "uint8": ("U8", 8), "int8": ("I8", 8), "uint16": ("U16", 16), "int16": ("I16", 16),
    "uint32": ("U32", 32), "int32": ("I32", 32), "uint64": ("U64", 64), "int64": ("I64", 64), "float16": ("F16", 16),
    "bfloat16": ("BF16", 16), "float32": ("F32", 32), "float64": ("F64", 64), "complex64": ("C64", 64),
    "float8_e4m3fn": ("F8_E4M3", 8), "float8_e4m3fnuz": ("F8_E4M3FNUZ", 8), "float8_e5m2": ("F8_E5M2", 8),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 8), "float8_e8m0fnu": ("F8_E8M0", 8), "float4_e2m1fn_x2": ("F4", 4),
}  # fmt: skip


def record(path, name, dtype, shape, data):
    return {"file": path.name, "name": name, "dtype": dtype, "shape": list(shape), "data": data.hex()}


def of_array(path, name, array):
    return record(path, name, array.dtype.name, array.shape, array.astype(array.dtype.newbyteorder("=")).tobytes("C"))


def some(dtype, shape):
    count = int(np.prod(shape, dtype=int))
    return (np.arange(count).reshape(shape) % 7 % (2 if dtype == "bool" else 7)).astype(dtype)


def write(folder):
    arrays = {}
    for dtype in NUMPY_TYPES:
        for kind, shape in SHAPES.items():
            arrays[f"{dtype}_{kind}"] = some(dtype, shape)
        arrays[f"{dtype}_fortran"] = np.asfortranarray(some(dtype, SHAPES["box"]))
        arrays[f"{dtype}_strided"] = some(dtype, (4, 6))[::2, ::-3]
        arrays[f"{dtype}_swapped"] = some(dtype, SHAPES["box"]).astype(np.dtype(dtype).newbyteorder("S"))
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        np.save(path, array)
        yield of_array(path, name, array)
    for version in ((1, 0), (2, 0), (3, 0)):
        path = folder / f"version{version[0]}.npy"
        with path.open("wb") as file:
            np.lib.format.write_array(file, arrays["float32_box"], version=version)
        yield of_array(path, path.stem, arrays["float32_box"])
    for save in (np.savez, np.savez_compressed):
        path = folder / f"{save.__name__}.npz"
        save(path, **arrays)
        for name, array in arrays.items():
            yield of_array(path, name, array)

    path = folder / "all.safetensors"
    specs, kept = {}, []
    for library_name, (code, bits) in PACKED_TYPES.items():
        for kind, shape in SHAPES.items():
            storage = shape
            if bits == 4:  # the library doubles the last axis of the storage's shape
                if not shape:
                    continue
                shape = (*shape[:-1], shape[-1] * 2)
            size = int(np.prod(shape, dtype=int)) * bits // 8
            data = (np.arange(size) % (2 if code == "BOOL" else 251)).astype(np.uint8)
            kept.append(data)
            name = f"{code}_{kind}"
            specs[name] = safetensors.TensorSpec(dtype=library_name, shape=storage, data_ptr=data.ctypes.data, data_len=size)
            yield record(path, name, code, shape, data.tobytes())
    path.write_bytes(safetensors.serialize(specs, {"made by": "safetensors", "text": 'ü "\\\u2028'}))


def read(folder):
    for path in sorted(folder.iterdir()):
        if path.suffix == ".npy":
            yield of_array(path, path.stem, np.load(path))
        elif path.suffix == ".npz":
            with np.load(path) as archive:
                for name in archive.files:
                    yield of_array(path, name, archive[name])
        else:
            for name, tensor in safetensors.deserialize(path.read_bytes()):
                yield record(path, name, tensor["dtype"], tensor["shape"], bytes(tensor["data"]))


json.dump(list({"write": write, "read": read}[sys.argv[1]](pathlib.Path(sys.argv[2]))), sys.stdout)
