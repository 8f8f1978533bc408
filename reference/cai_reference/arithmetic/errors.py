"""Every error that the arithmetic room raises.

::

    CaiReferenceError
    └── ArithmeticFault
        ├── UnknownArithmetic    no arithmetic has this name
        ├── NotHexBits           a text is not sixteen hexadecimal digits
        └── MatmulShapes         two arrays cannot be multiplied
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cai_reference.errors import CaiReferenceError


@dataclass(eq=False)
class ArithmeticFault(CaiReferenceError):
    """Base of this branch: a caller asked the arithmetic for something that it doesn't define."""


@dataclass(eq=False)
class UnknownArithmetic(ArithmeticFault):
    """No arithmetic has this name."""

    template: ClassVar[str] = "unknown arithmetic {name!r}; known are {known}"
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return self.template.format(name=self.name, known=", ".join(self.known))


@dataclass(eq=False)
class NotHexBits(ArithmeticFault):
    """A text that should hold the bits of a double is not sixteen hexadecimal digits."""

    template: ClassVar[str] = "{text!r} is not sixteen hexadecimal digits of a double"
    text: str


@dataclass(eq=False)
class MatmulShapes(ArithmeticFault):
    """Two arrays cannot be multiplied: too few axes, unequal inner axes, or leading axes that don't broadcast."""

    template: ClassVar[str] = "cannot multiply shapes {left} and {right}: need [..., n, k] and [..., k, m]"
    left: tuple[int, ...]
    right: tuple[int, ...]
