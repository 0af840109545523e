"""Passes tensors between two processes, for each pair of Go, Python and C and each kind of memory, and writes the page.

    scripts/software-drivers.sh python scripts/share-pairs.py [--check]

It runs with a Python that has the package dlx. Go is the command dlx of the package, and C is scripts/share-pairs.c with
libdlx of the package. With --check the page must be what the run gives. Each receiver compares a checksum of the elements
with that in the label; without a device, or with another checksum, the script fails.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import dlx

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "share-pairs.md"
PACKAGE = pathlib.Path(dlx.__file__).resolve().parent
FRAMES = 3
LIMIT = 120

MEMORY = {
    "cpu": "host, a memfd",
    "vulkan:0": "Vulkan, lavapipe",
    "cuda:0": "CUDA, simulated driver",
    "rocm:0": "ROCm, simulated driver",
}


def checksum(t: dlx.Tensor, path: str) -> str:
    """Return the checksum of a tensor that the command dlx computes: that of a file with the tensor."""
    file = pathlib.Path(f"{path}-{os.getpid()}.safetensors")
    dlx.save(file, {"x": t})
    crc = 0xFFFFFFFF
    for byte in file.read_bytes():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    file.unlink()
    return f"crc32c:{crc ^ 0xFFFFFFFF:08x} "


def frame() -> np.ndarray:
    """Return what each sender sends."""
    return np.arange(48 * 64, dtype=np.float32).reshape(48, 64) / 8


def send(device: str, path: str) -> None:
    """Be the sender in Python."""
    with dlx.share.connect(path, devices=[device]) as c:
        t = dlx.share.copy(frame(), device)
        label = checksum(t, path) + "frame"
        for _ in range(FRAMES):
            print(json.dumps(dict(c.send(t, label))))
        del t
        c.wait_released()


def receive(device: str, path: str) -> None:
    """Be the receiver in Python."""
    with dlx.share.listen(path, devices=[device]) as listener, listener.accept() as c:
        while True:
            try:
                t, report = c.receive(device)
            except EOFError:
                return
            if not report.label.startswith(checksum(t, path)):
                sys.exit(f"the elements are not those of {report.label}")
            print(json.dumps(dict(report)))
            del t


def publish(device: str, path: str) -> None:
    """Be the publisher in Python."""
    with dlx.share.connect(path) as c, c.publish("frames", shape=(1080, 1920), slots=4, device=device) as ring:
        ring.wait_readers(1)
        for n in range(100):
            t = ring.loan()
            np.from_dlpack(t)[0, 0] = n
            ring.send(t)
        ring.wait_released()


def subscribe(device: str, path: str) -> None:
    """Be the subscriber in Python."""
    with dlx.share.listen(path) as listener, listener.accept() as c, c.subscribe("frames", device=device) as frames:
        print(f"the first pixels have the sum {sum(frame.tensor[0, 0].item() for frame in frames):g}")


ROLES = {"send": send, "receive": receive, "publish": publish, "subscribe": subscribe}


def commands(folder: pathlib.Path) -> dict[str, dict[str, list[str]]]:
    """Build the program in C, and return the commands of the senders and receivers."""
    program = str(folder / "c")
    subprocess.run(
        ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", f"-I{ROOT / 'cmd/libdlx'}", str(ROOT / "scripts/share-pairs.c")]
        + [str(PACKAGE / "libdlx.so"), "-o", program, f"-Wl,-rpath,{PACKAGE}"],
        check=True,
    )
    # The library has the name libdlx.so.0, which is that of its ABI.
    (folder / "libdlx.so.0").symlink_to(PACKAGE / "libdlx.so")
    arrays = str(folder / "frames.npz")
    np.savez(arrays, **{f"frame{i}": frame() for i in range(FRAMES)})
    command, this = str(PACKAGE / "bin/dlx"), [sys.executable, str(pathlib.Path(__file__).resolve())]
    examples = [f"./examples/processes/{name}" for name in ("publish", "subscribe")]
    subprocess.run(["go", "build", "-buildvcs=false", "-o", str(folder), *examples], cwd=ROOT, check=True)
    return {
        "Go": {
            **{role: [str(folder / role), "SOCKET"] for role in ("publish", "subscribe")},
            "send": [command, "send", arrays, "--json", "--from", "DEVICE", "--to", "SOCKET"],
            "receive": [command, "receive", "SOCKET", "--verify", "--json", "--to", "DEVICE"],
        },
        "Python": {role: [*this, "--role", role, "--device", "DEVICE", "--socket", "SOCKET"] for role in ROLES},
        "C": {role: [program, role, "DEVICE", "SOCKET"] for role in ROLES},
    }


def reports(output: str) -> list[dict[str, object]]:
    """Return the reports that a process has printed."""
    if not output.startswith("{\n"):
        return [json.loads(line) for line in output.splitlines()]
    tensors = json.loads(output)["result"]["tensors"]  # of the command dlx, which fails if a checksum differs
    return [t["report"] for t in tensors]


def run(sender: list[str], receiver: list[str], device: str, folder: pathlib.Path) -> tuple[str, str]:
    """Run two processes, and return what they print."""
    path = folder / "socket"

    def start(command: list[str]) -> subprocess.Popen[str]:
        filled = [{"DEVICE": device, "SOCKET": str(path)}.get(word, word) for word in command]
        environment = {**os.environ, "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        return subprocess.Popen(filled, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    end = time.monotonic() + LIMIT
    with start(receiver) as receiving:
        while f" {path}\n" not in listening() and receiving.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        with start(sender) as sending:
            outputs = []
            for process in (sending, receiving):
                try:
                    outputs.append(process.communicate(timeout=max(end - time.monotonic(), 1)))
                except subprocess.TimeoutExpired:
                    for p in (sending, receiving):
                        p.kill()
                    outputs.append(process.communicate())
            if sending.returncode != 0 or receiving.returncode != 0:
                for process, (_, errors) in zip((sending, receiving), outputs):
                    print(f"{device}: {process.args} has the exit code {process.returncode}:\n{errors}", file=sys.stderr)
                sys.exit(1)
    return outputs[0][0], outputs[1][0]


def listening() -> str:
    """Return the Unix sockets at which a process listens."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if " 00010000 " in line)


