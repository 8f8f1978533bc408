"""What two traces differ in: aligned by key, ordered by what tells most, with exact distances."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.trace.compare import compare, longest_ascending
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Record, Trace
from cai_conformance.verdicts import Difference, Problem

Seal = Callable[[Sequence[str]], str]
Lines = tuple[str, ...]


def differences(seal: Seal, lines: Sequence[str], changed: Sequence[str]) -> list[Difference]:
    """The differences between two sealed traces."""
    expected, found = parse(seal(lines), grammar_of), parse(seal(changed), grammar_of)
    return list(compare(expected, found, COURSE_NGRAM))


def replaced(lines: Sequence[str], *pairs: tuple[str, str]) -> list[str]:
    """The lines with some pieces replaced, each of which occurs."""
    text = "\n".join(lines)
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text.split("\n")


def after(text: str, steps: int) -> str:
    """The bits of the double so many units in the last place away, for positive doubles."""
    (pattern,) = struct.unpack(">q", bytes.fromhex(text))
    return struct.pack(">q", pattern + steps).hex()


def test_equal_traces_do_not_differ(golden_lines: Lines, seal: Seal) -> None:
    """The same records give no difference."""
    assert [] == differences(seal, golden_lines, golden_lines)


def test_count_and_digest_of_the_file_are_not_compared(golden_lines: Lines, seal: Seal) -> None:
    """An ignored field changes the digest and nothing else."""
    assert [] == differences(seal, golden_lines, replaced(golden_lines, ("|lr=", "|x_a=1|lr=")))


def test_printed_digit_without_bits_gives_both_values_and_the_index(golden_lines: Lines, seal: Seal) -> None:
    """A list item is named by its index; without changed bits the distance of the exact values is 0."""
    changed = replaced(golden_lines, ("values=[1.000000, 2.000000]", "values=[1.000000, 2.000001]"))
    assert [Difference(Problem.VALUE, "STAGE index=3", "values", 1, "2.000000", "2.000001", 0)] == differences(
        seal, golden_lines, changed
    )


PROBES = [
    # (record, field, index, printed old, printed new, field of BITS, its index, bits old, bits new, ULP)
    ("STAGE index=1", "values", 2, "0.250000", "embeddings", 2, "3fd0000000000000"),
    ("STAGE index=2", "values", 2, "0.250000", "embeddings", 2, "3fd0000000000000"),
    ("STAGE index=3", "values", 0, "1.000000", "hidden", 0, "3ff0000000000000"),
    ("STAGE index=4", "preview", 1, "2.000000", "logits", 1, "4000000000000000"),
    ("STAGE index=4", "argmax_logit", None, "4.000000", "logits", 2, "4010000000000000"),
]


@pytest.mark.parametrize(("record", "field", "index", "printed", "source", "place", "bits"), PROBES)
def test_printed_reals_carry_the_distance_of_their_bits(
    golden_lines: Lines,
    seal: Seal,
    record: str,
    field: str,
    index: int | None,
    printed: str,
    source: str,
    place: int,
    bits: str,
) -> None:
    """A stage value whose bits stand in BITS step 0 is reported with their distance."""
    far = after(bits, 9_000_000_000)
    lines = list(golden_lines)
    number = next(number for number, line in enumerate(lines) if line.startswith(record.replace(" ", "|")))
    before, middle, rest = lines[number].partition(f"{field}=")
    new = f"{float(printed) + 0.000004:.6f}"
    lines[number] = before + middle + rest.replace(printed, new, 1)
    start, name, values = lines[14].partition(f"{source}=")
    lines[14] = start + name + values.replace(bits, far, 1)
    found = differences(seal, golden_lines, lines)
    assert Difference(Problem.VALUE, record, field, index, printed, new, 9_000_000_000) == found[0]
    assert ("BITS step=0", source, place, 9_000_000_000) == (
        found[1].record,
        found[1].field,
        found[1].index,
        found[1].ulp,
    )
    assert 2 == len(found)


def test_losses_carry_the_distance_of_their_step(golden_lines: Lines, seal: Seal) -> None:
    """LOSS and RESULT find their bits at their own step, RESULT also at step 0."""
    changed = replaced(
        golden_lines,
        ("step=1|train=5.250000", "step=1|train=5.250001"),
        (
            "initial_validation=5.750000|final_validation=5.500000",
            "initial_validation=5.750001|final_validation=5.500001",
        ),
        ("train=4015000000000000|validation=4016000000000000", "train=4015000000000003|validation=4016000000000002"),
        ("validation=4017000000000000", "validation=4017000000000001"),
    )
    found = {(one.record, one.field): one.ulp for one in differences(seal, golden_lines, changed)}
    assert {
        ("LOSS step=1", "train"): 3,
        ("RESULT", "initial_validation"): 1,
        ("RESULT", "final_validation"): 2,
        ("BITS step=0", "validation"): 1,
        ("BITS step=1", "train"): 3,
        ("BITS step=1", "validation"): 2,
    } == found


def test_without_bits_there_is_no_distance(golden_lines: Lines, seal: Seal) -> None:
    """Where one trace has no BITS, a printed value has no distance, and the BITS records are missing."""
    changed = replaced(golden_lines[:14], ("train=5.500000", "train=5.500001"))
    assert [
        Difference(Problem.MISSING, "BITS step=0"),
        Difference(Problem.MISSING, "BITS step=1"),
        Difference(Problem.VALUE, "LOSS step=0", "train", None, "5.500000", "5.500001"),
    ] == differences(seal, golden_lines, changed)


def test_bits_are_shown_with_their_value(golden_lines: Lines, seal: Seal) -> None:
    """A difference of bits shows the digits and the number."""
    changed = replaced(golden_lines, ("gradient_l1=[3ff0000000000000]", "gradient_l1=[3ff0000000000001]"))
    (found,) = differences(seal, golden_lines, changed)
    assert (
        "BITS step=1, field gradient_l1[0]: value, expected 3ff0000000000000 (1.0), "
        "found 3ff0000000000001 (1.0000000000000002), 1 ULP apart"
    ) == str(found)


def test_signs_of_zero_differ_at_no_distance(golden_lines: Lines, seal: Seal) -> None:
    """+0.0 and -0.0 are two values 0 ULP apart."""
    lines = replaced(golden_lines, ("[3ff0000000000000]", "[0000000000000000]"))
    (found,) = differences(seal, lines, replaced(lines, ("[0000000000000000]", "[8000000000000000]")))
    assert (Problem.VALUE, 0) == (found.problem, found.ulp)


@pytest.mark.parametrize(("bits", "problem"), [("7ff8000000000000", Problem.NAN), ("7ff0000000000000", Problem.VALUE)])
def test_bits_that_are_not_finite_have_no_distance(
    golden_lines: Lines, seal: Seal, bits: str, problem: Problem
) -> None:
    """NaN is a problem of its own, an infinity is a wrong value."""
    (found,) = differences(seal, golden_lines, replaced(golden_lines, ("[3ff0000000000000]", f"[{bits}]")))
    assert (problem, None) == (found.problem, found.ulp)


def test_printed_nan_is_a_problem_of_its_own(golden_lines: Lines, seal: Seal) -> None:
    """A printed nan is NAN, with or without bits."""
    changed = replaced(golden_lines, ("improvement=0.250000", "improvement=nan"))
    assert [Difference(Problem.NAN, "RESULT", "improvement", None, "0.250000", "nan")] == differences(
        seal, golden_lines, changed
    )


def test_another_length_is_a_problem_of_shape(golden_lines: Lines, seal: Seal) -> None:
    """Lists of two lengths are not compared item by item."""
    changed = replaced(golden_lines, ("ids=[259, 211]", "ids=[258]"))
    assert [Difference(Problem.SHAPE, "GENERATE prompt=At", "ids", None, "length 2", "length 1")] == differences(
        seal, golden_lines, changed
    )


def test_ids_and_words_differ_as_text(golden_lines: Lines, seal: Seal) -> None:
    """Items of an id list have an index, words have none."""
    changed = replaced(golden_lines, ("ids=[259, 211]|stop=limit", "ids=[259, 1]|stop=eos"))
    assert [
        Difference(Problem.VALUE, "GENERATE prompt=At", "ids", 1, "211", "1"),
        Difference(Problem.VALUE, "GENERATE prompt=At", "stop", None, "limit", "eos"),
    ] == differences(seal, golden_lines, changed)


def test_optional_fields_are_missing_or_extra(edges_lines: Lines, seal: Seal) -> None:
    """A field that only one trace has is named on its side."""
    changed = replaced(edges_lines, ("|ids=[]|text=", r"|values=[]|text=\x20"))
    assert [
        Difference(Problem.MISSING, "SAMPLE case=decode.space draw=1", "ids", expected="[]"),
        Difference(Problem.VALUE, "SAMPLE case=decode.space draw=1", "text", None, "", r"\x20"),
        Difference(Problem.EXTRA, "SAMPLE case=decode.space draw=1", "values", found="[]"),
    ] == differences(seal, edges_lines, changed)


def test_problems_come_in_the_order_of_what_they_tell(edges_lines: Lines, seal: Seal) -> None:
    """Conventions, envelope, missing, extra, reordered, values."""
    first, convention, one, two, three = edges_lines
    moved = one.replace("34", "35")
    changed = [
        first.replace("strict/1", "libm/1").replace("suite_version=1.0", "suite_version=1.1"),
        convention.replace("loss=mean-nll", "loss=sum-nll"),
        three,
        moved,
        two.replace("draw=1", "draw=2"),
    ]
    assert [
        Difference(Problem.VALUE, "CONVENTION", "loss", None, "mean-nll", "sum-nll"),
        Difference(Problem.VALUE, "TRACE", "suite_version", None, "1.0", "1.1"),
        Difference(Problem.VALUE, "TRACE", "arithmetic", None, "strict/1", "libm/1"),
        Difference(Problem.MISSING, "SAMPLE case=decode.space draw=1"),
        Difference(Problem.EXTRA, "SAMPLE case=decode.space draw=2"),
        Difference(Problem.REORDERED, "SAMPLE case=loss.uniform draw=0", found="first"),
        Difference(Problem.VALUE, "SAMPLE case=decode.space draw=0", "ids", 0, "34", "35"),
    ] == differences(seal, edges_lines, changed)


def test_bodies_are_compared_without_envelopes(golden_lines: Lines, seal: Seal) -> None:
    """Two bodies compare as traces do."""
    trace = parse(seal(golden_lines), grammar_of)
    body = Trace(trace.body)
    assert () == compare(body, body, COURSE_NGRAM)
    assert Difference(Problem.MISSING, "CONVENTION") == compare(trace, body, COURSE_NGRAM)[0]
    assert Difference(Problem.EXTRA, "CONVENTION") == compare(body, trace, COURSE_NGRAM)[0]


def test_bits_beyond_the_list_are_no_distance(golden_lines: Lines) -> None:
    """An argmax that points outside the carried logits leaves the distance out."""
    bits = Record("BITS", (("step", "0"), ("logits", "[3ff0000000000000]")))

    def trace_of(argmax_logit: str) -> Trace:
        stage = (("index", "4"), ("argmax", "7"), ("argmax_logit", argmax_logit))
        return Trace((Record("STAGE", stage), bits))

    (found,) = compare(trace_of("1.000000"), trace_of("2.000000"), COURSE_NGRAM)
    assert found.ulp is None


@given(st.permutations(range(7)))
def test_longest_ascending_is_ascending_and_longest(values: list[int]) -> None:
    """The kept values ascend, and no longer choice does (all 128 are tried)."""
    kept = [values[index] for index in sorted(longest_ascending(values))]
    assert sorted(kept) == kept
    choices = ([value for bit, value in enumerate(values) if mask >> bit & 1] for mask in range(128))
    assert max(len(choice) for choice in choices if choice == sorted(choice)) == len(kept)
