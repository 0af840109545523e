"""Makes docs/interop.md of docs/interop.json: render.py JSON MARKDOWN."""

import json
import pathlib
import sys

from dtypes import COPIES, DIRECTIONS, DTYPES, LAYOUTS
from table import unpack

HEAD = """# dlx tensors and Python's frameworks

`make interop` tries every cell and writes this page and [interop.json](interop.json). In a cell a framework takes a tensor
of dlx ("to"), or dlx takes a tensor of the framework ("from"), of one element type and one layout, with the
framework's or dlx's argument `copy` left out, `False` or `True`.

| result | meaning |
|---|---|
| passed | All values arrived. The address shows that the memory is shared, or copied where a copy was asked for. The memory outlives its producer. |
| refused | The framework raises an exception, which the notes quote, or the legacy struct of DLPack cannot describe the tensor. |
| absent | The framework has no such tensor to give. |
| wrong, crashed | The framework takes the tensor and is wrong about it, or ends the process. It does the same with a tensor of another producer. |
| failed | dlx is wrong. The suite fails. |

A refusal is tested against a second producer, which is written in Python and shares nothing with dlx: what the
framework takes of that, it must take of dlx.
"""
KINDS = ["passed", "refused", "absent", "wrong", "crashed", "failed"]
SIGNS = {"passed": "✓", "refused": "–", "absent": "·", "wrong": "✗", "crashed": "☠", "failed": "**FAILED**"}


DEFECTS = {
    "jax": "`copy=True` shares the memory, and the program that asked for a copy sees later writes: "
           "`jax.dlpack.from_dlpack(dlx.empty((64,), \"float32\"), copy=True)`. Copy with `jnp.array(y, copy=True)`.",
    "tensorflow": "takes a type with several lanes, float32x4, and has other elements: `tf.experimental.dlpack.from_dlpack(t.__dlpack__())`. "
                  "A capsule on a device that it lacks, also one of another producer in C, ends the process with a double free.",
    "tvm": "exports other elements of a float4_e2m1fn tensor than it was given: `tvm.runtime.tensor(x).__dlpack__()`.",
    "pyarrow": "`__dlpack__(copy=True)` of a strided `pa.Tensor` holds other elements. Take it without `copy`, "
               "and copy with `.to(\"cpu\", copy=True)`.",
    "mlx": "takes float64 and complex128 and rounds them, float64 to float32, without saying so: `mx.from_dlpack(dlx.from_dlpack(np.full(4, 1/3)))`..",
}


def overview(table):
    """One line for each framework."""
    lines = ["## Summary", "", "| framework | version | passed | refused | absent | wrong by the framework | failed |",
             "|---|---|---|---|---|---|---|"]
    for framework in table["frameworks"]:
        kinds = [kind for kind, _ in unpack(framework).values()]
        wrong = kinds.count("wrong") + kinds.count("crashed")
        counts = [kinds.count("passed"), kinds.count("refused"), kinds.count("absent"), wrong, kinds.count("failed")]
        lines.append(f"| [{framework['name']}](#{anchor(framework)}) | {versions(framework)} | " +
                     " | ".join(str(count or "") for count in counts) + " |")
    return lines + [
        "", "A refusal mostly means that the framework lacks the type (float8, float6, float4, int2, vectors of several lanes), lays its "
        "arrays out in row-major order only, takes no read-only memory, or has no argument `copy`. The notes quote it."]


def defects(table):
    """What the frameworks do wrong, with any producer."""
    lines = ["", "## Defects of the frameworks", "", "Each also occurs with the second producer."]
    for framework in table["frameworks"]:
        cells = [key for key, (kind, _) in unpack(framework).items() if kind in ("wrong", "crashed")]
        if cells:
            first = ", ".join(cells[0][:3]) + f", copy {cells[0][3]}"
            lines.append(f"- **{framework['name']}** ({versions(framework)}; {len(cells)} cells, such as {first}) "
                         f"{DEFECTS.get(framework['id'], 'see the cells below.')}")
    return lines


def own_tests(table):
    lines = ["", "## The frameworks' own tests", "",
             "They run with a tensor of dlx in between (benchmarks/lab/frameworks/suites), fetched for the run.", "",
             "| suite | from | passed | skipped | fail without dlx, too | left out |", "|---|---|---|---|---|---|"]
    for suite in table.get("suites", []):
        if "unavailable" in suite:
            lines.append(f"| {suite['name']} | not run: {escape(suite['unavailable'])} | | | | |")
            continue
        own = ", ".join(f"`{name}`" for name in suite["own"])
        reasons = {}
        for name, why in suite["left_out"].items():
            reasons.setdefault(why, []).append(f"`{name}`")
        left = "; ".join(f"{', '.join(names)}: {escape(why)}" for why, names in reasons.items())
        lines.append(f"| {suite['name']} | {escape(suite['source'])} | {suite['passed']} | {suite['skipped']} | {own} | {left} |")
    lines += ["", "PyTorch's wheel has no tests, and it has no source distribution: its test_dlpack.py is the newest that Debian's mirrors "
              "still had, of an older version. array-api-tests is in no package registry, and is cloned; "
              "`DLX_ARRAY_API_TESTS` can name a folder with it."]
    return lines


