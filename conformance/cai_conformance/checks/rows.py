"""Comparing rows of an engine with other rows of the same engine: by their bits, or by what rounding explains.

| rows come from | what may differ |
|---|---|
| the same calls, made again | nothing, unless the engine says that neighbours or chance move its bits |
| other calls over the same tokens | nothing where the arithmetic defines every bit; else the measured rounding |
| a sequence that starts elsewhere | what rounding does to angles, in every arithmetic |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.tolerance.distance import RowDistance, distance_between, unit_in_last_place
from cai_conformance.checks.tolerance.floor import NoiseLevel
from cai_conformance.checks.tolerance.policy import PolicyKind
from cai_conformance.checks.tolerance.rows import allowed_ulps
from cai_conformance.checks.witness import Met, Witness, told, unmet
from cai_conformance.engine import Nondeterminism
from cai_conformance.trace.format import format_bits
from cai_conformance.verdicts import Difference, Problem
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.bits import ulp_distance

ROWS: Final = Witness("compared row", "compared rows")

EXACT_ARITHMETIC: Final = "strict/1"
"""The arithmetic that defines every bit, whatever the calls."""
MOVED_BY_NEIGHBOURS: Final = frozenset({Nondeterminism.BATCH, Nondeterminism.RUN})
"""What an engine says when bits are not compared even if its calls are the same."""


@dataclass(frozen=True)
class Allowance:
    """By how much a row may be off.

    Attributes:
        ulps: units in the last place of its largest logit; 0 where bits are compared.
        precision: the format whose units are counted.
    """

    ulps: float
    precision: str

    @property
    def exact(self) -> bool:
        """Whether bits are compared."""
        return self.ulps == 0.0

    def absolute(self, row: Array) -> float:
        """Return how much a logit of a row [vocabulary] may be off."""
        return self.ulps * unit_in_last_place(float(np.max(np.abs(row))), self.precision)

    def __str__(self) -> str:
        return "compared bit by bit" if self.exact else f"{self.ulps:.3g} ULP of {self.precision} allowed"


def reshaped(probe: Probe) -> Allowance:
    """Return what may differ between other calls over the same tokens.

    Raises:
        EngineError: the engine failed while its rounding was measured.
    """
    return probe.memory.remembered("allowance of calls", lambda: _reshaped(probe))


def repeated(probe: Probe) -> Allowance:
    """Return what may differ between the same calls, made again.

    Raises:
        EngineError: as `reshaped`.
    """
    if probe.description.nondeterminism in MOVED_BY_NEIGHBOURS:
        return reshaped(probe)
    return Allowance(0.0, probe.description.precision.coarsest)


def restarted(probe: Probe, *, far: bool) -> Allowance:
    """Return what may differ between a sequence and one that starts elsewhere, be it far away.

    Raises:
        EngineError: as `reshaped`.
    """
    if probe.policy.kind is PolicyKind.ULP:
        return Allowance(probe.policy.ulps, probe.description.precision.coarsest)
    floor = probe.memory.remembered("floor of starts", probe.rounding.of_starts)
    near = _allowed(probe, floor.near, floor.precision)
    return max(near, _allowed(probe, floor.far, floor.precision), key=lambda each: each.ulps) if far else near


def _reshaped(probe: Probe) -> Allowance:
    policy, description = probe.policy, probe.description
    if policy.is_exact(bitwise=description.arithmetic == EXACT_ARITHMETIC):
        return Allowance(0.0, description.precision.coarsest)
    if policy.kind is PolicyKind.ULP:
        return Allowance(policy.ulps, description.precision.coarsest)
    floor = probe.rounding.of_calls()
    return _allowed(probe, floor.near, floor.precision)


def _allowed(probe: Probe, level: NoiseLevel, precision: str) -> Allowance:
    return Allowance(allowed_ulps(probe.policy, level), precision)


class RowComparison:
    """Compares rows as they come, and keeps the worst.

    Args:
        allowance: by how much a row may be off.
    """

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.rows = 0
        self.worst = 0.0
        self.wrong: list[str] = []
        self._first: tuple[str, Difference] | None = None

    @property
    def holds(self) -> bool:
        """Whether every row was as it should be."""
        return self._first is None

    def compare(self, right: Array, found: Array, where: str) -> bool:
        """Compare rows [heads, tokens, vocabulary], and return whether all of them may be.

        Args:
            right: what other calls gave.
            found: what these calls gave.
            where: which calls, for a message.
        """
        if right.shape != found.shape:
            self._first = self._first or _misshapen(right, found, where)
            self.wrong.append(where)
            return False
        self.rows += found.shape[0] * found.shape[1]
        if np.isfinite(found).all() and right.tobytes() == found.tobytes():
            return True
        holds = True
        for head, (rows, others) in enumerate(zip(right, found, strict=True)):
            for place, (row, other) in enumerate(zip(rows, others, strict=True)):
                holds &= self._row(row, other, f"{where}, row {place}" + (f" of head {head}" if head else ""))
        if not holds:
            self.wrong.append(where)
        return holds

    def finding(self, met: str, case: str = "") -> Finding:
        """Return a finding about all rows so far; `met` says what was done."""
        if self._first is not None:
            text, difference = self._first
            others = f"; wrong as well: {', '.join(self.wrong[1:9])}" if len(self.wrong) > 1 else ""
            return Finding.failed(f"{text}{others}; {met}", (difference,), case=case)
        off = "" if self.allowance.exact else f"at most {self.worst:.3g} ULP off, "
        text = f"{met}; {counted(self.rows, 'row')} compared, {off}{self.allowance}"
        return Finding.passed(text, case, [ROWS.met(self.rows)])

    def _row(self, right: Array, found: Array, where: str) -> bool:
        if np.isfinite(found).all() and right.tobytes() == found.tobytes():
            return True
        distance = distance_between(right, found, self.allowance.precision)
        self.worst = max(self.worst, distance.ulps)
        if not self.allowance.exact and distance.ulps <= self.allowance.ulps:
            return True
        if self._first is None:
            self._first = _described(right, found, where, distance, self.allowance)
        return False


def _misshapen(right: Array, found: Array, where: str) -> tuple[str, Difference]:
    shapes = f"shape {list(right.shape)}", f"shape {list(found.shape)}"
    difference = Difference(Problem.SHAPE, where, "logits", None, *shapes)
    return str(difference), difference


def _described(
    right: Array, found: Array, where: str, distance: RowDistance, allowance: Allowance
) -> tuple[str, Difference]:
    # Rows that differ in the sign of a zero alone have no distance.
    place = distance.index if distance.ulps else int(np.argmax(np.signbit(right) != np.signbit(found)))
    expected, got = float(right[place]), float(found[place])
    finite = bool(np.isfinite(got)) and bool(np.isfinite(expected))
    difference = Difference(
        Problem.VALUE if finite else Problem.NAN,
        where,
        "logits",
        place,
        f"{format_bits(expected)} ({expected:.9g})",
        f"{format_bits(got)} ({got:.9g})",
        ulp_distance(expected, got) if finite else None,
    )
    return f"{difference}; off by {distance.ulps:.3g} ULP of {allowance.precision}, {allowance}", difference


def concluded(comparison: RowComparison, met: Sequence[Met], case: str = "") -> Finding:
    """Return what a comparison found, unless it met nothing of what it needed: that is a failure of its own."""
    missing = unmet(met)
    if missing and comparison.holds:
        return Finding.failed(f"this shows nothing, for it met {missing}; {told(met)}", case=case)
    return comparison.finding(told(met), case).having_met(*met)
