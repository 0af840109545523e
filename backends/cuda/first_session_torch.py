"""What the first session on a card (benchmarks/lab/firstsession) measures of PyTorch. It prints one JSON object a line.

    first_session_torch.py strided LAYOUTS      the copies that LAYOUTS, a JSON list, describes
    first_session_torch.py empty BYTES WHEN     whether torch.empty finds so much memory

If PyTorch or its card is missing, the only line is "skipped: " and the reason.
"""

import json
import sys

try:
    import torch

    torch.cuda.init()
# PyTorch raises AssertionError if it is built without CUDA, and RuntimeError if it finds no card.
except (ImportError, AssertionError, RuntimeError) as reason:
    print(f"skipped: torch: {' '.join(str(reason).split())}")
    sys.exit()

REPEATS = 7


def view(base, layout):
    """Returns what is copied of an array."""
    if "permute" in layout:
        return base.permute(layout["permute"])
    if "step" in layout:
        return base[(slice(None),) * layout["step"] + (slice(None, None, 2),)]
    return base


def strided(layouts):
    """Times each copy by events of CUDA's, as dlx does."""
    for layout in layouts:
        source = view(torch.zeros(layout["shape"], dtype=getattr(torch, layout["type"]), device="cuda"), layout)
        target = torch.empty(source.shape, dtype=source.dtype, device="cuda")
        times = []
        for i in range(REPEATS + 1):  # the first one loads the kernel
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            target.copy_(source)
            stop.record()
            stop.synchronize()
            if i:
                times.append(int(start.elapsed_time(stop) * 1e6))
        times.sort()
        size = target.numel() * target.element_size()
        row = {"layout": layout["name"], "type": layout["type"], "shape": layout["shape"], "bytes": size}
        row |= {"median_ns": times[REPEATS // 2], "min_ns": times[0], "gb_per_s": round(size / times[REPEATS // 2], 2)}
        print(json.dumps(row | {"torch": torch.__version__}))


def empty(size, when):
    """Allocates once."""
    left, _ = torch.cuda.mem_get_info()
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
        answer = "allocated"
    except torch.cuda.OutOfMemoryError as error:
        answer = str(error).split(".")[0]
    print(json.dumps({"torch.empty": answer, "bytes": size, "when": when, "unused_bytes": left, "torch": torch.__version__}))


if sys.argv[1] == "strided":
    strided(json.loads(sys.argv[2]))
else:
    empty(int(sys.argv[2]), sys.argv[3])
