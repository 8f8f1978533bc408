"""Names and initial values of parameters.

A matrix [fan_in, fan_out] is drawn row-major from U(−limit, limit) with limit = sqrt(6 / (fan_in + fan_out)), one unit
double an element: limit · (2u − 1) (Glorot and Bengio, 2010; course, chapter 17).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from cai_reference.autograd import Parameter
from cai_reference.layers.errors import (
    DuplicateName,
    EmptyName,
    EmptyNameSegment,
    InvalidNameCharacter,
    ZeroFanIn,
    ZeroFanOut,
)
from cai_reference.splitmix import SplitMix64


def xavier_limit(fan_in: int, fan_out: int) -> float:
    """Return sqrt(6 / (fan_in + fan_out))."""
    return math.sqrt(6.0 / float(fan_in + fan_out))


def xavier_uniform(name: str, fan_in: int, fan_out: int, generator: SplitMix64) -> Parameter:
    """Draw a matrix [fan_in, fan_out]; on an error nothing is drawn.

    Raises:
        EmptyName, EmptyNameSegment, InvalidNameCharacter: looked for before the widths.
        ZeroFanIn, ZeroFanOut: a width is below 1.
    """
    check_name(name)
    if fan_in < 1:
        raise ZeroFanIn
    if fan_out < 1:
        raise ZeroFanOut
    limit = xavier_limit(fan_in, fan_out)
    values = limit * (2.0 * generator.next_units(fan_in * fan_out) - 1.0)
    return Parameter(name, values.reshape(fan_in, fan_out))


def check_name(name: str) -> None:
    """Refuse a name that is not segments of [a-z0-9_] joined by dots.

    Raises:
        EmptyName, EmptyNameSegment, InvalidNameCharacter: with byte positions in the UTF-8 text, the first offence
            wins.
    """
    if not name:
        raise EmptyName
    allowed = b"abcdefghijklmnopqrstuvwxyz0123456789_"
    data = name.encode("utf-8")
    previous = ord(".")
    for index, byte in enumerate(data):
        if byte == ord("."):
            if previous == ord("."):
                raise EmptyNameSegment(index)
        elif byte not in allowed:
            raise InvalidNameCharacter(index, byte)
        previous = byte
    if previous == ord("."):
        raise EmptyNameSegment(len(data))


def check_unique_names(names: Iterable[str]) -> None:
    """Refuse a registry in which a name stands twice.

    Raises:
        DuplicateName: with both positions.
    """
    first_position: dict[str, int] = {}
    for position, name in enumerate(names):
        first = first_position.setdefault(name, position)
        if first != position:
            raise DuplicateName(name, first, position)
