"""mpi4py has no tensors: its messages are sent from tensors, and received in them. Here a process sends to itself."""

from mpi4py import MPI

from capsule import look

NAME, PACKAGES = "mpi4py", ["mpi4py", "mpich"]


def _try(dtype, layout, copy, move):
    from cell import control, subject, words
    if copy != "default":
        return "absent", "mpi4py's messages have no argument for a copy"
    try:
        wrong = move(subject(dtype, layout), dtype, layout)
    except Exception as error:
        said = words(error)
        try:
            if move(control(dtype, layout), dtype, layout):
                return "refused", said
        except Exception as other:
            if "dlx:" in said and "control:" in str(other):
                return "refused", f"DLPack: {said.split('dlx: ', 1)[1]}"
            return "refused", said
        return "failed", f"the tensor of another producer is accepted, but: {said}"
    return ("failed", wrong) if wrong else ("passed", "shared")


def _send(t, dtype, layout):
    expected = dtype.pack(layout.positions())
    received = bytearray(len(expected))
    MPI.COMM_SELF.Sendrecv([t, MPI.BYTE], 0, recvbuf=[received, MPI.BYTE], source=0)
    return None if received == expected else "other elements"


def _receive(t, dtype, layout):
    sent = dtype.pack([position + 1 for position in layout.positions()])
    MPI.COMM_SELF.Sendrecv([sent, MPI.BYTE], 0, recvbuf=[t, MPI.BYTE], source=0)
    if layout.readonly:
        return "the message was written to read-only memory"
    return None if look(t).bytes() == sent else "other elements"


def try_take(adapter, dtype, layout, copy):
    return _try(dtype, layout, copy, _send)


def try_give(adapter, dtype, layout, copy):
    return _try(dtype, layout, copy, _receive)
