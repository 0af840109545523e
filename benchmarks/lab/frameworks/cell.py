"""Tries the cells of one framework, from a given one on, and appends their results to a file, a line of JSON each.

    cell.py FRAMEWORK FILE [FIRST [control]]

table.py runs it. A line {"cell": n} is written before the cell n is tried, so that table.py knows where a crash was.
With the word control it tries the one cell with the tensor of another producer instead of dlx's.
"""

import ctypes
import gc
import importlib
import json
import math
import re
import sys

import dlx

import capsule
from capsule import Producer, look
from dtypes import COPIES, DIRECTIONS, DTYPES, LAYOUTS


def cells():
    return [(direction, dtype, layout, copy)
            for direction in DIRECTIONS for dtype in DTYPES for layout in LAYOUTS for copy in COPIES]


def positions(layout):
    return range(math.prod(layout.base))


def control(dtype, layout):
    """The tensor of the cell, from a producer that shares nothing with dlx."""
    memory = bytearray(dtype.pack(positions(layout)) or b"\0")
    return Producer(memory, dtype, layout.shape, layout.strides, layout.start * dtype.width // 8,
                    capsule.READ_ONLY if layout.readonly else 0)


def subject(dtype, layout):
    """The tensor of the cell, of dlx. Its memory is dlx's own, except where a program cannot make such a tensor."""
    if layout.readonly:
        return dlx.from_dlpack(control(dtype, layout))
    base = dlx.empty(layout.base, dtype.name)
    data = dtype.pack(positions(layout))
    ctypes.memmove(base.data_ptr, data, len(data))
    return base if layout.view is ... else base[layout.view]


