"""Who outlives whom: threads, collectors, the end of the interpreter, fork, and interpreters beside the first one."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from producer import Producer

import dlx

# The number of round trips: a million, or fewer for a quick run.
TRIPS = int(os.environ.get("DLX_TRIPS", "200000"))


def resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def python(program: str, **environment: str) -> str:
    """Run a program in another interpreter, which must not crash."""
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.path.dirname(__file__)]), **environment},
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    assert "Fatal" not in result.stderr and "Exception ignored" not in result.stderr, result.stderr
    return result.stdout.strip()


def trip(a: Any) -> None:
    t = dlx.from_dlpack(a)
    np.from_dlpack(t[1:])
    tvm_ffi.from_dlpack(t)
    dlx.from_dlpack(t.__dlpack__())


def test_resident_memory_is_flat() -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    before = 0
    for i in range(TRIPS // 4):
        trip(a)
        if i == TRIPS // 16:
            before = resident()
    assert resident() - before < 4 << 20


def test_threads() -> None:
    """Eight threads exchange tensors, and give them to each other, while the collector runs all the time."""
    a = np.arange(24.0).reshape(2, 3, 4)
    shared = dlx.from_dlpack(a)
    errors: list[BaseException] = []
    stop = threading.Event()
    box: list[Any] = [None] * 8

    def work(k: int) -> None:
        try:
            for i in range(TRIPS // 64):
                trip(a)
                trip(shared)
                box[(k + i) % 8] = shared[i % 2].__dlpack__(max_version=(1, 3))
                capsule, box[i % 8] = box[i % 8], None
                if capsule is not None:
                    try:
                        assert dlx.from_dlpack(capsule).shape == (3, 4)
                    except ValueError as e:  # another thread was faster
                        assert "already used" in str(e)
        except BaseException as e:
            errors.append(e)

    def collect() -> None:
        while not stop.is_set():
            gc.collect()

    collector = threading.Thread(target=collect)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    before = resident()
    collector.start()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    stop.set()
    collector.join()
    assert not errors
    assert resident() - before < 32 << 20
    box.clear()


def test_both_collectors_run_hard() -> None:
    """Go collects after every 4 MiB at most, and Python all the time, while threads exchange tensors and use libdlx."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "testdata", "digits.npy")
    if not os.path.exists(path):
        pytest.skip("testdata/digits.npy of the repository is not here")
    program = f"""
        import gc, os, threading
        import numpy as np
        import dlx
        from test_lifetime import resident, trip
        a = np.arange(24.0).reshape(2, 3, 4)
        stop, errors, moved = threading.Event(), [], [0, 0]
        def guarded(work):
            def run():
                try:
                    work()
                except BaseException as e:
                    errors.append(e)
                    stop.set()
            return threading.Thread(target=run)
        def collect():
            while not stop.is_set():
                gc.collect()
        def go(k):
            while moved[k] == 0 or not stop.is_set():
                t = dlx.open({path!r})["digits"]        # Go allocates, and maps a file
                assert np.from_dlpack(t)[0, 0, 2] == 5
                cycle = [t[1:], dlx.from_dlpack(a).plan("cpu")]
                cycle.append(cycle)                     # which only the collector frees
                moved[k] += 1
        def trips():
            for _ in range({TRIPS // 16}):
                trip(a)
        trip(a), dlx.open({path!r})
        others = [guarded(collect), guarded(lambda: go(0)), guarded(lambda: go(1))]
        before = resident()
        workers = [guarded(trips) for _ in range(4)]
        for t in others + workers: t.start()
        for t in workers: t.join()
        stop.set()
        for t in others: t.join()
        assert not errors, errors
        gc.collect()
        assert min(moved) > 0
        print(sum(dlx._live().values()), resident() - before < 48 << 20)
    """
    assert python(program, GOGC="1") == "0 True"


def test_exporter_dies_first() -> None:
    a = np.arange(6.0)
    t = dlx.from_dlpack(a)
    view = np.from_dlpack(t[2:])
    del a, t
    gc.collect()
    assert view.tolist() == [2, 3, 4, 5]
    p = Producer()
    t = dlx.from_dlpack(p)
    view2 = t[1]
    del t
    assert p.deleted == 0 and view2.tolist() == [3, 4, 5]
    del view2
    assert p.deleted == 1


def test_unused_capsules() -> None:
    p = Producer()
    t = dlx.from_dlpack(p)
    capsules = [t.__dlpack__(), t.__dlpack__(max_version=(1, 0))]
    del t, capsules[1]
    assert p.deleted == 0
    del capsules
    assert p.deleted == 1


