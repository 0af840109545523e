"""Converts numbers as NumPy and ml_dtypes do, for TestConvertAgreesWithMLDtypes.

usage: convert_check.py FOLDER

For each file NAME.in, the elements of the type NAME, it writes NAME.TO.out for each other type.
A float that becomes an integer is left out of what the test compares where it does not fit.
"""
import pathlib
import sys
import warnings

import ml_dtypes
import numpy

warnings.simplefilter("ignore")  # casts that overflow


def dtype(name):
    return numpy.dtype(getattr(ml_dtypes, name, None) or name)


folder = pathlib.Path(sys.argv[1])
files = sorted(folder.glob("*.in"))
for file in files:
    array = numpy.fromfile(file, dtype(file.stem))
    for to in files:
        if array.dtype.kind == "c" and dtype(to.stem).kind != "c":
            continue
        try:
            converted = array.astype(dtype(to.stem))
        except TypeError:  # ml_dtypes has no cast between some of its types
            converted = array.astype(numpy.float32).astype(dtype(to.stem))
        converted.tofile(folder / f"{file.stem}.{to.stem}.out")
print(len(files), "types with NumPy", numpy.__version__, "and ml_dtypes", ml_dtypes.__version__)
