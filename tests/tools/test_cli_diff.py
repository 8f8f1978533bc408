"""`cai-conform diff`: kind, key, field, index, both values and the distance, or that there is no difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from cai_conformance.run.record import body_of
from support_cli import Result, invoke
from support_traces import edges_bytes, field_of, golden_bytes, with_field, without_bits


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the golden in `a`."""
    (tmp_path / "a").write_bytes(golden_bytes())
    return tmp_path


def diff(files: Path, other: bytes, *options: object) -> Result:
    """Compare the golden with other bytes."""
    (files / "b").write_bytes(other)
    return invoke("diff", files / "a", files / "b", *options)


def test_equal_traces_have_no_difference(files: Path) -> None:
    """Exit code 0, nothing on standard output, a remark on standard error."""
    result = diff(files, golden_bytes())
    assert (0, "", "cai-conform: no difference\n") == (result.code, result.out, result.err)


def test_a_changed_digit_with_unchanged_bits_says_so(files: Path) -> None:
    """Kind, key, field, index, both values; the bits give the text the lie."""
    values = field_of("STAGE|index=3", "values")
    first = values[1:].partition(",")[0]
    result = diff(files, with_field("STAGE|index=3", "values", values.replace(first, "0.123456", 1)))
    expected = f"STAGE index=3, field values[0]: value, expected {first}, found 0.123456, although their bits are equal"
    assert (1, f"{expected}\n", "") == (result.code, result.out, result.err)


def test_changed_bits_are_told_with_their_distance(files: Path) -> None:
    """In units in the last place, once for the text and once for the bits."""
    digits = field_of("BITS|step=15|", "train")
    bits = f"{int(digits, 16) + 2**40:016x}"
    other = with_field("LOSS|step=15|", "train", "5.550647", with_field("BITS|step=15|", "train", bits))
    result = diff(files, other)
    text, exact = result.out.splitlines()
    assert 1 == result.code
    assert text.startswith("LOSS step=15, field train: value, expected 5.55")
    assert text.endswith(f", found 5.550647, {2**40} ULP apart")
    assert exact.startswith(f"BITS step=15, field train: value, expected {digits} (5.55")
    assert exact.endswith(f", {2**40} ULP apart")


def test_missing_and_extra_records_are_told_by_key(files: Path) -> None:
    """Of sixteen, as many as the limit allows; the rest are counted."""
    result = diff(files, without_bits(), "--limit", 2)
    assert (1, "BITS step=0: missing\nBITS step=1: missing\n") == (result.code, result.out)
    assert "cai-conform: 14 more; --limit prints them\n" == result.err
    (files / "a").write_bytes(without_bits())
    assert "BITS step=0: extra\n" == diff(files, golden_bytes(), "--limit", 1).out


def test_a_bare_body_is_compared_with_the_body(files: Path) -> None:
    """With a remark."""
    result = diff(files, body_of(golden_bytes()))
    assert (0, "") == (result.code, result.out)
    assert result.err.startswith("cai-conform: one of the two is a bare body, so only bodies are compared\n")


def test_a_damaged_trace_can_be_compared(files: Path) -> None:
    """A wrong digest is a remark."""
    result = diff(files, golden_bytes().replace(b"lr=0.010000", b"lr=0.020000"))
    assert (1, "CONFIG, field lr: value, expected 0.010000, found 0.020000\n") == (result.code, result.out)
    assert "END, field digest" in result.err


def test_other_profiles_differ_in_the_envelope_first(files: Path) -> None:
    """The most telling difference comes first."""
    result = diff(files, edges_bytes(), "--limit", 1)
    assert (1, "TRACE, field profile: value, expected golden, found edges\n") == (result.code, result.out)


def test_one_of_the_two_may_be_standard_input(files: Path) -> None:
    """Not both."""
    assert 0 == invoke("diff", files / "a", "-", stdin=golden_bytes()).code
    assert 0 == invoke("diff", "-", files / "a", stdin=golden_bytes()).code
    result = invoke("diff", "-", "-", stdin=golden_bytes())
    expected = ["cai-conform: '-' cannot be read: standard input holds one trace, not two"]
    assert (2, expected) == (result.code, result.sentences)


@pytest.mark.parametrize("data", [b"", b"[]\n", b"\xff", golden_bytes()[:-1]])
def test_what_is_no_trace_is_named(files: Path, data: bytes) -> None:
    """The file at fault, one sentence, exit code 2."""
    result = diff(files, data)
    (sentence,) = result.sentences
    assert (2, "") == (result.code, result.out)
    assert sentence.startswith(f"cai-conform: {files / 'b'}: ")
