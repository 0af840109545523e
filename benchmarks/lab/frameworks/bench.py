"""Measures exchanges side by side, in one process: bench.py JSON [MARKDOWN].

The samples of a case alternate with those of what it is compared with. A sample is the mean time of many calls; a ratio
is the median of the ratios of neighbours, so that a machine that becomes slower in between does not matter.
"""

import datetime
import gc
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

import numpy as np
import torch
import tvm_ffi

import dlx
import interop_nanobind

SAMPLES, CALLS = 401, 250  # samples are short, so that few of them lose the processor


def sample(function, argument, calls=CALLS):
    """The mean time of a call, in ns."""
    rounds = range(calls)
    begin = time.perf_counter_ns()
    for _ in rounds:
        function(argument)
    return (time.perf_counter_ns() - begin) / calls


def measure(cases):
    """cases are pairs of a name and (function, argument). Their samples alternate."""
    times = {name: [] for name, _ in cases}
    gc.collect()
    gc.disable()
    for name, (function, argument) in cases:
        sample(function, argument)
    for _ in range(SAMPLES):
        for name, (function, argument) in cases:
            times[name].append(sample(function, argument))
    gc.enable()
    return times


def spread(values):
    ordered = sorted(values)
    return {"median": round(statistics.median(values), 1), "p10": round(ordered[len(ordered) // 10], 1),
            "p90": round(ordered[len(ordered) * 9 // 10], 1)}


def through_tables(arrays):
    """What a consumer in C takes to export a tensor by a library's table and to import it by the same, in ns."""
    source = pathlib.Path(__file__).parents[3] / "python" / "bench" / "exchange.py"
    spec = importlib.util.spec_from_file_location("exchange", source)
    exchange = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(exchange)
    with tempfile.TemporaryDirectory() as folder:
        calls = {name: call for name, call in exchange.in_c(arrays, folder).items() if name.endswith("export and import")}
        times = {name: [] for name in calls}
        for _ in range(SAMPLES):
            for name, call in calls.items():
                times[name].append(call())
    return {name.removeprefix("C: ").split("'")[0]: values for name, values in times.items()}


def main():
    a = np.arange(6.0).reshape(2, 3)
    t = torch.arange(6.0).reshape(2, 3)
    f = tvm_ffi.from_dlpack(np.arange(6.0).reshape(2, 3))
    owner = bytearray(48)
    n = interop_nanobind.make(owner, 0, (2, 3), (3, 1), (2, 64, 1))
    d = dlx.empty((2, 3), "float64")
    groups = []
    producers = {"dlx": d, "NumPy": a, "torch": t, "nanobind": n}
    for consumer, function in (("np.from_dlpack", np.from_dlpack), ("torch.from_dlpack", torch.from_dlpack),
                               ("tvm_ffi.from_dlpack", tvm_ffi.from_dlpack), ("nanobind function", interop_nanobind.touch)):
        times = measure([(name, (function, x)) for name, x in producers.items()])
        medians = {name: statistics.median(values) for name, values in times.items()}
        fastest = min((name for name in medians if name != "dlx"), key=medians.get)
        ratio = statistics.median(x / y for x, y in zip(times["dlx"], times[fastest]))
        groups.append({"consumer": consumer, "ns": {name: spread(values) for name, values in times.items()},
                       "fastest_foreign": fastest, "ratio": round(ratio, 3), "target": "ratio at most 1",
                       "met": ratio <= 1.0})
    # tvm_ffi.Tensor has no exchange table in this version; what tvm-ffi tests its own table with has one.
    w = tvm_ffi.core.DLTensorTestWrapper(f)
    for name, x, target in (("torch", t, 300), ("NumPy", a, 300), ("tvm-ffi", f, 300), ("tvm-ffi's DLTensorTestWrapper", w, 80)):
        times = measure([("dlx.from_dlpack", (dlx.from_dlpack, x)), ("np.from_dlpack", (np.from_dlpack, x))])
        median = statistics.median(times["dlx.from_dlpack"])
        ratio = statistics.median(p / q for p, q in zip(times["dlx.from_dlpack"], times["np.from_dlpack"]))
        met = median <= target and ratio < 1
        groups.append({"consumer": f"dlx.from_dlpack({name})", "ns": {k: spread(v) for k, v in times.items()},
                       "fastest_foreign": "np.from_dlpack", "ratio": round(ratio, 3),
                       "target": f"at most {target} ns, and faster than np.from_dlpack of the same", "met": met})
    times = through_tables({"t": d, "a": a, "x": t, "tv": f})
    medians = {name: statistics.median(values) for name, values in times.items()}
    fastest = min((name for name in medians if name != "dlx"), key=medians.get)
    ratio = statistics.median(x / y for x, y in zip(times["dlx"], times[fastest]))
    groups.append({"consumer": "from C, by the exchange table: export, import, free",
                   "ns": {name: spread(values) for name, values in times.items()}, "fastest_foreign": fastest,
                   "ratio": round(ratio, 3), "target": "at most 80 ns", "met": medians["dlx"] <= 80})
    packages = ("numpy", "torch", "apache-tvm-ffi", "nanobind")
    result = {
        "schema": 1, "date": datetime.date.today().isoformat(), "machine": machine(),
        "python": platform.python_version(), "versions": {p: importlib.metadata.version(p) for p in packages},
        "samples": SAMPLES, "calls": CALLS, "load": os.getloadavg()[0], "groups": groups,
    }
    pathlib.Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")
    text = render(result)
    print(text)
    if len(sys.argv) > 2:
        pathlib.Path(sys.argv[2]).write_text(text + "\n")


def machine():
    model = platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass
    return {"system": f"{platform.system()}/{platform.machine()}", "processor": model, "cpus": os.cpu_count()}


def render(result):
    m = result["machine"]
    lines = ["# How fast Python's frameworks exchange tensors with dlx", "",
             "`make bench-interop` wrote this page. Times are ns for a call with the deletion of its result: the median, and in "
             "parentheses the tenth and the ninetieth percentile. All cases of a line alternate in one process. A ratio "
             "is the median of paired samples, of dlx to the fastest other.", "",
             f"{m['processor']}, {m['cpus']} CPUs, {m['system']}; Python {result['python']}, " +
             ", ".join(f"{k} {v}" for k, v in result["versions"].items()) +
             f"; {result['samples']} samples of {result['calls']} calls; load {result['load']:.1f}.", "",
             "| call | times | fastest other | ratio | target | |", "|---|---|---|---|---|---|"]
    for g in result["groups"]:
        times = ", ".join(f"{k} {v['median']:.0f} ({v['p10']:.0f} to {v['p90']:.0f})" for k, v in g["ns"].items())
        lines.append(f"| {g['consumer']} | {times} | {g['fastest_foreign']} | {g['ratio']:.2f} | {g['target']} | "
                     f"{'met' if g['met'] else 'missed'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
