"""Arrays of dpnp, which are in unified shared memory of SYCL (kDLOneAPI), and tensors of dlx on oneapi:0.

    oneapi.py TABLE    tries all, and adds the results to the table

The device is Intel's runtime of OpenCL for the processor. dlx adopts the context of SYCL first: see dlx.adopt_sycl_context.
"""

import importlib.metadata
import json
import pathlib
import sys

KINDS = ("device", "shared", "host")
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "complex64", "complex128")


def values(dtype):
    """Twelve values of a type."""
    import numpy as np
    return (np.arange(12) % 2 == 0 if dtype == "bool" else np.arange(12)).astype(dtype).reshape(3, 4)


def from_dpnp(kind, dtype):
    """dlx takes an array, whole and transposed: it has the address and the values, and a copy from the host changes the array."""
    import dpnp
    import numpy as np

    import dlx
    want = values(dtype)
    x = dpnp.asarray(want, usm_type=kind)
    t = dlx.from_dlpack(x)
    assert (str(t.device), t.data_ptr + t.byte_offset, tuple(t.shape)) == ("oneapi:0", x.get_array()._pointer, (3, 4))
    assert np.array_equal(np.from_dlpack(t.to("cpu")), want)
    assert np.array_equal(np.from_dlpack(dlx.from_dlpack(x.T).to("cpu")), want.T)
    pending = x + x if dtype != "bool" else x | x  # work of SYCL's queue that may not be done
    assert np.array_equal(np.from_dlpack(dlx.from_dlpack(pending).to("cpu")), want + want if dtype != "bool" else want)
    x[1, 2] = 1
    want[1, 2] = 1
    assert np.array_equal(np.from_dlpack(dlx.from_dlpack(x).to("cpu")), want)
    del x
    assert np.array_equal(np.from_dlpack(t.to("cpu")), want)  # dlx keeps the memory


def to_dpnp(dtype):
    """dpnp takes a tensor that dlx moved to oneapi:0: it has the address and the values, and both see what dpnp writes."""
    import dpnp
    import numpy as np

    import dlx
    want = values(dtype)
    t = dlx.from_dlpack(want).to("oneapi:0")
    x = dpnp.from_dlpack(t)
    assert x.get_array()._pointer == t.data_ptr + t.byte_offset and x.shape == (3, 4)
    assert np.array_equal(dpnp.asnumpy(x), want)
    x[2, 3] = 0
    x.sycl_queue.wait()
    want[2, 3] = 0
    assert np.array_equal(np.from_dlpack(t.to("cpu")), want)
    del t
    assert np.array_equal(dpnp.asnumpy(x), want)  # dpnp keeps the memory


def main():
    import dpctl

    import dlx
    dlx.adopt_sycl_context(dpctl.SyclQueue().sycl_context)
    rows = []

    def attempt(direction, kind, call, *arguments):
        row = {"direction": direction, "kind": kind, "passed": [], "refused": {}}
        for dtype in DTYPES:
            try:
                call(*arguments, dtype)
                row["passed"].append(dtype)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                row["refused"][dtype] = f"{type(error).__name__}: {error}"[:200]
        print(direction, kind, len(row["passed"]), "passed", row["refused"] or "", flush=True)
        rows.append(row)
    for kind in KINDS:
        attempt("from", kind, from_dpnp, kind)
    attempt("to", "shared", to_dpnp)
    file = pathlib.Path(sys.argv[1])
    table = json.loads(file.read_text())
    table["oneapi"] = {"versions": {name: importlib.metadata.version(name) for name in ("dpctl", "dpnp", "intel-opencl-rt")}, "rows": rows}
    file.write_text(json.dumps(table, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
