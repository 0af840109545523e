import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import tensorflow as tf

from capsule import look

from . import Absent, host_array, packed

NAME, PACKAGES = "TensorFlow", ["tensorflow-cpu"]


def make(dtype, layout):
    if layout.view is not ...:
        raise Absent("a slice of a TensorFlow tensor is a copy")
    if layout.readonly:
        raise Absent("every TensorFlow tensor is read-only for programs, so this is the contiguous one")
    return tf.constant(host_array(dtype, layout))


def take(t, copy):
    # TensorFlow's from_dlpack takes a capsule.
    if copy is None:
        return tf.experimental.dlpack.from_dlpack(t.__dlpack__())
    return tf.experimental.dlpack.from_dlpack(t.__dlpack__(), copy=copy)


def address(y):
    return look(y).address  # the only way to ask TensorFlow


def elements(y, dtype):
    return packed(y.numpy(), dtype)


def shape(y):
    return tuple(y.shape)


def dtype(y):
    return y.dtype.name


def writable(y):
    return False
