"""Wrong starts: generators shared where they should be two, initial weights drawn otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.splitmix import SplitMix64
from support_mutants import Change, Mutant, replaced

EDGES, EXPERIMENT = "cai_conformance.backends.ngram.edges", "cai_conformance.backends.ngram.experiment"


def _one_generator(draws_before_shuffling: int) -> Change:
    """Let initialisation go on where the shuffle ended, or the shuffle where initialisation ended."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        shuffling: list[SplitMix64] = []

        def generator(seed: int) -> SplitMix64:
            # Data are prepared before a model is made, each with a generator of its own.
            if shuffling:
                used = shuffling.pop()
                return SplitMix64(seed) if draws_before_shuffling else used
            shuffling.append(SplitMix64(seed))
            for _ in range(draws_before_shuffling):
                shuffling[0].next_u64()
            return shuffling[0]

        patch.setattr(f"{EXPERIMENT}.SplitMix64", generator)

    return apply


# Initial values.


def _drawn(values: Callable[[int, int, SplitMix64], Array]) -> Change:
    def xavier_uniform(name: str, fan_in: int, fan_out: int, generator: SplitMix64) -> Parameter:
        return Parameter(name, values(fan_in, fan_out, generator))

    return replaced(
        ("cai_reference.models.neural_ngram", "xavier_uniform", xavier_uniform),
        (EDGES, "xavier_uniform", xavier_uniform),
    )


def _matrix(fan_in: int, fan_out: int, element: Callable[[float], float]) -> Array:
    limit = math.sqrt(6.0 / (fan_in + fan_out))
    return np.array([element(limit) for _ in range(fan_in * fan_out)]).reshape(fan_in, fan_out)


def _interpolated(fan_in: int, fan_out: int, generator: SplitMix64) -> Array:
    return _matrix(fan_in, fan_out, lambda limit: -limit + generator.unit() * (limit - -limit))


def _column_major(fan_in: int, fan_out: int, generator: SplitMix64) -> Array:
    return _matrix(fan_in, fan_out, lambda limit: limit * (2.0 * generator.unit() - 1.0)).reshape(fan_out, fan_in).T


def _all_64_bits(fan_in: int, fan_out: int, generator: SplitMix64) -> Array:
    return _matrix(fan_in, fan_out, lambda limit: limit * (2.0 * (generator.next_u64() * 2.0**-64) - 1.0))


def _single_precision(fan_in: int, fan_out: int, generator: SplitMix64) -> Array:
    drawn = _matrix(fan_in, fan_out, lambda limit: limit * (2.0 * generator.unit() - 1.0))
    return drawn.astype(np.float32).astype(np.float64)


def _fresh(fan_in: int, fan_out: int, _: SplitMix64) -> Array:
    own = SplitMix64(23)
    return _matrix(fan_in, fan_out, lambda limit: limit * (2.0 * own.unit() - 1.0))


INITIAL_MUTANTS: Final = (
    Mutant(
        "seeds.shuffle-first",
        "one generator shuffles and then draws the weights",
        ("fwd.stage[embeddings]",),
        "other weights before the first step",
        _one_generator(0),
        printed="both",
    ),
    Mutant(
        "seeds.weights-first",
        "one generator draws the weights and then shuffles",
        ("run.golden",),
        "another order of the batches, so other losses",
        _one_generator(3384),
        printed="both",
    ),
    Mutant(
        "init.interpolated",
        "weights are low + u · (high − low)",
        ("init.golden[rounding]",),
        "other last bits",
        _drawn(_interpolated),
    ),
    Mutant(
        "init.column-major",
        "matrices are filled column by column",
        ("init.golden[rounding]",),
        "two matrices that are not symmetric",
        _drawn(_column_major),
        printed="both",
    ),
    Mutant(
        "init.all-64-bits",
        "the unit double is made of 64 bits, not of the upper 53",
        ("init.golden[rounding]",),
        "other last bits",
        _drawn(_all_64_bits),
    ),
    Mutant(
        "init.single-precision",
        "initial weights are rounded to float32",
        ("init.golden[rounding]",),
        "the lower half of each double",
        _drawn(_single_precision),
    ),
    Mutant(
        "init.fresh-generator",
        "each matrix starts from the seed again",
        ("init.golden[rounding]",),
        "two matrices of one stream",
        _drawn(_fresh),
        printed="both",
    ),
)
