"""Records and traces as data: typed views, keys, look-ups, and the rules of a grammar."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from cai_conformance.trace.errors import NoTraceLine, TraceFault
from cai_conformance.trace.grammar import RecordRule
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Record, Trace
from support_refusals import refuses

Seal = Callable[[Sequence[str]], str]

STAGE = Record(
    "STAGE",
    (
        ("index", "3"),
        ("shape", "[1, 2]"),
        ("values", "[0.500000, -inf]"),
        ("none", "[]"),
        ("norm", "0.250000"),
        ("bits", "[3ff0000000000000, 8000000000000000]"),
        ("one", "c000000000000000"),
    ),
)


def test_typed_views_read_the_text() -> None:
    """Each view gives the value that the text means."""
    assert 3 == STAGE.integer("index")
    assert [1, 2] == STAGE.integers("shape")
    assert [0.5, -math.inf] == STAGE.reals("values")
    assert [] == STAGE.reals("none")
    assert 0.25 == STAGE.real("norm")
    assert [1.0, 0.0] == STAGE.bits("bits")
    assert -1.0 == math.copysign(1.0, STAGE.bits("bits")[1])
    assert [-2.0] == STAGE.bits("one")


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: STAGE.integer("shape"), "STAGE index=3, field shape: '[1, 2]' is not an integer"),
        (lambda: STAGE.real("shape"), "STAGE index=3, field shape: '[1, 2]' is not a real"),
        (lambda: STAGE.integers("index"), "STAGE index=3, field index: '3' is not a list of integers"),
        (lambda: STAGE.reals("index"), "STAGE index=3, field index: '3' is not a list of reals"),
        (lambda: STAGE.bits("norm"), "STAGE index=3, field norm: '0.250000' is not bits of doubles"),
    ],
)
def test_a_view_of_another_type_is_a_typed_error(ask: Callable[[], object], sentence: str) -> None:
    """Asking for the wrong type names record, field, value and type."""
    with refuses(TraceFault, "not-of-type") as caught:
        ask()
    assert sentence == str(caught.value)


def test_an_absent_field_is_a_typed_error() -> None:
    """Asking for a field that is not there names it."""
    assert not STAGE.has("ids")
    with refuses(TraceFault, "field-absent") as caught:
        STAGE.get("ids")
    assert "STAGE index=3, field ids: the record has no such field" == str(caught.value)


@pytest.mark.parametrize(
    ("record", "key", "label"),
    [
        (STAGE, ("STAGE", "index=3"), "STAGE index=3"),
        (Record("CONFIG", (("step", "1"),)), ("CONFIG",), "CONFIG"),
        (
            Record("DRAFT", (("arm", "mtp-full"), ("prompt", "2"), ("pass", "7"), ("accepted", "1"))),
            ("DRAFT", "arm=mtp-full", "prompt=2", "pass=7"),
            "DRAFT arm=mtp-full prompt=2 pass=7",
        ),
        (Record("GENERATE", (("prompt", "At"), ("ids", "[]"))), ("GENERATE", "prompt=At"), "GENERATE prompt=At"),
        (Record("GENERATE", (("prompt", "a\nb"),)), ("GENERATE", "prompt=a\nb"), r"GENERATE prompt=a\nb"),
    ],
)
def test_keys_and_labels(record: Record, key: tuple[str, ...], label: str) -> None:
    """The key has the kind and the key fields that are there; the label is one line."""
    assert key == record.key
    assert label == record.label


def test_traces_find_their_records(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """Records are found by kind and fields, and by key."""
    trace = parse(seal(golden_lines), grammar_of)
    loss = trace.find("LOSS", step=1)
    assert loss is not None
    assert 5.25 == loss.real("train")
    assert loss is trace.records[trace.placed(("LOSS", "step=1")) or 0]
    assert trace.find("LOSS", step=9) is None
    assert ["0", "1"] == [record.get("step") for record in trace.all("BITS")]
    assert len(trace.records) - 2 == len(trace.inner)


def test_a_bare_body_has_no_envelope() -> None:
    """Asking a body for its envelope is a typed error."""
    with pytest.raises(NoTraceLine):
        _ = Trace((STAGE,)).envelope


def test_a_rule_of_a_kind_without_a_key_is_refused() -> None:
    """The grammar gives every kind its key; a suite cannot invent one."""
    with pytest.raises(ValueError, match="WEIGHTS is no record kind"):
        RecordRule("WEIGHTS", ())


def test_grammars_tell_their_rules() -> None:
    """Rules are found by profile, kind, variant and name."""
    rule = COURSE_NGRAM.field_rule("golden", Record("STAGE", (("index", "4"), ("argmax", "1"))), "argmax")
    assert rule is not None
    assert "integer" == rule.type
    assert COURSE_NGRAM.field_rule("golden", Record("STAGE", (("index", "3"),)), "argmax") is None
    assert COURSE_NGRAM.field_rule("edges", Record("STAGE", (("index", "4"),)), "argmax") is None
    assert COURSE_NGRAM.rule("silver", "STAGE") is None
