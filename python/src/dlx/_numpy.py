"""Tensors as arrays of NumPy and of PyArrow, which are imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _C
from ._format import HOST
from ._types import dtype

if TYPE_CHECKING:
    import numpy as np

_NUMPY = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)


def numpy_dtype(kind: dtype) -> np.dtype[Any]:
    """Return NumPy's element type, or that of ml_dtypes; TypeError if there is none."""
    import numpy as np

    if kind in _NUMPY:
        return np.dtype(kind.name)
    try:
        ml_dtypes: Any = import_module("ml_dtypes")
    except ImportError:
        ml_dtypes = None
    if hasattr(ml_dtypes, kind.name):
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, kind.name))
        return found
    hint = "install ml_dtypes" if ml_dtypes is None and kind.lanes == 1 else "take the elements by tolist()"
    raise TypeError(f"dlx: NumPy has no type for elements of {kind}: {hint}, or pass the tensor on by DLPack")


def array(tensor: _C.Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Return an array of NumPy that shares the memory of the host if possible.

    copy=True always copies; copy=False raises ValueError instead of copying.
    """
    import numpy as np

    if tensor.device.type not in HOST:
        raise TypeError(f'dlx: the tensor is on {tensor.device}, where NumPy cannot read it: call .to("cpu") first')
    kind = tensor.dtype
    own = numpy_dtype(kind)
    copied = False
    if kind in _NUMPY:
        result = np.asarray(memoryview(tensor))
    elif kind.bits >= 8:
        result = np.asarray(memoryview(_C.bits_of(tensor))).view(own)
    else:
        bits = _unpacked(tensor).reshape(tensor.shape)
        if kind.code == 0:
            half = 1 << kind.bits - 1
            result = ((bits ^ half).astype(np.int8) - half).astype(own)
        else:
            result = bits.astype(own) if kind.code == 1 else bits.view(own)
        copied = True
    wanted = own if dtype is None else np.dtype(dtype)
    if copy is False and (copied or wanted != own):
        raise ValueError(f"dlx: an array of {wanted} of a tensor of {kind} needs a copy, and copy=False forbids it")
    if wanted != own:
        return result.astype(wanted)
    return result.copy() if copy and not copied else result


def _unpacked(tensor: _C.Tensor) -> np.ndarray[Any, Any]:
    """Return the bits of elements of fewer than 8 bits, each in a byte of its own whose other bits are 0."""
    import numpy as np

    data, width = np.frombuffer(_C.bytes_of(tensor), np.uint8), tensor.dtype.bits
    if tensor.flags & 4:
        return data & np.uint8((1 << width) - 1)
    each = np.unpackbits(data, bitorder="little", count=tensor.size * width).reshape(-1, width)
    return np.packbits(each, axis=1, bitorder="little")[:, 0]


def arrow_array(tensor: _C.Tensor, type: Any = None) -> Any:
    """Return an array of PyArrow. Its errors say which tensors it takes, such as those with one axis."""
    return import_module("pyarrow").array(array(tensor), type=type)
