"""A plugin of pytest: the functions of nanobind's test module get tensors of dlx where the tests pass arrays."""

import functools
import types

import numpy as np
import test_ndarray_ext
import torch

import dlx


def convert(x):
    if not isinstance(x, (np.ndarray, torch.Tensor)):
        return x
    try:
        return dlx.from_dlpack(x)
    except (BufferError, RuntimeError):
        return x  # its own framework cannot export it


def through(function):
    @functools.wraps(function)
    def call(*arguments, **options):
        given = [convert(x) for x in arguments]
        result = function(*given, **options)
        # A function that returns its argument returns that of the test.
        return next((x for x, y in zip(arguments, given) if y is result), result)
    return call


for name, value in list(vars(test_ndarray_ext).items()):
    if callable(value) and not isinstance(value, (type, types.ModuleType)):
        setattr(test_ndarray_ext, name, through(value))
