"""Prints arrays as NumPy does, for TestTextAgreesWithNumPy.

usage: text_check.py FOLDER

For each file N.TYPE.SHAPE.in, the elements of an array, it writes N.TYPE.SHAPE.out.
"""
import pathlib
import sys

import numpy

for file in pathlib.Path(sys.argv[1]).glob("*.in"):
    _, name, shape, _ = file.name.split(".")
    shape = [int(n) for n in shape.split("x") if n]
    file.with_suffix(".out").write_text(str(numpy.fromfile(file, name).reshape(shape)))