def words(error):
    """The text of an exception, without what differs from run to run."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text[:300]}"


# --- the framework takes a tensor

def judge_take(adapter, t, dtype, layout, copy):
    """What is wrong with what the framework makes of t, and what else is to be said of it. take may raise."""
    there = look(t).address
    y = adapter.take(t, COPIES[copy])
    wrong, notes = [], []
    expected = dtype.pack(layout.positions())
    if adapter.shape(y) != layout.shape:
        wrong.append(f"shape {adapter.shape(y)}")
    elif adapter.elements(y, dtype) != expected:
        wrong.append("other elements")
    if expected:
        shared = adapter.address(y) == there
        if shared and copy == "always":
            wrong.append("no copy, in spite of copy=True")
        if not shared and copy == "never":
            wrong.append("a copy, in spite of copy=False")
        notes.append("shared" if shared else "copied")
    if layout.readonly and notes == ["shared"] and adapter.writable(y):
        notes.append("writable")
    if adapter.dtype(y) != dtype.name and adapter.dtype(y) not in SYNONYMS.get(dtype.name, ()):
        notes.append(f"as {adapter.dtype(y)}")
    # The tensor must keep the memory alive alone.
    del t
    gc.collect()
    if not wrong and expected:
        dirty = [bytearray(b"\xee" * len(expected)) for _ in range(4)]
        if adapter.elements(y, dtype) != expected:
            wrong.append("other elements once the producer is gone")
        del dirty
    return wrong, notes


SYNONYMS = {"bool": ("bool_",)}


def try_take(adapter, dtype, layout, copy):
    try:
        wrong, notes = judge_take(adapter, subject(dtype, layout), dtype, layout, copy)
    except Exception as error:
        said = words(error)
        # Whose fault it is: another producer's tensor is refused or accepted, too.
        try:
            wrong, _ = judge_take(adapter, control(dtype, layout), dtype, layout, copy)
        except Exception as other:
            if "dlx:" in said and "control:" in str(other):
                return "refused", f"DLPack: {said.split('dlx: ', 1)[1]}"
            return "refused", said
        if wrong:
            return "refused", said
        return "failed", f"the tensor of another producer is accepted, but: {said}"
    if not wrong:
        return "passed", ", ".join(notes)
    try:
        others, _ = judge_take(adapter, control(dtype, layout), dtype, layout, copy)
    except Exception as error:
        others = [words(error)]
    if others:
        return "wrong", ", ".join(wrong)
    return "failed", ", ".join(wrong)


# --- dlx takes a tensor

def try_give(adapter, dtype, layout, copy):
    try:
        x = adapter.make(dtype, layout)
    except Exception as error:
        return "absent", str(error) if type(error).__name__ == "Absent" else words(error)
    export = getattr(adapter, "export", lambda x: x)
    try:
        seen = look(x) if not hasattr(adapter, "export") else capsule.Look(export(x))
        expected, there = seen.bytes(), seen.address
    except Exception as error:
        try:
            dlx.from_dlpack(export(x), copy=COPIES[copy])
        except Exception:
            return "refused", words(error)
        return "failed", f"dlx took a tensor that cannot be exported: {words(error)}"
    refusal = None
    if copy != "default" and not hasattr(adapter, "export"):
        try:
            x.__dlpack__(max_version=(1, 3), copy=COPIES[copy])
        except TypeError:
            pass  # dlx tries without
        except Exception as error:
            refusal = words(error)
    try:
        y = dlx.from_dlpack(export(x), copy=COPIES[copy])
    except Exception as error:
        return ("refused", refusal) if refusal else ("failed", words(error))
    wrong, notes = judge_give(y, seen, expected, there, layout, copy)
    if seen.dtype != (dtype.code, dtype.bits, dtype.lanes):
        notes.append(f"as {name(seen.dtype)}")
    elif expected != dtype.pack(layout.positions()):
        return "wrong", "the framework exports other elements"
    if layout.readonly and not seen.flags & capsule.READ_ONLY:
        notes.append("exported as writable")
    if layout.name in ("strided", "negative") and seen.strides != layout.strides:
        notes.append("exported as a contiguous copy")
    del x, seen
    gc.collect()
    if not wrong and look(y).bytes() != expected:
        wrong.append("other elements once the producer is gone")
    if not wrong:
        return "passed", ", ".join(notes)
    if copy == "always" and copied_wrong(adapter, dtype, layout, expected):
        return "wrong", "the framework's own copy has other elements"
    return "failed", ", ".join(wrong)


def copied_wrong(adapter, dtype, layout, expected):
    """Whether the framework itself makes a wrong copy for its consumer."""
    try:
        x = adapter.make(dtype, layout)
        return capsule.Look(x.__dlpack__(max_version=(1, 3), copy=True)).bytes() != expected
    except Exception:
        return False


def name(triple):
    return next((d.name for d in DTYPES if d[1:] == triple), str(triple))


def judge_give(y, seen, expected, there, layout, copy):
    wrong, notes = [], []
    mine = look(y)
    if mine.dtype != seen.dtype or tuple(y.shape) != seen.shape:
        wrong.append(f"dtype {mine.dtype} and shape {y.shape}")
    elif mine.bytes() != expected:
        wrong.append("other elements")
    if expected:
        shared = mine.address == there
        if shared and copy == "always":
            wrong.append("no copy, in spite of copy=True")
        if not shared and copy != "always":
            wrong.append("a copy")
        if shared and tuple(y.strides) != seen.strides:
            wrong.append(f"strides {y.strides}")
        if shared and y.readonly != bool(seen.flags & capsule.READ_ONLY):
            wrong.append(f"readonly is {y.readonly}")
        notes.append("shared" if shared else "copied")
    return wrong, notes


def try_control(adapter, direction, dtype, layout, copy):
    """Does what the cell does, without dlx: a crash is the framework's."""
    if direction == "to":
        judge_take(adapter, control(dtype, layout), dtype, layout, copy)
        return
    x = adapter.make(dtype, layout)
    look(x)
    if copy != "default":
        x.__dlpack__(max_version=(1, 3), copy=COPIES[copy])


def main():
    adapter = importlib.import_module(f"adapters.{sys.argv[1]}")
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if sys.argv[4:] == ["control"]:
        try_control(adapter, *cells()[first])
        return
    tries = {"to": getattr(adapter, "try_take", try_take), "from": getattr(adapter, "try_give", try_give)}
    gc.collect()
    gc.freeze()  # what the imports made is not searched for garbage again
    with open(sys.argv[2], "a", buffering=1) as out:
        if first == 0:
            print(json.dumps({"name": adapter.NAME, "versions": importlib.import_module("adapters").versions(adapter)}), file=out)
        for i, (direction, dtype, layout, copy) in enumerate(cells()):
            if i < first:
                continue
            print(json.dumps({"cell": i}), file=out)
            args = (dtype, layout, copy)
            result, text = tries[direction](adapter, *args)
            print(json.dumps({"cell": i, "result": result, "text": text}), file=out)
        print(json.dumps({"end": True}), file=out)


if __name__ == "__main__":
    main()
