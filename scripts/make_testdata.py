"""Makes the arrays of testdata/, or with --check proves that they are what this script makes.

The source is one data set, digits.npy and digits_target.npy, exactly as
scikit-learn gives it; --fetch takes it from there again (that, and only that,
needs scikit-learn). Everything else is derived from those two files with NumPy
and the safetensors library, so that a check needs no more than requirements.txt.
"""

import argparse
import hashlib
import pathlib
import sys
import tempfile
import zipfile

import numpy as np
import safetensors

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"

# The digest of each source file, as --fetch wrote it with the pinned scikit-learn.
SOURCES = {
    "digits.npy": "515941d8a263175d7d78c188752b82e0ff2dc89e46bdab31366c6a28837bfa2b",
    "digits_target.npy": "0e1c5e26d7ec59f910975e2cd61b6b76bc67b4bfaa8a4233726a6038d8e62a2c",
}


def fetch(folder):
    """Writes the source files from scikit-learn's copy of the data set."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.save(folder / "digits.npy", digits.images)
    np.save(folder / "digits_target.npy", digits.target.astype(np.int64))


def bfloat16(array):
    """Returns the bits of array as bfloat16, rounded to nearest even; NumPy has no such type."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def derive(images, target, folder):
    """Writes every file that follows from the source arrays."""
    mean = np.stack([images[target == digit].mean(axis=0) for digit in range(10)])
    first = images[:16]

    np.save(folder / "digits_fortran.npy", np.asfortranarray(mean.astype(np.float32)))

    members = {"mean": mean.astype(np.float32), "first": first.astype(np.uint8), "target": target}
    np.savez(folder / "digits.npz", **members)
    np.savez_compressed(folder / "digits_compressed.npz", **members)

    tensors = {
        "mean": mean.astype(np.float32),
        "mean_half": mean.astype(np.float16),
        "mean_bfloat": bfloat16(mean),
        "first": first.astype(np.uint8),
        "first_centred": (first - 8).astype(np.int8),
        "first_ink": first > 0,
        "target": target[:16],
        "none": np.empty((0, 8, 8), np.float32),
        "total": np.array(images.sum()),
    }
    specs = {
        name: safetensors.TensorSpec(
            dtype="bfloat16" if name == "mean_bfloat" else array.dtype.name,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in tensors.items()
    }
    metadata = {"source": "scikit-learn digits"}
    (folder / "digits.safetensors").write_bytes(safetensors.serialize(specs, metadata))


def content(path):
    """Returns what must agree: of an archive the members, since zlib versions compress differently."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist()}
    return path.read_bytes()


def check():
    """Returns a line for each file of testdata/ that is not what this script makes."""
    wrong = []
    for name, digest in SOURCES.items():
        if hashlib.sha256((TESTDATA / name).read_bytes()).hexdigest() != digest:
            wrong.append(f"{name}: not the data set that was taken from scikit-learn")
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        derive(*(np.load(TESTDATA / name) for name in SOURCES), made)
        for path in sorted(made.iterdir()):
            kept = TESTDATA / path.name
            if not kept.exists() or content(kept) != content(path):
                wrong.append(f"{path.name}: differs from what is derived; run `make testdata`")
        known = {path.name for path in made.iterdir()} | set(SOURCES) | {"README.md"}
        wrong += [f"{path.name}: nothing makes it" for path in TESTDATA.iterdir() if path.name not in known]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare, write nothing")
    mode.add_argument("--fetch", action="store_true", help="take the source from scikit-learn first")
    options = parser.parse_args()
    if options.check:
        wrong = check()
        sys.exit("\n".join(wrong) if wrong else 0)
    if options.fetch:
        fetch(TESTDATA)
    derive(*(np.load(TESTDATA / name) for name in SOURCES), TESTDATA)


if __name__ == "__main__":
    main()
