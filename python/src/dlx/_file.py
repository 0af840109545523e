"""Files of tensors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from . import _C
from ._format import HOST
from ._handle import Owner
from ._types import voids


class File(Owner, Mapping[str, _C.Tensor]):
    """An open file: a mapping from names to read-only tensors, which use the bytes of the file in place.

    The tensors stay valid after the file is closed. The file must not be truncated or overwritten in place while one
    of them is alive; to replace it by renaming another file is safe. To open a file, and to take tensors from it by
    their names, takes no longer if it has very many. The list of names, the format and the metadata are read when one
    of them is asked for first, which must be before the file is closed.
    """

    _closed = "the file is closed"

    def __init__(self, path: str | os.PathLike[str], *, void_as: object = None) -> None:
        """Open a file and map it into memory. void_as is that of open."""
        self._handle = _C.file_open(path, voids(void_as))
        self._document: dict[str, Any] | None = None
        self._names: dict[str, None] = {}

    def _read(self) -> dict[str, Any]:
        """Return what the file says of itself, and set the names."""
        if self._document is None:
            document = json.loads(_C.file_json(self._open()))
            self._names = dict.fromkeys(tensor["name"] for tensor in document.pop("tensors"))
            self._document = document
        return self._document

    @property
    def format(self) -> str:
        """The format of the file, such as safetensors."""
        return str(self._read()["format"])

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of a .safetensors file, which are keys with texts."""
        return self._read().setdefault("metadata", {}) or {}

    def __getitem__(self, name: str) -> _C.Tensor:
        """Return a tensor."""
        handle = self._open()
        try:
            if isinstance(name, str):
                return _C.file_tensor(handle, name)
        except Exception:
            if name in self:
                raise
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        """Report whether the file has a tensor of this name."""
        self._read()
        return isinstance(name, str) and name in self._names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        self._read()
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of tensors."""
        self._read()
        return len(self._names)

    def tensor(self) -> _C.Tensor:
        """Return the only tensor of the file, as a .npy file has one."""
        return _C.file_tensor(self._open(), None)

    def close(self) -> None:
        """Close the file. Its tensors stay valid."""
        self._release(_C.file_close)


def open(file: str | os.PathLike[str], *, void_as: object = None) -> File:
    """Open a .npy, .npz or .safetensors file, an index of several, or a folder of .safetensors files.

    void_as is a type, or several: what elements are that .npy and .npz files store as raw void, such as V2 and f1. NumPy
    writes bfloat16 and float8 so. An array has the first type with its size.
    """
    return File(file, void_as=void_as)


def save(
    file: str | os.PathLike[str], tensors: object, *, compress: bool = False, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a tensor, or a mapping from names to tensors, to a .npy, .npz or .safetensors file.

    A tensor is anything that from_dlpack takes; those on devices are copied to the host. The file appears when it is
    complete, and replaces an existing one. compress is for .npz, and metadata, a mapping from texts to texts, for
    .safetensors.
    """
    names, values = (tuple(tensors), tuple(tensors.values())) if isinstance(tensors, Mapping) else (None, (tensors,))
    hosted = tuple(map(_on_host, values))
    if metadata is None:
        _C.file_save(file, hosted, names, compress, None, None)
        return
    if compress:
        raise ValueError("dlx: compress is for .npz, and metadata for .safetensors")
    _C.file_save(file, hosted, names, compress, tuple(metadata), tuple(metadata.values()))


def _on_host(x: object) -> _C.Tensor:
    tensor = x if isinstance(x, _C.Tensor) else _C.from_dlpack(x)
    if tensor.dtype.bits < 8 and tensor.dtype.lanes > 1:  # as PyTorch has packed numbers, and files do not
        tensor = tensor.with_lanes(1)
    return tensor if tensor.device.type in HOST else tensor.to("cpu")
