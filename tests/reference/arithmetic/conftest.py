"""Arguments for the elementary functions: spread over magnitudes, dense where a reduction changes, edges first."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.vectors import FUNCTIONS

_EDGES = (0.0, 5e-324, 2.0**-1022, 2.0**-54, 0.5, 1.0, 22.0, 709.782712893384, 1.0e6, 1.7976931348623157e308, math.inf)


class Arguments(Protocol):
    """How a test asks for arguments."""

    def __call__(self, function: str, count: int, seed: int = ...) -> Array:
        """Return `count` arguments for `function`."""
        ...


@pytest.fixture(scope="session")
def arguments() -> Arguments:
    """Arguments for an elementary function, some of which lie outside its domain."""
    return _arguments


def _any_double(generator: np.random.Generator, count: int) -> Array:
    """Uniform bit patterns: every exponent equally often, subnormals, infinities and NaN included."""
    return generator.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64)


def _near(generator: np.random.Generator, centres: Array, count: int) -> Array:
    """Doubles within eight steps of randomly chosen centres."""
    chosen = generator.choice(centres, count).view(np.int64)
    return (chosen + generator.integers(-8, 9, count)).view(np.float64)


def _powers(generator: np.random.Generator, low: int, high: int, count: int) -> Array:
    """Positive reals, every exponent from `low` to `high` - 1 equally often, significands uniform."""
    return np.ldexp(generator.uniform(1.0, 2.0, count), generator.integers(low, high, count))


def _magnitudes(generator: np.random.Generator, low: int, high: int, count: int) -> Array:
    """The same with signs at random."""
    return generator.choice([-1.0, 1.0], count) * _powers(generator, low, high, count)


def _arguments(function: str, count: int, seed: int = 20_260_101) -> Array:
    """Return `count` arguments for `function`, of which some lie outside its domain.

    They are made in exact operations only, so that they are the same on every machine.
    """
    generator = np.random.Generator(np.random.PCG64([seed, FUNCTIONS.index(function)]))
    part = count // 5
    edges = np.array([*_EDGES, math.nan])
    if function == "exp":
        centres = np.arange(-1075.0, 1025.0) * math.log(2.0) / 2.0
        parts = [
            generator.uniform(-746.0, 710.0, part),
            generator.uniform(-2.0, 2.0, part),
            generator.uniform(-745.2, -708.0, part // 2),
            generator.uniform(709.7, 709.8, part // 2),
            _magnitudes(generator, -60, 10, part),
        ]
    elif function == "log":
        centres = np.concatenate([[1.0], np.ldexp(math.sqrt(0.5), np.arange(-1020, 1023))])
        parts = [
            _powers(generator, -1074, 1024, part),
            generator.uniform(0.5, 2.0, part),
            1.0 + _magnitudes(generator, -52, -3, part),
            generator.integers(1, 1 << 52, part).view(np.float64),
        ]
    elif function == "log1p":
        centres = np.ldexp(math.sqrt(0.5), np.arange(60)) - 1.0
        parts = [
            generator.uniform(-1.0, 2.0, part),
            _magnitudes(generator, -1074, 0, part),
            _powers(generator, 0, 1024, part),
            _powers(generator, -53, 0, part) - 1.0,
        ]
    elif function == "tanh":
        centres = np.concatenate([np.arange(1.0, 127.0) * math.log(2.0) / 4.0, [22.0, 19.06]])
        parts = [
            generator.uniform(-4.0, 4.0, part),
            generator.uniform(-23.0, 23.0, part),
            _magnitudes(generator, -30, 1, part),
            _magnitudes(generator, -1074, 0, part),
        ]
    else:
        centres = np.concatenate([np.arange(1.0, 200.0), generator.integers(1, 1_273_240, 4000).astype(np.float64)])
        centres = centres * (math.pi / 4.0)
        parts = [
            generator.uniform(-1.0e6, 1.0e6, part),
            generator.uniform(-10.0, 10.0, part),
            _magnitudes(generator, -1074, 20, part),
            _magnitudes(generator, -30, 5, part // 2),
        ]
    parts = [edges, -edges, _any_double(generator, part // 4), *parts]
    parts.append(_near(generator, centres, count - sum(map(len, parts))))
    return np.concatenate(parts)
