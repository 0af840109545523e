"""Fills the table: each framework in processes of its own, which may crash, and the comparison with the committed one.

    table.py --out FILE [--against FILE] [--quick | --only NAME ...]

The file is JSON; render.py makes Markdown of it. A cell is one of these:

    passed   the tensor arrived with its values, and it is a copy or not as was asked
    refused  the framework refuses, in its own words, or DLPack itself has no way
    absent   the framework has no such tensor to give
    wrong    the framework takes the tensor and is wrong about it, as it is about that of another producer
    crashed  the framework ends the process, as it does with a tensor of another producer
    failed   dlx is wrong
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import adapters
from dtypes import COPIES, DIRECTIONS, DTYPES, LAYOUTS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIMIT = 900  # seconds without a result


def python_of(name):
    """The interpreter of the environment that has the framework."""
    suffix = adapters.ENVIRONMENTS.get(name)
    return sys.executable if suffix is None else str(ROOT / f".venv-interop-{suffix}" / "bin" / "python")


def environment():
    paths = [str(HERE), str(ROOT / ".cache" / "interop"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONFAULTHANDLER": ""}


def cell_keys():
    return [(direction, dtype.name, layout.name, copy)
            for direction in DIRECTIONS for dtype in DTYPES for layout in LAYOUTS for copy in COPIES]


def fill(name):
    """The name, the versions and the results of a framework, which are pairs of a kind and a text."""
    keys = cell_keys()
    results, head = {}, {}
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work, "cells")
        first = 0
        while first < len(keys):
            path.write_text("")
            command = [python_of(name), str(HERE / "cell.py"), name, str(path), str(first)]
            ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LIMIT)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            begun = first - 1
            for line in lines:
                if "name" in line:
                    head = line
                elif "result" in line:
                    results[keys[line["cell"]]] = (line["result"], line["text"])
                elif "cell" in line:
                    begun = line["cell"]
            if lines and "end" in lines[-1]:
                break
            if begun < first:
                raise SystemExit(f"{name} does not start:\n{ended.stderr[-2000:]}")
            results[keys[begun]] = crashed(name, begun, ended)
            first = begun + 1
    return head, results


def crashed(name, cell, ended):
    """The result of a cell whose process ended: whose fault it is shows another producer's tensor."""
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work, "cells")
        path.write_text("")
        again = subprocess.run([python_of(name), str(HERE / "cell.py"), name, str(path), str(cell), "control"],
                               env=environment(), capture_output=True, text=True, timeout=LIMIT)
    how = ended_by(ended)
    return ("crashed", how) if again.returncode < 0 else ("failed", f"{how}, with the tensor of dlx alone")


def ended_by(process):
    if process.returncode >= 0:
        return f"the process ended with status {process.returncode}"
    return signal.Signals(-process.returncode).name


def pack(name, head, results):
    """The results as rows of numbers of outcomes, which are short enough to commit."""
    outcomes, rows = [], {direction: {} for direction in DIRECTIONS}
    for (direction, dtype, _, _), outcome in results.items():
        if outcome not in outcomes:
            outcomes.append(outcome)
        rows[direction].setdefault(dtype, []).append(outcomes.index(outcome))
    return {"id": name, "name": head["name"], "versions": head["versions"], "outcomes": outcomes,
            "rows": {direction: {dtype: " ".join(map(str, row)) for dtype, row in by_dtype.items()}
                     for direction, by_dtype in rows.items()}}


def unpack(framework):
    """The results of a framework, as fill returns them."""
    results = {}
    for direction, by_dtype in framework["rows"].items():
        for dtype, row in by_dtype.items():
            numbers = iter(map(int, row.split()))
            for layout in LAYOUTS:
                for copy in COPIES:
                    results[direction, dtype, layout.name, copy] = tuple(framework["outcomes"][next(numbers)])
    return results


def compare(name, now, before):
    """The cells that were passed and are not, and the number of cells that are different in any way."""
    found, was = unpack(now), unpack(before)
    worse = [(key, found[key]) for key in found if was.get(key, ("",))[0] == "passed" and found[key][0] != "passed"]
    return worse, sum(found[key] != was.get(key) for key in found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--against")
    parser.add_argument("--only", nargs="*", default=adapters.ALL)
    parser.add_argument("--quick", action="store_true", help="only the frameworks of requirements-interop.txt")
    options = parser.parse_args()
    if options.quick:
        options.only = adapters.QUICK
    before = {}
    if options.against and os.path.exists(options.against):
        before = {f["id"]: f for f in json.loads(pathlib.Path(options.against).read_text())["frameworks"]}
    table, tests = [], {"passed": 0, "failed": 0, "skipped": 0}
    for name in options.only:
        head, results = fill(name)
        now = pack(name, head, results)
        table.append(now)
        worse, different = [], 0
        if name in before and before[name]["versions"] != now["versions"]:
            print(f"{now['name']}: not compared with the committed table, which is of {before[name]['versions']}")
        elif name in before:
            worse, different = compare(name, now, before[name])
        kinds = [kind for kind, _ in results.values()]
        print(f"{now['name']}: " + ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) +
              (f"; {different} differ from the committed table" if different else ""), flush=True)
        for direction in DIRECTIONS:
            bad = [(key, outcome) for key, outcome in results.items() if key[0] == direction and outcome[0] == "failed"]
            bad += [entry for entry in worse if entry[0][0] == direction and entry not in bad]
            tests["failed" if bad else "passed"] += 1
            for key, outcome in bad[:20]:
                print(f"  FAILED {' / '.join(key)}: {outcome[0]}: {outcome[1]}")
    pathlib.Path(options.out).write_text(write({"schema": 1, "frameworks": table}))
    if os.environ.get("DLX_COUNTS"):
        with open(os.environ["DLX_COUNTS"], "a") as counts:
            print(tests["passed"], tests["failed"], tests["skipped"], file=counts)
    sys.exit(tests["failed"] != 0)


def write(table):
    """JSON with a line for each row."""
    return json.dumps(table, indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    main()
