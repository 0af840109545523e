"""Two ranks of MPI send each other tensors of dlx, in place."""

import os
import pathlib
import re
import subprocess
import sys

RANKS = """
import numpy as np
from mpi4py import MPI
import dlx

world = MPI.COMM_WORLD
assert world.size == 2, world.size
rank, other = world.rank, 1 - world.rank
for name, kind in (("float64", MPI.DOUBLE), ("int32", MPI.INT), ("uint8", MPI.BYTE), ("complex64", MPI.COMPLEX)):
    sent, received = dlx.empty((40, 25), name), dlx.empty((40, 25), name)
    np.from_dlpack(sent)[:] = np.arange(1000).reshape(40, 25) % 100 + rank
    world.Sendrecv([sent, kind], other, recvbuf=[received, kind], source=other)
    assert (np.from_dlpack(received) == np.arange(1000).reshape(40, 25) % 100 + other).all(), name
# Large messages take another way; a row of a tensor is a message, too.
big = dlx.empty((4, 1 << 20), "float32")
np.from_dlpack(big)[:] = rank
if rank == 0:
    world.Send(big[1], dest=1)
else:
    world.Recv(big[2], source=0)
    assert np.from_dlpack(big)[:, 0].tolist() == [1, 1, 0, 1]
total = dlx.empty((3,), "float64")
world.Allreduce(dlx.from_dlpack(np.full(3, rank + 1.0)), total)
assert np.from_dlpack(total).tolist() == [3, 3, 3]
# A window onto memory of dlx: the other rank writes into it.
memory = dlx.empty((4,), "int64")
np.from_dlpack(memory)[:] = -1
window = MPI.Win.Create(memory, disp_unit=8, comm=world)
window.Fence()
window.Put(dlx.from_dlpack(np.full(4, 10 + rank)), other)
window.Fence()
window.Free()
assert np.from_dlpack(memory).tolist() == [10 + other] * 4
del sent, received, big, total, memory
live = dlx._live()
assert all(count == 0 for count in live.values()), live
done = world.gather(rank)
if rank == 0:
    print("done:", done)
"""


def run(program, ranks):
    """Runs a program in several ranks, and returns what they print."""
    mpiexec = pathlib.Path(sys.executable).with_name("mpiexec")
    ended = subprocess.run([mpiexec, "-n", str(ranks), sys.executable, "-c", program], capture_output=True, text=True,
                           env=os.environ | {"MPIR_CVAR_ENABLE_GPU": "0"}, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_two_ranks():
    assert run(RANKS, 2) == "done: [0, 1]\n"


def test_the_program_of_the_documentation():
    page = (pathlib.Path(__file__).resolve().parents[4] / "docs/remote.md").read_text()
    program, said = re.search(r"\n## Sums over many processes\n.*?```python\n(.*?)```\n.*?`(\[.*?)`", page, re.DOTALL).groups()
    assert run(program, 4).strip() == said
