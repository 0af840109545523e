#!/usr/bin/env python3
"""Writes what the suites took into CONTRIBUTING.md, and the seconds of deep suites into scripts/deep-suites.txt.

usage: suite-times.py COLD WARM ALL CHECK

COLD, WARM and ALL are copies of .test/summary after make test in a new clone with empty caches, after make test once
more, and after make test-all. CHECK is the number of seconds of make check after a change to core. "-" stands for a run
that was not made; what needs it is left out.
"""

import os
import platform
import re
import subprocess
import sys

ROW = re.compile(r"^(\S+) +(ok|FAILED) +(\d+) passed +(\d+) failed +(\d+) skipped +(\d+)s +(\d+)s cpu$")
BEGIN, END = "<!-- written by scripts/suite-times.py -->\n", "<!-- end -->\n"
TYPICAL = [
    ("core", "core/tensor.go"),
    ("backends/cuda", "backends/cuda/built.go"),
    ("tensorfile", "tensorfile/load.go"),
    ("python", "python/src/dlx/__init__.py"),
    ("interop/gonum", "interop/gonum/matrix.go"),
]


def read(path):
    """Returns the seconds and the processor seconds of each suite of a summary."""
    if path == "-":
        return {}
    rows = [m for m in map(ROW.match, open(path)) if m]
    if not rows or any(m[2] == "FAILED" for m in rows):
        sys.exit(f"{path} is not a summary of run-suites.sh in which all suites passed")
    return {m[1]: (int(m[6]), int(m[7])) for m in rows}


def clock(seconds):
    return f"{seconds // 60}:{seconds % 60:02}"


def total(rows):
    return clock(sum(s for s, _ in rows.values())), clock(sum(c for _, c in rows.values()))


def main():
    cold, warm, everything = map(read, sys.argv[1:4])
    check = int(sys.argv[4])
    os.chdir(os.path.join(os.path.dirname(__file__), ".."))
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()

    out = [f"Measured at {commit} on {os.cpu_count()} processors ({cpu}), in minutes; processor time in parentheses.\n\n"]
    out += ["| command | time |\n|---|---|\n"]
    for name, rows in (
        ("`make test` in a new clone with empty caches", cold),
        ("`make test` with warm caches", warm),
        ("`make test-all`", everything),
    ):
        if rows:
            out.append("| {} | {} ({}) |\n".format(name, *total(rows)))
    out.append(f"| `make check` after a change to core, with warm caches | {clock(check)} |\n")
    for name, path in TYPICAL if warm and everything else []:
        deep = subprocess.check_output(["scripts/deep-suites.sh", "--paths", path], text=True).split()
        seconds = sum(s for s, _ in warm.values()) + sum(everything[d][0] for d in deep)
        out.append(f"| `make test-changed` after a change to {name}, as the sum of its suites | {clock(seconds)} |\n")

    def cell(rows, suite):
        return "{} ({})".format(*map(clock, rows[suite])) if suite in rows else ""

    out += ["\n| suite of `make test` | from nothing | warm |\n|---|---|---|\n"]
    for suite in cold or warm:
        out.append(f"| {suite} | {cell(cold, suite)} | {cell(warm, suite)} |\n")
    if everything:
        out += ["\n| suite of `make test-all` | time |\n|---|---|\n"]
        out += [f"| {suite} | {cell(everything, suite)} |\n" for suite in everything if suite not in (cold or warm)]

    text = open("CONTRIBUTING.md").read()
    before, rest = text.split(BEGIN)
    open("CONTRIBUTING.md", "w").write(before + BEGIN + "\n" + "".join(out) + "\n" + END + rest.split(END)[1])

    lines = []
    for line in open("scripts/deep-suites.txt"):
        m = re.match(r"^(test-\S+)( *\| *)(\d+)( *)\|(.*)$", line)
        if m and m[1] in everything:
            line = f"{m[1]}{m[2]}{everything[m[1]][0]:<{len(m[3] + m[4])}}|{m[5]}\n"
        lines.append(line)
    open("scripts/deep-suites.txt", "w").write("".join(lines))


if __name__ == "__main__":
    main()
