"""Makes PyTorch's wheel of PyPI usable without the libraries of CUDA that only work on a card would call.

That wheel is built for CUDA, and the libraries it is linked with take two gigabytes. This script installs
fakes of them beside PyTorch's own libraries: small libraries with the same names, whose functions all report an error.
Nothing calls them on a machine without a card. The CUDA runtime is not replaced: it says how many cards there are.

    fake_cuda.py    # in the environment with PyTorch; needs a C compiler and readelf
"""

import collections
import importlib.util
import pathlib
import re
import subprocess
import tempfile

# Each name begins the names of the functions, too, except where the second column says otherwise.
REPLACED = {
    "libcublas.so": "cublas", "libcublasLt.so": "cublasLt", "libcudnn.so": "cudnn", "libcufft.so": "cufft",
    "libcufile.so": "cuFile", "libcupti.so": "cupti", "libcusolver.so": "cusolver", "libcusparse.so": "cusparse",
    "libcusparseLt.so": "cusparseLt", "libnccl.so": "nccl", "libnvrtc.so": "nvrtc", "libnvshmem_host.so": "nvshmem",
}


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True).stdout


def main():
    folder = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
    needed = set()  # sonames
    wanted = collections.defaultdict(set)  # version -> names of functions; "" for those without a version
    versions_of = collections.defaultdict(set)  # soname -> versions
    for library in folder.glob("*.so*"):
        if not re.search(r"\.so[.0-9]*$", library.name):
            continue  # another file
        needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic", library)))
        for symbol in re.findall(r" UND (\S+)", readelf("--dyn-syms", library)):
            name, _, version = symbol.partition("@")
            wanted[version.lstrip("@")].add(name)
        for part in readelf("--version-info", library).split(" File: ")[1:]:
            versions_of[part.split()[0]].update(re.findall(r"Name: (\S+)", part))
    for soname in sorted(needed):
        stem = re.sub(r"\.so.*", ".so", soname)
        if stem not in REPLACED:
            continue
        versions = {version: wanted[version] for version in sorted(versions_of[soname])}
        plain = {name for name in wanted[""] if name.startswith(REPLACED[stem])}
        write(folder / soname, versions, plain)
        print(f"{soname}: {sum(map(len, versions.values())) + len(plain)} functions that report an error")


def write(path, versions, plain):
    """Writes the fake of a library, with the functions that each version of it must have, and those without a version."""
    text = "".join(f"int {name}(void) {{ return 1; }}\n" for names in [plain, *versions.values()] for name in sorted(names))
    script = "".join(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n" for version, names in versions.items())
    with tempfile.TemporaryDirectory() as work:
        source, map_file = pathlib.Path(work, "fake.c"), pathlib.Path(work, "fake.map")
        source.write_text(text)
        map_file.write_text(script)
        options = [f"-Wl,--version-script={map_file}"] if script else []
        subprocess.run(["cc", "-w", "-fno-builtin", "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{path.name}", *options,
                        "-o", path, source], check=True)


if __name__ == "__main__":
    main()
