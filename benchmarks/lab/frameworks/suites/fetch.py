"""Where the frameworks' own tests come from. What is fetched lies in .cache/interop/suites and is never committed."""

import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
FETCHED = ROOT / ".cache" / "interop" / "suites"
LIMIT = 300  # seconds for a download


class Unavailable(Exception):
    """The text says what was tried."""


def run(*command, **options):
    """Runs a command that fetches."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT, **options).stdout
    except FileNotFoundError:
        raise Unavailable(f"there is no {command[0]}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} did not end within {LIMIT} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise Unavailable(f"{pathlib.Path(command[0]).name} failed: {said}") from None


def once(name, fill):
    """A folder that fill has filled, in this run or in an earlier one."""
    folder = FETCHED / name
    if not folder.exists():
        FETCHED.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FETCHED) as work:
            fill(pathlib.Path(work, "filled"))
            pathlib.Path(work, "filled").rename(folder)
    return folder


def installed(package):
    """The folder of a package, which has its tests, and its version."""
    def fetch():
        return pathlib.Path(importlib.util.find_spec(package).origin).parent, f"{package} {importlib.metadata.version(package)}"
    return fetch


def sdist(package, part):
    """A folder of the source distribution with the version that is installed."""
    def fetch():
        version = importlib.metadata.version(package)

        def fill(folder):
            with tempfile.TemporaryDirectory() as work:
                # pip asks the package for its dependencies, for which it installs what builds the package.
                run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package, "--dest", work,
                    f"{package}=={version}")
                archive, = pathlib.Path(work).iterdir()
                with tarfile.open(archive) as files:
                    files.extractall(work, filter="data")
                top, = (path for path in pathlib.Path(work).iterdir() if path.is_dir())
                shutil.move(top, folder)
        return once(f"{package}-{version}", fill) / part, f"the source distribution of {package} {version}"
    return fetch


def nanobind():
    """The tests of nanobind, with their module compiled."""
    tests, source = sdist("nanobind", "tests")()
    module = tests / "test_ndarray_ext.so"
    if not module.exists():
        top = tests.parent
        subprocess.run(
            ["c++", "-std=c++17", "-O1", "-g0", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing",
             f"-I{sysconfig.get_path('include')}", f"-I{top / 'include'}", f"-I{top / 'ext' / 'robin_map' / 'include'}",
             tests / "test_ndarray.cpp", top / "src" / "nb_combined.cpp", "-o", module.with_suffix(".part")], check=True)
        module.with_suffix(".part").rename(module)
    return tests, source


def debian(package, release, file):
    """One file of a source package of Debian, from the mirror that this machine uses."""
    def fetch():
        def fill(folder):
            site = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages").split()
            sites = [name for name in site if name.rstrip("/").endswith("/debian")]
            if not sites:
                raise Unavailable("this machine has no mirror of Debian")
            with tempfile.TemporaryDirectory() as work:
                for part in ("lists/partial", "cache/archives/partial"):
                    pathlib.Path(work, part).mkdir(parents=True)
                sources = pathlib.Path(work, "sources.list")
                sources.write_text(f"deb-src {sites[0]} {release} main\n")
                apt = ["apt-get", "-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=/dev/null",
                       "-o", f"Dir::State::Lists={work}/lists", "-o", f"Dir::Cache={work}/cache", "-o", "APT::Sandbox::User="]
                run(*apt, "update")
                run(*apt, "source", "--download-only", package, cwd=work)
                archives = list(pathlib.Path(work).glob("*.orig.tar.*"))
                if len(archives) != 1:
                    raise Unavailable(f"apt-get got no source of {package}")
                folder.mkdir()
                with tarfile.open(archives[0]) as files:
                    member = next((m for m in files if m.name.endswith("/" + file)), None)
                    if member is None:
                        raise Unavailable(f"{archives[0].name} has no {file}")
                    (folder / pathlib.Path(file).name).write_bytes(files.extractfile(member).read())
                (folder / "source").write_text(f"Debian's source package {archives[0].name.split('.orig')[0]}")
        folder = once(f"{package}-{release}", fill)
        return folder, (folder / "source").read_text()
    return fetch


def git(address, commit, variable):
    """A commit of a repository with its submodules. The variable can name a folder that has it."""
    def fetch():
        name = address.rsplit("/", 1)[1]
        if os.environ.get(variable):
            return pathlib.Path(os.environ[variable]), f"{name} {commit[:7]}"

        def fill(folder):
            run("git", "clone", "--quiet", address, folder)
            run("git", "-C", folder, "checkout", "--quiet", commit)
            run("git", "-C", folder, "submodule", "--quiet", "update", "--init")
        return once(f"{name}-{commit[:7]}", fill), f"{name} {commit[:7]}"
    return fetch
