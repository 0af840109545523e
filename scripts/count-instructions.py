#!/usr/bin/env python3
"""Counts the instructions of an operation, by function.

usage: count-instructions.py [-n N] [-t SHARE] COMMAND

COMMAND repeats the operation {} times, such as

    ./dlpack.test -test.run xxx -test.bench '^BenchmarkImportDelete$' -test.benchtime {}x
    python3 -c 'import numpy as np; a = np.zeros((2, 3, 4), "f4"); [np.from_dlpack(a) for _ in range({})]'

It runs under callgrind (Debian: valgrind), N and 3N times. The difference is what 2N operations take, without the start
of the program. Go's garbage collector is off unless GOGC is set, and Go has one processor unless GOMAXPROCS is set, since
idle ones that look for work would count. The columns, for one operation:

    instr          instructions; a string instruction (REP MOVSB) counts once for each step
    locked         those with a LOCK prefix, and exchanges with memory, which are locked too
    reads, writes  accesses to memory
    lines          misses of a simulated first-level data cache of the size of this processor's

A function that the compiler inlined counts for its caller. Rows below SHARE of the instructions (default 0.01) are left out.
"""

import argparse
import collections
import functools
import os
import re
import subprocess
import tempfile

EVENTS = ["Ir", "Dr", "Dw", "I1mr", "D1mr", "D1mw", "ILmr", "DLmr", "DLmw"]
LOCKED = re.compile(r"^\s*([0-9a-f]+):\t(?:lock |rex.*lock |xchg .*\()", re.M)


@functools.cache
def locked(path):
    """Returns the addresses of the locked instructions of a program or library."""
    if not os.path.exists(path):
        return frozenset()
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True).stdout
    return frozenset(int(a, 16) for a in LOCKED.findall(text))


def profile(command, times):
    """Returns the counts of each function: instructions, locked ones, reads, writes, misses."""
    with tempfile.NamedTemporaryFile() as out:
        env = {"GOGC": "off", "GOMAXPROCS": "1"} | os.environ | {"GODEBUG": "asyncpreemptoff=1"}  # its signals would end callgrind
        options = ["--cache-sim=yes", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no"]
        valgrind = ["valgrind", "--tool=callgrind", *options, "--callgrind-out-file=" + out.name]
        repeated = [a.replace("{}", str(times)) for a in command]
        subprocess.run(valgrind + repeated, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counts, function, where, skip = collections.defaultdict(lambda: [0] * 5), "", "", False
        for line in open(out.name):
            if line.startswith("ob="):
                where = line[3:].strip()
            elif line.startswith("fn="):
                function = re.sub(r"'\d+$", "", line[3:].strip())
            elif line.startswith("calls="):
                skip = True  # the next line is what the callee took
            elif line.startswith("0x"):
                if not skip:
                    address, _, *cost = line.split()
                    cost = dict(zip(EVENTS, map(int, cost), strict=False))
                    instr = cost.get("Ir", 0)
                    add = [instr, instr * (int(address, 16) in locked(where)), cost.get("Dr", 0), cost.get("Dw", 0)]
                    add.append(cost.get("D1mr", 0) + cost.get("D1mw", 0))
                    counts[function] = [a + b for a, b in zip(counts[function], add, strict=True)]
                skip = False
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=10000)
    parser.add_argument("-t", type=float, default=0.01)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    few, many = (profile(args.command, n) for n in (args.n, 3 * args.n))
    rows = {f: [(a - b) / (2 * args.n) for a, b in zip(many[f], few[f], strict=True)] for f in {**many, **few}}
    rows["total"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    print(f"{'instr':>8}{'locked':>8}{'reads':>8}{'writes':>8}{'lines':>8}  function")
    for function, row in sorted(rows.items(), key=lambda r: -r[1][0]):
        if row[0] >= args.t * rows["total"][0]:
            print("".join(f"{x:8.1f}" for x in row), function, sep="  ")


main()
