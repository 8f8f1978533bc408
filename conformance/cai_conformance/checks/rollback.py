"""The judge of rollbacks: what is fed and dropped again leaves nothing behind, or is refused and everything stays.

Whatever happens, the slot goes on, and its next row is held against a whole sequence of the tokens that it now holds.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.backends.engine.features import dropping
from cai_conformance.backends.engine.session import EngineSession, full_logits
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.kv_cache import going_on
from cai_conformance.checks.probe.driven import fed
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.rows import ROWS, RowComparison, concluded, reshaped
from cai_conformance.checks.witness import Witness
from cai_conformance.engine import Refused
from cai_conformance.verdicts import Level

ROLLBACKS: Final = Witness("rollback", "rollbacks")
REFUSALS: Final = Witness("refusal", "refusals", least=0)
LATE_CUTS: Final = Witness(
    "cut behind a full window", "cuts behind a full window", where="if a window is shorter than the sequence"
)
EARLY: Final = 3
"""How many tokens there are when the first guesses are taken back: so few that no window has let go of any."""
LATE: Final = 18
"""How many there are when a window, and rows that are kept in reserve, have been passed."""
DEEP: Final = 8
"""To how many a long sequence is cut back."""
NO_DROP: Final = "the engine has no feature drop"


class _Rolling:
    """One slot that is fed, cut back, and goes on."""

    def __init__(self, probe: Probe) -> None:
        self.comparison = RowComparison(reshaped(probe))
        self.rollbacks = self.refusals = self.late = 0
        self._probe, self._base = probe, probe.rows()
        self._restart(0)

    def advance(self, length: int) -> None:
        """Feed the shared sequence up to a length, in one call."""
        before = self._session.length
        if before < length:
            rows = fed(self._session, self._probe.ids[before:length])
            self.comparison.compare(self._base[:, before:length], rows, f"tokens {before} to {length - 1}")

    def guess(self, count: int) -> None:
        """Feed other tokens, take them back, and go on by one token."""
        length = self._session.length
        wrong = self._probe.others(length, count)
        fed(self._session, wrong)
        where = f"after {count} of {length + count} were dropped"
        if self._cut(length):
            self._on(where)
            return
        # The guesses are still there.
        held = (*self._probe.ids[:length], *wrong, self._probe.ids[length])
        row = fed(self._session, held[-1:])
        right = full_logits(self._probe.engine, held)[:, -1:]
        self.comparison.compare(right, row, f"{where}, which was refused")
        self._restart(length + 1)

    def cut(self, length: int) -> None:
        """Cut the sequence back, and go on."""
        before = self._session.length
        where = f"after {before} tokens were cut to {length}"
        self._on(where if self._cut(length) else f"{where}, which was refused")

    def _cut(self, length: int) -> bool:
        window = self._probe.facts.window
        self.late += window is not None and self._session.length > window
        try:
            self._session.truncate(length)
        except Refused:
            self.refusals += 1
            return False
        self.rollbacks += 1
        return True

    def _on(self, where: str) -> None:
        place = self._session.length
        row = fed(self._session, self._probe.ids[place : place + 1])
        self.comparison.compare(self._base[:, place : place + 1], row, where)

    def _restart(self, length: int) -> None:
        self._session = EngineSession(self._probe.engine)
        self.advance(length)


@self_check(
    "kv.rollback",
    Level.I2,
    "what is fed and dropped again leaves nothing behind, or is refused and everything stays",
    "From one token to a block, early and behind a full window, then a whole call, then everything. After each "
    "cut, and after each refusal, the slot goes on and must give the row of what it now holds.",
    witnesses=(ROWS, ROLLBACKS, LATE_CUTS),
    catches=(
        "cache.position-plus-one-after-rollback cache.rollback-ignored cache.stale-row-after-rollback "
        "cache.trim-after-wrap"
    ),
)
@going_on
def judge_rollback(probe: Probe) -> tuple[Finding, ...]:
    """Take back 1 to a block of tokens early, the same late, a whole call, and everything."""
    if dropping(probe.engine) is None:
        return (Finding.skipped(NO_DROP),)
    rolling, block = _Rolling(probe), probe.facts.block
    rolling.advance(EARLY)
    for count in range(1, block + 1):
        rolling.guess(count)
    late = min(LATE, probe.length - 4)
    rolling.advance(late)
    for count in (1, block):
        rolling.guess(count)
    rolling.cut(DEEP)
    rolling.cut(0)
    met = [ROLLBACKS.met(rolling.rollbacks), REFUSALS.met(rolling.refusals)]
    if probe.facts.window is not None:
        met.append(LATE_CUTS.met(rolling.late, needed=probe.facts.window < late))
    return (concluded(rolling.comparison, met),)
