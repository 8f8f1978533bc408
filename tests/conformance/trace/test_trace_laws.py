"""Laws that hold for all records: parse ∘ format is the identity, and an ignored field changes nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.format import (
    escape,
    format_bits,
    format_bits_list,
    format_body,
    format_integer,
    format_integers,
    format_real,
    format_reals,
    format_record,
    format_trace,
)
from cai_conformance.trace.grammar import FieldRule, RecordRule
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.grammars.common import CONVENTION_KEYS
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.parse import parse, parse_body, read_record
from cai_conformance.trace.records import Envelope, Record
from cai_conformance.trace.values import FieldType, check_of, usual_pattern

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(alphabet="\\|n =\n\x00[,]", max_size=6)
INTEGER = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.lists(st.floats(), max_size=4)
WORD = st.text(alphabet="abz09_.-", min_size=1, max_size=8)
SHA256 = st.binary(min_size=32, max_size=32).map(lambda digest: f"sha256:{digest.hex()}")

VALUES = {
    FieldType.INTEGER: INTEGER.map(format_integer),
    FieldType.INTEGERS: st.lists(INTEGER, max_size=4).map(format_integers),
    FieldType.REAL6: st.floats().map(format_real),
    FieldType.REAL9: st.floats().map(lambda value: format_real(value, 9)),
    FieldType.REALS6: FLOATS.map(format_reals),
    FieldType.BITS: st.floats().map(format_bits),
    FieldType.BITS_LIST: FLOATS.map(format_bits_list),
    FieldType.STRING: TEXT,
    FieldType.WORD: WORD,
    FieldType.SHA256: SHA256,
    FieldType.DIGEST: SHA256,
}


def records_of(rule: RecordRule) -> st.SearchStrategy[Record]:
    """Well-formed records of a rule."""

    @st.composite
    def draw_record(draw: st.DrawFn) -> Record:
        variants = sorted({value for field in rule.fields for value in field.variants}) or [""]
        variant = draw(st.sampled_from(variants))
        fields = []
        for field in rule.fields_of(variant):
            if field.required or draw(st.booleans()):
                words = (variant,) if field.name == rule.variant else field.words
                fields.append((field.name, draw(st.sampled_from(words) if words else VALUES[field.type])))
        return Record(rule.kind, tuple(fields))

    return draw_record()


RULES = {rule.kind: rule for rules in COURSE_NGRAM.profiles.values() for rule in rules}
CONVENTION = Record("CONVENTION", tuple((name, "none") for name in CONVENTION_KEYS))


@given(st.data(), st.sampled_from(sorted(RULES)))
def test_reading_a_formatted_record_gives_it_back(data: st.DataObject, kind: str) -> None:
    """Formatting and reading one record of any kind is the identity, and so is the way back on its line."""
    record = data.draw(records_of(RULES[kind]))
    line = format_record(record)
    assert record == read_record(line, 1, RULES[kind], negative_zero=True)


@given(st.lists(records_of(RULES["SAMPLE"]), min_size=1, max_size=5, unique_by=lambda sample: sample.key), TEXT)
def test_parsing_a_formatted_trace_gives_its_records_back(samples: list[Record], arithmetic: str) -> None:
    """Formatting and parsing a whole trace is the identity on envelope and records."""
    envelope = Envelope("course.ngram", "1.0", "edges", arithmetic, "sha256:" + "a" * 64)
    text = format_trace(envelope, [CONVENTION, *samples])
    trace = parse(text.encode(), grammar_of)
    assert envelope == trace.envelope
    assert (CONVENTION, *samples) == trace.inner
    assert tuple(samples) == trace.body
    assert text == format_body(trace.records)


@given(st.data(), st.sampled_from(["CONFIG", "LOSS", "GENERATE", "SAMPLE"]))
def test_an_ignored_field_changes_neither_record_nor_fault(data: st.DataObject, kind: str) -> None:
    """A damaged line has the same outcome with and without a field x_…, which is read the careful way."""
    line = list(format_record(data.draw(records_of(RULES[kind]))))
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(len(kind), len(line)))
        line[place : place + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from(["", "|", "=", " ", "0", "\\"]))
    text = "".join(line)
    assert outcome(text, kind) == outcome(f"{text}|x_note=", kind) or text.endswith("\\")


def outcome(line: str, kind: str) -> tuple[object, ...]:
    """The record on a line, or the class and place of the fault."""
    try:
        return (read_record(line, 1, RULES[kind], negative_zero=True),)
    except TraceFault as fault:
        return type(fault), fault.field


ACCEPTED = {
    FieldType.INTEGER: ["0", "-1", "999999999999999999", "18446744073709551615", "-9223372036854775808"],
    FieldType.INTEGERS: ["[]", "[0]", "[1, -2]", "[18446744073709551615, 0]"],
    FieldType.REAL6: ["0.000000", "-1.500000", "nan", "inf", "-inf", "9" * 309 + ".000000"],
    FieldType.REAL9: ["0.000000010"],
    FieldType.REALS6: ["[]", "[0.500000, nan, -inf]"],
    FieldType.BITS: ["3ff0000000000000"],
    FieldType.BITS_LIST: ["[]", "[3ff0000000000000, 8000000000000000]"],
    FieldType.STRING: ["", "a b", r"\x20", r"\\\|\n", "=", "река"],
    FieldType.WORD: ["limit", "strict-1.0_a"],
    FieldType.SHA256: ["sha256:" + "0f" * 32],
    FieldType.DIGEST: ["sha256:" + "0f" * 32, "fnv1a64:723b071980ae8a22"],
}
REFUSED = {
    FieldType.INTEGER: ["", "-0", "01", "+1", "1.0", "18446744073709551616", "-9223372036854775809", "1" * 5000, "٣"],
    FieldType.INTEGERS: ["", "[", "[1,2]", "[1, 2", "[ 1]", "[1, ]", "[, 1]", "[1]]", "[18446744073709551616]"],
    FieldType.REAL6: [
        "",
        "1",
        "1.0",
        ".500000",
        "00.500000",
        "1e6",
        "-nan",
        "+inf",
        "1.0000000",
        "9" * 310 + ".000000",
    ],
    FieldType.REAL9: ["0.000000", "1e-8"],
    FieldType.REALS6: ["[0.5]", "[0.500000 0.500000]", "0.500000"],
    FieldType.BITS: ["3FF0000000000000", "3ff", "0x3ff00000000000", "[3ff0000000000000]"],
    FieldType.BITS_LIST: ["3ff0000000000000", "[3ff0000000000000,8000000000000000]"],
    FieldType.STRING: [" a", "a ", " ", "\\", r"\q", r"\x41", r"\x0A", r"a\x20b", "\\x1"],
    FieldType.WORD: ["", "a b", "A", "a/b", "é"],
    FieldType.SHA256: ["sha256:" + "0F" * 32, "0f" * 32, "fnv1a64:723b071980ae8a22"],
    FieldType.DIGEST: ["md5:00"],
}


@pytest.mark.parametrize("kind", list(FieldType))
def test_types_accept_and_refuse_what_the_page_says(kind: FieldType) -> None:
    """Hand-picked values on both sides of each rule, checked alone and as the only field of a record."""
    check = check_of(kind)
    assert ACCEPTED[kind] == [text for text in ACCEPTED[kind] + REFUSED[kind] if check(text)]
    rule = RecordRule("PROOF", (FieldRule("text", kind),))
    for text in ACCEPTED[kind]:
        assert text == escape(read_record(f"PROOF|text={text}", 1, rule).get("text")) or kind is not FieldType.STRING
    for text in REFUSED[kind]:
        with pytest.raises(TraceFault):
            read_record(f"PROOF|text={text}", 1, rule)


@pytest.mark.parametrize("kind", [FieldType.REAL6, FieldType.REAL9, FieldType.REALS6])
def test_negative_zero_is_a_value_only_where_the_suite_keeps_it(kind: FieldType) -> None:
    """-0.000000 is refused unless the grammar allows it; a small negative number is allowed anyway."""
    zero, small = ("-0.000000000", "-0.000000001") if kind is FieldType.REAL9 else ("-0.000000", "-0.000001")
    if kind.is_list:
        zero, small = f"[{zero}]", f"[{small}]"
    assert not check_of(kind)(zero)
    assert check_of(kind, negative_zero=True)(zero)
    assert check_of(kind)(small)


@given(st.sampled_from(list(FieldType)), st.text(alphabet="0123456789-. ,[]naif\\x:|", max_size=24))
def test_the_usual_form_is_part_of_the_whole_form(kind: FieldType, text: str) -> None:
    """What the expression for whole lines accepts as a value, the check of the type accepts too."""
    if re.fullmatch(usual_pattern(kind), text):
        assert check_of(kind)(text)


def test_a_long_list_is_read() -> None:
    """A list of a hundred thousand items needs no depth of stack."""
    values = format_integers(range(100_000))
    body = f"SAMPLE|case=long|draw=0|ids={values}\n"
    (record,) = parse_body(body, COURSE_NGRAM, "edges").records
    assert list(range(100_000)) == record.integers("ids")
