"""Manifest and ledger on disk: their exact form, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.errors import GoldenError
from cai_conformance.goldens import Candidate, FileChange, FileEntry, LedgerEntry, SuiteEntry, ledger, manifest
from cai_conformance.goldens.errors import CandidateUnusable, LedgerDamaged, ManifestDamaged, NameUnusable
from cai_conformance.goldens.names import check_file, check_suite
from support_golden_store import make

A, B = "a" * 64, "b" * 64
ENTRY = SuiteEntry(
    "s.one",
    "1",
    "strict/1",
    "cai-conform trace s.one",
    (FileEntry("trace.txt", A, 7, 2), FileEntry("vectors.json", B, 3)),
)
MANIFEST = f"""{{
  "format": 1,
  "suites": [
    {{
      "arithmetic": "strict/1",
      "command": "cai-conform trace s.one",
      "files": [
        {{
          "bytes": 7,
          "path": "s.one/trace.txt",
          "records": 2,
          "sha256": "{A}"
        }},
        {{
          "bytes": 3,
          "path": "s.one/vectors.json",
          "sha256": "{B}"
        }}
      ],
      "suite": "s.one",
      "suite_version": "1"
    }}
  ]
}}
"""
LINE = (
    f'{{"files": {{"trace.txt": {{"after": "{A}", "before": null}}}}, "reason": "first", "sequence": 1, '
    '"suite": "s.one", "suite_version": "1"}\n'
)

names = st.text("a7_-.", min_size=1, max_size=4).filter(lambda name: not (name.startswith(".") or name.endswith(".")))
hashes = st.integers(0, 2**256 - 1).map("{:064x}".format)
# Braces, quotes, escapes and every character that some reader of lines takes for the end of one.
texts = st.text('a{}"\\\n\r\x0b\x0c\x1c\x85\u2028\u2029é\U0001f600', min_size=1, max_size=9).filter(str.strip)
counts = st.integers(0, 2**40)


@st.composite
def entries(draw: st.DrawFn) -> SuiteEntry:
    """A manifest entry with a trace and a few other files."""
    trace = FileEntry("trace.txt", draw(hashes), draw(counts), draw(counts))
    others = [FileEntry(name, draw(hashes), draw(counts)) for name in draw(st.sets(names, max_size=3))]
    files = tuple(sorted([trace, *others], key=lambda file: file.name))
    return SuiteEntry(draw(names), draw(texts), draw(texts), draw(texts), files)


def test_manifest_looks_like_this() -> None:
    """Suites and files in order, keys sorted, one field a line, a final LF."""
    assert MANIFEST == manifest.write([ENTRY]).decode()


def test_ledger_looks_like_this() -> None:
    """One object a line, keys sorted."""
    assert LINE == ledger.write([LedgerEntry(1, "s.one", "1", "first", (FileChange("trace.txt", None, A),))]).decode()


@given(st.lists(entries(), unique_by=lambda entry: entry.suite, max_size=3))
def test_manifest_survives_the_disk(written: list[SuiteEntry]) -> None:
    """Reading what was written gives the same entries, whatever the texts contain."""
    assert {entry.suite: entry for entry in written} == manifest.read(manifest.write(written), "m")


@given(st.lists(st.tuples(names, texts, texts, st.dictionaries(names, hashes, max_size=2)), max_size=4))
def test_ledger_survives_the_disk(changes: list[tuple[str, str, str, dict[str, str]]]) -> None:
    """Reading a ledger that was appended to gives the same changes, whatever the reasons contain."""
    known: dict[tuple[str, str], str] = {}
    written = []
    for sequence, (suite, version, reason, files) in enumerate(changes, start=1):
        moves = tuple(FileChange(name, known.get((suite, name)), files[name]) for name in sorted(files))
        known |= {(suite, name): after for name, after in files.items()}
        written.append(LedgerEntry(sequence, suite, version, reason, moves))
    assert tuple(written) == ledger.read(b"".join(ledger.write([entry]) for entry in written), "l")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("{\n", "<<<<<<< HEAD\n{\n", "not JSON at line 1"),
        ('"format": 1', '"format": 2', "format is 2"),
        ('"format": 1', '"format": true', "format is True"),
        ('"format": 1', '"format": NaN', "NaN is not a JSON number"),
        ('"format": 1', '"format": 1, "format": 1', "stands twice"),
        ('"format": 1,', "", "lacks the key format"),
        ('"bytes": 7', '"bytes": -7', "not a count"),
        ('"bytes": 7', '"bytes": 7.0', "not a count"),
        ('"records": 2,', "", "record count"),
        ('"bytes": 3', '"records": 1, "bytes": 3', "record count"),
        ('"arithmetic"', '"colour": 1, "arithmetic"', "unknown key colour"),
        (A, A[1:], "not a SHA-256"),
        (A, A.upper(), "not a SHA-256"),
        ("s.one/trace.txt", "../trace.txt", "outside the folder"),
        ("s.one/trace.txt", "s.one/../trace.txt", "[a-z0-9_.-]"),
        ("s.one/trace.txt", "s.one/zzz.txt", "record count"),
        ('"suite": "s.one"', '"suite": "S.One"', "[a-z0-9_.-]"),
        ('"suite_version": "1"', '"suite_version": ""', "not a text"),
        ("s.one/vectors.json", "s.one/a.json", "order of their paths"),
    ],
)
def test_bent_manifest_is_refused(old: str, new: str, problem: str) -> None:
    """Merge marks, wrong types, unknown keys, foreign paths: all are damage, and the sentence says which."""
    assert old in MANIFEST
    with pytest.raises(ManifestDamaged, match="damaged") as caught:
        manifest.read(MANIFEST.replace(old, new, 1).encode(), "m")
    assert problem in str(caught.value)


def test_manifest_lists_each_suite_once() -> None:
    """Two entries of one name, or entries out of order, are damage."""
    page = json.loads(MANIFEST)
    page["suites"] *= 2
    with pytest.raises(ManifestDamaged, match="stands twice"):
        manifest.read(json.dumps(page).encode(), "m")


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"format": 1, "suites": {}}'])
def test_manifest_that_is_something_else_is_refused(data: bytes) -> None:
    """No traceback, whatever the file holds."""
    with pytest.raises(ManifestDamaged):
        manifest.read(data, "m")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LINE[:-1], "cut off"),
        (LINE + "\n", "line 2: it is not JSON"),
        (LINE + LINE, "line 2 has the sequence number 1"),
        (LINE + LINE.replace('"sequence": 1', '"sequence": 2'), "does not follow"),
        (LINE.replace('"sequence": 1', '"sequence": 2'), "sequence number 2"),
        (LINE.replace("null", f'"{B}"'), "does not follow"),
        (LINE.replace("first", " "), "not a text"),
        (LINE.replace('{"trace.txt"', '[{"trace.txt"').replace("null}}", "null}}]"), "not an object"),
        ("<<<<<<< HEAD\n" + LINE, "line 1: it is not JSON"),
    ],
)
def test_bent_ledger_is_refused(text: str, problem: str) -> None:
    """A cut, repeated, renumbered or reordered line is damage."""
    with pytest.raises(LedgerDamaged) as caught:
        ledger.read(text.encode(), "l")
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "..", "A", "a/b", "a b", "é", "a.", ".a", "a\n", "١", "manifest.json"])
def test_names_that_are_not_names(name: str) -> None:
    """Only [a-z0-9_.-] without dots at the ends, and none of the store's own names."""
    with pytest.raises(NameUnusable):
        check_suite(name)


