"""A producer and a consumer of DLPack in Python alone, which read and write its structs with ctypes.

They are the control of the table: what a framework does with a plain tensor shows who is to blame for a refusal. They
share no code with dlx.
"""

import ctypes

CPU = (1, 0)
READ_ONLY, COPIED, PADDED = 1, 2, 4


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = {Legacy: b"dltensor", Versioned: b"dltensor_versioned"}

# Consumers call deleters in the middle of their errors, where no Python code may run. So the deleter is the C library's
# free, and the memory of all elements is kept. A struct that nobody consumed is not freed.
_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_kept = []


class Producer:
    """A tensor in host memory, which says no more of itself than DLPack asks."""

    def __init__(self, memory, dtype, shape, strides, byte_offset=0, flags=0, device=CPU):
        self.dtype, self.shape, self.strides = dtype, tuple(shape), tuple(strides)
        self.byte_offset, self.flags, self.device = byte_offset, flags, device
        # A copy at a multiple of 256, since consumers may refuse other addresses.
        self.size = len(memory)
        block = bytearray(self.size + 256)
        _kept.append(block)
        address = ctypes.addressof(ctypes.c_char.from_buffer(block))
        self.address = address + -address % 256
        ctypes.memmove(self.address, bytes(memory), self.size)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is not None and self.device == CPU:
            raise BufferError("control: a CPU has no streams")
        if dl_device not in (None, self.device):
            raise BufferError("control: the tensor is on another device")
        if copy:
            return Producer(ctypes.string_at(self.address, self.size), self.dtype, self.shape, self.strides, self.byte_offset, COPIED).__dlpack__(
                max_version=max_version)
        versioned = max_version is not None and max_version[0] >= 1
        if self.flags & READ_ONLY and not versioned:
            raise BufferError("control: the legacy struct cannot describe a read-only tensor")
        kind = Versioned if versioned else Legacy
        ndim, size = len(self.shape), ctypes.sizeof(kind)
        address = _libc.malloc(size + 16 * ndim)
        ctypes.memset(address, 0, size)
        managed = kind.from_address(address)
        (ctypes.c_int64 * (2 * ndim)).from_address(address + size)[:] = (*self.shape, *self.strides)
        t = managed.tensor
        t.data = None if 0 in self.shape else self.address
        t.byte_offset = 0 if 0 in self.shape else self.byte_offset
        t.device.type, t.device.id = self.device
        t.ndim, t.code, t.bits, t.lanes = ndim, self.dtype.code, self.dtype.bits, self.dtype.lanes
        t.shape = ctypes.cast(address + size, ctypes.POINTER(ctypes.c_int64))
        t.strides = ctypes.cast(address + size + 8 * ndim, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = ctypes.cast(_libc.free, ctypes.c_void_p)
        if versioned:
            managed.major, managed.minor, managed.flags = 1, 3, self.flags
        return _api.PyCapsule_New(address, NAMES[kind], None)


class Look:
    """What a capsule says. It is read and not consumed, so it must stay alive as long as bytes are read."""

    def __init__(self, capsule):
        self.capsule = capsule
        self.name = _api.PyCapsule_GetName(capsule)
        kind = {name: kind for kind, name in NAMES.items()}[self.name]
        managed = kind.from_address(_api.PyCapsule_GetPointer(capsule, self.name))
        t = managed.tensor
        self.versioned = kind is Versioned
        self.version = (managed.major, managed.minor) if self.versioned else None
        self.flags = managed.flags if self.versioned else 0
        self.data, self.byte_offset = t.data or 0, t.byte_offset
        self.address = self.data + t.byte_offset
        self.device = (t.device.type, t.device.id)
        self.dtype = (t.code, t.bits, t.lanes)
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        if t.ndim == 0 or t.strides:
            self.strides = tuple(t.strides[i] for i in range(t.ndim))
        else:
            self.strides = row_major(self.shape)

    def bytes(self):
        return read(self.address, self.dtype[1] * self.dtype[2], self.shape, self.strides)


def wrap(managed):
    """A capsule with the struct at an address, which a consumer must take."""
    return _api.PyCapsule_New(managed, NAMES[Versioned], None)


def consume(capsule):
    """The address of the struct, which the caller owns from now on."""
    managed = _api.PyCapsule_GetPointer(capsule, NAMES[Versioned])
    _api.PyCapsule_SetName(capsule, _USED)
    return managed


_USED = b"used_dltensor_versioned"  # a capsule does not keep its name


def look(x):
    """What x exports, with the newest struct that it knows."""
    try:
        return Look(x.__dlpack__(max_version=(1, 3)))
    except TypeError:
        return Look(x.__dlpack__())


def row_major(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def read(address, width, shape, strides):
    """The elements in row-major order without gaps; width is the bits of an element."""
    places = [0]
    for extent, stride in zip(shape, strides):
        places = [at + i * stride for at in places for i in range(extent)]
    if width % 8 == 0:
        return b"".join(ctypes.string_at(address + at * width // 8, width // 8) for at in places)
    value = 0
    for i, at in enumerate(places):
        byte, bit = divmod(at * width, 8)
        word = int.from_bytes(ctypes.string_at(address + byte, (bit + width + 7) // 8), "little")
        value |= (word >> bit & (1 << width) - 1) << (i * width)
    return value.to_bytes((len(places) * width + 7) // 8, "little")
