"""`cai-conform verify`: every damage gives exit code 1 or 2 and one line that names record and field."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support_cli import Result, invoke
from support_traces import changed, edges_bytes, field_of, golden_bytes, sealed, with_field, without_bits

LINES = golden_bytes().splitlines(keepends=True)


def verify(data: bytes, *options: str) -> Result:
    """Judge bytes on standard input."""
    return invoke("verify", "-", *options, stdin=data)


def line_of(result: Result) -> str:
    """Return the one line that a command printed, wherever."""
    (line,) = [*result.out.splitlines(), *result.sentences]
    return line


def swapped(first: int, second: int) -> bytes:
    """Return the golden with two lines exchanged, and sealed."""
    lines = list(LINES)
    lines[first], lines[second] = lines[second], lines[first]
    return sealed(b"".join(lines))


@pytest.mark.parametrize("profile", ["golden", "edges", "foreign"])
def test_a_right_trace_passes(profile: str) -> None:
    """One line on standard output, exit code 0."""
    data = {"golden": golden_bytes(), "edges": edges_bytes(), "foreign": changed("profile=golden", "profile=foreign")}
    result = verify(data[profile])
    assert (0, "") == (result.code, result.err)
    assert line_of(result).startswith(f"-: course.ngram 1.1.0, profile {profile}, strict/1: ")


def test_a_file_is_judged_like_standard_input(tmp_path: Path) -> None:
    """The line begins with its name."""
    path = tmp_path / "trace.txt"
    path.write_bytes(golden_bytes())
    assert line_of(verify(golden_bytes())).removeprefix("-") == line_of(invoke("verify", path)).removeprefix(str(path))


@pytest.mark.parametrize("count", range(len(LINES)))
def test_a_trace_cut_after_any_line_names_the_last_record(count: int) -> None:
    """Nothing before the END line is a trace."""
    result = verify(b"".join(LINES[:count]))
    assert (2, "") == (result.code, result.out)
    kind = LINES[count - 1].partition(b"|")[0].decode() if count else "before its first record"
    assert kind in line_of(result)
    assert "cut off" in line_of(result)


@settings(max_examples=25)
@given(st.integers(0, len(golden_bytes()) - 1))
def test_a_trace_cut_anywhere_is_no_trace(size: int) -> None:
    """Within a line, within a number, before the last line feed."""
    result = verify(golden_bytes()[:size])
    assert (2, True) == (result.code, "cut off" in line_of(result))


@pytest.mark.parametrize(
    ("record", "field", "value", "place"),
    [
        ("CONFIG", "lr", "0.010001", "CONFIG, field lr"),
        ("SPLIT", "train_contexts", "2257", "SPLIT, field train_"),
        ("STAGE|index=3", "values", field_of("STAGE|index=3", "values").replace("3", "4", 1), "STAGE index=3, field"),
        ("LOSS|step=8|", "validation", "5.551125", "LOSS step=8, field validation"),
        ("GENERATE", "stop", "eos", "field stop"),
        ("BITS|step=7|", "parameters", f"sha256:{'0' * 64}", "BITS step=7, field parameters"),
    ],
)
def test_a_changed_digit_is_named(record: str, field: str, value: str, place: str) -> None:
    """Exit code 2 if the digest was left, 1 if it was made to fit."""
    fitting = with_field(record, field, value)
    result = verify(fitting)
    assert (1, "") == (result.code, result.err)
    assert place in line_of(result)
    left = fitting[: fitting.rindex(b"END|")] + LINES[-1]
    result = verify(left)
    assert (2, "") == (result.code, result.out)
    assert "line 32, END, field digest" in line_of(result)
    assert place in line_of(result)


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        (swapped(5, 6), 2, "line 7, STAGE index=1, field index: the record is out of order"),
        (swapped(2, 3), 2, "line 3, SPLIT: the record is out of order: CONFIG comes first"),
        (swapped(9, 11), 2, "line 11, LOSS step=8, field step: the record is out of order"),
        (changed("|merges=8", ""), 2, "line 3, CONFIG, field merges: the field is missing"),
        (changed("merges=8", "merges=8|merges=8"), 2, "line 3, CONFIG, field merges: the field stands twice"),
        (changed("merges=8", "merger=8"), 2, "line 3, CONFIG, field merger: the field is unknown"),
        (changed("merges=8", "merges"), 2, "line 3, CONFIG: 'merges' is no name=value"),
        (golden_bytes().replace(b"\n", b"\r\n"), 2, "line 1, TRACE, field vectors: U+000D"),
        (golden_bytes().replace(b"merges=8", b"merges=\x008"), 2, "line 3, CONFIG, field merges: U+0000, NUL"),
        (golden_bytes().replace(b"stop=", b"stop=\xff"), 2, "line 14, GENERATE prompt=At, field stop: byte "),
        (golden_bytes() + b"\n", 2, "line 33, END: the line is blank"),
        (golden_bytes() + b"LOSS|step=1\n", 2, "line 33, LOSS step=1: this stands after the END record"),
        (b"\xef\xbb\xbf" + golden_bytes(), 2, "line 1: the byte order mark"),
        (with_field("END", "records", "7"), 0, ""),
        (golden_bytes().replace(b"records=30", b"records=31"), 2, "line 32, END, field records: 31 records stated"),
        (with_field("TRACE", "grammar", "2"), 2, "line 1, TRACE, field grammar: grammar 2 is unknown"),
        (with_field("TRACE", "suite", "a.b"), 2, "line 1, TRACE, field suite: suite a.b is unknown"),
        (with_field("TRACE", "profile", "x"), 2, "line 1, TRACE, field profile: profile x is unknown"),
        (with_field("TRACE", "arithmetic", "x"), 2, "line 1, TRACE, field arithmetic: unknown arithmetic 'x'"),
        (with_field("TRACE", "suite_version", "2"), 1, "TRACE, field suite_version: the trace states 2, 1.1.0 was"),
        (with_field("CONVENTION", "tie", r"a\nb"), 1, r"CONVENTION, field tie: the backend follows another"),
        (with_field("CONFIG", "batch", "0"), 1, "CONFIG, field batch"),
        (changed("merges=8", "x_note=mine|merges=8"), 0, ""),
        (without_bits(), 0, ""),
        (b"", 2, "-: the trace is cut off before its first record is complete: the file is empty"),
        (b"\n", 2, "line 1: the line is blank"),
        (bytes(range(256)) * 40, 2, "line "),
        (b"PK\x03\x04" + bytes(1000), 2, "line 1"),
        (b"[]\n", 2, "line 1: the first record of a trace is TRACE"),
    ],
)
def test_every_damage_is_named(data: bytes, code: int, place: str) -> None:
    """Record and field, or the line where neither can be known."""
    result = verify(data)
    assert code == result.code
    assert place in line_of(result)
    assert (result.out == "") == (code == 2)


@settings(max_examples=40)
@given(st.data())
def test_no_change_of_one_byte_is_more_than_a_line(data: st.DataObject) -> None:
    """Whatever byte is replaced by whatever other, the exit code is 0, 1 or 2, and one line is printed."""
    place = data.draw(st.integers(0, len(golden_bytes()) - 1))
    value = data.draw(st.integers(0, 255))
    result = verify(golden_bytes()[:place] + bytes([value]) + golden_bytes()[place + 1 :])
    assert (result.code == 0) == (golden_bytes()[place] == value)
    assert line_of(result)


@settings(max_examples=25)
@given(st.binary(max_size=60))
def test_no_bytes_are_more_than_a_line(data: bytes) -> None:
    """Any bytes, alone and as the last field of a line."""
    result = verify(data)
    assert (2, True) == (result.code, line_of(result) != "")
    assert line_of(verify(sealed(golden_bytes().replace(b"prompt=At", b"prompt=" + data.replace(b"\n", b"")))))


def test_what_cannot_be_read_is_told_in_a_sentence(tmp_path: Path) -> None:
    """A folder and a missing file."""
    result = invoke("verify", tmp_path)
    assert (2, [f"cai-conform: '{tmp_path}' cannot be read: Is a directory"]) == (result.code, result.sentences)
    result = invoke("verify", "nothere")
    assert (2, ["cai-conform: 'nothere' cannot be read: No such file or directory"]) == (result.code, result.sentences)


def test_the_whole_report_is_printed_on_demand() -> None:
    """--verbose and --format; --quiet has nothing to leave out of one line."""
    assert '"type": "verdict"' in verify(golden_bytes(), "--verbose").out
    assert "trace.format" in verify(golden_bytes(), "--format", "table").out
    assert verify(golden_bytes()).out == verify(golden_bytes(), "--quiet").out


def test_a_filter_narrows_the_judgement() -> None:
    """A difference elsewhere is not looked at; a filter that matches nothing is an error."""
    data = with_field("LOSS|step=15|", "validation", "5.551125")
    assert 0 == verify(data, "-k", "data.split").code
    assert (2, ["cai-conform: no check matches -k 'nothing'"]) == (
        verify(data, "-k", "nothing").code,
        verify(data, "-k", "nothing").sentences,
    )
