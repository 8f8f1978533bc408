"""The parser on whole traces: what it returns, and the fault that each kind of damage gives."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.trace import errors
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_conformance.trace.parse import lines_of, parse, parse_body
from cai_conformance.trace.records import Record
from support_refusals import refuses

Seal = Callable[[Sequence[str]], str]


def fault_of(data: bytes | str) -> TraceFault:
    """The fault that parsing raises."""
    with pytest.raises(TraceFault) as caught:
        parse(data, grammar_of)
    return caught.value


def place_of(fault: TraceFault) -> tuple[str, int, str, str]:
    """Code, line, record and field of a fault."""
    return fault.code, fault.line, fault.record, fault.field


def test_well_formed_trace_gives_its_records(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """The records come in file order, TRACE and END included, with unescaped values."""
    trace = parse(seal(edges_lines).encode(), grammar_of)
    kinds = [record.kind for record in trace.records]
    assert ["TRACE", "CONVENTION", "SAMPLE", "SAMPLE", "SAMPLE", "END"] == kinds
    expected = (("case", "decode.space"), ("draw", "0"), ("ids", "[34, 259]"), ("text", " а"))
    assert Record("SAMPLE", expected) == trace.records[2]
    assert "edges" == trace.envelope.profile


def test_text_and_bytes_give_the_same_trace(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """A str is parsed as its UTF-8 bytes."""
    text = seal(golden_lines)
    assert parse(text.encode(), grammar_of) == parse(text, grammar_of)


def test_body_leaves_out_the_envelope_the_conventions_and_the_bits(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """The body of a whole trace is what parse_body reads from the lines of the body."""
    trace = parse(seal(golden_lines), grammar_of)
    body = "".join(line + "\n" for line in golden_lines[2:14])
    assert trace.body == parse_body(body, COURSE_NGRAM, "golden").records


def test_every_cut_is_reported_as_a_cut(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """Whatever number of last bytes is missing, the fault is `cut-off` and names the last complete record."""
    data = seal(golden_lines).encode()
    labels = ["", "TRACE", "CONVENTION", "CONFIG", "SPLIT", *(f"STAGE index={index}" for index in range(5))]
    labels += ["LOSS step=0", "LOSS step=1", "RESULT", "GENERATE prompt=At", "PROOF", "BITS step=0", "BITS step=1"]
    for size in range(len(data)):
        complete = data[:size].count(b"\n")
        assert ("cut-off", complete, labels[complete], "") == place_of(fault_of(data[:size]))


def test_cut_within_a_character_is_a_cut(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """A file that ends within the two bytes of a Cyrillic letter is cut off, not badly encoded."""
    data = seal(edges_lines).encode()
    fault = fault_of(data[: data.index("а".encode()) + 1])
    assert ("cut-off", 2, "CONVENTION", "") == place_of(fault)


def test_sentence_of_a_cut_names_the_last_record(edges_lines: tuple[str, ...]) -> None:
    """The one line says what stands last and that the rest is missing."""
    fault = fault_of("\n".join(edges_lines[:3]) + "\n")
    expected = "line 3, SAMPLE case=decode.space draw=0: the trace is cut off after this record: there is no END record"
    assert expected == str(fault)


def test_empty_file_is_cut_off() -> None:
    """Nothing at all is a trace cut before its first record."""
    assert "the trace is cut off before its first record is complete: the file is empty" == str(fault_of(b""))


REPLACED = [
    # (line counted from 1, old, new, class, record, field)
    (6, "values=", "velues=", "unknown-field", "STAGE index=1", "velues"),
    (6, "|values=[0.500000, -0.000000, 0.250000, -1.000000]", "", "missing-field", "STAGE index=1", "values"),
    (3, "|batch=64", "", "missing-field", "CONFIG", "batch"),
    (3, "|batch=64", "|batch=64|batch=64", "duplicate-field", "CONFIG", "batch"),
    (3, "|merges=8|context=2", "|context=2|merges=8", "field-out-of-order", "CONFIG", "context"),
    (3, "|batch=64", "|batch=064", "bad-value", "CONFIG", "batch"),
    (3, "|batch=64", "|batch=", "bad-value", "CONFIG", "batch"),
    (3, "|batch=64", "|batch", "malformed-field", "CONFIG", ""),
    (3, "|batch=64", "||batch=64", "malformed-field", "CONFIG", ""),
    (3, "|batch=64", "|Batch=64", "malformed-field", "CONFIG", ""),
    (3, "0.000000010", "0.00000001", "bad-value", "CONFIG", "epsilon"),
    (4, "test_text_used=no", "test_text_used=maybe", "bad-value", "SPLIT", "test_text_used"),
    (5, "index=0", "index=7", "bad-value", "STAGE index=7", "index"),
    (5, "index=0|", "", "missing-field", "STAGE", "index"),
    (5, "name=context_ids", "name=logits", "bad-value", "STAGE index=0", "name"),
    (5, "[67, 118]", "[67,118]", "bad-value", "STAGE index=0", "ids"),
    (6, "index=1", "index=0", "unknown-field", "STAGE index=0", "values"),
    (11, "step=1", "step=0", "duplicate-record", "LOSS step=0", ""),
    (10, "step=0", "step=2", "record-out-of-order", "LOSS step=1", "step"),
    (13, "prompt=At", r"prompt=A\t", "bad-value", r"GENERATE prompt=A\t", "prompt"),
    (13, "prompt=At", "prompt= At", "bad-value", "GENERATE prompt= At", "prompt"),
    (13, "stop=limit", "stop=limit\\", "bad-value", "GENERATE prompt=At", "stop"),
    (13, "GENERATE", "GENERATED", "unknown-record", "GENERATED", ""),
    (13, "GENERATE", "generate", "unknown-record", "", ""),
    (13, "GENERATE", "SAMPLE", "unknown-record", "SAMPLE", ""),
    (1, "grammar=1", "grammar=2", "unknown-grammar", "TRACE", "grammar"),
    (1, "grammar=1|", "", "missing-field", "TRACE", "grammar"),
    (1, "suite=course.ngram", "suite=course.xgram", "unknown-suite", "TRACE", "suite"),
    (1, "profile=golden", "profile=silver", "unknown-profile", "TRACE", "profile"),
    (1, "TRACE|", "CONFIG|", "no-trace-line", "CONFIG", ""),
    (1, "vectors=sha256:0", "vectors=sha256:", "bad-value", "TRACE", "vectors"),
]


@pytest.mark.parametrize(("line", "old", "new", "kind", "record", "field"), REPLACED)
def test_damaged_record_names_its_place(
    golden_lines: tuple[str, ...], seal: Seal, line: int, old: str, new: str, kind: str, record: str, field: str
) -> None:
    """A sealed trace with one wrong piece gives the fault of that piece, with line, record and field."""
    assert old in golden_lines[line - 1]
    lines = list(golden_lines)
    lines[line - 1] = lines[line - 1].replace(old, new)
    fault = fault_of(seal(lines))
    found = place_of(fault)
    # The fault of an ascending key shows at the record that should have come earlier.
    assert (kind, line + (kind == "record-out-of-order"), record, field) == found
    assert "\n" not in str(fault)


def test_line_of_an_unknown_minor_version_is_read(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """A minor version of the same major one adds nothing that this program must know."""
    lines = [golden_lines[0].replace("grammar=1", "grammar=1.3"), *golden_lines[1:]]
    assert "1.3" == parse(seal(lines), grammar_of).envelope.grammar


@pytest.mark.parametrize("place", ["|", "end"])
def test_ignored_fields_change_nothing(golden_lines: tuple[str, ...], seal: Seal, place: str) -> None:
    """A field x_… may stand anywhere in any record, even twice."""
    noted = [
        line.replace("|", r"|x_note=a\|b|x_note=|", 1) if place == "|" else f"{line}|x_=[" for line in golden_lines
    ]
    plain, found = parse(seal(golden_lines), grammar_of), parse(seal(noted), grammar_of)
    assert plain.records[:-1] == found.records[:-1]


ORDER = [
    ((3, 2), "record-out-of-order", 3, "SPLIT"),
    ((2, 1), "record-out-of-order", 2, "CONFIG"),
    ((5, 4), "record-out-of-order", 6, "STAGE index=0"),
    ((14, 13), "record-out-of-order", 14, "BITS step=0"),
    ((15, 14), "record-out-of-order", 16, "BITS step=0"),
    ((11, 12), "record-out-of-order", 12, "GENERATE prompt=At"),
]


@pytest.mark.parametrize(("swapped", "kind", "line", "record"), ORDER)
def test_swapped_records_are_out_of_order(
    golden_lines: tuple[str, ...], seal: Seal, swapped: tuple[int, int], kind: str, line: int, record: str
) -> None:
    """Two exchanged records are reported as such, not as missing."""
    lines = list(golden_lines)
    one, two = swapped
    lines[one], lines[two] = lines[two], lines[one]
    assert (kind, line, record) == place_of(fault_of(seal(lines)))[:3]


def test_record_behind_its_place_is_out_of_order(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """A further LOSS behind RESULT is out of order, although its key is new."""
    late = golden_lines[10].replace("step=1", "step=2")
    fault = fault_of(seal([*golden_lines[:12], late, *golden_lines[12:]]))
    assert "line 13, LOSS step=2: the record is out of order: LOSS stands before RESULT" == str(fault)


@pytest.mark.parametrize(
    ("dropped", "record", "missing", "count"),
    [
        (1, "CONFIG", "CONVENTION", 0),
        (6, "LOSS step=0", "STAGE", 4),
        (11, "GENERATE prompt=At", "RESULT", 0),
        (13, "BITS step=0", "PROOF", 0),
    ],
)
def test_dropped_record_is_missing(
    golden_lines: tuple[str, ...], seal: Seal, dropped: int, record: str, missing: str, count: int
) -> None:
    """The fault names the record found instead, the kind that is missing and how many there are."""
    lines = [*golden_lines[:dropped], *golden_lines[dropped + 1 :]]
    fault = fault_of(seal(lines))
    assert fault.code == "missing-record"
    assert (record, missing, count) == (fault.record, fault.fields["kind"], fault.fields["count"])


def test_record_missing_at_the_end_is_reported_at_end(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """Without PROOF and BITS the END record stands where PROOF should."""
    assert ("missing-record", 14, "END", "") == place_of(fault_of(seal(golden_lines[:13])))


def test_bits_may_be_absent(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """A backend without exact bits leaves the BITS records out."""
    assert () == parse(seal(golden_lines[:14]), grammar_of).all("BITS")


def test_repeated_record_names_the_first_line(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """A key stands once in a trace."""
    fault = fault_of(seal([*golden_lines[:4], *golden_lines[3:]]))
    assert fault.code == "duplicate-record"
    assert (5, "SPLIT", 4) == (fault.line, fault.record, fault.fields["first"])


def test_a_second_generation_is_one_too_many(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """A kind that stands once may not stand again under another key."""
    second = golden_lines[12].replace("prompt=At", "prompt=To")
    fault = fault_of(seal([*golden_lines[:13], second, *golden_lines[13:]]))
    assert ("too-many-records", 14, "GENERATE prompt=To", "") == place_of(fault)


def test_line_after_end_is_reported(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """END is the last record."""
    fault = fault_of(seal(edges_lines) + edges_lines[2] + "\n")
    assert ("after-end", 7, "SAMPLE case=decode.space draw=0", "") == place_of(fault)


def test_changed_digit_is_a_digest_mismatch_that_carries_the_trace(golden_lines: tuple[str, ...], seal: Seal) -> None:
    """A well-formed change is found by the digest alone, and the changed trace is at hand."""
    text = seal(golden_lines).replace("train=5.500000", "train=5.500001")
    fault = fault_of(text)
    assert ("digest-mismatch", 17, "END", "digest") == place_of(fault)
    assert isinstance(fault, errors.DigestMismatch)
    loss = fault.trace.find("LOSS", step=0)
    assert loss is not None
    assert "5.500001" == loss.get("train")


def test_wrong_digest_states_both(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """The sentence has the stated and the computed digest."""
    text = seal(edges_lines)
    true = text[-72:-1]
    fault = fault_of(text.replace(true, "sha256:" + "f" * 64))
    expected = f"line 6, END, field digest: sha256:{'f' * 64} stated, but the bytes before the END line give {true}"
    assert expected == str(fault)


def test_wrong_record_count_is_reported_before_the_digest(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """The count is of the records between TRACE and END."""
    fault = fault_of(seal(edges_lines).replace("records=4", "records=5"))
    assert "line 6, END, field records: 5 records stated, 4 found between TRACE and END" == str(fault)


BYTES = [
    # (old, new, class, line, record, field)
    (b"\n", b"\r\n", "forbidden-character", 1, "TRACE", "vectors"),
    (b"5.750000\n", b"5.750000\r\n", "forbidden-character", 10, "LOSS step=0", "validation"),
    (b"max_steps=1", b"max_steps=\x00", "forbidden-character", 3, "CONFIG", "max_steps"),
    (b"prompt=At", b"prompt=A\tt", "forbidden-character", 13, r"GENERATE prompt=A\tt", "prompt"),
    (b"prompt=At", b"prompt=A\xc2\x85", "forbidden-character", 13, r"GENERATE prompt=A\x85", "prompt"),
    (b"prompt=At", b"prompt=A\x7f", "forbidden-character", 13, r"GENERATE prompt=A\x7f", "prompt"),
    (b"stop=limit", b"stop=lim\xfft", "not-utf8", 13, "GENERATE prompt=At", "stop"),
    (b"TRACE", b"\xef\xbb\xbfTRACE", "forbidden-character", 1, "", ""),
    (b"\nSPLIT", b"\n\nSPLIT", "blank-line", 4, "CONFIG", ""),
    (b"TRACE", b"\nTRACE", "blank-line", 1, "", ""),
    (b"=limit\n", b"=limit \n", "trailing-space", 13, "GENERATE prompt=At", "stop"),
]


@pytest.mark.parametrize(("old", "new", "kind", "line", "record", "field"), BYTES)
def test_bytes_that_no_trace_holds(
    golden_lines: tuple[str, ...], seal: Seal, old: bytes, new: bytes, kind: str, line: int, record: str, field: str
) -> None:
    """Line ends, control characters, encoding, blank lines and spaces are reported with record and field."""
    data = seal(golden_lines).encode()
    assert old in data
    assert (kind, line, record, field) == place_of(fault_of(data.replace(old, new)))


def test_two_line_feeds_at_the_end_are_a_blank_line(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """There is exactly one final LF."""
    assert ("blank-line", 7, "END", "") == place_of(fault_of(seal(edges_lines) + "\n"))


def test_lone_surrogate_in_a_str_is_not_utf8(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """A str that UTF-8 cannot hold is refused like the bytes it stands for."""
    assert ("not-utf8", 7) == place_of(fault_of(seal(edges_lines) + "\ud800\n"))[:2]


def test_size_limits_are_kept() -> None:
    """A file or a line beyond its limit is refused, counted in bytes."""
    with refuses(TraceFault, "too-large") as file:
        lines_of(b"KIND\n", file_limit=4)
    assert "5 bytes are more than the limit of 4" == str(file.value)
    assert ["аб"] == list(lines_of("аб\n", line_limit=4))
    with refuses(TraceFault, "too-large") as line:
        lines_of("TRACE\nLOSS|step=1|б\n", line_limit=13)
    assert "line 2, LOSS step=1: 14 bytes are more than the limit of 13" == str(line.value)


def test_faults_survive_pickling(edges_lines: tuple[str, ...], seal: Seal) -> None:
    """A fault crosses a process border with its fields."""
    fault = fault_of(seal(edges_lines).replace("draw=1", "draw=2"))
    assert str(fault) == str(pickle.loads(pickle.dumps(fault)))


@given(data=st.data())
def test_no_bytes_raise_anything_but_a_trace_fault(
    edges_lines: tuple[str, ...], golden_lines: tuple[str, ...], seal: Seal, data: st.DataObject
) -> None:
    """Overwritten, inserted and removed bytes give a trace or a TraceFault of one line."""
    raw = bytearray(seal(data.draw(st.sampled_from([edges_lines, golden_lines]))).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        size = data.draw(st.integers(0, 3))
        piece = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"|", b"\\", b"\n", b"=", b" ", b"[", b"|x_=", b"END|"]))
        )
        raw[start : start + size] = piece
    _parse_quietly(bytes(raw))


@given(st.one_of(st.binary(), st.text(alphabet="TRACEND|=x_[], \\\n019.-"), st.text()))
def test_no_input_raises_anything_but_a_trace_fault(data: bytes | str) -> None:
    """Arbitrary bytes and texts give a TraceFault of one line."""
    _parse_quietly(data)


def _parse_quietly(data: bytes | str) -> None:
    parsers: list[Callable[[bytes | str], object]] = [
        lambda text: parse(text, grammar_of),
        lambda text: parse_body(text, COURSE_NGRAM, "golden"),
        lambda text: parse_body(text, COURSE_NGRAM, "edges"),
    ]
    for parser in parsers:
        try:
            parser(data)
        except TraceFault as fault:
            assert str(fault).isprintable()