def simulated(table):
    lines = ["", "## Tensors on a simulated card", "",
             "The memory is of the simulated CUDA driver, so that only consumers that leave the elements alone can take it. "
             "Nothing here ran on a card.", "",
             "| framework | takes dlx's cuda:0 (simulated) | stream it asks for | dlx takes it back | moved to the host |", "|---|---|---|---|---|"]
    for row in table.get("simulated", []):
        takes = row["takes"] + (f": {escape(row['text'])}" if row.get("text") else "")
        lines.append(f"| {row['name']} | {takes} | {', '.join(row.get('asked', []))} | {row.get('gives', '')} | {escape(row.get('home', ''))} |")
    lines += ["", "**MPI.** mpi4py passes the address of a tensor on a card to MPI, which must be built for it. The packages mpich 5.0.2 "
              "(configured with no `--with-cuda`; it has the fallback for machines without GPUs) and openmpi 5.0.11 (configured "
              "`--without-cuda`; `opal_built_with_cuda_support` is false) are not. Tensors on a card are copied to the host before "
              "they are sent with them."]
    return lines


def oneapi(table):
    found = table["oneapi"]
    names = {"from": "dlx takes an array of dpnp", "to": "dpnp takes a tensor of dlx that was moved to oneapi:0"}
    lines = ["", "## dpnp: unified shared memory of SYCL", "",
             "The device is the processor, by Intel's runtime of OpenCL (" + ", ".join(f"{k} {v}" for k, v in found["versions"].items()) + "). "
             "The memory is shared in both directions, in every kind of USM, after `dlx.adopt_sycl_context(x)`, where x is any array of "
             "dpnp: an allocation belongs to one context of SYCL. Without this call dlx and dpnp have a context each, and refuse each "
             "other's tensors, which then go through the host. dlx waits for `x.sycl_queue` when it takes an array, since `__dlpack__` does "
             "not. A program that writes on SYCL's queue what dlx reads later waits for that queue itself. `make test-dpnp` tests "
             "this. SYCL over Level Zero is refused, and not tested.", "",
             "| direction | kind of memory | shared, with the right values | refused |", "|---|---|---|---|"]
    for row in found["rows"]:
        refused = "; ".join(f"{kind}: {escape(text)}" for kind, text in row["refused"].items())
        lines.append(f"| {names[row['direction']]} | {row['kind']} | {', '.join(row['passed'])} | {refused} |")
    return lines


def summary(table):
    lines = ["## By direction", "", "| framework | version | direction | " + " | ".join(KINDS) + " | shared in place |",
             "|---|---|---|" + "---|" * (len(KINDS) + 1)]
    for framework in table["frameworks"]:
        results = unpack(framework)
        for direction in DIRECTIONS:
            cells = [outcome for key, outcome in results.items() if key[0] == direction]
            counts = [sum(kind == one for kind, _ in cells) for one in KINDS]
            shared = sum(kind == "passed" and text.startswith("shared") for kind, text in cells)
            first = direction == DIRECTIONS[0]
            lines.append(f"| {'[%s](#%s)' % (framework['name'], anchor(framework)) if first else ''} | "
                         f"{versions(framework) if first else ''} | {direction} | " +
                         " | ".join(str(count or "") for count in counts) + f" | {shared or ''} |")
    return lines


def anchor(framework):
    return framework["name"].lower().replace(" ", "-")


def versions(framework):
    return ", ".join(f"{name} {version}" for name, version in framework["versions"].items())


def details(framework):
    """A table for each direction. Rows of types with the same results are one, and results are explained below."""
    results = unpack(framework)
    lines = ["", f"## {framework['name']}"]
    notes = {}
    for direction in DIRECTIONS:
        rows = {}
        for dtype in DTYPES:
            row = tuple(cell(results, direction, dtype.name, layout.name, notes) for layout in LAYOUTS)
            rows.setdefault(row, []).append(dtype.name)
        arrow = f"{framework['name']} takes" if direction == "to" else "dlx takes"
        lines += ["", f"{arrow} (copy: default, `False`, `True`):", "",
                  "| types | " + " | ".join(layout.name for layout in LAYOUTS) + " |", "|---|" + "---|" * len(LAYOUTS)]
        lines += [f"| {', '.join(names)} | " + " | ".join(row) + " |" for row, names in rows.items()]
    lines.append("")
    for (kind, text), number in notes.items():
        lines.append(f"{number}. {kind}: {text}")
    return lines


def cell(results, direction, dtype, layout, notes):
    parts = []
    for copy in COPIES:
        kind, text = results[direction, dtype, layout, copy]
        plain = kind == "passed" and text in ("", "copied" if copy == "always" else "shared")
        number = "" if plain else notes.setdefault((kind, escape(text)), len(notes) + 1)
        parts.append(SIGNS[kind] + str(number))
    return parts[0] if parts[0] == parts[1] == parts[2] else " ".join(parts)


def escape(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def main():
    table = json.loads(pathlib.Path(sys.argv[1]).read_text())
    lines = [HEAD, *overview(table), *defects(table), *own_tests(table), *simulated(table), *oneapi(table), "", *summary(table), "", "## Details", "",
             "✓ passed, – refused, · absent, ✗ wrong, ☠ crashed. A number refers to the list below the tables; "
             "✓ without a number is shared, and with `copy=True` copied. One sign stands for all three values of copy."]
    for framework in table["frameworks"]:
        lines += details(framework)
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
