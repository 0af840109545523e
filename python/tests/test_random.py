"""Random operators and special methods of tensors beside those of the same arrays of NumPy.

Each step makes an array and a tensor of its memory, takes the same views of both, and does one thing to both. The
results are equal, or the errors have the same type; what tensors refuse otherwise is in the table of README.md.

DLX_RANDOM_STEPS is the number of steps, and DLX_RANDOM_SEED the seed of the first.
"""

from __future__ import annotations

import operator
import os
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import dlx

STEPS = int(os.environ.get("DLX_RANDOM_STEPS", "4000"))
SEED = int(os.environ.get("DLX_RANDOM_SEED", "1"))

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
NUMBERS: list[Any] = [
    0, 1, -1, 2, 3, 255, 256, -128, 300, 2**31, 2**53 + 1, 2**63, 2**64 - 1, -(2**63), 10**30, 10**400, True, False,
    0.0, -0.0, 0.1, 0.5, 1.5, -2.5, 1e-8, 65504.0, 65520.0, 1e5, 3.4e38, 3.5e38, 1e300, float("nan"), float("inf"), -float("inf"),
    0j, 1j, 0.1 + 0.1j, complex("nan"), complex(1e300, 1),
]  # fmt: skip
ELEMENTS = [x for x in NUMBERS if not isinstance(x, int) or abs(x) < 2**63]
BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, divmod, operator.matmul,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt, operator.le, operator.gt,
    operator.ge, operator.eq, operator.ne,
]  # fmt: skip
UNARY = [operator.neg, operator.pos, operator.invert, abs]


