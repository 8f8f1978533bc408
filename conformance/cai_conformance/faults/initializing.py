"""Faults of initial weights: how large they are, in which order they are drawn, and from which generator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import NGRAM, Vehicle, exact, run
from cai_reference.autograd import Parameter, from_flat
from cai_reference.layers import initialization
from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.splitmix import SplitMix64

INITIAL: Final = frozenset({Place.INITIAL})
Values = Callable[[int, int, SplitMix64], list[float]]
"""Draws the values of a matrix, row by row."""


def _drawn(planting: Planting, values: Values) -> None:
    def wrong(name: str, fan_in: int, fan_out: int, generator: SplitMix64) -> Parameter:
        return Parameter(name, from_flat(values(fan_in, fan_out, generator), (fan_in, fan_out)))

    planting.function(initialization.xavier_uniform, wrong)


def _variance(planting: Planting) -> None:
    right = initialization.xavier_limit

    def wrong(fan_in: int, fan_out: int) -> float:
        limit = right(fan_in, fan_out)
        return limit * limit

    planting.function(right, wrong)


def _interpolated(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = initialization.xavier_limit(fan_in, fan_out)
    return [-limit + generator.unit() * (limit - -limit) for _ in range(fan_in * fan_out)]


def _by_columns(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = initialization.xavier_limit(fan_in, fan_out)
    drawn = [limit * (2.0 * generator.unit() - 1.0) for _ in range(fan_in * fan_out)]
    return [drawn[column * fan_in + row] for row in range(fan_in) for column in range(fan_out)]


def _same_for_all(fan_in: int, fan_out: int, generator: SplitMix64) -> list[float]:
    limit = initialization.xavier_limit(fan_in, fan_out)
    own = SplitMix64(generator.state)
    return [limit * (2.0 * own.unit() - 1.0) for _ in range(fan_in * fan_out)]


def _goes_on(planting: Planting) -> None:
    """Draw every model after the first from where the one before it ended, whatever the seed."""
    right = NeuralNgram.initialize
    last: list[SplitMix64] = []

    def wrong(_: type[NeuralNgram], configuration: NeuralNgramConfiguration, generator: SplitMix64) -> NeuralNgram:
        last.append(last[-1] if last else generator)
        return right(configuration, last[-1])

    planting.method(NeuralNgram, "initialize", wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: tuple[str, ...] = ("init.golden",),
    kinds: tuple[str, ...] = (),
    vehicles: tuple[Vehicle, ...] = exact(NGRAM),
) -> Fault:
    return Fault(f"init.{slug}", title, story, precedent, INITIAL, plant, "", kinds, vehicles, expected)


INITIALIZING: Final = (
    _fault(
        "variance-for-deviation",
        "variance taken for standard deviation",
        "The root is forgotten, so that weights begin far too small.",
        "nntile/nntile#21; datawhalechina/happy-llm#209",
        _variance,
        ("init.golden", "init.stats", "fwd.stage"),
        ("I01",),
        (*exact(NGRAM), *run(NGRAM)),
    ),
    _fault(
        "interpolated",
        "values interpolated between two limits",
        "low + u · (high − low) is the same number but for its last bits.",
        "",
        partial(_drawn, values=_interpolated),
    ),
    _fault(
        "by-columns",
        "matrices drawn column by column",
        "As good as drawn row by row, and another matrix.",
        "",
        partial(_drawn, values=_by_columns),
    ),
    _fault(
        "same-for-all",
        "every tensor begins with the same draws",
        "Each one starts the generator anew.",
        "",
        partial(_drawn, values=_same_for_all),
        ("init.golden", "init.stats"),
    ),
    _fault(
        "goes-on",
        "the second run goes on where the first one ended",
        "A generator of the whole program is seeded once. The first run hides it.",
        "pytorch/torchtitan#1720; Cysu/open-reid#21",
        _goes_on,
        ("run.replay",),
        (),
        run(NGRAM),
    ),
)
"""What is wrong before the first step."""
