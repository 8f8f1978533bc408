"""Elementary functions for the slow decoder oracle: the C library's through `math`, and strict/1's through C.

strict/1 comes from the rendering in C beside the arithmetic tests, compiled without contraction, and so shares no code
with the reference.
"""

import ctypes
import math
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from support_decoder_description import Elementary, Function

SOURCE = Path(__file__).parent / "reference" / "arithmetic" / "elementary.c"
LIBM = Elementary(math.exp, math.log, math.log1p, math.tanh, math.sin, math.cos)


def scalar(library: ctypes.CDLL, name: str) -> Function:
    """Wrap the array function of this name as a function of one float."""
    over_array = library[f"{name}_array"]
    doubles = ctypes.POINTER(ctypes.c_double)
    over_array.argtypes, over_array.restype = [doubles, doubles, ctypes.c_int64], None
    argument, result = (ctypes.c_double * 1)(), (ctypes.c_double * 1)()

    def call(x: float) -> float:
        argument[0] = x
        over_array(argument, result, 1)
        return float(result[0])

    return call


@cache
def strict_elementary() -> Elementary:
    """Compile the functions of strict/1 once per process; skip the calling test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) on the path")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elementary.so"
        options = ["-O2", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, "-o", str(path), str(SOURCE)], check=True)
        library = ctypes.CDLL(str(path))
    return Elementary(*(scalar(library, name) for name in ("exp", "log", "log1p", "tanh", "sin", "cos")))
