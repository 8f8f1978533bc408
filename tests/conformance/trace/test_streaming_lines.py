"""The expressions for many lines against reading line by line: what they accept, and what they read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.formatting import escape, format_record
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.grammars.decoder import DECODER_GRAMMARS
from cai_conformance.trace.patterns import exact_pattern, line_reader
from cai_conformance.trace.reading import read_record
from cai_conformance.trace.records import Record
from cai_conformance.trace.schema import Grammar, RecordRule
from cai_conformance.trace.values import FieldType, check_of

REPEATED = [
    (grammar, rule)
    for grammar in (COURSE_NGRAM, DECODER_GRAMMARS[0], DECODER_GRAMMARS[-1])
    for rule in {rule for rules in grammar.profiles.values() for rule in rules}
    if rule.maximum is None
]
"""The rules of which a trace may have very many records."""

WRITTEN = {
    FieldType.INTEGER: ["0", "-7", "18446744073709551615", "-9223372036854775808", "9999999999999999999"],
    FieldType.INTEGERS: ["[]", "[3]", "[0, 18446744073709551615, -9223372036854775808]"],
    FieldType.REAL6: ["0.000000", "-1.500000", "nan", "-inf"],
    FieldType.REALS6: ["[]", "[0.500000, nan]"],
    FieldType.BITS: ["3ff0000000000000"],
    FieldType.BITS_LIST: ["[]", "[3ff0000000000000, 8000000000000000]"],
    FieldType.STRING: ["", "a b", r"\x20", r"\x20 \x20", r"\\\|\n", r"\x85=", "река"],
    FieldType.WORD: ["full", "scripted.eos-1"],
    FieldType.SHA256: ["sha256:" + "0f" * 32],
}

PIECES = [
    *("", "|", "=", " ", "0", "-", "9", "\\", "\\n", "\\|", "\\x20", "\\x41", "\\x09", "x", "[", "]", ", ", ".000000"),
    *("|x_note=a", "|x_=\\|b", "|x_a=b\\", "|x_A=1", "18446744073709551616", "-9223372036854775809", "nan", "е"),
]


@st.composite
def damaged_lines(draw: st.DrawFn) -> tuple[Grammar, RecordRule, str]:
    """A line of one of the rules with up to three pieces put in or taken out."""
    grammar, rule = draw(st.sampled_from(REPEATED))
    fields = [field for field in rule.fields_of(None) if field.required or draw(st.booleans())]
    values = [draw(st.sampled_from(field.words or WRITTEN[field.type])) for field in fields]
    line = "|".join([rule.kind, *(f"{field.name}={value}" for field, value in zip(fields, values, strict=True))])
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(line)))
        line = line[:place] + draw(st.sampled_from(PIECES)) + line[place + draw(st.integers(0, 2)) :]
    return grammar, rule, line


def read(grammar: Grammar, rule: RecordRule, line: str) -> Record | None:
    """The record on a line by the careful way, or None."""
    try:
        return read_record(line, 1, rule, negative_zero=grammar.negative_zero)
    except TraceFault:
        return None


@given(st.lists(damaged_lines(), min_size=1, max_size=3))
def test_many_lines_are_accepted_and_read_as_each_alone(given: list[tuple[Grammar, RecordRule, str]]) -> None:
    """What stands before and behind a line decides nothing; a variant that the rule names is left to the other way."""
    grammar, rule, _ = given[0]
    lines = [line for _, other, line in given if other is rule]
    records = [read(grammar, rule, line) if line.partition("|")[0] == rule.kind else None for line in lines]
    named = {variant for field in rule.fields for variant in field.variants}
    kept = [record for record in records if record and not (rule.variant and record.get(rule.variant) in named)]
    text = "".join(line + "\n" for line in lines)
    names = tuple(dict.fromkeys(field.name for field in rule.fields_of(None)))
    exact = line_reader(rule, names, negative_zero=grammar.negative_zero, exact=True)
    assert exact is not None
    assert [record.texts(names) for record in kept] == exact.plain_rows(text, 0, len(text))
    if len(kept) == len(lines):
        assert len(text) == exact.run(text, 0, len(text))
        for some in (names, rule.key, names[-1:]):
            loose = line_reader(rule, some, negative_zero=grammar.negative_zero)
            assert loose is not None
            assert [record.texts(some) for record in kept] == loose.plain_rows(text, 0, len(text))


@given(st.sampled_from(list(FieldType)), st.booleans(), st.lists(st.sampled_from(PIECES), max_size=5))
def test_an_exact_pattern_takes_what_the_check_of_its_type_takes(
    kind: FieldType, signed: bool, pieces: list[str]
) -> None:
    """No value more and none less, with the sign of zero and without."""
    text = "".join(pieces).replace("\n", "")
    found = re.match(rf"(?:{exact_pattern(kind, negative_zero=signed)})(?=[|\n])", text + "\n")
    whole = found is not None and found.end() == len(text)
    assert bool(check_of(kind, negative_zero=signed)(text)) == whole


@pytest.mark.parametrize("limit", [2**64 - 1, 2**63])
def test_integers_end_at_the_limit(limit: int) -> None:
    """The largest and the smallest are values, the next ones are not."""
    rule = next(rule for _, rule in REPEATED if rule.kind == "SAMPLE")
    reader = line_reader(rule, ("case", "draw"), exact=True)
    assert reader is not None
    sign = "-" if limit == 2**63 else ""
    for number, count in ((limit - 1, 1), (limit, 1), (limit + 1, 0), (limit * 10, 0), (limit // 10, 1)):
        line = f"SAMPLE|case=a|draw=0|ids=[{sign}{number}, 0]\n"
        assert count == len(reader.rows(line, 0, len(line))), number


def test_fields_in_another_order_or_of_another_rule_have_no_reader() -> None:
    """The caller reads record by record then."""
    rule = next(rule for _, rule in REPEATED if rule.kind == "SAMPLE")
    assert line_reader(rule, ("draw", "case")) is None
    assert line_reader(rule, ("case", "colour")) is None


def test_a_long_list_in_one_line_needs_no_depth() -> None:
    """A hundred thousand items are matched without a stack to go back on."""
    rule = next(rule for _, rule in REPEATED if rule.kind == "SAMPLE")
    record = Record("SAMPLE", (("case", "a"), ("draw", "0"), ("ids", str(list(range(100_000))))))
    line = format_record(record) + "\n"
    reader = line_reader(rule, ("ids",), exact=True)
    assert reader is not None
    assert [(escape(record.get("ids")),)] == reader.rows(line, 0, len(line))
