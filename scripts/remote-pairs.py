"""Passes a model between two processes by UCX, for each pair of Go, Python and C and each device, and writes the page.

    scripts/software-drivers.sh python scripts/remote-pairs.py [--check]

It runs with a Python that has the package dlx, built with the tag ucx. Python and Go are the programs of docs/remote.md, and C is
scripts/remote-pairs.c with libdlx of the package. The receiver writes what it has received to a file, which must be that of the
sender. With --check the page must be what the run gives.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import threading

import numpy as np

import dlx

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "remote-pairs.md"
PACKAGE = pathlib.Path(dlx.__file__).resolve().parent
LIMIT = 120

DEVICES = {
    "cpu": "host",
    "vulkan:0": "Vulkan, lavapipe",
    "cuda:0": "CUDA, simulated driver",
    "rocm:0": "ROCm, simulated driver",
}


def model() -> dict[str, np.ndarray]:
    """Return the tensors of the model: a small one, one of several pieces, and one without axes."""
    return {
        "bias": np.arange(10, dtype=np.float32),
        "weights": np.arange(3 << 20, dtype=np.int32).reshape(3, -1),
        "step": np.array(7, np.int64),
    }


def commands(folder: pathlib.Path) -> dict[str, dict[str, list[str]]]:
    """Build the programs, and return the commands of the senders and receivers."""
    program = str(folder / "c")
    subprocess.run(
        ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{ROOT / 'cmd/libdlx'}", str(ROOT / "scripts/remote-pairs.c")]
        + [str(PACKAGE / "libdlx.so"), "-o", program],
        check=True,
    )
    # The library has the name libdlx.so.0, which is that of its ABI.
    (folder / "libdlx.so.0").symlink_to(PACKAGE / "libdlx.so")
    examples = [f"./examples/machines/{name}" for name in ("give", "take", "receive", "send")]
    subprocess.run(["go", "build", "-buildvcs=false", "-tags", "ucx", "-o", str(folder), *examples], cwd=ROOT, check=True)
    names = "give", "take", "receive", "send"
    python = re.findall(r"```python\n(.*?)```", (ROOT / "docs/remote.md").read_text(), re.DOTALL)
    return {
        "Go": {name: [str(folder / name)] for name in names},
        "Python": {name: [sys.executable, "-c", program] for name, program in zip(names, python)},
        "C": {"receive": [program, "receive"], "send": [program, "send"]},
    }


def first_line(process: subprocess.Popen[str]) -> str:
    """Return the first line that a process prints, its address. It is killed if there is none for LIMIT seconds."""
    assert process.stdout is not None
    timer = threading.Timer(LIMIT, process.kill)
    timer.start()
    line = process.stdout.readline().strip()
    timer.cancel()
    if not line:
        sys.exit(f"{process.args} has printed no address")
    return line


def run(sender: list[str], receiver: list[str], folder: pathlib.Path) -> None:
    """Run two processes, and compare what was received with what was sent."""
    sent, received = folder / "sent.safetensors", folder / "received.safetensors"
    received.unlink(missing_ok=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}", "TOKEN": secrets.token_hex(16)}
    with subprocess.Popen([*receiver, "127.0.0.1:0", str(received)], stdout=subprocess.PIPE, text=True, env=environment) as receiving:
        try:
            address = first_line(receiving)
            subprocess.run([*sender, address, str(sent)], check=True, timeout=LIMIT, env=environment)
            if receiving.wait(LIMIT) != 0:
                sys.exit(f"the receiver {receiver[0]} has the exit code {receiving.returncode}")
        finally:
            receiving.kill()
    got = dlx.open(received)
    for name, want in model().items():
        if not np.array_equal(np.from_dlpack(got[name]), want):
            sys.exit(f"{sender[0]} to {receiver[0]}: {name} was not received as it was sent")


def take(giver: list[str], taker: list[str], folder: pathlib.Path) -> None:
    """Run a process that offers the tensors, and one that takes them and compares their checksums."""
    environment = {**os.environ, "TOKEN": secrets.token_hex(16)}
    command = [*giver, "127.0.0.1:0", str(folder / "sent.safetensors")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as giving:
        try:
            address = first_line(giving)
            taken = subprocess.run([*taker, address], check=True, timeout=LIMIT, env=environment, stdout=subprocess.PIPE, text=True)
        finally:
            giving.kill()
    if {line.split()[0] for line in taken.stdout.splitlines()} != set(model()):
        sys.exit(f"{giver[0]} to {taker[0]}: not all tensors were taken, but:\n{taken.stdout}")


def through(device: str) -> tuple[str, int]:
    """Pass the model from a device to itself, and return how, and the bytes that the receiver has copied."""
    token = secrets.token_bytes(32)
    with dlx.remote.listen("127.0.0.1:0", token=token) as listener:
        with dlx.remote.connect(listener.address, token=token) as c, listener.accept() as d:
            mechanisms, copied = set(), 0
            for name, x in model().items():
                offered = listener.offer(dlx.from_dlpack(x).to(device))
                t, report = c.fetch(offered, device)
                if not np.array_equal(np.from_dlpack(t.to("cpu")), x):
                    sys.exit(f"{device}: {name} was not received as it was sent")
                mechanisms.add(report.mechanism)
                copied += report.bytes_copied
            return ", ".join(sorted(mechanisms)), copied


def page(devices: list[str]) -> str:
    """Run all pairs, and each of the devices, and return the page."""
    total = sum(x.nbytes for x in model().values())
    lines = [
        "# Results: a model between programs in Go, Python and C by UCX",
        "",
        "<!-- written by scripts/remote-pairs.py -->",
        "",
        f"Each row is a run of two processes on one machine. The sender sends {len(model())} tensors of {total} bytes from a file, and the",
        "receiver writes them to another one, which is compared. Go and Python are the programs of [remote.md](remote.md), and C is",
        "libdlx.",
        "",
        "| sender | receiver | tensors | bytes |",
        "|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        dlx.save(folder / "sent.safetensors", model())
        peers = commands(folder)
        for sender, roles in peers.items():
            for receiver, others in peers.items():
                run(roles["send"], others["receive"], folder)
                lines.append(f"| {sender} | {receiver} | {len(model())} | {total} |")
        lines += [
            "",
            "The same file, whose tensors a process offers and another one takes and compares by checksums.",
            "",
            "| offers | takes | tensors | bytes |",
            "|---|---|---|---|",
        ]
        for giver, taker in itertools.product(("Go", "Python"), repeat=2):
            take(peers[giver]["give"], peers[taker]["take"], folder)
            lines.append(f"| {giver} | {taker} | {len(model())} | {total} |")
    lines += [
        "",
        "The same tensors, offered on a device and fetched to the same device by a program in Python, and the bytes that the side that",
        "fetches copied beside UCX. There is no card: lavapipe is a driver of Vulkan for the processor, and the drivers of CUDA and ROCm",
        "are simulated.",
        "",
        "| device | mechanism | copied |",
        "|---|---|---|",
    ]
    for device in devices:
        mechanism, copied = through(device)
        lines.append(f"| {DEVICES[device]} | {mechanism} | {copied} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="the page must be what the run gives")
    arguments = parser.parse_args()
    if "ucx" not in dlx.__build__["tags"] and arguments.check:
        print("no pairs of processes by UCX: this build has none")
        return
    devices, missing = [d for d in DEVICES if d in dlx.devices()], [d for d in DEVICES if d not in dlx.devices()]
    if missing and not arguments.check:
        sys.exit(f"there are no devices {', '.join(missing)}: run it with scripts/software-drivers.sh")
    text = page(devices)
    if not arguments.check:
        PAGE.write_text(text)
        return
    left_out = tuple(f"| {DEVICES[d]} |" for d in missing)  # of a build without some of the backends
    committed = [line for line in PAGE.read_text().splitlines() if not (left_out and line.startswith(left_out))]
    if text.splitlines() != committed:
        sys.exit(f"{PAGE} is not what this run gives; run scripts/remote-pairs.py to write it:\n{text}")
    print(f"13 pairs of processes by UCX, and {len(devices)} devices, without {missing or 'exception'}")


if __name__ == "__main__":
    main()
