"""One module for each framework, with the same functions:

    NAME, PACKAGES      the name in the table, and the distributions whose versions it records
    make(dtype, layout) a tensor that the framework itself made, with the values of dtypes.py
    export(x)           what dlx.from_dlpack gets of it, if that is not x
    take(t, copy)       the framework's from_dlpack; copy is None, False or True
    address(y)          of the first element
    elements(y, dtype)  the bytes of all elements in row-major order without gaps
    shape(y), dtype(y)  the shape, and the framework's name of the type
    writable(y)         whether the framework lets a program write y; None if it cannot say

An exception of make means that the framework has no such tensor, one of take that it refuses. Its text is the table's.
"""

import importlib.metadata
import platform

# In the order of the table.
ALL = ["numpy", "torch", "jax", "tensorflow", "tvm_ffi", "tvm", "nanobind", "pyarrow", "onnxruntime", "mlx",
       "array_api_strict", "mpi4py", "mxnet", "cupy"]
# Those that requirements-interop.txt installs, whose cells are part of make test.
QUICK = ["numpy", "torch", "tvm_ffi", "nanobind", "pyarrow", "onnxruntime", "array_api_strict", "mpi4py"]
# Those that need an environment of their own.
ENVIRONMENTS = {"mxnet": "mxnet"}


class Absent(Exception):
    """The framework has no such tensor. The text is ours."""


def versions(adapter):
    return {name: importlib.metadata.version(name) for name in adapter.PACKAGES} | {"python": platform.python_version()}


# The names of ml_dtypes.
ML_DTYPES = {"bfloat16", "int2", "int4", "uint2", "uint4"}


def host_array(dtype, layout):
    """A NumPy array with the base of the layout; types that NumPy lacks are those of ml_dtypes, padded to bytes."""
    import numpy as np
    count = int(np.prod(layout.base))
    if dtype.lanes != 1 or dtype.name == "complex32":
        raise Absent("neither NumPy nor ml_dtypes has the type")
    if dtype.code == 6:
        kind = np.dtype(bool)
    elif dtype.name in ML_DTYPES or dtype.code > 6:
        import ml_dtypes
        kind = np.dtype(getattr(ml_dtypes, dtype.name))
    else:
        kind = np.dtype(dtype.name)
    if dtype.width >= 8:
        flat = np.frombuffer(bytearray(dtype.pack(range(count))), dtype=kind)
    else:
        flat = np.array([dtype.element(k) for k in range(count)], dtype=np.uint8).view(kind)
    return flat.reshape(layout.base)


def packed(array, dtype):
    """The elements of a NumPy array, whose small types are padded to bytes."""
    data = array.tobytes()
    if dtype.width >= 8:
        return data
    value = sum((code & (1 << dtype.width) - 1) << (i * dtype.width) for i, code in enumerate(data))
    return value.to_bytes((len(data) * dtype.width + 7) // 8, "little")
