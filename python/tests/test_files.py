"""What libdlx does: files, moves and plans."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tvm_ffi

import dlx


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    path = str(tmp_path / "weights.safetensors")
    dlx.save(path, {"w": dlx.from_dlpack(np.arange(6, dtype=np.float32).reshape(2, 3)), "b": dlx.from_dlpack(np.arange(4))})
    return path


def test_files(file: str, tmp_path: pathlib.Path) -> None:
    with dlx.open(file) as f:
        assert f.format == "safetensors" and set(f) == {"w", "b"} and len(f) == 2
        w = f["w"]
        with pytest.raises(KeyError):
            f["nothing"]
    with pytest.raises(ValueError, match="closed"):
        f["w"]
    f.close()
    assert w.readonly and w.shape == (2, 3) and w.device == "cpu"
    a = np.from_dlpack(w)  # the tensor outlives its file
    assert not a.flags.writeable and a.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(BufferError, match="read-only"):
        w.__dlpack__()
    npy = tmp_path / "x.npy"
    dlx.save(npy, w[:, ::-1])
    np.testing.assert_array_equal(np.load(npy), a[:, ::-1])
    with dlx.open(npy) as g:
        assert g.tensor().tolist() == a[:, ::-1].tolist()
    npz = tmp_path / "x.npz"
    dlx.save(npz, {"a": w}, compress=True)
    np.testing.assert_array_equal(np.load(npz)["a"], a)
    assert dlx.open(npz)["a"].tolist() == a.tolist()


def test_what_a_file_lists_is_read_when_it_is_asked_for(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[int] = []
    read = dlx._C.file_json

    def counted(handle: int) -> str:
        lists.append(handle)
        return read(handle)

    monkeypatch.setattr(dlx._C, "file_json", counted)
    with dlx.open(file) as f:
        assert f["w"].shape == (2, 3) and f["b"].shape == (4,)
        assert not lists  # a file of very many tensors opens without their list
        for name in ["nothing", "", None, 3, "w\0"]:
            with pytest.raises(KeyError):
                f[name]
            assert name not in f
        assert "w" in f and [] not in f and list(f) == ["b", "w"] and f.metadata == {}
        assert len(lists) == 1
    assert len(f) == 2 and f.format == "safetensors"
    closed = dlx.open(file)
    closed.close()
    with pytest.raises(ValueError, match="closed"):
        len(closed)


def test_errors(tmp_path: pathlib.Path) -> None:
    try:  # with the type that an except clause sees, which CPython 3.10 takes from the C code
        dlx.open(tmp_path / "nothing.npy")
    except FileNotFoundError as error:
        assert error.errno == 2
    else:
        pytest.fail("a file that is not there was opened")
    bad = tmp_path / "bad.npy"
    bad.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="dlx: "):
        dlx.open(bad)
    t = dlx.empty(3)
    with pytest.raises(RuntimeError, match="oneapi"):
        t.to("oneapi:0")
    missing = []
    for backend in ("cuda", "rocm", "opencl", "vulkan", "gl", "metal"):
        try:
            t.to(backend + ":0")
        except RuntimeError as e:
            if "has no backend" in str(e):
                missing.append(backend)
                assert "-tags " + backend in str(e)
    assert missing  # no build has both metal and the others
    with pytest.raises(ValueError, match="not a device"):
        t.plan("nonsense")
    with pytest.raises(BufferError, match="dlx: "):
        t.__dlpack__(max_version=(1, 0), dl_device=(14, 0))
    for wrong in (3, [1, 2], {"a": "text"}):
        with pytest.raises(TypeError, match="__dlpack__"):
            dlx.save(tmp_path / "x.npz", wrong)
    with pytest.raises(ValueError, match="null"):
        dlx.save(tmp_path / "x.npz", {"a\0b": t})
    assert not (tmp_path / "x.npz").exists()


def test_save_takes_what_from_dlpack_takes(tmp_path: pathlib.Path) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    dlx.save(tmp_path / "x.npy", a[:, ::-1])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), a[:, ::-1])
    for device in dlx.devices():
        if device.type == "gl":  # DLPack has no such device
            continue
        t = dlx.from_dlpack(a).to(device)
        dlx.save(tmp_path / "x.npy", t)
        dlx.save(tmp_path / "x.safetensors", {"a": t, "b": a, "c": tvm_ffi.from_dlpack(a)})
        np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), a)
        with dlx.open(tmp_path / "x.safetensors") as f:
            assert f["a"].tolist() == f["b"].tolist() == f["c"].tolist() == a.tolist()


def test_metadata(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.safetensors"
    metadata = {"format": "pt", "text": "\u00e4 \u20ac", "": "empty"}
    dlx.save(path, {"a": np.arange(3)}, metadata=metadata)
    with dlx.open(path) as f:
        assert f.metadata == metadata and f["a"].tolist() == [0, 1, 2]
    dlx.save(path, {"a": np.arange(3)}, metadata={})
    assert dlx.open(path).metadata == {}
    with pytest.raises(RuntimeError, match="no metadata"):
        dlx.save(tmp_path / "x.npz", {"a": np.arange(3)}, metadata=metadata)
    for wrong in ({"a": 1}, {1: "a"}):
        with pytest.raises(TypeError):
            dlx.save(path, {"a": np.arange(3)}, metadata=wrong)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="null"):
        dlx.save(path, {"a": np.arange(3)}, metadata={"a": "b\0c"})
    with pytest.raises(ValueError, match="compress"):
        dlx.save(path, {"a": np.arange(3)}, compress=True, metadata={})


def test_astype() -> None:
    a = np.array([[0.0, 1.5, -2.5], [3.75, 100.0, 127.0]])
    for device in dlx.devices():
        if device.type == "gl":  # DLPack has no such device
            continue
        for view in (a, a.T, a[:, ::-2], a[:0], np.array(a[0, 1])):
            t = dlx.from_dlpack(view).to(device)
            for kind in (np.float32, "float16", "int8", dlx.dtype("uint8") if view.min(initial=0) >= 0 else "int64", "bool", "complex64"):
                u = t.astype(kind)
                want = view.astype(np.dtype(str(dlx.dtype(kind))))
                assert u.dtype == kind and u.device == "cpu" and u.contiguous and not u.readonly
                np.testing.assert_array_equal(np.from_dlpack(u), want)
    t = dlx.from_dlpack(a)
    assert t.astype(float).data_ptr != t.data_ptr and t.astype("bfloat16").tolist() == a.tolist()
    assert t.astype(dtype="float4_e2m1fn").tolist() == [[0.0, 1.5, -2.0], [4.0, 6.0, 6.0]]
    for wrong in ("nonsense", "float33", "int3x0", None):
        with pytest.raises(ValueError, match="dlx: "):
            t.astype(wrong)


def test_moves() -> None:
    t = dlx.from_dlpack(np.arange(6.0).reshape(2, 3))
    assert t.to("cpu") is t and t.to("cpu", copy=False) is t
    c = t.to("cpu", copy=True)
    assert c.data_ptr != t.data_ptr and c.tolist() == t.tolist()
    assert "alias, 0 bytes copied" in t.plan("cpu")
    assert "cpu" in dlx.devices()


def test_devices_of_this_machine() -> None:
    """On each device that the build and the machine have: there, a view of it, and back."""
    others = [d for d in dlx.devices() if d != "cpu"]
    if not others:
        pytest.skip(f"the build has no other device here; its tags are {dlx.__build__['tags']}")
    for device in others:
        if device.type == "gl":  # DLPack has no such device
            continue
        a = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
        t = dlx.from_dlpack(a).to(device, copy=True)
        assert t.device == device and t.shape == a.shape
        assert "device=" + device in repr(t) or t.device.type not in ("cuda", "vulkan", "opencl", "rocm")
        a[:] = 0  # the copy is complete
        back = t[1, ::-1].to("cpu")
        assert back.tolist() == np.arange(24.0).reshape(2, 3, 4)[1, ::-1].tolist()
        assert np.from_dlpack(t, device="cpu").tolist() == np.arange(24.0).reshape(2, 3, 4).tolist()
        e = dlx.empty((3,), "int32", device)
        assert e.device == device and e.nbytes == 12
        assert device in t.plan("cpu")


def test_command() -> None:
    result = subprocess.run([sys.executable, "-m", "dlx", "devices"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and "cpu" in result.stdout, result.stderr
    result = subprocess.run([sys.executable, "-m", "dlx", "nonsense"], capture_output=True, text=True, timeout=300)
    assert result.returncode == 2


def test_exchange_does_not_load_go() -> None:
    program = (
        "import numpy as np, dlx\n"
        "t = dlx.from_dlpack(np.zeros(3)); repr(t.copy()[1:]); np.from_dlpack(t); dlx.empty(3)\n"
        "assert not dlx._C.go_loaded()"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
