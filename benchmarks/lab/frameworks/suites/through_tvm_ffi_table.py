"""A plugin of pytest: tvm-ffi's test of PyTorch's exchange table gets that of dlx.

The test compiles a program in C++ with PyTorch's headers and gives it the table of torch.Tensor. Here the module torch
is one of our own, with the few names that the test uses, and torch_of_dlx has the header.
"""

import ctypes
import pathlib
import subprocess
import sys
import sysconfig
import types

import numpy as np
import tvm_ffi  # before the module torch is replaced
import tvm_ffi.testing  # noqa: F401

import dlx

HEADERS = pathlib.Path(__file__).parent / "torch_of_dlx"
CALL = """
extern "C" __attribute__((visibility("default"))) const char *call(PyObject *tensor, int64_t table, bool cuda) {
    static std::string text;
    try {
        test_dlpack_api(at::Tensor(tensor), table, cuda);
    } catch (const std::exception &e) {
        text = e.what();
        return text.c_str();
    }
    return nullptr;
}
"""


def load_inline(name, cpp_sources, functions, extra_include_paths, build_directory):
    folder = pathlib.Path(build_directory)
    source, library = folder / "test.cpp", folder / "test.so"
    source.write_text("\n".join(cpp_sources) + CALL)
    paths = [HEADERS, sysconfig.get_path("include"), *extra_include_paths]
    subprocess.run(["c++", "-std=c++17", "-g0", "-shared", "-fPIC", *(f"-I{path}" for path in paths), source, "-o", library],
                   check=True)
    function = ctypes.PyDLL(library).call  # holds the interpreter's lock
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.py_object, ctypes.c_int64, ctypes.c_bool]

    def call(tensor, table, cuda):
        wrong = function(tensor, table, cuda)
        assert wrong is None, wrong.decode()

    return types.SimpleNamespace(**{functions[0]: call})


class Arange:
    def __init__(self, count, dtype):
        self.array = np.arange(count, dtype=dtype)

    def reshape(self, *shape):
        return dlx.from_dlpack(self.array.reshape(shape))


torch = types.ModuleType("torch")
torch.Tensor, torch.arange, torch.float32 = dlx.Tensor, Arange, "float32"
torch.cuda = types.SimpleNamespace(is_available=lambda: False)
torch.utils = types.ModuleType("torch.utils")
torch.utils.cpp_extension = types.ModuleType("torch.utils.cpp_extension")
torch.utils.cpp_extension.load_inline = load_inline
for module in (torch, torch.utils, torch.utils.cpp_extension):
    sys.modules[module.__name__] = module
