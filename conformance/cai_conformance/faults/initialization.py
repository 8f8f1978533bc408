"""Faults of initial weights: how large they are, in which order they are drawn, and from which generator."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import NGRAM, Sight, exact, run
from cai_reference.autograd import Parameter
from cai_reference.autograd.features import from_flat
from cai_reference.layers import matrices
from cai_reference.models.neural_ngram import NeuralNgram, NeuralNgramConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text import batches

Values = Callable[[int, int, SplitMix64], list[float]]
"""Draws the values of a matrix, row by row."""


def _drawn(patch: Patch, values: Values) -> None:
    def wrong(name: str, fan_in: int, fan_out: int, generator: SplitMix64) -> Parameter:
        return Parameter(name, from_flat(values(fan_in, fan_out, generator), (fan_in, fan_out)))

    patch.replace(matrices.xavier_uniform, wrong)


def _interpolated(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = matrices.xavier_limit(fan_in, fan_out)
    return [-limit + generator.unit() * (limit - -limit) for _ in range(fan_in * fan_out)]


def _by_columns(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = matrices.xavier_limit(fan_in, fan_out)
    drawn = [limit * (2.0 * generator.unit() - 1.0) for _ in range(fan_in * fan_out)]
    return [drawn[column * fan_in + row] for row in range(fan_in) for column in range(fan_out)]


def _same_for_all(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = matrices.xavier_limit(fan_in, fan_out)
    own = SplitMix64(generator.state)
    return [limit * (2.0 * own.unit() - 1.0) for _ in range(fan_in * fan_out)]


WEIGHTS: Final = 3384
"""How many weights the n-gram draws."""


def _all_64_bits(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = matrices.xavier_limit(fan_in, fan_out)
    return [limit * (2.0 * (generator.next_u64() * 2.0**-64) - 1.0) for _ in range(fan_in * fan_out)]


def _single_precision(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = matrices.xavier_limit(fan_in, fan_out)
    return [float(np.float32(limit * (2.0 * generator.unit() - 1.0))) for _ in range(fan_in * fan_out)]


def _drawn_first(call: SimpleNamespace) -> SplitMix64:
    """Return the generator of a shuffle as it is after the weights were drawn."""
    generator: SplitMix64 = call.generator
    for _ in range(WEIGHTS):
        generator.next_u64()
    return generator


_initialization = Family(frozenset({Place.INITIAL}), exact(NGRAM))


@_initialization(
    "init.variance-for-deviation",
    "variance taken for standard deviation",
    "init.golden init.stats fwd.stage",
    seen_in="nntile/nntile#21; datawhalechina/happy-llm#209",
    kinds="I01",
    workloads=(*exact(NGRAM), *run(NGRAM)),
)
def _variance(patch: Patch) -> None:
    """The root is forgotten, so that weights begin far too small."""
    right = matrices.xavier_limit

    def wrong(fan_in: int, fan_out: int) -> float:
        limit = right(fan_in, fan_out)
        return limit * limit

    patch.replace(right, wrong)


@_initialization(
    "init.interpolated",
    "values interpolated between two limits",
    "init.golden",
    story="low + u · (high − low) is the same number but for its last bits.",
    sight=Sight(("init.golden[rounding]",), "other last bits"),
)
def _interpolated_init(patch: Patch) -> None:
    _drawn(patch, values=_interpolated)


@_initialization(
    "init.by-columns",
    "matrices drawn column by column",
    "init.golden",
    sight=Sight(("init.golden[rounding]",), "two matrices that are not symmetric", "both"),
)
def _by_columns_init(patch: Patch) -> None:
    """As good as drawn row by row, and another matrix."""
    _drawn(patch, values=_by_columns)


@_initialization(
    "init.same-for-all",
    "every tensor begins with the same draws",
    "init.golden init.stats",
    sight=Sight(("init.golden[rounding]",), "two matrices of one stream", "both"),
)
def _same_for_all_init(patch: Patch) -> None:
    """Each one starts the generator anew."""
    _drawn(patch, values=_same_for_all)


@_initialization(
    "init.goes-on",
    "the second run goes on where the first one ended",
    "run.replay",
    seen_in="pytorch/torchtitan#1720; Cysu/open-reid#21",
    workloads=run(NGRAM),
)
def _goes_on(patch: Patch) -> None:
    """A generator of the whole program is seeded once. The first run hides it."""
    # Draw every model after the first from where the one before it ended, whatever the seed.
    right = NeuralNgram.initialize
    last: list[SplitMix64] = []

    def wrong(_: type[NeuralNgram], configuration: NeuralNgramConfiguration, generator: SplitMix64) -> NeuralNgram:
        last.append(last[-1] if last else generator)
        return right(configuration, last[-1])

    patch.replace((NeuralNgram, "initialize"), wrong)


@_initialization.seen(
    "seeds.shuffle-first",
    "one generator shuffles and then draws the weights",
    "fwd.stage[embeddings]",
    "other weights before the first step",
    printed="both",
    workloads=run(NGRAM),
)
def _shuffled_first(patch: Patch) -> None:
    # Draw the weights from where the shuffle ended.
    shuffling: list[SplitMix64] = []

    def remembered(call: SimpleNamespace) -> SplitMix64:
        shuffling[:] = [call.generator]
        return shuffling[0]

    patch.arguments(batches.shuffled_plan, generator=remembered)
    patch.arguments(
        (NeuralNgram, "initialize"), generator=lambda call: shuffling.pop() if shuffling else call.generator
    )


@_initialization.seen(
    "seeds.weights-first",
    "one generator draws the weights and then shuffles",
    "run.golden",
    "another order of the batches, so other losses",
    printed="both",
    workloads=run(NGRAM),
)
def _weights_first(patch: Patch) -> None:
    patch.arguments(batches.shuffled_plan, generator=_drawn_first)


@_initialization.seen(
    "init.all-64-bits",
    "the unit double is made of 64 bits, not of the upper 53",
    "init.golden[rounding]",
    "other last bits",
)
def _all_64_bits_init(patch: Patch) -> None:
    _drawn(patch, values=_all_64_bits)


@_initialization.seen(
    "init.single-precision",
    "initial weights are rounded to float32",
    "init.golden[rounding]",
    "the lower half of each double",
)
def _single_precision_init(patch: Patch) -> None:
    _drawn(patch, values=_single_precision)


INITIALIZATION: Final = tuple(_initialization)
"""What is wrong before the first step."""
