"""Tensors that are loaded from files onto a device."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, SupportsIndex, Union

from . import _C
from ._types import numbers as _numbers
from ._types import voids as _voids

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Loaded(dict[str, _C.Tensor]):
    """Tensors by their names, in the order of the files. The memory of a tensor is freed with the tensor."""

    report: dict[str, Any]
    """How the tensors were loaded: bytes, time, and for each file how it was read and why."""
    checksums: dict[str, str]
    """The checksums by the names of the tensors, in hexadecimal digits."""


def _texts(texts: str | Iterable[str] | None) -> tuple[str, ...]:
    return () if texts is None else (texts,) if isinstance(texts, str) else tuple(texts)


def load(
    path: Path | Iterable[Path],
    device: object = "cpu",
    *,
    only: str | Iterable[str] | None = None,
    slices: Mapping[str, tuple[SupportsIndex, SupportsIndex, SupportsIndex]] | None = None,
    dtype: object = None,
    row_major: bool = False,
    writable: bool = False,
    read: str = "auto",
    threads: SupportsIndex = 0,
    budget: SupportsIndex = 0,
    checksum: str | None = None,
    void_as: object = None,
    progress: Callable[[int, int], object] | None = None,
) -> Loaded:
    """Load the tensors of files into the memory of a device, as fast as the storage and the device allow.

    path is a .safetensors, .npy or .npz file, an index of several (model.safetensors.index.json), a folder with one index
    or with .safetensors files, or a list of these.

    only is a glob, or a list of globs: a tensor is loaded if one of them matches its name. slices has for globs what to
    load of the tensors that they match: (axis, index, count) is part index of count along an axis; the first glob that
    matches is used. Only the bytes of the parts are read. dtype is the type that elements are converted to. row_major
    makes tensors in column-major order row-major.

    read is "map" to use the page cache and the mapped file, "direct" to read past the page cache, "cufile" to let the
    device read, or "auto". With "map", also if "auto" chooses it, tensors on the host are the read-only memory of the
    file, as those of open, unless writable asks for a copy. threads is the number of threads that read, and budget
    the largest number of bytes of buffers on the way to the device; 0 is a default. checksum is "crc32c" or "sha256":
    the result then has a checksum of each tensor's bytes in the files.

    void_as is a type, or several: what elements are that .npy and .npz files store as raw void, such as V2 and f1. NumPy
    writes bfloat16 and float8 so. An array has the first type with its size.

    progress is called with the number of bytes that were read so far, and of all, on this thread and now and then; the load
    goes on meanwhile. An exception in it stops the load and is raised.

    Errors: FileNotFoundError and other OSErrors of the system; ValueError for a malformed file, a glob that matches no
    tensor, options out of range, and files that are changed meanwhile; MemoryError; RuntimeError for what the device or
    the format cannot do. Then nothing stays in memory.
    """
    paths = (path,) if isinstance(path, (str, bytes, os.PathLike)) else tuple(path)
    parts = {} if slices is None else dict(slices)
    kind = (0, 0, 0) if dtype is None else _numbers(dtype)
    raw = _voids(void_as)
    handle = _C.load(
        tuple(map(os.fsencode, paths)),
        device,
        _texts(only),
        tuple(parts),
        tuple(tuple(map(operator.index, part)) for part in parts.values()),
        kind,
        row_major,
        writable,
        operator.index(threads),
        read,
        checksum,
        operator.index(budget),
        raw,
        progress,
    )
    try:
        document = json.loads(_C.loaded_json(handle))
        names: list[str] = document["names"]
        result = Loaded((name, _C.loaded_tensor(handle, i)) for i, name in enumerate(names))
    finally:
        _C.loaded_close(handle)
    if len(result) < len(names):
        raise ValueError("dlx: several tensors have the same name, after what is not Unicode was replaced: rename them")
    result.report = document["report"]
    result.checksums = document.get("checksums", {})
    return result
