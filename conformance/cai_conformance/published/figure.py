"""One published figure beside what was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

Number: TypeAlias = int | float

BAKE_OFF: Final = "CAI NEURAL API, decode-features bake-off"
LATENT_DEMO: Final = "CAI NEURAL API, latent-attention demo"
DERIVED: Final = "follows from the published layers"
"""A figure that is not printed there, but that the layers described there fix."""
SOURCES: Final = (BAKE_OFF, LATENT_DEMO, DERIVED)


@dataclass(frozen=True)
class Figure:
    """A figure without a clock in it.

    Attributes:
        source: where it was published, or DERIVED.
        name: what it is of.
        unit: what is counted.
        published: as published.
        counted: on objects made here, rounded to as many decimals.
    """

    source: str
    name: str
    unit: str
    published: Number
    counted: Number

    @property
    def equal(self) -> bool:
        """Whether this implementation has the published figure."""
        return self.published == self.counted


def percent(part: int, whole: int) -> float:
    """Return a share in percent, to one decimal as published."""
    return round(100.0 * part / whole, 1)