def test_exported_again_and_again() -> None:
    """Tensors that are made of exports of dlx form no chain, which would grow, and end in a deep recursion."""
    p = Producer()
    t = dlx.from_dlpack(p)
    for version in (None, (1, 0)):
        for _ in range(1000):
            t = dlx.from_dlpack(t[::-1].__dlpack__(max_version=version))
    assert dlx._live()["memories"] == 1 and t.tolist() == [[0, 1, 2], [3, 4, 5]]
    del t
    assert p.deleted == 1


def test_exports_at_a_time() -> None:
    """The first export of a memory uses a struct that is there already. Consumers own theirs, and may change it."""
    from ctypes import byref, c_void_p, memset

    from producer import Deleter, Versioned
    from test_exchange import table

    p = Producer()
    t = dlx.from_dlpack(p)

    def give(of: dlx.Tensor) -> int:
        out = c_void_p()
        assert table().managed_from_object(of, byref(out)) == 0 and out.value
        return out.value

    def shape(m: int) -> list[int]:
        tensor = Versioned.from_address(m).tensor
        return tensor.shape[: tensor.ndim] + tensor.strides[: tensor.ndim]

    def free(m: int, spoil: bool = False) -> None:
        deleter = Versioned.from_address(m).deleter
        if spoil:
            memset(m, 0xAA, 80)
        Deleter(deleter)(m)

    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        exports = [give(t), give(t[:, ::-1]), give(t[1])]
        assert len(set(exports)) == 3
        assert [shape(m) for m in exports] == [[2, 3, 3, 1], [2, 3, 3, -1], [3, 1]]
        for i in order:
            free(exports[i], spoil=True)
        once = give(t[1])
        assert once == exports[0], "the struct is used again"
        free(once)
    # A tensor with more axes than the struct has room for.
    deep = t.reshape(1, 1, 1, 1, 2, 3)
    again = give(deep)
    assert shape(again)[:6] == [1, 1, 1, 1, 2, 3]
    last = give(t)
    del t, deep
    free(again)
    assert p.deleted == 0 and shape(last) == [2, 3, 3, 1]
    free(last, spoil=True)
    assert p.deleted == 1


