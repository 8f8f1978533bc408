"""How far one record moves between settings: not at all, by some ULP, without its tokens, or with them.

A distance in ULP is told only of doubles that the traces hold bit by bit: as bits, or as decimals whose bits stand
elsewhere in the trace. A digest is equal or not, and decimals without bits only say by how many units of their last
digit they moved; a record in which one of these moves is no better than token-stable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from cai_conformance.trace.compare import compare
from cai_conformance.trace.grammar import Grammar
from cai_conformance.trace.records import Record, Trace
from cai_conformance.trace.values import FieldType
from cai_conformance.verdicts import Difference, Problem

MOST_ULP: Final = 1 << 20
"""Beyond it, less than 33 of the 53 bits of a double are the same: some ten decimal digits."""

GRADES: Final = frozenset({"bitwise", "exact", "close"})
"""Words of a proof that grade how well bits agree; between them, only bits have moved."""

APART: Final = ("TRACE", "END")
"""Records that say nothing about values."""


class BitClass(StrEnum):
    """What may be said of a record under every setting, the best first."""

    INVARIANT = "invariant"
    """Every text is the same."""
    ULP = "ULP"
    """Only doubles move, by `MOST_ULP` units in the last place at most."""
    TOKEN_STABLE = "token-stable"
    """Digests of doubles move, or decimals without bits, or doubles by more; ids, counts, texts and words stay."""
    UNSTABLE = "unstable"
    """An id, a count, a text, a word or a shape is another, or a record is missing."""


@dataclass(frozen=True)
class RecordClass:
    """The class of one record, and why it has it.

    Attributes:
        ulp: the largest distance of a double whose bits the traces hold.
        units: the largest distance of a decimal without bits, in units of its last digit.
        digests: whether a digest moved, or a word that grades bits.
        field: the field that is unstable, or an empty text.
        setting: under which setting it moved most; empty where it does not move.
    """

    ulp: int = 0
    units: int = 0
    digests: bool = False
    field: str = ""
    setting: str = ""

    @property
    def standing(self) -> BitClass:
        """The class."""
        if self.field:
            return BitClass.UNSTABLE
        if self.units or self.digests or self.ulp > MOST_ULP:
            return BitClass.TOKEN_STABLE
        return BitClass.ULP if self.ulp else BitClass.INVARIANT

    @property
    def rank(self) -> tuple[int, int, int]:
        """What puts classes in order, the worse the larger."""
        return list(BitClass).index(self.standing), self.ulp, self.units

    def __str__(self) -> str:
        moves = [f"{self.ulp} ULP"] if self.ulp else []
        moves += [f"{self.units} in the last digit"] if self.units else []
        moves += ["digests"] if self.digests else []
        moved = ", ".join(moves)
        if self.field:
            return f"unstable in {self.field}" + (f": {moved}" if moved else "")
        if self.standing is BitClass.TOKEN_STABLE:
            return f"token-stable: {moved}"
        return moved or BitClass.INVARIANT.value


_SPELT: Final = re.compile(
    r"(?:unstable in (?P<field>[^:]+?)(?:: |$)|token-stable: )?"
    r"(?:(?P<ulp>[1-9][0-9]{0,19}) ULP)?(?:, )?(?:(?P<units>[1-9][0-9]{0,19}) in the last digit)?(?:, )?"
    r"(?P<digests>digests)?"
)


def class_of(text: str, setting: str) -> RecordClass:
    """Read what `str` of a class gave.

    Raises:
        ValueError: it is no such text.
    """
    if text == BitClass.INVARIANT:
        return RecordClass()
    match = _SPELT.fullmatch(text)
    if match is not None:
        found = RecordClass(
            int(match["ulp"] or 0), int(match["units"] or 0), bool(match["digests"]), match["field"] or "", setting
        )
        if str(found) == text:
            return found
    raise ValueError(f"{text[:60]!r} is no class")


def classify(baseline: Trace, others: Mapping[str, Trace], grammar: Grammar) -> dict[str, RecordClass]:
    """Return the class of every record of a trace, by its label, given the traces under other settings.

    A record that only another setting has is unstable, too. TRACE and END are left out.
    """
    found = {record.label: RecordClass() for record in baseline.records if record.kind not in APART}
    if not all(trace.envelope == baseline.envelope for trace in others.values()):
        raise ValueError("traces of different envelopes have no common class")
    for setting, trace in others.items():
        records = {record.label: record for record in (*trace.records, *baseline.records)}
        moved: dict[str, list[Difference]] = {}
        for difference in compare(baseline, trace, grammar):
            moved.setdefault(difference.record, []).append(difference)
        for label, differences in moved.items():
            # A label without a record stands for more differences of its kind than are told one by one.
            told = records.get(label)
            here = _class_of(differences, told, grammar, baseline.envelope.profile, setting)
            found[label] = _worse(found.get(label, RecordClass()), here)
    return found


def worst_of(classes: Iterable[tuple[str, RecordClass]]) -> tuple[str, RecordClass] | None:
    """Return the record that moves most, with its class; None where none moves."""
    moved = [(label, each) for label, each in classes if each.standing is not BitClass.INVARIANT]
    return max(moved, key=lambda item: item[1].rank) if moved else None


def _class_of(
    differences: Iterable[Difference], record: Record | None, grammar: Grammar, profile: str, setting: str
) -> RecordClass:
    ulp, units, digests, unstable = 0, 0, False, ""
    for difference in differences:
        rule = grammar.field_rule(profile, record, difference.field) if record is not None else None
        if record is None or rule is None or difference.problem is not Problem.VALUE:
            unstable = unstable or difference.field or difference.problem.value
        elif difference.ulp is not None:
            ulp = max(ulp, difference.ulp)
        elif rule.type.is_real and rule.exact is None:
            distance = _units(difference.expected, difference.found)
            units, unstable = max(units, distance), unstable or ("" if distance else difference.field)
        elif rule.type in (FieldType.SHA256, FieldType.DIGEST) or _is_grade(difference):
            digests = True
        else:
            unstable = unstable or difference.field
    return RecordClass(ulp, units, digests, unstable, setting)


def _units(one: str, two: str) -> int:
    """Return how many units of the last digit lie between two decimals; 0 where one of them is no number."""
    left, right = Decimal(one), Decimal(two)
    if not (left.is_finite() and right.is_finite()):
        return 0
    return int(abs(left - right).scaleb(len(one.partition(".")[2])))


def _is_grade(difference: Difference) -> bool:
    return {difference.expected, difference.found} <= GRADES


def _worse(one: RecordClass, two: RecordClass) -> RecordClass:
    """Return what holds under both: the largest distances, and the setting of the worse."""
    worse = one if one.rank >= two.rank else two
    return RecordClass(
        max(one.ulp, two.ulp),
        max(one.units, two.units),
        one.digests or two.digests,
        one.field or two.field,
        worse.setting,
    )
