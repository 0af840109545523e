"""dlx.load: tensors of files, loaded onto devices."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import threading
import zipfile

import numpy as np
import pytest

import dlx

A = np.arange(24, dtype=np.float32).reshape(4, 6)
B = np.arange(10, dtype=np.int16)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with two files and their index, and one with an array."""
    model = tmp_path / "model"
    model.mkdir()
    dlx.save(model / "model-1.safetensors", {"layer.0.a": A, "layer.0.b": B})
    dlx.save(model / "model-2.safetensors", {"layer.1.a": A + 100, "layer.1.b": B + 100})
    names = {f"layer.{i}.{x}": f"model-{i + 1}.safetensors" for i in range(2) for x in "ab"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    np.save(tmp_path / "x.npy", A * 2)
    return tmp_path


def devices() -> list[dlx.Device]:
    return [d for d in dlx.devices() if d.type != "gl"]  # which DLPack does not have


def test_every_device_and_every_way_to_read(folder: pathlib.Path) -> None:
    for device in devices():
        for read in ("auto", "map", "direct"):
            loaded = dlx.load(folder / "model", device, read=read)
            assert sorted(loaded) == ["layer.0.a", "layer.0.b", "layer.1.a", "layer.1.b"]
            assert isinstance(loaded, dict) and loaded.checksums == {}
            assert all(t.device == device for t in loaded.values())
            np.testing.assert_array_equal(np.from_dlpack(loaded["layer.1.a"].to("cpu")), A + 100)
            np.testing.assert_array_equal(np.from_dlpack(loaded["layer.0.b"].to("cpu")), B)
            assert loaded.report["device"] == device and loaded.report["tensors"] == 4
            assert {f["read"] for f in loaded.report["files"]} <= {"map", "direct", "buffered"}
            if device == "cpu":
                assert {t.readonly for t in loaded.values()} == {loaded.report["files"][0]["read"] == "map"}
            one = loaded.pop("layer.1.a")
            del loaded  # the tensor stays
            assert one.to("cpu").tolist() == (A + 100).tolist()


def test_paths(folder: pathlib.Path) -> None:
    model = folder / "model"
    first, second, array = model / "model-1.safetensors", model / "model-2.safetensors", folder / "x.npy"
    for path, names in (
        (str(first), ["layer.0.a", "layer.0.b"]),
        (os.fsencode(first), ["layer.0.a", "layer.0.b"]),
        (array, ["x"]),
        (model / "model.safetensors.index.json", ["layer.0.a", "layer.0.b", "layer.1.a", "layer.1.b"]),
        ([array, str(second)], ["x", "layer.1.a", "layer.1.b"]),
        (iter([second, model / "model-1.safetensors"]), ["layer.1.a", "layer.1.b", "layer.0.a", "layer.0.b"]),
    ):
        loaded = dlx.load(path)
        assert sorted(loaded) == sorted(names) and next(iter(loaded))[:7] == names[0][:7]
    with pytest.raises(ValueError, match="layer.0.a"):
        dlx.load([first, model])
    with pytest.raises(ValueError, match="no path"):
        dlx.load([])


def test_parts_and_types(folder: pathlib.Path) -> None:
    for device in devices():
        loaded = dlx.load(
            [folder / "model", folder / "x.npy"],
            device,
            only=["*.a", "x"],
            slices={"*.1.a": (0, 1, 2), "*.a": (1, 2, 3)},
            dtype="float64",
            checksum="sha256",
            writable=True,
            threads=2,
            budget=1 << 20,
        )
        got = {name: np.from_dlpack(t.to("cpu")) for name, t in loaded.items()}
        assert all(x.dtype == np.float64 for x in got.values()) and len(got) == 3
        np.testing.assert_array_equal(got["x"], A * 2)
        np.testing.assert_array_equal(got["layer.0.a"], A[:, 4:])
        np.testing.assert_array_equal(got["layer.1.a"], A[2:] + 100)
        assert loaded.checksums["x"] == hashlib.sha256((A * 2).tobytes()).hexdigest()
        assert loaded.checksums["layer.1.a"] == hashlib.sha256((A[2:] + 100).tobytes()).hexdigest()
    assert list(dlx.load(folder / "model", only="*.1.b")) == ["layer.1.b"]
    np.save(folder / "column.npy", np.asfortranarray(A))
    t = dlx.load(folder / "column.npy", row_major=True)["column"]
    assert t.contiguous and t.tolist() == A.tolist()
    assert not dlx.load(folder / "column.npy")["column"].contiguous
    assert not dlx.load(folder / "x.npy", read="map", writable=True)["x"].readonly


def test_open_takes_an_index_and_a_folder(folder: pathlib.Path) -> None:
    model = folder / "model"
    index = model / "model.safetensors.index.json"
    for path in (index, str(model)):
        with dlx.open(path) as f:
            assert f.format == "safetensors" and sorted(f) == ["layer.0.a", "layer.0.b", "layer.1.a", "layer.1.b"]
            one, other = f["layer.0.a"], f["layer.1.a"]
        assert one.readonly and one.tolist() == A.tolist() and other.tolist() == (A + 100).tolist()
        with pytest.raises(ValueError, match="closed"):
            f["layer.0.a"]
    index.unlink()
    assert sorted(dlx.open(model)) == ["layer.0.a", "layer.0.b", "layer.1.a", "layer.1.b"]
    index.write_text(json.dumps({"weight_map": {"layer.0.a": "model-1.safetensors"}}))
    assert list(dlx.open(model)) == ["layer.0.a"]
    index.write_text(json.dumps({"weight_map": {"layer.0.a": "model-1.safetensors", "x": "none.safetensors"}}))
    with pytest.raises(FileNotFoundError, match="none.safetensors"):
        dlx.open(model)
    index.write_text(json.dumps({"weight_map": {"layer.0.a": "model-2.safetensors"}}))
    with pytest.raises(ValueError, match="layer.0.a"):
        dlx.open(model)
    (folder / "empty").mkdir()
    with pytest.raises(ValueError, match="has no file"):
        dlx.open(folder / "empty")


def test_errors(folder: pathlib.Path) -> None:
    model, array = folder / "model", folder / "x.npy"
    for path in (folder / "nothing", [array, folder / "nothing.npy"]):
        with pytest.raises(FileNotFoundError):
            dlx.load(path)
    with pytest.raises(NotADirectoryError):
        dlx.load(array / "x.npy")
    empty = folder / "empty"
    empty.mkdir()
    bad = folder / "bad.npy"
    bad.write_bytes(b"nonsense")
    for arguments, options, text in (
        ((empty,), {}, "has no file"),
        ((bad,), {}, "dlx: "),
        ((array,), {"only": "y*"}, "no tensor matches"),
        ((array,), {"only": "["}, "malformed"),
        ((array,), {"slices": {"x": (2, 0, 1)}}, "axis"),
        ((array,), {"slices": {"x": (0, 1, 1)}}, "part 1 of 1"),
        ((array,), {"slices": {"x": (0, 0, 1 << 70)}}, "out of range"),
        ((array,), {"slices": {"y": (0, 0, 1)}}, "no tensor matches"),
        ((array,), {"dtype": "nonsense"}, "not an element type"),
        ((array,), {"dtype": "handle64"}, "dlx: "),
        ((array,), {"read": "slowly"}, "auto, map, direct or cufile"),
        ((array,), {"checksum": "md5"}, "crc32c or sha256"),
        ((array,), {"budget": 1}, "budget"),
        ((array,), {"threads": 1 << 40}, "out of range"),
        ((array,), {"threads": 1000}, "threads"),
        ((array, "nonsense"), {}, "not a device"),
        (("a\0b",), {}, "null"),
        ((array,), {"only": "a\0b"}, "null"),
    ):
        with pytest.raises(ValueError, match=text):
            dlx.load(*arguments, **options)
    with pytest.raises(RuntimeError, match="cufile|read"):
        dlx.load(array, read="cufile")
    with pytest.raises(RuntimeError, match="oneapi"):
        dlx.load(array, "oneapi:0")
    for arguments, options in (
        ((3,), {}),
        (([3],), {}),
        ((array,), {"only": [3]}),
        ((array,), {"slices": {3: (0, 0, 1)}}),
        ((array,), {"slices": {"x": (0, 0)}}),
        ((array,), {"slices": {"x": (0, 0, 0.5)}}),
        ((array,), {"read": 3}),
        ((array,), {"budget": 0.5}),
    ):
        with pytest.raises(TypeError):
            dlx.load(*arguments, **options)
    (model / "model-2.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="index"):
        dlx.load(model)


def test_a_shortened_file_is_an_error(folder: pathlib.Path) -> None:
    path = folder / "large.npy"
    np.save(path, np.arange(100_000))
    t = dlx.load(path, read="map")["large"]
    assert t.readonly
    os.truncate(path, 4096)
    with pytest.raises(OSError):
        t.copy()


def test_a_child_of_fork_has_what_was_loaded(folder: pathlib.Path) -> None:
    loaded = {read: dlx.load(folder / "x.npy", read=read)["x"] for read in ("map", "direct")}
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.from_dlpack(t)[3, 5] == 46 for t in loaded.values()) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_names_that_are_no_texts(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "odd.npz"
    np.savez(path, **{"a.b": A, "zero": B})
    # The names have the same length in the file.
    data = path.read_bytes().replace(b"zero.npy", b"z\0ro.npy")
    path.write_bytes(data)
    with zipfile.ZipFile(path):
        pass
    loaded = dlx.load(path)
    assert set(loaded) == {"a.b", "z\0ro"} and loaded["z\0ro"].tolist() == B.tolist()
    twice = tmp_path / "twice.npz"
    np.savez(twice, aa=A, ab=A)
    twice.write_bytes(twice.read_bytes().replace(b"aa.npy", b"\xffa.npy").replace(b"ab.npy", b"\xfea.npy"))
    with pytest.raises(ValueError, match="same name"):
        dlx.load(twice)


def test_what_raw_void_means(tmp_path: pathlib.Path) -> None:
    two, one, both = tmp_path / "two.npy", tmp_path / "one.npy", tmp_path / "both.npz"
    wide, narrow = np.array([0x3F80, 0xC000], np.uint16).view("V2"), np.array([0x38, 0xC0], np.uint8).view("V1")
    np.save(two, wide)
    np.save(one, narrow)
    one.write_bytes(one.read_bytes().replace(b"|V1", b"<f1"))  # as ml_dtypes of other versions has float8
    np.savez(both, two=wide, one=narrow)
    types = ["float32", "float8_e4m3fn", dlx.dtype("bfloat16"), "float16"]
    with pytest.raises(RuntimeError, match="void_as"):
        dlx.open(both, void_as="bfloat16")["one"]
    assert list(dlx.load(both, void_as="bfloat16")) == ["two"]
    for read in (
        lambda path, void_as=None: dict(dlx.open(path, void_as=void_as)),
        lambda path, void_as=None: dlx.load(path, void_as=void_as, writable=True),
    ):
        for void_as in (None, (), "float8_e4m3fn", ["float32"]):
            with pytest.raises(RuntimeError, match="void_as"):
                read(two, void_as)
        assert read(two, "bfloat16")["two"].tolist() == read(two, types)["two"].tolist() == [1, -2]
        assert read(two, np.float16)["two"].dtype == "float16"
        assert read(one, iter(types))["one"].tolist() == [1, -2]
        assert {name: t.tolist() for name, t in read(both, types).items()} == {"two": [1, -2], "one": [1, -2]}
        for void_as, text in (("nonsense", "not an element type"), ("code300b8", "not an element"), ("int4", "whole bytes")):
            with pytest.raises(ValueError, match=text):
                read(two, void_as)


def test_progress(folder: pathlib.Path) -> None:
    total = 2 * (A.nbytes + B.nbytes)
    for device in devices():
        for read in ("map", "direct"):
            told: list[tuple[int, int]] = []
            threads: set[int] = set()

            def progress(done: int, of: int, told: list[tuple[int, int]] = told, threads: set[int] = threads) -> None:
                told.append((done, of))
                threads.add(threading.get_ident())

            dlx.load(folder / "model", device, read=read, writable=True, progress=progress)
            assert told == sorted(told) and told[-1] == (total, total) and {of for _, of in told} == {total}
            assert threads == {threading.get_ident()}


def test_an_exception_of_progress_stops_the_load(folder: pathlib.Path) -> None:
    path = folder / "x.npy"
    for error in (KeyError("stop"), OverflowError("mine"), KeyboardInterrupt()):

        def progress(done: int, total: int, error: BaseException = error) -> None:
            assert dlx.load(path)["x"].tolist() == (A * 2).tolist()  # it may call dlx
            raise error

        with pytest.raises(type(error)) as caught:
            dlx.load(path, writable=True, progress=progress)
        assert caught.value is error
    with pytest.raises(TypeError, match="argument"):
        dlx.load(path, writable=True, progress=lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(TypeError, match="progress"):
        dlx.load(path, progress=3)  # type: ignore[arg-type]
    assert dlx.load(path, writable=True, progress=lambda done, total: done)["x"].tolist() == (A * 2).tolist()
    with pytest.raises(FileNotFoundError):
        dlx.load(folder / "nothing.npy", progress=progress)
