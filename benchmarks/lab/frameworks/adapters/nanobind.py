import interop_nanobind as native

from capsule import read

NAME, PACKAGES = "nanobind", ["nanobind"]


def make(dtype, layout):
    count = 1
    for extent in layout.base:
        count *= extent
    memory = bytearray(dtype.pack(range(count)) or b"\0")
    function = native.make_ro if layout.readonly else native.make
    return function(memory, layout.start * dtype.width // 8, layout.shape, layout.strides, dtype[1:])


def take(t, copy):
    if copy is True:
        raise TypeError("an argument of the type nb::ndarray cannot ask for a copy")
    # A function with an argument of the type nb::ndarray<>; read-only tensors match nb::ndarray<nb::ro> only.
    return native.take(t) if copy is None else native.take_noconvert(t)


def address(y):
    return y.address


def elements(y, dtype):
    return read(y.address, dtype.width, y.shape, y.strides)


def shape(y):
    return tuple(y.shape)


def dtype(y):
    from dtypes import DTYPES
    return next((d.name for d in DTYPES if d[1:] == tuple(y.dtype)), str(y.dtype))


def writable(y):
    return not y.readonly
