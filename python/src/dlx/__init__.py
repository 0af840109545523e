"""Tensors that are shared with other libraries, devices, files and Go, without a copy where possible.

``from_dlpack`` makes a tensor of anything that supports DLPack, and other libraries make theirs of it, by their own
``from_dlpack``. ``empty`` allocates memory, and ``open`` maps the tensors of a file into memory, and ``load`` loads those
of files onto a device. ``Tensor.to`` moves a tensor to another device; ``Tensor.plan`` says how. The first use of a device
or a file starts the Go runtime, in the library libdlx. The rest of the package does without. The module ``share`` passes
tensors to other processes, and ``remote`` to other machines.
"""

from __future__ import annotations

import atexit
import os

from . import _C, _format, _number, _numpy, _pickling, _repr, remote, share
from ._build import BUILD as __build__
from ._C import Tensor, from_dlpack
from ._file import File, open, save
from ._load import Loaded, load
from ._stream import Event, Stream
from ._sycl import adopt_sycl_context
from ._types import Device, devices, dtype, empty, metrics
from ._version import VERSION as __version__

__all__ = [
    "Device",
    "Event",
    "File",
    "Loaded",
    "Stream",
    "Tensor",
    "adopt_sycl_context",
    "devices",
    "dtype",
    "empty",
    "from_dlpack",
    "load",
    "metrics",
    "open",
    "remote",
    "save",
    "share",
]

_C.register(
    {
        "dtype": dtype._of,
        "device": Device._of,
        "repr": _repr.array_repr,
        "str": _repr.array_str,
        "tolist": _format.tolist,
        "item": _number.item,
        "int": _number.to_int,
        "float": _number.to_float,
        "complex": _number.to_complex,
        "bool": _number.to_bool,
        "index": _number.to_index,
        "iter": _number.iterate,
        "reduce": _pickling.reduce,
        "astype": _number.astype,
        "contains": _number.contains,
        "bytes": _C.bytes_of,
        "array": _numpy.array,
        "arrow_array": _numpy.arrow_array,
        "numpy_dtype": _numpy.numpy_dtype,
    }
)
_C.set_library(os.path.join(os.path.dirname(os.path.abspath(__file__)), "libdlx.so"))
atexit.register(_C.finish)


def _live() -> dict[str, int]:
    """Count the memory that is open: that of tensors and exports, and the tensors and buffers of libdlx."""
    go = _C.go_live()  # first: it has Go free what belongs to others
    return {"memories": _C.live(), "go": go}


del annotations, atexit, os