def plain(x: Any) -> Any:
    """Return what two results are compared by: for arrays the type, the shape and the elements."""
    if isinstance(x, dlx.Tensor):
        x = np.from_dlpack(x, device="cpu") if x.device != "cpu" else np.asarray(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return str(x.dtype), x.shape, repr(x.tolist())
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    return type(x).__name__, repr(x)


def outcome(f: Callable[[], Any]) -> Any:
    """Return the result of a call, or the type of its error."""
    try:
        return plain(f())
    except Exception as error:
        return type(error)


class Step:
    """One step: a tensor t, the array a of the same elements, and where t is."""

    def __init__(self, rng: random.Random, devices: list[dlx.Device]) -> None:
        self.rng = rng
        self.history: list[str] = []
        a = self.array()
        t = dlx.from_dlpack(a)
        for _ in range(rng.randrange(3)):
            a, t = self.view(a, t)
        self.a, self.t = a, t
        self.device = ""
        if devices and rng.random() < 0.05:
            self.device = rng.choice(devices)
            self.t = t.to(self.device)

    def array(self, shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
        rng = self.rng
        dtype = rng.choice(DTYPES)
        if shape is None:
            shape = tuple(rng.choice((0, 1, 1, 2, 3, 5)) for _ in range(rng.choice((0, 0, 1, 1, 2, 3))))
        a = np.empty(shape, dtype)
        for i in range(a.size):
            a.flat[i] = np.array(rng.choice(ELEMENTS if rng.random() < 0.5 else (0, 1, 2, 3))).astype(dtype)
        self.history.append(f"array({a.tolist()}, {dtype}, shape {shape})")
        return a

    def key(self, shape: tuple[int, ...], odd: bool) -> Any:
        """Return an index; if odd is set, it may be out of bounds, or of no kind that tensors take."""
        rng = self.rng
        keys: list[Any] = []
        for n in shape[: rng.randint(0, len(shape))]:
            bound = n + 1 if odd and rng.random() < 0.1 else n
            ends = [rng.choice((None, *range(-n - 2, n + 3))) for _ in range(2)]
            keys.append(rng.randrange(-bound, bound) if bound and rng.random() < 0.4 else slice(*ends, rng.choice((None, 1, 2, -1, -3))))
        if rng.random() < 0.2:
            keys.insert(rng.randint(0, len(keys)), None)
        if rng.random() < 0.2:
            keys.insert(rng.randint(0, len(keys)) if odd else len(keys), ...)  # those before it fit their axes
        if odd and rng.random() < 0.1:
            keys.insert(rng.randint(0, len(keys)), rng.choice((..., 1.5, "x", True, [0], 0, 7, slice(None, None, 0))))
        return keys[0] if len(keys) == 1 and rng.random() < 0.7 else tuple(keys)

    def view(self, a: Any, t: dlx.Tensor) -> tuple[Any, dlx.Tensor]:
        if self.rng.random() < 0.3:
            axes = self.rng.sample(range(a.ndim), a.ndim)
            self.history.append(f"transpose{tuple(axes)}")
            return a.transpose(axes), t.transpose(axes)
        key = self.key(a.shape, odd=False)
        self.history.append(f"[{key}]")
        return np.asarray(a[key]), t[key]

    def check(self, what: str, got: Any, want: Any) -> None:
        assert got == want, f"{what} on {self.device or 'cpu'} of {' '.join(self.history)}: {got}, and not {want}"

    def same(self, what: str, f: Callable[[Any], Any]) -> None:
        self.check(what, outcome(lambda: f(self.t)), outcome(lambda: f(self.a)))

    def refused(self, what: str, f: Callable[[], Any], error: type[Exception] = TypeError) -> None:
        self.check(what, outcome(f), error)

    # --- what a step does

    def conversion(self) -> None:
        convert = self.rng.choice((int, float, complex, bool))
        # NumPy from 2.4 on converts arrays without axes only.
        a = self.a.reshape(()) if self.a.size == 1 else self.a
        self.check(convert.__name__, outcome(lambda: convert(self.t)), outcome(lambda: convert(a)))

    def index(self) -> None:
        self.same("index", operator.index)

    def length(self) -> None:
        self.same("len", len)

    def iteration(self) -> None:
        got, want = outcome(lambda: list(self.t)), outcome(lambda: [np.asarray(x) for x in self.a])
        self.check("iter", got, want)

    def contains(self) -> None:
        x = self.rng.choice(NUMBERS)
        if self.device:
            self.refused(f"{x} in", lambda: x in self.t, BufferError)
        elif self.a.dtype == bool and isinstance(x, int) and not -(2**63) <= x < 2**63:
            self.check(f"{x} in", x in self.t, False)  # OverflowError in NumPy
        else:
            self.same(f"{x} in", lambda y: x in y)
        self.refused("text in", lambda: "x" in self.t)

    def getitem(self) -> None:
        key = self.key(self.a.shape, odd=True)
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, (float, str, bool, list)) for k in keys):
            got = outcome(lambda: self.t[key])
            self.check(f"[{key}]", got in (TypeError, IndexError), True)  # the first mistake counts
        else:
            self.check(f"[{key}]", outcome(lambda: self.t[key]), outcome(lambda: np.asarray(self.a[key])))

    def binary(self) -> None:
        act = self.rng.choice(BINARY)
        other = self.array(self.rng.choice((None, self.a.shape, self.a.shape[1:], ())))
        if self.device:
            self.refused(act.__name__, lambda: act(self.t, other))
        elif self.rng.random() < 0.5:
            self.same(act.__name__, lambda x: act(x, other))
        else:
            self.same(act.__name__, lambda x: act(other, x))

    def refusals(self) -> None:
        act = self.rng.choice([*BINARY, operator.pow])
        other = self.rng.choice([*NUMBERS, None, "x", [1], self.t, dlx.empty(())])
        self.refused(act.__name__, lambda: act(self.t, other))
        if not isinstance(other, (str, list)) or act not in (operator.mod, operator.mul):
            self.refused(act.__name__ + " reflected", lambda: act(other, self.t))
        unary = self.rng.choice(UNARY)
        self.refused(unary.__name__, lambda: unary(self.t))
        self.refused("hash", lambda: hash(self.t))
        self.refused("setitem", lambda: operator.setitem(self.t, 0, 1))
        self.refused("delitem", lambda: operator.delitem(self.t, 0))

    def numbers(self) -> None:
        self.same("item", lambda x: x.item())
        if self.device:
            self.refused("tolist", lambda: self.t.tolist(), BufferError)
            self.refused("bytes", lambda: bytes(self.t), BufferError)
        else:
            self.same("tolist", lambda x: x.tolist())
            self.check("bytes", bytes(self.t), self.a.tobytes())
            if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
                self.check("str", str(self.t), str(self.a))

    def arrays(self) -> None:
        dtype = self.rng.choice((None, None, *DTYPES))
        copy = self.rng.choice((None, True, False))
        if self.device:
            self.refused("array", lambda: np.asarray(self.t))
            return
        self.same(f"array({dtype}, copy={copy})", lambda x: np.array(x, dtype=dtype, copy=copy))
        self.check("__array__", outcome(lambda: self.t.__array__(dtype, copy)), outcome(lambda: np.array(self.a, dtype=dtype, copy=copy)))
        self.check("from_dlpack", outcome(lambda: np.from_dlpack(self.t)), plain(self.a))
        self.same("memoryview", lambda x: memoryview(x).tolist())

    def shapes(self) -> None:
        shape = [self.rng.choice((-1, 0, 1, 1, 2, 3, 5)) for _ in range(self.rng.randrange(4))]
        if self.rng.random() < 0.5:
            shape = list(self.a.shape)
            self.rng.shuffle(shape)
            shape.insert(self.rng.randint(0, len(shape)), 1)
        got, want = outcome(lambda: self.t.reshape(shape)), outcome(lambda: reshaped(self.a, shape))
        if self.device and got != want:  # a copy on a device is row-major, whatever it was made of
            want = outcome(lambda: self.a.copy().reshape(shape))
        self.check(f"reshape{shape}", got, want)
        self.same("T", lambda x: x.T)
        self.same("copy", lambda x: x.copy())
        self.same("shape", lambda x: (x.shape, x.ndim, x.size, x.nbytes))


def reshaped(a: np.ndarray[Any, Any], shape: list[int]) -> np.ndarray[Any, Any]:
    """Return a view with another shape; ValueError if a copy would be needed."""
    view = a.view()
    if not shape and a.size == 1 or a.size == 0:
        return a.reshape(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            view.shape = tuple(shape)
        except AttributeError:
            raise ValueError from None
    return view


ACTIONS = [
    Step.conversion, Step.conversion, Step.conversion, Step.index, Step.length, Step.iteration, Step.contains, Step.contains,
    Step.getitem, Step.getitem, Step.binary, Step.binary, Step.refusals, Step.numbers, Step.arrays, Step.shapes,
]  # fmt: skip


def test_random_steps() -> None:
    devices = [d for d in dlx.devices() if d.type not in ("cpu", "gl")]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in range(SEED, SEED + STEPS):
            rng = random.Random(seed)
            try:
                step = Step(rng, devices)
                rng.choice(ACTIONS)(step)
            except Exception:
                print(f"DLX_RANDOM_SEED={seed} DLX_RANDOM_STEPS=1 repeats this step")
                raise
    print(f"{STEPS} steps, seed {SEED}")
