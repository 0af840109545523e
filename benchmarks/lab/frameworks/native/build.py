"""Builds the native modules into the folder that is named, with the interpreter that runs this."""

import pathlib
import subprocess
import sys
import sysconfig

HERE = pathlib.Path(__file__).parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
FLAGS = ["-O2", "-g0", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{sysconfig.get_path('include')}"]


def build_nanobind(out):
    import nanobind
    root = pathlib.Path(nanobind.source_dir()).parent
    target = out / f"interop_nanobind{SUFFIX}"
    source = HERE / "interop_nanobind.cpp"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return
    subprocess.run(["c++", "-std=c++17", *FLAGS, "-fno-strict-aliasing", f"-I{nanobind.include_dir()}",
                    f"-I{root / 'ext' / 'robin_map' / 'include'}", source, root / "src" / "nb_combined.cpp",
                    "-o", target], check=True)


def build_fakes(out):
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *FLAGS, HERE / "interop_fakes.c", "-lpthread",
                    "-o", out / f"interop_fakes{SUFFIX}"], check=True)


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    build_nanobind(out)
    build_fakes(out)


if __name__ == "__main__":
    main()
