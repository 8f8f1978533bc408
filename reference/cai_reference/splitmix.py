"""SplitMix64: the one source of randomness of the reference.

A 64-bit counter with a mixing function (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
2014). The seed is the raw state; every draw is reproducible from the seed and the number of draws alone. This file
holds the generator, the bounded draw and the shuffle; what is drawn (initial weights, batch orders) is decided
elsewhere.

    SplitMix64(0).next_u64()  →  0xe220a8397b1dcdaf
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from cai_reference.errors import CaiReferenceError

Element = TypeVar("Element")

MASK: Final = (1 << 64) - 1
INCREMENT: Final = 0x9E3779B97F4A7C15
FIRST_MULTIPLIER: Final = 0xBF58476D1CE4E5B9
SECOND_MULTIPLIER: Final = 0x94D049BB133111EB


SPLITMIX_TEMPLATES: Final[Mapping[str, str]] = {
    # A seed is the 64-bit state itself, so it has to fit.
    "invalid-seed": "seed {seed} does not fit into 64 unsigned bits",
    # A bounded draw needs at least one possible result, and no more than 2^64.
    "invalid-bound": "a draw below {bound} does not exist: the bound must be between 1 and 2^64",
}


class SplitMixError(CaiReferenceError):
    """A draw was asked for that does not exist."""

    templates = SPLITMIX_TEMPLATES


class RandomBits(Protocol):
    """Whatever yields 64 random bits at a time."""

    def next_u64(self) -> int:
        """Return an integer in [0, 2^64)."""
        ...


class SplitMix64:
    """The generator: `state` moves on by a constant at each draw, the output is the mixed state.

    Raises:
        SplitMixError (invalid-seed): the seed is negative or does not fit into 64 bits.
    """

    def __init__(self, seed: int) -> None:
        if not 0 <= seed <= MASK:
            raise SplitMixError("invalid-seed", seed=seed)
        self.state = seed

    def next_u64(self) -> int:
        """Return the next 64 bits."""
        self.state = (self.state + INCREMENT) & MASK
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * FIRST_MULTIPLIER) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * SECOND_MULTIPLIER) & MASK
        return mixed ^ (mixed >> 31)

    def unit(self) -> float:
        """Return a double in [0, 1): the upper 53 bits of a draw, times 2^-53."""
        # 53 bits fill the mantissa of a double: every result is exact
        return (self.next_u64() >> 11) * 2.0**-53

    def next_units(self, count: int) -> npt.NDArray[np.float64]:
        """Return the next `count` doubles in [0, 1), float64 [count]: what so many calls of `unit` return.

        The state is a counter, so that all of them can be mixed at once.
        """
        # the states of the next draws: a counter, so that all are known at once
        mixed = np.uint64(self.state) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(INCREMENT)
        self.state = (self.state + count * INCREMENT) & MASK
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(FIRST_MULTIPLIER)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(SECOND_MULTIPLIER)
        mixed = mixed ^ (mixed >> np.uint64(31))
        return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(generator: RandomBits, bound: int) -> int:
    """Draw an integer in [0, bound) without bias.

    The lowest 2^64 mod bound outputs are rejected, so that the rest divides evenly.

    Raises:
        SplitMixError (invalid-bound): the bound is not in 1…2^64.
    """
    if not 1 <= bound <= MASK + 1:
        raise SplitMixError("invalid-bound", bound=bound)
    # 2^64 mod bound: so many outputs are rejected, and the rest divides evenly
    threshold = (MASK + 1 - bound) % bound
    while True:
        draw = generator.next_u64()
        if draw >= threshold:
            return draw % bound


def shuffle(items: MutableSequence[Element], generator: RandomBits) -> None:
    """Permute `items` in place: Fisher–Yates from the top (Durstenfeld, 1964), one bounded draw a position."""
    for last in range(len(items) - 1, 0, -1):
        other = below(generator, last + 1)
        items[last], items[other] = items[other], items[last]
