"""Builds the extension, and with Go the library libdlx and the command dlx, which become files of the package.

DLX_BUILT names a folder with libdlx.so and bin/dlx, which are then taken from there: for one more version of CPython.
DLX_TAGS names the backends to build, separated by commas; empty means only the CPU's. Without it, a backend is built if
the C compiler finds its headers. A build with backends that fails is repeated without any.

The Go sources are those of the repository in which this folder lies, or in a source distribution the folder go.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE / "go" if (HERE / "go" / "go.mod").exists() else HERE.parent

# The buffer protocol is in the limited API from 3.11 on. Builds without the lock have no limited API.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED = sys.version_info >= (3, 11) and not FREE_THREADED and not os.environ.get("DLX_FULL_API")

# A backend, or the part for other machines, which needs UCX, is built if the C compiler finds these headers, and pkg-config
# these modules. Their libraries are opened at run time.
HEADERS = {
    "cuda": (["cuda.h"], []),
    "gl": (["EGL/egl.h"], ["gl"]),
    "oneapi": (["CL/cl_ext.h"], []),
    "opencl": (["CL/cl_ext.h"], []),
    "rocm": (["hip/hip_runtime_api.h"], []),
    "ucx": (["ucp/api/ucp.h"], []),
    "vulkan": (["vulkan/vulkan.h"], []),
}


def run(arguments, **options):
    """Run a command of the build."""
    return subprocess.run([str(a) for a in arguments], check=True, **options)


def cgo_flags():
    """Return the folders of headers: our cuda.h, which includes the real one, comes before that."""
    flags = os.environ.get("CGO_CFLAGS", "-g -O2").split()
    ours = f"-I{ROOT / 'backends/cuda/include'}"
    return [ours, *(f for f in flags if f != ours)]


def compiles(header):
    """Report whether the C compiler finds a header."""
    compiler = subprocess.run(["go", "env", "CC"], capture_output=True, text=True, check=True).stdout.split()
    # cuda.h of ours includes the real one.
    defines = ["-D__HIP_PLATFORM_AMD__"] if header.startswith("hip/") else []
    command = [*compiler, "-x", "c", "-fsyntax-only", *cgo_flags(), *defines, "-"]
    return subprocess.run(command, input=f"#include <{header}>\n", text=True, stderr=subprocess.DEVNULL).returncode == 0


def has_module(name):
    """Report whether pkg-config knows a library."""
    try:
        return subprocess.run(["pkg-config", "--exists", name], stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def default_tags():
    """Return the tags whose headers are there, and say what is left out."""
    if not sys.platform.startswith("linux"):
        return []
    tags = []
    for tag, (headers, modules) in HEADERS.items():
        missing = [x for x in headers if not compiles(x)] + [f"{x}.pc" for x in modules if not has_module(x)]
        if missing:
            print(f"dlx: {tag} is left out, since {' and '.join(missing)} cannot be found", file=sys.stderr)
        else:
            tags.append(tag)
    return tags


def build_go(package, tags):
    """Build libdlx and the command into the folder of the package."""
    if built := os.environ.get("DLX_BUILT"):
        shutil.copytree(built, package, dirs_exist_ok=True, ignore=lambda folder, names: set(names) - {"libdlx.so", "bin", "dlx"})
        return
    environment = {**os.environ, "CGO_ENABLED": "1", "CGO_CFLAGS": " ".join(cgo_flags())}
    environment.pop("GOFLAGS", None)
    package.mkdir(parents=True, exist_ok=True)
    joined = ",".join(tags)
    with tempfile.TemporaryDirectory() as out:
        run([ROOT / "scripts/build-libdlx.sh", out, joined], env=environment)
        shutil.copy((pathlib.Path(out) / "libdlx.so").resolve(), package / "libdlx.so")
    (package / "bin").mkdir(exist_ok=True)
    run(
        ["go", "build", "-buildvcs=false", "-ldflags=-s -w", "-tags", joined, "-o", package / "bin/dlx"]
        + ["./cmd/dlx"],
        cwd=ROOT,
        env=environment,
    )


class BuildPy(build_py):
    """Build the parts in Go before the files of the package are collected."""

    def run(self):
        """Build."""
        named = os.environ.get("DLX_TAGS")
        tags = default_tags() if named is None else [tag for tag in named.split(",") if tag]
        # An editable installation uses the folder of the sources.
        package = HERE / "src/dlx" if self.editable_mode else pathlib.Path(self.build_lib).resolve() / "dlx"
        try:
            build_go(package, tags)
        except subprocess.CalledProcessError:
            if not tags or named is not None:
                raise
            print(f"dlx: the build with the backends {','.join(tags)} failed: only the CPU's is built", file=sys.stderr)
            tags = []
            build_go(package, tags)
        super().run()
        go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
        build = {"tags": sorted(tags), "go": go, "limited_api": LIMITED, "python": sysconfig.get_python_version()}
        text = f'"""What the build was made with."""\n\nfrom typing import Any\n\nBUILD: dict[str, Any] = {build!r}\n'
        (package / "_build.py").write_text(text)


class BuildExt(build_ext):
    """Find the header of libdlx."""

    def run(self):
        """Build."""
        self.include_dirs.append(str(ROOT / "cmd/libdlx"))
        super().run()


class Sdist(sdist):
    """Add the Go sources."""

    def make_release_tree(self, base_dir, files):
        """Copy the files that the build needs to the folder go."""
        super().make_release_tree(base_dir, files)
        listed = run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, listed):
            path = pathlib.PurePath(name)
            folders = {"core", "stream", "exchange", "share", "remote", "metrics", "backends", "interop", "tensorfile", "cmd", "internal", "benchmarks"}
            wanted = path.parts[0] in folders and "testdata" not in path.parts and not name.endswith("_test.go")
            if wanted or name in {"go.mod", "go.sum", "LICENSE", "scripts/build-libdlx.sh", "scripts/tags.sh"}:
                target = pathlib.Path(base_dir) / "go" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, target)


extension = Extension(
    "dlx._C",
    sorted(str(p.relative_to(HERE)) for p in (HERE / "src/ext").glob("*.c")),
    depends=sorted(str(p.relative_to(HERE)) for p in (HERE / "src/ext").glob("*.h")),
    include_dirs=["src/ext"],
    define_macros=[("_GNU_SOURCE", None), *([("Py_LIMITED_API", "0x030B0000")] if LIMITED else [])],
    # Calls of CPython's functions go without a jump through the table of the linker.
    extra_compile_args=["-std=c11", "-O2", "-fno-plt", "-fvisibility=hidden"]
    + ["-Wall", "-Wextra", "-Wno-missing-field-initializers"],
    libraries=["dl", "pthread"],
    py_limited_api=LIMITED,
)

setup(
    cmdclass={"build_py": BuildPy, "build_ext": BuildExt, "sdist": Sdist},
    ext_modules=[extension],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
