"""The structure line of a `.nn` file: which layers a net has, and how they are connected.

Layers are joined by `#`; a layer is `PREVIOUS)CLASS:I0;…;I7:LIST:F0;…;F7`, with eight integers, a list that is mostly
empty, and eight floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NUMBERS: Final = 8
"""How many integers, and how many floats, each layer states."""

JOINS: Final = frozenset({"TNNetSum", "TNNetDeepConcat"})
"""Classes whose list names the layers that they take together."""
SELECTS: Final = "TNNetSplitChannels"
"""The class whose list names channels."""
PRODUCTS: Final = "TNNetDotProducts"
"""The class whose first two integers name the layers that it multiplies."""
INPUT: Final = "TNNetInput"


@dataclass(frozen=True)
class LayerSpec:
    """One layer as its file states it.

    Attributes:
        kind: the library's name of the class.
        previous: the index of the predecessor, -1 for the first layer.
        integers: eight; what they mean depends on the class.
        floats: eight.
        listed: input layers of a sum or a concatenation, channels of a split; empty otherwise.
    """

    kind: str
    previous: int
    integers: tuple[int, ...] = (0,) * NUMBERS
    floats: tuple[float, ...] = (0.0,) * NUMBERS
    listed: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """The indices of the layers that this one reads, in order."""
        if self.kind == INPUT:
            return ()
        if self.kind in JOINS:
            return self.listed
        if self.kind == PRODUCTS:
            return self.integers[:2]
        return (self.previous,)
