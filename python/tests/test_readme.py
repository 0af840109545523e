"""The programs in README.md of the repository and of the package run as they are printed."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

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