def test_deleters_on_threads_while_others_export() -> None:
    """What two threads do with the struct of a memory: one makes exports, the other frees them."""
    import queue
    from ctypes import byref, c_void_p

    from producer import Deleter, Versioned
    from test_exchange import table

    p = Producer()
    t = dlx.from_dlpack(p)
    given: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    wrong: list[int] = []

    def free() -> None:
        while (m := given.get()) is not None:
            if Versioned.from_address(m).tensor.shape[:2] != [2, 3]:
                wrong.append(m)
            Deleter(Versioned.from_address(m).deleter)(m)  # without the interpreter's lock

    threads = [threading.Thread(target=free) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(TRIPS // 20):
        out = c_void_p()
        assert table().managed_from_object(t, byref(out)) == 0
        given.put(out.value)
        dlx.from_dlpack(t.__dlpack__(max_version=(1, 0)))
    for _ in threads:
        given.put(None)
    for thread in threads:
        thread.join()
    assert not wrong and p.deleted == 0
    del t
    assert p.deleted == 1


def test_deleter_on_a_thread_without_python() -> None:
    import ctypes

    from producer import Deleter, Versioned
    from test_exchange import table

    p = Producer()
    t = dlx.from_dlpack(p)
    out = ctypes.c_void_p()
    table().managed_from_object(t, ctypes.byref(out))
    del t
    address = Versioned.from_address(out.value).deleter
    libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    libc.pthread_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
    assert libc.pthread_create(ctypes.byref(thread), None, address, out) == 0
    assert libc.pthread_join(thread, None) == 0
    assert p.deleted == 1
    assert Deleter  # a type of the test's own producer


def test_interpreter_ends_with_tensors_alive() -> None:
    assert (
        python(
            """
            import builtins, sys, threading
            import numpy as np
            import dlx, tvm_ffi
            from producer import Producer
            a = np.arange(6.0)
            builtins.keep = [dlx.from_dlpack(a), dlx.from_dlpack(a)[1:], np.from_dlpack(dlx.from_dlpack(a)),
                             tvm_ffi.from_dlpack(dlx.from_dlpack(a)), dlx.empty(5), memoryview(dlx.empty(3)),
                             dlx.from_dlpack(a).__dlpack__(), dlx.from_dlpack(Producer(deleter=None))]
            sys.keep = [sys, builtins.keep, dlx]
            class Late:
                def __init__(self): self.t = dlx.from_dlpack(a)
                def __del__(self):
                    try:
                        self.t[1:], self.t.shape, repr(self.t)
                    except (RuntimeError, TypeError, ImportError, AttributeError, NameError):
                        pass
            sys.late = Late(); sys.late.itself = sys.late
            threading.Thread(target=lambda: [dlx.from_dlpack(a) for _ in iter(int, 1)], daemon=True).start()
            print("end")
            """
        )
        == "end"
    )


def test_deleter_after_the_interpreter() -> None:
    """A C library frees an export when the process ends, on a thread of its own, after Python is gone."""
    import shutil
    import tempfile

    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed, as to build the package"
    source = """
        #include <pthread.h>
        #include <unistd.h>
        static void *kept; static void (*deleter)(void *);
        void keep(void *m, void (*d)(void *)) { kept = m; deleter = d; }
        static void *run(void *x) { deleter(kept); return x; }
        __attribute__((destructor)) static void end(void) {
            pthread_t t;
            if (kept && pthread_create(&t, 0, run, 0) == 0) { pthread_join(t, 0); (void)!write(1, "freed\\n", 6); }
        }
    """
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "keep.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
        for make in ("dlx.from_dlpack(np.arange(6.0))", "dlx.empty(1000)"):
            assert (
                python(
                    f"""
                    import ctypes
                    import numpy as np
                    import dlx
                    from producer import Versioned
                    from test_exchange import table
                    library = ctypes.CDLL({library!r})
                    out = ctypes.c_void_p()
                    table().managed_from_object({make}, ctypes.byref(out))
                    library.keep(out, ctypes.c_void_p(Versioned.from_address(out.value).deleter))
                    print("end", flush=True)
                    """
                )
                == "end\nfreed"
            )


def test_fork() -> None:
    """In a child of fork the exchange works; what needs Go says why it does not."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "testdata", "digits.npy")
    if not os.path.exists(path):
        pytest.skip("testdata/digits.npy of the repository is not here")
    assert (
        python(
            f"""
            import os
            import numpy as np
            import dlx
            d = dlx.open({path!r})["digits"]
            t = dlx.from_dlpack(np.arange(6.0))
            pid = os.fork()
            if pid == 0:
                assert np.from_dlpack(t[1:]).tolist() == [1, 2, 3, 4, 5]
                assert np.from_dlpack(d)[0, 0, 2] == 5 and d.copy().shape == d.shape
                try:
                    dlx.open({path!r})
                    os._exit(2)
                except RuntimeError as e:
                    assert "forked" in str(e), e
                del d, t
                os._exit(0)
            print(os.waitpid(pid, 0)[1])
            """
        )
        == "0"
    )


def test_interpreters() -> None:
    """Other interpreters, with a lock of their own from CPython 3.12 on, import dlx and exchange tensors."""
    program = textwrap.dedent(
        """
        import sys
        sys.path[:] = PATH
        import dlx
        t = dlx.empty((2, 3), "int8")
        u = dlx.from_dlpack(dlx.from_dlpack(t).__dlpack__(max_version=(1, 0)))
        memoryview(t)[1, 2] = 7
        assert u[1, 2].item() == 7 and repr(u).endswith("dtype=int8)")
        sys.keep = u
        """
    ).replace("PATH", repr(sys.path))
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    assert (
        python(
            f"""
            import threading
            import {module} as interpreters
            import dlx
            errors = []
            def run():
                try:
                    for _ in range(3):
                        i = interpreters.create()
                        error = interpreters.run_string(i, {program!r})
                        assert error is None, error
                        interpreters.destroy(i)
                except BaseException as e:
                    errors.append(e)
            threads = [threading.Thread(target=run) for _ in range(4)]
            for t in threads: t.start()
            for t in threads: t.join()
            assert not errors, errors
            t = dlx.empty(3)
            dlx.from_dlpack(t)
            del t
            print(dlx._live()["memories"])
            """
        )
        == "0"
    )


def test_an_interpreter_that_ends_leaves_the_others_alone() -> None:
    """Memory of the first interpreter is freed after another one has ended."""
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    assert (
        python(
            f"""
            import sys
            import {module} as interpreters
            import dlx
            import numpy as np
            i = interpreters.create()
            assert interpreters.run_string(i, "import sys; sys.path[:] = {sys.path!r}; import dlx; dlx.empty(3)") is None
            interpreters.destroy(i)
            a = np.arange(6.0)
            references = sys.getrefcount(a)
            np.from_dlpack(dlx.from_dlpack(a))
            print(sys.getrefcount(a) - references, sum(dlx._live().values()))
            """
        )
        == "0 0"
    )
