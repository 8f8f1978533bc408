"""How long a forward pass over the whole context takes, as phase 9 measures it.

A net of sequential blocks and one of parallel blocks, neither of them trained: two passes to warm up, then the mean of
twelve. The id at position t is 2 + (t mod 100). (CAI NEURAL API, decode-features bake-off.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cai_conformance.bakeoff.verdicts import speedup
from cai_conformance.timing import Clock
from cai_reference.arithmetic import Arithmetic
from cai_reference.nets.graph.net import Net

WARM_UPS: Final = 2
TIMED: Final = 12
FIRST_ID: Final = 2
IDS: Final = 100


@dataclass(frozen=True)
class ForwardTimes:
    """The mean milliseconds of a full-width forward pass of both nets."""

    sequential: float
    parallel: float

    @property
    def ratio(self) -> float:
        """How many times as long the parallel net takes."""
        return speedup(self.parallel, self.sequential)


def time_forward(net: Net, arithmetic: Arithmetic, clock: Clock) -> float:
    """Return the mean milliseconds of a forward pass over the whole context.

    Raises:
        NetError: the net does not run.
    """
    ids = [FIRST_ID + position % IDS for position in range(net.context)]
    for _ in range(WARM_UPS):
        net.run(arithmetic, [ids])
    start = clock()
    for _ in range(TIMED):
        net.run(arithmetic, [ids])
    return 1000.0 * (clock() - start) / TIMED
