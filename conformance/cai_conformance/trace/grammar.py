"""How a suite declares its records: field rules, record rules, and the grammar that gathers them.

A rule says what may stand where. Reading lines by the rules, in their order, is in `cai_conformance.trace.parse`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from re import Pattern, compile

from cai_conformance.trace.records import RECORD_KEYS, Record, Trace
from cai_conformance.trace.values import MEANINGS, Check, FieldType, check_of, usual_pattern


@dataclass(frozen=True)
class Exact:
    """Where the exact bits of a printed real stand: field `field` of the one `kind` record with this key.

    `key` holds literal key values, `same` pairs a key field there with a field of the printing record. A list field
    prints the leading part of the bits; `at` names a field of the printing record that holds the index of a single one.
    """

    kind: str
    field: str
    key: tuple[tuple[str, str], ...] = ()
    same: tuple[tuple[str, str], ...] = ()
    at: str = ""

    def look_up(self, trace: Trace, printed: Record) -> Sequence[float] | None:
        """The exact values behind a field of `printed`, or None where the trace does not carry them."""
        wanted = dict(self.key) | {there: printed.get(here) for there, here in self.same}
        source = trace.find(self.kind, **wanted)
        if source is None or not source.has(self.field):
            return None
        values = source.bits(self.field)
        if not self.at:
            return values
        place = printed.integer(self.at)
        return [values[place]] if 0 <= place < len(values) else None


@dataclass(frozen=True)
class FieldRule:
    """One field: name, type, whether it must stand, the only values it may have, and where its exact bits are.

    `variants` limits the field to records whose discriminating field (`RecordRule.variant`) has one of these values;
    one name may have several rules with disjoint variants.
    """

    name: str
    type: FieldType
    required: bool = True
    words: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    exact: Exact | None = None

    @property
    def meaning(self) -> str:
        """What a value looks like, in words."""
        return " or ".join(self.words) if self.words else MEANINGS[self.type]


@dataclass(frozen=True, eq=False)
class RecordRule:
    """One kind of record: its fields in order, how often it stands, and whether its integer key must ascend.

    `maximum` None means any number. `variant` names the field that decides which of the fields apply; it stands before
    them. A rule is equal to itself only.
    """

    kind: str
    fields: tuple[FieldRule, ...]
    minimum: int = 1
    maximum: int | None = 1
    ascending: bool = False
    variant: str = ""

    def __post_init__(self) -> None:
        """Refuse a kind that grammar version 1 gives no key."""
        if self.kind not in RECORD_KEYS:
            raise ValueError(f"{self.kind} is no record kind of the grammar")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, in order; a name stands once for each of its rules."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The names of the fields that identify a record of this kind in this suite."""
        return tuple(name for name in RECORD_KEYS[self.kind] if name in self.names)

    def fields_of(self, variant: str | None) -> tuple[FieldRule, ...]:
        """The fields that apply where the discriminating field has the value `variant`."""
        return tuple(field for field in self.fields if not field.variants or variant in field.variants)

    def field_of(self, record: Record, name: str) -> FieldRule | None:
        """The rule that applies to one field of a record, or None."""
        variant = record.get(self.variant) if self.variant and record.has(self.variant) else None
        return next((field for field in self.fields_of(variant) if field.name == name), None)


@cache
def readers_of(rule: RecordRule, variant: str | None, negative_zero: bool) -> tuple[tuple[FieldRule, str, Check], ...]:
    """The fields of a rule and a variant that some field of the rule names, or None for no such variant.

    With each field stands the prefix `name=`, and the check of the text behind it.
    """
    return tuple(
        (field, f"{field.name}=", check_of(field.type, negative_zero=negative_zero, words=field.words))
        for field in rule.fields_of(variant)
    )


@cache
def usual_line(rule: RecordRule, negative_zero: bool) -> Pattern[str]:
    """A pattern for the usual form of a whole line of a rule without variants, one group a field.

    What it matches is well-formed. It does not match ignored fields and the values that `usual_pattern` leaves out.
    """
    parts = [rule.kind]
    for field in rule.fields:
        value = usual_pattern(field.type, negative_zero=negative_zero, words=field.words)
        part = rf"\|{field.name}=({value})"
        parts.append(part if field.required else f"(?:{part})?+")
    return compile("".join(parts))


@dataclass(frozen=True, eq=False)
class Grammar:
    """The records of one suite: for each profile, the rules of what stands between TRACE and END, in order.

    `negative_zero` says whether a real may print as `-0.000000`.
    """

    suite: str
    profiles: Mapping[str, tuple[RecordRule, ...]]
    negative_zero: bool = False

    def rule(self, profile: str, kind: str) -> RecordRule | None:
        """The rule for a kind in a profile, or None."""
        return next((rule for rule in self.profiles.get(profile, ()) if rule.kind == kind), None)

    def field_rule(self, profile: str, record: Record, name: str) -> FieldRule | None:
        """The rule for one field of a record in a profile, or None."""
        rule = self.rule(profile, record.kind)
        return rule.field_of(record, name) if rule else None
