"""Measures how long it takes to pass memory to another process and to get an answer, with dlx.share and with others.

    share.py OUT.json OUT.md          measures, and writes the results and their table
    share.py --render OUT.json OUT.md writes the table of results that are there

Each peer has a process of its own, which waits for a command while others are measured. The peers take turns of a few
round trips, after others that are not counted: the system moves a process that is woken to the processor of the one that has
woken it, and takes some time to move it back. A peer that cannot be imported, or fails, is a row with the reason. make
bench-share installs the peers.
"""

import ctypes
import datetime
import importlib
import json
import multiprocessing
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

from time import perf_counter_ns

SMALL, LARGE = 64, 6 << 20
CASES = {"64 B": SMALL, "6 MiB": LARGE}  # bytes of the question; the answer has 64 bytes
TURNS, COUNT = 15, 100  # turns of a case, and the round trips of a turn that count
AWAKE = 0.1  # seconds of round trips at the beginning of a turn that do not count
LAST = 255  # the word that ends a turn
LIMIT = 60  # seconds of a turn, or of a start


class Peer:
    """One side of a connection. question and answer are called by the parent, serve by the other process."""

    modules: tuple[str, ...] = ()  # the first has the version

    def __init__(self, shared, path, parent):
        """Connect. shared is what prepare has returned, and path is where a socket may be."""

    @staticmethod
    def prepare(context):
        """Make what both processes get when the other one starts."""

    def round(self, size, word):
        """Send size bytes that begin with word, and return the first byte of the answer."""
        raise NotImplementedError

    def serve(self, size):
        """Answer one question of size bytes by its first byte, and return that."""
        raise NotImplementedError


class Ring(Peer):
    """dlx.share, with a ring of slots for each size."""

    modules = ("dlx", "dlx.share", "numpy")

    def __init__(self, shared, path, parent):
        import dlx.share
        import numpy

        self.view = numpy.from_dlpack
        if parent:
            with dlx.share.listen(path) as listener:
                self.connection = listener.accept(timeout=LIMIT)
        else:
            self.connection = connect(lambda: dlx.share.connect(path, timeout=LIMIT))
        own, others = ("question", "answer") if parent else ("answer", "question")
        publish, subscribe = self.connection.publish, self.connection.subscribe
        self.rings = {size: publish(f"{own} {size}", shape=size, dtype="uint8", slots=8) for size in (SMALL, LARGE)}
        self.frames = {size: subscribe(f"{others} {size}", timeout=LIMIT) for size in (SMALL, LARGE)}
        for ring in self.rings.values():
            ring.wait_readers(1, timeout=LIMIT)

    def send(self, size, word):
        slot = self.rings[size].loan(timeout=LIMIT)
        self.view(slot)[0] = word
        self.rings[size].send(slot)

    def receive(self, size):
        with self.frames[size].receive(timeout=LIMIT) as frame:
            return self.view(frame.tensor)[0]

    def round(self, size, word):
        self.send(size, word)
        return self.receive(SMALL)

    def serve(self, size):
        word = self.receive(size)
        self.send(SMALL, word)
        return word


class Tensors(Peer):
    """dlx.share, with send and receive of tensors whose memory is known."""

    modules = ("dlx", "dlx.share", "numpy")

    def __init__(self, shared, path, parent):
        import dlx.share
        import numpy

        self.view = numpy.from_dlpack
        if parent:
            with dlx.share.listen(path) as listener:
                self.connection = listener.accept(timeout=LIMIT)
        else:
            self.connection = connect(lambda: dlx.share.connect(path, timeout=LIMIT))
        self.tensors = {size: dlx.share.empty(size, "uint8") for size in (SMALL, LARGE)}
        self.arrays = {size: numpy.from_dlpack(x) for size, x in self.tensors.items()}

    def send(self, size, word):
        self.connection.wait_released(LIMIT)
        self.arrays[size][0] = word
        self.connection.send(self.tensors[size])

    def receive(self):
        tensor, _ = self.connection.receive(timeout=LIMIT)
        return self.view(tensor)[0]

    def round(self, size, word):
        self.send(size, word)
        return self.receive()

    def serve(self, size):
        word = self.receive()
        self.send(SMALL, word)
        return word


