"""The Python programs of both README.md files run as they are printed, with the libraries that they name."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
PAGES = "".join((ROOT / page).read_text() for page in ("README.md", "python/README.md"))
PROGRAMS = re.findall(r"```python\n((?:(?!```).)*)```\n\nIt prints `([^`]*)`", PAGES, re.DOTALL)


@pytest.mark.parametrize("program, output", PROGRAMS, ids=[program.split("\n")[0] for program, _ in PROGRAMS])
def test_readme(program, output):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (ended.stdout.strip(), ended.stderr) == (output, "")


def test_there_is_one_with_torch():
    assert any("import dlx, torch" in program for program, _ in PROGRAMS)
