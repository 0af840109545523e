"""A million round trips leave the resident memory flat, and every counter at 0."""

import ctypes
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import tvm_ffi

import dlx

ROUNDS = 1_000_000


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def trip(x, rounds):
    for _ in range(rounds):
        y = np.from_dlpack(dlx.from_dlpack(x))
    return y


def hold_flat(work):
    work(ROUNDS // 20)  # what the allocators keep
    gc.collect()
    before = resident()
    work(ROUNDS)
    gc.collect()
    grown = resident() - before
    # A leak of one object of 64 bytes in each trip were 64 MB.
    assert grown < 8 << 20, f"{grown} bytes more after {ROUNDS} round trips"


def test_a_million_round_trips():
    x = np.arange(6.0)
    hold_flat(lambda rounds: trip(x, rounds))
    assert trip(x, 1).__array_interface__["data"][0] == x.__array_interface__["data"][0]


def test_a_million_round_trips_through_the_exchange_table():
    x = tvm_ffi.from_dlpack(np.arange(6.0))

    def work(rounds):
        for _ in range(rounds):
            y = dlx.from_dlpack(x)
            tvm_ffi.from_dlpack(y)

    hold_flat(work)


def test_a_million_round_trips_in_eight_threads():
    x = np.arange(6.0)
    errors = []

    def work(rounds):
        def run():
            try:
                trip(x, rounds // 8)
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    hold_flat(work)
    assert errors == []


HARD = """
import ctypes, gc, pathlib, sys, tempfile, threading
import numpy as np
import dlx

folder = pathlib.Path(tempfile.mkdtemp())
np.save(folder / "x.npy", np.arange(1000.0))
stop = threading.Event()
def collect():
    while not stop.is_set():
        gc.collect()
collector = threading.Thread(target=collect)
collector.start()
errors = []
def work(seed):
    try:
        for i in range(300):
            mapped = dlx.open(folder / "x.npy")          # Go maps the file
            if isinstance(mapped, dlx.File):
                mapped = mapped["x"]
            a = np.from_dlpack(mapped)
            assert a[-1] == 999.0
            b = np.full(256, float(seed * 1000 + i))
            there = dlx.from_dlpack(b).to("cpu", copy=True)   # Go copies
            del b
            assert (np.from_dlpack(there) == seed * 1000 + i).all()
            cycle = [there]
            cycle.append(cycle)                               # only the collector frees this
            del mapped, a, there, cycle
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
stop.set()
collector.join()
gc.collect()
assert errors == [], errors
print(dlx._live())
assert all(count == 0 for count in dlx._live().values()), dlx._live()
"""


def test_both_collectors_run_hard():
    # Go collects after each 4 MB or less, Python all the time.
    ended = subprocess.run([sys.executable, "-c", HARD], env=os.environ | {"GOGC": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