class Iceoryx(Peer):
    """iceoryx2's publishers and subscribers, which look for samples without sleeping."""

    modules = ("iceoryx2",)

    def __init__(self, shared, path, parent):
        import iceoryx2

        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        self.node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)

        def service(kind, size):
            name = iceoryx2.ServiceName.new(f"dlx-bench{path}/{kind}/{size}")
            return self.node.service_builder(name).publish_subscribe(iceoryx2.Slice[ctypes.c_uint8]).open_or_create()

        own, others = ("question", "answer") if parent else ("answer", "question")
        sizes = (SMALL, LARGE)
        self.subscribers = {size: service(others, size).subscriber_builder().create() for size in sizes}
        self.publishers = {size: service(own, size).publisher_builder().initial_max_slice_len(size).create() for size in sizes}

    def send(self, size, word):
        sample = self.publishers[size].loan_slice_uninit(size)
        sample.payload()[0] = word
        sample.assume_init().send()

    def receive(self, size):
        subscriber = self.subscribers[size]
        while (sample := subscriber.receive()) is None:
            pass
        word = sample.payload()[0]
        sample.delete()
        return word

    def round(self, size, word):
        self.send(size, word)
        return self.receive(SMALL)

    def serve(self, size):
        word = self.receive(size)
        self.send(SMALL, word)
        return word


class SharedMemory(Peer):
    """multiprocessing.shared_memory; the names go through multiprocessing's queues. The memory is opened once."""

    modules = ("multiprocessing", "multiprocessing.shared_memory")

    @staticmethod
    def prepare(context):
        return context.Queue(), context.Queue()

    def __init__(self, shared, path, parent):
        from multiprocessing.shared_memory import SharedMemory as Memory

        self.memory, self.opened = Memory, {}
        self.own, self.others = shared if parent else shared[::-1]
        self.blocks = {size: Memory(create=True, size=size) for size in (SMALL, LARGE)} if parent else {SMALL: Memory(create=True, size=SMALL)}

    def send(self, size, word):
        self.blocks[size].buf[0] = word
        self.own.put(self.blocks[size].name)

    def receive(self):
        name = self.others.get(timeout=LIMIT)
        if name not in self.opened:
            self.opened[name] = self.memory(name=name)
        return self.opened[name].buf[0]

    def round(self, size, word):
        self.send(size, word)
        return self.receive()

    def serve(self, size):
        word = self.receive()
        self.send(SMALL, word)
        return word

    def close(self):
        for block in self.opened.values():
            block.close()
        for block in self.blocks.values():
            block.close()
            block.unlink()


class Torch(Peer):
    """torch.multiprocessing: tensors in shared memory go through its queues."""

    modules = ("torch", "torch.multiprocessing")

    @staticmethod
    def prepare(context):
        import torch.multiprocessing

        context = torch.multiprocessing.get_context("spawn")
        return context.Queue(), context.Queue()

    def __init__(self, shared, path, parent):
        import torch

        self.own, self.others = shared if parent else shared[::-1]
        self.tensors = {size: torch.zeros(size, dtype=torch.uint8).share_memory_() for size in (SMALL, LARGE)}

    def send(self, size, word):
        self.tensors[size][0] = word
        self.own.put(self.tensors[size])

    def receive(self):
        return int(self.others.get(timeout=LIMIT)[0])

    def round(self, size, word):
        self.send(size, word)
        return self.receive()

    def serve(self, size):
        word = self.receive()
        self.send(SMALL, word)
        return word


