"""The programs in README.md of the repository and of the package, in docs/share.md and in docs/remote.md, run as they are
printed."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import dlx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_readme(library: str) -> None:
    pages = [ROOT / "README.md", ROOT / "python" / "README.md"]
    if not all(page.exists() for page in pages) or not (ROOT / "testdata").exists():
        pytest.skip("the repository around the package is not here")
    text = "".join(page.read_text() for page in pages)
    programs = re.findall(r"```python\n(import dlx, (\w+)(?: as \w+)?\n(?:(?!```).)*)```\n\nIt prints `([^`]*)`", text, re.DOTALL)
    [(program, output)] = [(program, output) for program, other, output in programs if other == library]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not in this environment: make test-interop runs its program")
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (result.stdout.strip(), result.stderr) == (output, "")


def programs_of_share() -> list[str]:
    page = ROOT / "docs" / "share.md"
    if not page.exists():
        pytest.skip("the repository around the package is not here")
    programs = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(programs) == 5
    return programs


def test_share(tmp_path: pathlib.Path) -> None:
    receiver, sender = programs_of_share()[:2]
    lines = re.findall(r"^    ((?:received|sent): .*)$", (ROOT / "docs" / "share.md").read_text().partition("## In Python")[2], re.MULTILINE)
    assert run_both(tmp_path, receiver, sender) == (f"{lines[0]}\n", f"{lines[1]}\n")
    assert "0 bytes copied" in lines[0] and "0 bytes copied" in lines[1]


def test_share_of_rings(tmp_path: pathlib.Path) -> None:
    subscriber, publisher = programs_of_share()[2:4]
    output, nothing = run_both(tmp_path, subscriber, publisher)
    assert nothing == "" and f"The subscriber prints `{output.strip()}`" in (ROOT / "docs" / "share.md").read_text()


def run_both(folder: pathlib.Path, listener: str, other: str) -> tuple[str, str]:
    """Run two programs, the first of which listens, and return what they print."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    path = str(folder / "socket")

    def start(program: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True, env=environment)

    with start(listener) as receiving:
        # The file is there before the process listens.
        while not any(" 00010000 " in x and x.endswith(f" {path}") for x in pathlib.Path("/proc/net/unix").read_text().splitlines()):
            assert receiving.poll() is None
            time.sleep(0.001)
        with start(other) as sending:
            outputs = receiving.communicate(timeout=300)[0], sending.communicate(timeout=300)[0]
    assert (receiving.returncode, sending.returncode) == (0, 0)
    return outputs


def test_share_and_multiprocessing(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(programs_of_share()[4])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300, env=environment)
    assert (result.stdout, result.stderr) == ("[42. 42. 42. 42.]\n", "")
    assert f"It prints `{result.stdout.strip()}`" in (ROOT / "docs" / "share.md").read_text()


def programs_of_remote() -> list[str]:
    page = ROOT / "docs" / "remote.md"
    if not page.exists():
        pytest.skip("the repository around the package is not here")
    if "ucx" not in dlx.__build__["tags"]:
        pytest.skip("the build has no UCX")
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_remote(tmp_path: pathlib.Path) -> None:
    receiver, sender = programs_of_remote()[2:4]
    assert all(sum(map(bool, program.splitlines())) <= 10 for program in (receiver, sender))
    model = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(1 << 20)}
    sent, received = str(tmp_path / "sent.safetensors"), str(tmp_path / "received.safetensors")
    dlx.save(sent, model)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TOKEN": "a token of sixteen bytes"}
    command = [sys.executable, "-c", receiver, "127.0.0.1:0", received]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as receiving:
        assert receiving.stdout is not None
        address = receiving.stdout.readline().strip()
        subprocess.run([sys.executable, "-c", sender, address, sent], check=True, timeout=300, env=environment)
        assert receiving.wait(300) == 0
    assert pathlib.Path(received).read_bytes() == pathlib.Path(sent).read_bytes()


@pytest.mark.parametrize("giver", ["dlx serve", "Python"])
def test_remote_takes(giver: str, tmp_path: pathlib.Path) -> None:
    """The program in Python takes the tensors of the command, and of the other program."""
    giving, taking, *_ = programs_of_remote()
    assert all(sum(map(bool, program.splitlines())) <= 10 for program in (giving, taking))
    model = {"weights": np.arange(6.0).reshape(2, 3), "layers/é": np.arange(1 << 20)}
    dlx.save(tmp_path / "model.safetensors", model)
    (tmp_path / "token").write_text("a token of sixteen bytes\n")
    (tmp_path / "token").chmod(0o600)  # else the command warns
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TOKEN": "a token of sixteen bytes"}
    command = [sys.executable, "-m", "dlx", "serve", "model.safetensors", "--listen", "127.0.0.1:0", "--token-file", "token"]
    if giver == "Python":
        command = [sys.executable, "-c", giving, "127.0.0.1:0", "model.safetensors"]
    options: dict[str, Any] = {"stdout" if giver == "Python" else "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, cwd=tmp_path, **options) as serving:
        try:
            [address] = re.findall(r"127\.0\.0\.1:\d+", (serving.stdout or serving.stderr).readline())
            changed = taking.replace("dlx\n", "dlx\ndlx.remote.checksum = lambda tensor: bytes(32)\n", 1)
            result, failed = (
                subprocess.run([sys.executable, *program, address], capture_output=True, text=True, timeout=300, env=environment)
                for program in (["-c", taking], ["-O", "-c", changed])
            )
        finally:
            serving.terminate()
    assert failed.returncode == 1 and "was changed on the way" in failed.stderr and failed.stdout == ""
    assert result.stderr == ""
    assert sorted(result.stdout.splitlines()) == ["layers/é int64 (1048576,) 8388608", "weights float64 (2, 3) 48"]


@pytest.mark.parametrize("words", ["writable=True", "peer.relay("])
def test_remote_in_one_process(words: str) -> None:
    [program] = [x for x in programs_of_remote() if words in x]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=environment)
    assert result.stderr == "" and f"It prints `{result.stdout.strip()}`" in (ROOT / "docs" / "remote.md").read_text()
