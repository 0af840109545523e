"""A plugin of pytest: the arrays of array_api_strict export themselves through tensors of dlx."""

from array_api_strict._array_object import Array

import dlx


def __dlpack__(self, **options):
    return dlx.from_dlpack(self._array).__dlpack__(**options)


def __dlpack_device__(self):
    return dlx.from_dlpack(self._array).__dlpack_device__()


Array.__dlpack__, Array.__dlpack_device__ = __dlpack__, __dlpack_device__
