"""Tensors on cuda:0 of the simulated driver, whose memory is the host's: what frameworks do that do not touch the elements.

    simulated.py TABLE        tries all frameworks, each in a process of its own, and adds the results to the table
    simulated.py --one NAME   tries one, and prints its result as JSON
    simulated.py --control NAME   gives it the tensor of another producer

No framework computes here. The device, the address and the streams that are asked for are what is tested.
"""

import ctypes
import gc
import importlib
import json
import os
import pathlib
import struct
import subprocess
import sys

import adapters
from capsule import look
from table import ended_by, environment, python_of

CUDA = (2, 0)
VALUES = tuple(float(k) for k in range(12))


def available():
    return os.path.exists(os.environ.get("DLX_CUDA_LIBRARY", ""))


class Spy:
    """A producer that passes everything on, and remembers the streams that consumers ask for."""

    def __init__(self, x):
        self.x, self.streams = x, []

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def __dlpack__(self, **options):
        self.streams.append(options.get("stream", "none"))
        return self.x.__dlpack__(**options)


def on_card():
    import numpy as np

    import dlx
    return dlx.from_dlpack(np.array(VALUES, dtype=np.float32).reshape(3, 4)).to("cuda:0")


def attempt(name):
    """What a framework does with a tensor on cuda:0, and dlx with the framework's view of it."""
    import dlx
    from cell import words
    adapter = importlib.import_module(f"adapters.{name}")
    result = {"id": name}
    if not hasattr(adapter, "take"):
        return result | {"takes": "absent", "text": "it has no tensors"}
    t = on_card()
    there = look(t).address
    # The type itself, which may go through its exchange table, and a producer that has none.
    spy = Spy(t)
    try:
        y = adapter.take(t, None)
        adapter.take(spy, None)
    except Exception as error:
        return result | {"takes": "refused", "text": words(error), "asked": [str(s) for s in spy.streams]}
    wrong = []
    if adapter.address(y) != there or adapter.shape(y) != (3, 4):
        wrong.append("another address or shape")
    # dlx takes it back, and the framework's tensor keeps the memory alone.
    back = getattr(adapter, "back", lambda y: y)(y)
    result |= {"takes": "passed", "asked": [str(s) for s in spy.streams]}
    if not hasattr(back, "__dlpack__"):
        result |= {"gives": "absent"}
    else:
        again = dlx.from_dlpack(back)
        del t, spy, back, y
        gc.collect()
        if str(again.device) != "cuda:0" or again.data_ptr + again.byte_offset != there or tuple(again.shape) != (3, 4):
            wrong.append(f"dlx takes {again.device}, shape {again.shape}, from another address")
        result |= {"gives": "passed"}
        try:
            if struct.unpack("12f", look(again.to("cpu")).bytes()) != VALUES:
                wrong.append("other elements")
            result |= {"home": "passed"}
        except RuntimeError as error:
            result |= {"home": words(error)}
    if wrong:
        result |= {"takes": "failed", "text": ", ".join(wrong)}
    return result


class FakeProducer:
    """A producer in C whose capsules delete what nobody took, as all producers' do."""

    def __init__(self):
        self.memory = bytearray(64)

    def __dlpack_device__(self):
        return CUDA

    def __dlpack__(self, **_):
        import interop_fakes
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        return interop_fakes.produce(address, CUDA, (2, 32, 1), (3, 4), self)


def control(name):
    importlib.import_module(f"adapters.{name}").take(FakeProducer(), None)


def run(name):
    """The result of a framework in a process of its own. If that ends, another producer's tensor shows who is to blame."""
    def start(how):
        return subprocess.run([python_of(name), __file__, how, name], env=environment(), capture_output=True, text=True)
    ended = start("--one")
    if ended.returncode == 0:
        return json.loads(ended.stdout.splitlines()[-1])
    blame = "crashed" if ended.returncode < 0 and start("--control").returncode < 0 else "failed"
    return {"id": name, "takes": blame, "text": f"{ended_by(ended)}: {(ended.stderr.strip().splitlines() or [''])[-1][:200]}"}


def main():
    if sys.argv[1] == "--one":
        print(json.dumps(attempt(sys.argv[2])))
        return
    if sys.argv[1] == "--control":
        control(sys.argv[2])
        return
    file = pathlib.Path(sys.argv[1])
    table = json.loads(file.read_text())
    names = {f["id"]: f["name"] for f in table["frameworks"]}
    table["simulated"], failed = [], False
    for name in adapters.ALL:
        result = {"name": names[name]} | run(name)
        failed = failed or result["takes"] == "failed"
        print(f"{result['name']} and simulated cuda:0: {result['takes']} {result.get('text', '')}", flush=True)
        table["simulated"].append(result)
    file.write_text(json.dumps(table, indent=1, ensure_ascii=True) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
