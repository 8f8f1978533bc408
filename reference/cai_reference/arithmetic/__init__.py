"""Arithmetic with defined bits: the operations on which every other room of the reference stands."""

from cai_reference.arithmetic.arithmetic import FAST, LIBM, STRICT, Arithmetic, named
from cai_reference.arithmetic.bits import from_hex_bits, hex_bits, little_endian_bytes, sha256_of, ulp_distance
from cai_reference.arithmetic.errors import ArithmeticFault, MatmulShapes, NotHexBits, UnknownArithmetic
from cai_reference.arithmetic.selftest import CLibrarySelfTest, SelfTestResult, c_library_selftest, run_selftest
from cai_reference.arithmetic.types import Array, Elementwise, Product, Summation

__all__ = [
    "FAST",
    "LIBM",
    "STRICT",
    "Arithmetic",
    "ArithmeticFault",
    "Array",
    "CLibrarySelfTest",
    "Elementwise",
    "MatmulShapes",
    "NotHexBits",
    "Product",
    "SelfTestResult",
    "Summation",
    "UnknownArithmetic",
    "c_library_selftest",
    "from_hex_bits",
    "hex_bits",
    "little_endian_bytes",
    "named",
    "run_selftest",
    "sha256_of",
    "ulp_distance",
]
