"""The published trace of chapter 23, read and written again."""

from __future__ import annotations

from cai_conformance.trace.format import escape, format_body, format_integers, format_real, format_reals
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.parse import parse_body
from cai_conformance.trace.values import FieldType


def test_published_body_comes_back_byte_for_byte(published: bytes) -> None:
    """Parsing and formatting the published lines changes no byte."""
    body = parse_body(published, COURSE_NGRAM, "published")
    assert 13 == len(body.records)
    assert published == format_body(body.records).encode()


def test_published_values_come_back_through_numbers(published: bytes) -> None:
    """Every published number read as a number prints as it stood."""
    for record in parse_body(published, COURSE_NGRAM, "published").records:
        for name, text in record.fields:
            rule = COURSE_NGRAM.field_rule("published", record, name)
            assert rule is not None
            match rule.type:
                case FieldType.INTEGERS:
                    found = format_integers(record.integers(name))
                case FieldType.REALS6:
                    found = format_reals(record.reals(name), negative_zero=True)
                case FieldType.REAL6:
                    found = format_real(record.real(name), negative_zero=True)
                case FieldType.REAL9:
                    found = format_real(record.real(name), 9)
                case FieldType.INTEGER:
                    found = str(record.integer(name))
                case _:
                    found = escape(text)
            assert text == found