class Arrow(Peer):
    """PyArrow: record batches of an IPC stream over a Unix socket, which copies them."""

    modules = ("pyarrow", "numpy")

    def __init__(self, shared, path, parent):
        import numpy
        import pyarrow

        self.arrow, self.reader, self.writer = pyarrow, None, None
        self.arrays = {size: numpy.zeros(size, "uint8") for size in (SMALL, LARGE)}
        self.schema = pyarrow.schema([("x", pyarrow.uint8())])
        if parent:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen()
                listener.settimeout(LIMIT)
                self.socket, _ = listener.accept()
        else:

            def dial():
                s = socket.socket(socket.AF_UNIX)
                try:
                    s.connect(path)
                except OSError:
                    s.close()
                    raise
                return s

            self.socket = connect(dial)
        self.socket.settimeout(None)
        self.input, self.output = self.socket.makefile("rb"), self.socket.makefile("wb")

    def send(self, size, word):
        self.arrays[size][0] = word
        if self.writer is None:
            self.writer = self.arrow.ipc.new_stream(self.output, self.schema)
        self.writer.write_batch(self.arrow.record_batch([self.arrow.array(self.arrays[size])], schema=self.schema))
        self.output.flush()

    def receive(self):
        if self.reader is None:
            self.reader = self.arrow.ipc.open_stream(self.input)
        return self.reader.read_next_batch().column(0)[0].as_py()

    def round(self, size, word):
        self.send(size, word)
        return self.receive()

    def serve(self, size):
        word = self.receive()
        self.send(SMALL, word)
        return word


PEERS = {
    "dlx.share, rings": Ring,
    "dlx.share, send and receive": Tensors,
    "iceoryx2": Iceoryx,
    "multiprocessing.shared_memory and queues": SharedMemory,
    "torch.multiprocessing": Torch,
    "PyArrow over a Unix socket": Arrow,
}
RUST = "iceoryx2 in Rust"
FIRST = "dlx.share, rings"  # that the others are compared with


def connect(dial):
    """Try to connect until the other process listens."""
    end = perf_counter_ns() + LIMIT * 10**9
    while True:
        try:
            return dial()
        except OSError:
            if perf_counter_ns() > end:
                raise


def child(name, shared, path, commands):
    """Serve until the parent closes the pipe."""
    peer = PEERS[name](shared, path, False)
    try:
        commands.send("ready")
        while True:
            size = commands.recv()
            while peer.serve(size) != LAST:
                pass
            commands.send("done")
    except EOFError:
        pass
    if hasattr(peer, "close"):
        peer.close()