@pytest.mark.parametrize("name", ["course.ngram", "cai.kv-cache", "a", "7", "a_b"])
def test_names_that_are_names(name: str) -> None:
    """The names of the design are fine, as suites and as files."""
    assert name == check_suite(name) == check_file(name)


@pytest.mark.parametrize("field", ["suite_version", "arithmetic", "command"])
@pytest.mark.parametrize("text", ["", "  ", "two\nlines"])
def test_candidate_says_where_it_comes_from(field: str, text: str) -> None:
    """Version, arithmetic and command are one line each, and not empty."""
    fields = {"suite_version": "1", "arithmetic": "strict/1", "command": "c"} | {field: text}
    with pytest.raises(CandidateUnusable, match=field):
        Candidate(suite="s", files={"trace.txt": b""}, records=0, **fields)


def test_candidate_counts_records_and_names_files() -> None:
    """A negative count and a path instead of a file name are refused."""
    with pytest.raises(CandidateUnusable):
        Candidate("s", {"trace.txt": b""}, "1", "strict/1", "c", -1)
    with pytest.raises(NameUnusable):
        Candidate("s", {"../trace.txt": b""}, "1", "strict/1", "c", 1)
    with pytest.raises(TypeError):
        make().files["trace.txt"] = b""  # type: ignore[index]


def test_errors_speak_in_one_sentence_and_name_the_next_step() -> None:
    """Whatever braces a problem contains, the text is the filled template."""
    error: GoldenError = ManifestDamaged("golden/manifest.json", "it says {x}")
    assert "The manifest golden/manifest.json is damaged: it says {x}." == str(error)
    assert "golden/manifest.json" in error.next_command
    assert 2 == error.exit_code
