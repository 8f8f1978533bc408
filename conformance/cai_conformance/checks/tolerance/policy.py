"""What may differ: nothing, a number of units in the last place, or what was measured.

| policy | a row passes if |
|---|---|
| `exact` | it has the right bits |
| `ulp:N` | no logit is further off than N units in the last place of the row's largest |
| `measured` | it is no further off than the backend's own rounding explains: `FACTOR` times the measured floor |
| `auto` | `exact` where the arithmetic defines every bit, else `measured` |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cai_conformance.errors import SelectionError

FACTOR: Final = 4.0
"""How many floors a row may be off.

A floor is the largest of a few differences between equally good results; the right one lies outside their range now and
then. The smallest known fault is hundreds of floors away wherever numbers have 24 bits or more.
"""


class PolicyKind(StrEnum):
    """The four policies."""

    AUTO = "auto"
    EXACT = "exact"
    ULP = "ulp"
    MEASURED = "measured"


@dataclass(frozen=True)
class Policy:
    """One policy; `ulps` belongs to `ulp:N`."""

    kind: PolicyKind = PolicyKind.AUTO
    ulps: float = 0.0

    def is_exact(self, *, bitwise: bool) -> bool:
        """Tell whether bits are compared with a backend whose arithmetic defines them, or does not."""
        return self.kind is PolicyKind.EXACT or (self.kind is PolicyKind.AUTO and bitwise)

    def __str__(self) -> str:
        return f"ulp:{self.ulps!r}".removesuffix(".0") if self.kind is PolicyKind.ULP else self.kind.value


AUTO: Final = Policy()
"""What holds if nobody says anything."""


def parse_policy(text: str) -> Policy:
    """Return the policy of this name.

    Raises:
        SelectionError (unknown-policy): there is none.
    """
    name, separator, number = text.partition(":")
    if not separator and name in (PolicyKind.AUTO, PolicyKind.EXACT, PolicyKind.MEASURED):
        return Policy(PolicyKind(name))
    try:
        ulps = float(number)
    except ValueError:
        raise SelectionError("unknown-policy", text=text) from None
    if name != PolicyKind.ULP or not (math.isfinite(ulps) and ulps >= 0.0):
        raise SelectionError("unknown-policy", text=text)
    return Policy(PolicyKind.ULP, ulps)