def cell(list_of: list[dict]) -> str:
    """Put the reports of one process into words."""
    mechanisms = ", ".join(dict.fromkeys(str(r["mechanism"]) for r in list_of))
    return f"{mechanisms} | {sum(int(r['bytes_copied']) for r in list_of)}"


def page(devices: list[str]) -> str:
    """Run all pairs with each of the devices, and return the page."""
    lines = [
        "# Results: tensors between processes in Go, Python and C",
        "",
        "<!-- written by scripts/share-pairs.py -->",
        "",
        f"Each row is a run of two processes. The sender passes {FRAMES} frames of {frame().nbytes} bytes in memory of the device that",
        "can be shared, and the receiver uses them on the same device, and compares a checksum of the elements. The columns say how",
        "each process passed or opened the memory, and how many bytes it copied on the way. Go is the commands `dlx send` and",
        "`dlx receive`, Python is `dlx.share`, and C is libdlx. There is no card: lavapipe is a driver of Vulkan for the processor, and the",
        "drivers of CUDA and ROCm are simulated. [share.md](share.md) describes the connections.",
        "",
        "| memory | sender | receiver | frames | sent by | copied | received by | copied |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        peers = commands(folder)
        for device in devices:
            for sender, roles in peers.items():
                for receiver, others in peers.items():
                    sent, received = map(reports, run(roles["send"], others["receive"], device, folder))
                    if len(sent) != FRAMES or len(received) != FRAMES:
                        sys.exit(f"{sender} to {receiver}, {device}: {len(sent)} frames were sent and {len(received)} received")
                    lines.append(f"| {MEMORY[device]} | {sender} | {receiver} | {FRAMES} | {cell(sent)} | {cell(received)} |")
        lines += [
            "",
            "The publisher of a ring of four slots in host memory passes 100 frames of 1080 times 1920 pixels, and the subscriber reads the",
            "first pixel of each in place. Go is the examples `publish` and `subscribe`.",
            "",
            "| publisher | subscriber | frames | sum of the first pixels |",
            "|---|---|---|---|",
        ]
        for publisher, roles in peers.items():
            for subscriber, others in peers.items():
                printed = run(roles["publish"], others["subscribe"], "cpu", folder)[1].strip()
                if printed != "the first pixels have the sum 4950":
                    sys.exit(f"{publisher} to {subscriber}: the subscriber prints {printed!r}")
                lines.append(f"| {publisher} | {subscriber} | 100 | {printed.rpartition(' ')[2]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="the page must be what the run gives")
    parser.add_argument("--role", choices=list(ROLES), help=argparse.SUPPRESS)
    parser.add_argument("--device", help=argparse.SUPPRESS)
    parser.add_argument("--socket", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        ROLES[arguments.role](arguments.device, arguments.socket)
        return
    devices, missing = [d for d in MEMORY if d in dlx.devices()], [d for d in MEMORY if d not in dlx.devices()]
    if missing and not arguments.check:
        sys.exit(f"there are no devices {', '.join(missing)}: run it with scripts/software-drivers.sh")
    text = page(devices)
    if not arguments.check:
        PAGE.write_text(text)
        return
    left_out = tuple(f"| {MEMORY[d]} |" for d in missing)  # of a build without some of the backends
    committed = [line for line in PAGE.read_text().splitlines() if not (left_out and line.startswith(left_out))]
    if text.splitlines() != committed:
        sys.exit(f"{PAGE} is not what this run gives; run scripts/share-pairs.py to write it:\n{text}")
    print(f"{sum(line.endswith(' |') for line in committed) - 2} pairs of processes, without {missing or 'exception'}")


if __name__ == "__main__":
    main()
