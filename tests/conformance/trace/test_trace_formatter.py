"""The formatter against its shipped vectors, and the vectors against arithmetic that is not the formatter's."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from decimal import ROUND_HALF_EVEN, Context, Decimal
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.format import (
    escape,
    format_bits,
    format_bits_list,
    format_integer,
    format_integers,
    format_real,
    format_reals,
    format_record,
    format_trace,
    unescape,
)
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Envelope, Record
from support_refusals import refuses

VECTORS = json.loads((files("cai_conformance.trace") / "formatter_vectors.json").read_text(encoding="utf-8"))["cases"]
WIDE = Context(prec=1200)


def double(text: str) -> float:
    """The double with these hexadecimal digits."""
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


def by_decimal(value: float, digits: int, *, negative_zero: bool) -> str:
    """What a real prints as, by the decimal module."""
    if math.isnan(value):
        return "nan"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}inf"
    rounded = Decimal(abs(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN, WIDE)
    return f"{sign if rounded or negative_zero else ''}{rounded:f}"


def record_of(given: dict[str, object]) -> Record:
    """A record of the vector file."""
    fields = given["fields"]
    assert isinstance(fields, list)
    return Record(str(given["kind"]), tuple((name, text) for name, text in fields))


def printed(kind: str, given: object) -> str:
    """What the formatter makes of the input of a vector."""
    match kind, given:
        case "integer", str(text):
            return format_integer(int(text))
        case "integers", list(items):
            return format_integers(map(int, items))
        case (("real6" | "real9" | "real6-signed-zero"), str(text)):
            return format_real(double(text), int(kind[4]), negative_zero=kind.endswith("zero"))
        case "reals6", list(items):
            return format_reals(map(double, items))
        case "bits", str(text):
            return format_bits(float(text))
        case "bits-list", list(items):
            return format_bits_list(map(float, items))
        case "string", str(text):
            return escape(text)
        case "record", dict(record):
            return format_record(record_of(record))
        case "trace", {"envelope": dict(envelope), "records": list(records)}:
            return format_trace(Envelope(**envelope), map(record_of, records))
    raise AssertionError(kind)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: str(case["id"]))
def test_formatter_prints_its_vectors(case: dict[str, object]) -> None:
    """Every shipped vector is what the formatter prints."""
    assert case["output"] == printed(str(case["type"]), case["input"])


@pytest.mark.parametrize(
    "case", [case for case in VECTORS if case["type"].startswith("real")], ids=lambda case: str(case["id"])
)
def test_vectors_of_reals_agree_with_decimal_arithmetic(case: dict[str, str]) -> None:
    """The expected reals are exact decimal values rounded half to even."""
    kind, given = case["type"], case["input"]
    items = given if kind == "reals6" else [given]
    signed = kind.endswith("zero")
    texts = [by_decimal(double(item), int(kind[4 + (kind == "reals6")]), negative_zero=signed) for item in items]
    assert case["output"] == (f"[{', '.join(texts)}]" if kind == "reals6" else texts[0])


def test_vector_ids_are_unique() -> None:
    """A vector is named by its id."""
    ids = [case["id"] for case in VECTORS]
    assert len(set(ids)) == len(ids)


def test_digest_of_the_vector_trace_is_true() -> None:
    """The END line of the shipped trace digests the bytes before it."""
    (text,) = (case["output"] for case in VECTORS if case["type"] == "trace")
    before, _, end = text.rpartition("END|")
    assert f"records=3|digest=sha256:{hashlib.sha256(before.encode()).hexdigest()}\n" == end


def test_example_of_the_grammar_page_is_a_true_trace() -> None:
    """The trace that the page shows parses, digest included, and is the one among the vectors."""
    page = Path(__file__).parents[3] / "conformance" / "docs" / "trace-grammar.md"
    example = page.read_text(encoding="utf-8").partition("```text\nTRACE")[2].partition("```")[0]
    assert 5 == len(parse(f"TRACE{example}", grammar_of).records)
    assert [f"TRACE{example}"] == [case["output"] for case in VECTORS if case["type"] == "trace"]


@given(st.floats(), st.sampled_from([6, 9]), st.booleans())
def test_reals_print_their_exact_value_rounded(value: float, digits: int, negative_zero: bool) -> None:
    """Any double prints as decimal arithmetic rounds it."""
    expected = by_decimal(value, digits, negative_zero=negative_zero)
    assert expected == format_real(value, digits, negative_zero=negative_zero)


@given(st.integers(-(2**40), 2**40).map(lambda odd: (2 * odd + 1) / 128))
def test_exact_ties_go_to_even(value: float) -> None:
    """An odd multiple of 1/128 lies half way between two values of six decimals."""
    assert by_decimal(value, 6, negative_zero=False) == format_real(value)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_escaping_has_an_inverse(text: str) -> None:
    """Unescaping gives the string back, and what is written holds no control character and no outer space."""
    written = escape(text)
    assert text == unescape(written)
    assert written == written.strip(" ")
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in written)


@given(st.text(alphabet="\\|nx0149af2 \n"))
def test_no_string_has_two_spellings(written: str) -> None:
    """A text is unescaped only if escaping writes it so."""
    plain = unescape(written)
    assert plain is None or escape(plain) == written


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (Record("stage", ()), "'stage' is not a record kind"),
        (Record("STAGE|", ()), "'STAGE|' is not a record kind"),
        (Record("STAGE", (("index", "0"), ("a=b", ""))), "STAGE index=0: 'a=b' is not a field name"),
        (Record("PROOF", (("text", "\ud800"),)), r"PROOF: 'PROOF|text=\ud800' is not text that UTF-8 can encode"),
    ],
)
def test_what_no_record_can_hold_is_refused(record: Record, sentence: str) -> None:
    """The formatter never writes a line that the parser must refuse."""
    with refuses(TraceFault, "unprintable") as caught:
        format_record(record)
    assert sentence == str(caught.value)
