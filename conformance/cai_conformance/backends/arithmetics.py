"""The arithmetics that a trace may state: those of the reference, and the formats that others compute in.

Digests and bits mean something in `strict/1` and `libm/1` only; `fast` and the formats say no more than how many bits a
number has.
"""

from __future__ import annotations

from cai_conformance.engine import PRECISIONS
from cai_reference.arithmetic.instances import named


def arithmetic_identifier(name: str) -> str:
    """Return the identifier of an arithmetic or of a format.

    Raises:
        ArithmeticFault (unknown-arithmetic): there is none of this name.
    """
    return name if name in PRECISIONS else named(name).identifier


def precision_of(identifier: str) -> str:
    """Return the format in which numbers of an arithmetic are kept."""
    return identifier if identifier in PRECISIONS else PRECISIONS[0]
