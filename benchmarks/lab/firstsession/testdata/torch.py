"""The part of PyTorch that first_session_torch.py uses, on NumPy arrays of the host, for a test of that script."""

import time

import numpy

__version__ = "none: NumPy in its place"
uint8, float16, float32, float64 = numpy.uint8, numpy.float16, numpy.float32, numpy.float64


class Tensor:
    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def permute(self, axes):
        return Tensor(self.values.transpose(axes))

    def __getitem__(self, index):
        return Tensor(self.values[index])

    def copy_(self, other):
        numpy.copyto(self.values, other.values)

    def numel(self):
        return self.values.size

    def element_size(self):
        return self.values.itemsize


def zeros(shape, dtype, device):
    assert device == "cuda"
    return Tensor(numpy.zeros(shape, dtype))


def empty(shape, dtype, device):
    assert device == "cuda"
    if isinstance(shape, int) and shape > 1 << 20:
        raise cuda.OutOfMemoryError("Tried to allocate too much. This is no card.")
    return Tensor(numpy.empty(shape, dtype))


class cuda:
    class OutOfMemoryError(RuntimeError):
        pass

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = time.perf_counter()

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return (end.at - self.at) * 1e3

    @staticmethod
    def init():
        pass

    @staticmethod
    def mem_get_info():
        return 1 << 20, 1 << 21