class Measured:
    """A peer with its process and its times in microseconds."""

    def __init__(self, name, folder):
        self.name, self.reason, self.version, self.process, self.peer = name, None, "", None, None
        self.times = {case: [] for case in CASES}
        self.path = os.path.join(folder, str(list(PEERS).index(name)) if name in PEERS else "rust")

    def guard(self, do):
        """Call do, and keep the reason if it fails or takes too long."""
        if self.reason is not None:
            return
        signal.alarm(LIMIT)
        try:
            do()
        except Exception as e:  # a row of the results
            self.reason = f"{type(e).__name__}: {e}"[:300]
        finally:
            signal.alarm(0)

    def start(self):
        kind = PEERS[self.name]
        first = [importlib.import_module(m) for m in kind.modules][0]
        self.version = getattr(first, "__version__", "") or packaged(kind.modules[0])
        context = multiprocessing.get_context("spawn")
        shared = kind.prepare(context)
        self.commands, theirs = context.Pipe()
        self.process = context.Process(target=child, args=(self.name, shared, self.path, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.peer = kind(shared, self.path, True)
        if self.commands.recv() != "ready":
            raise RuntimeError("the other process does not begin")

    def turn(self, case):
        size = CASES[case]
        self.commands.send(size)
        begin, number, counted = perf_counter_ns(), 0, 0
        while counted < COUNT:
            word, number, start = number % LAST, number + 1, perf_counter_ns()
            answer = self.peer.round(size, word)
            end = perf_counter_ns()
            if answer != word:
                raise RuntimeError(f"{word} was answered by {answer}")
            if start - begin > AWAKE * 1e9:
                self.times[case].append((end - start) / 1000)
                counted += 1
        self.peer.round(size, LAST)
        self.commands.recv()

    def end(self):
        if self.process is not None:
            self.commands.close()
            self.process.join(10)
            if self.process.is_alive():
                self.process.kill()
                self.process.join()
        if hasattr(self.peer, "close"):
            self.peer.close()

    def row(self):
        row = {"peer": self.name, "version": self.version}
        if self.reason is not None:
            return row | {"status": "not run", "reason": self.reason}
        for case, times in self.times.items():
            times = sorted(times[COUNT:])  # without the first turn
            row[case] = {"median_us": round(statistics.median(times), 2), "p99_us": round(times[len(times) * 99 // 100], 2), "count": len(times)}
        return row | {"status": "ok"}


class MeasuredInRust(Measured):
    """iceoryx2 by the program in the folder iceoryx2, which measures by itself."""

    program = ".cache/iceoryx2/release/pingpong"

    def start(self):
        if not os.path.exists(self.program):
            raise FileNotFoundError(f"{self.program} was not built: it needs cargo and the crates of iceoryx2")
        with open("benchmarks/lab/share/iceoryx2/Cargo.toml") as f:
            self.version = f.read().split('iceoryx2 = "=')[1].split('"')[0]
        self.process = subprocess.Popen(
            [self.program, "dlx-bench" + self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the program does not begin")

    def turn(self, case):
        self.process.stdin.write(f"{CASES[case]} {COUNT} {AWAKE * 1e9:.0f}\n")
        times = self.process.stdout.readline().split()
        if len(times) != COUNT:
            raise RuntimeError(f"{len(times)} of {COUNT} messages were answered")
        self.times[case] += [int(t) / 1000 for t in times]

    def end(self):
        if self.process is not None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def packaged(module):
    """Return the version of an installed package, or that of Python for its own modules."""
    from importlib import metadata

    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        return "Python " + platform.python_version()


def ended(*_):
    raise TimeoutError(f"a turn has taken {LIMIT} seconds")


def measure():
    signal.signal(signal.SIGALRM, ended)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        measured = [Measured(name, folder) for name in PEERS] + [MeasuredInRust(RUST, folder)]
        try:
            for m in measured:
                m.guard(m.start)
            for _ in range(TURNS + 1):
                for case in CASES:
                    for m in measured:
                        m.guard(lambda m=m, case=case: m.turn(case))
        finally:
            for m in measured:
                m.end()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()} {platform.release()}, Python {platform.python_version()}",
        "load_before": round(load, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "rows": [m.row() for m in measured],
    }


def table(results):
    first = next((r for r in results["rows"] if r["peer"] == FIRST and r["status"] == "ok"), None)
    lines = [
        "# dlx.share beside others",
        "",
        f"`make bench-share` wrote this page on {results['date']}, on {results['machine']}. The load was {results['load_before']} before and {results['load_after']} after.",
        "",
        "The time from a message to its answer, between two processes in Python, and in Rust where that is said: 64 bytes, or a frame of 6 MiB of which one byte is",
        "written and read. The answer has 64 bytes. The peers take turns, which begin with round trips that do not count, so that both processes are awake. The",
        "ratio is that of the median to the one of rings.",
        "",
        "| peer | version | " + " | ".join(f"{case}: median | 99 % | ratio" for case in CASES) + " |",
        "|---|---|" + "---:|---:|---:|" * len(CASES),
    ]
    for r in results["rows"]:
        cells = [r["peer"], r["version"]]
        if r["status"] != "ok":
            cells += ["not run: " + r["reason"].replace("|", "/").replace("\n", " ")] + [""] * (3 * len(CASES) - 1)
        else:
            for case in CASES:
                f = r[case]
                ratio = f"{f['median_us'] / first[case]['median_us']:.2f}" if first else ""
                cells += [f"{f['median_us']:.1f} us", f"{f['p99_us']:.1f} us", ratio]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments):
    render = arguments[:1] == ["--render"]
    if len(arguments) != 2 + render:
        sys.exit(__doc__)
    out, page = arguments[render:]
    if render:
        with open(out) as f:
            results = json.load(f)
    else:
        results = measure()
        with open(out, "w") as f:
            json.dump(results, f, indent=2)
            f.write("\n")
    with open(page, "w") as f:
        f.write(table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
