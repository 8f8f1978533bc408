"""From options to a question: whose input, which profile and arithmetic, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.errors import FixtureError, GoldenError, InputError, SelectionError
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.published import CORPUS_CHECKSUM
from cai_conformance.run import questions
from cai_conformance.run.questions import MAXIMUM_INPUT_BYTES, Options, input_for, question_for, read_limited
from cai_conformance.run.record import body_of, report_of
from cai_reference.errors import ArithmeticFault
from support_course import CORPUS, SPLITS, needs_corpus
from support_inputs import FOX, input_of, write_input
from support_refusals import refuses
from support_traces import SUITE, golden_bytes, question, question_of

STORE = GoldenStore(locate())


def test_without_options_a_suite_asks_about_its_own_input() -> None:
    """Its arithmetic, its profile, the accepted vectors and weights, and the golden to compare with."""
    asked, own, accepted = question(), SUITE.default_input(), STORE.read(SUITE.identifier)
    request = asked.request
    assert (SUITE.identifier, SUITE.version, "golden", "strict/1") == (
        request.suite,
        request.suite_version,
        request.profile,
        request.arithmetic,
    )
    assert (own.corpus, own.splits) == (request.corpus, request.splits)
    assert accepted.files["vectors.json"] == request.vectors
    assert accepted.files["weights.safetensors"] == request.weights
    assert asked.golden is not None
    assert asked.conventions in asked.golden.records


@pytest.mark.parametrize(("given", "expected"), [("libm", "libm/1"), ("libm/1", "libm/1"), ("fast", "fast")])
def test_an_arithmetic_may_be_named_without_its_version(given: str, expected: str) -> None:
    """The request carries the whole identifier."""
    assert expected == question_for(SUITE, STORE, Options(arithmetic=given)).request.arithmetic


@pytest.mark.parametrize("given", ["", "numpy", "strict/2", "STRICT"])
def test_an_unknown_arithmetic_is_refused(given: str) -> None:
    """An empty name is not the default."""
    with refuses(ArithmeticFault, "unknown-arithmetic"):
        question_for(SUITE, STORE, Options(arithmetic=given))


@pytest.mark.parametrize("given", ["", "nothing", "Golden"])
def test_an_unknown_profile_is_refused(given: str) -> None:
    """The message lists the suite's."""
    with refuses(SelectionError, "unknown-profile") as caught:
        question_for(SUITE, STORE, Options(profile=given))
    assert f"profile {given!r} is unknown; course.ngram has golden, published, foreign, edges" == str(caught.value)


def test_a_question_about_vector_cases_has_no_golden() -> None:
    """There is nothing to compare but the cases."""
    asked = question_for(SUITE, STORE, Options(profile="edges"))
    assert ("edges", None) == (asked.request.profile, asked.golden)


def test_a_foreign_corpus_is_asked_about_as_such(tmp_path: Path) -> None:
    """Its bytes travel as they are, and there is no golden for it."""
    files = input_of(tmp_path)
    asked = question_for(SUITE, STORE, Options(corpus=files.corpus, splits=files.splits))
    assert ("foreign", None) == (asked.request.profile, asked.golden)
    assert (files.corpus.read_bytes(), files.splits.read_bytes()) == (asked.request.corpus, asked.request.splits)


def test_the_embedded_corpus_from_a_file_is_the_suites_own(tmp_path: Path) -> None:
    """Bytes decide, not where they lie."""
    own = SUITE.default_input()
    files = write_input(tmp_path, own.corpus, own.splits)
    assert own == input_for(SUITE, Options(corpus=files.corpus, splits=files.splits))


@needs_corpus
def test_the_published_corpus_is_known_by_its_checksum() -> None:
    """With any manifest that fits it."""
    found = input_for(SUITE, Options(corpus=CORPUS, splits=SPLITS))
    assert "published" == found.profile
    assert CORPUS_CHECKSUM.encode() in found.splits


def test_a_corpus_and_its_manifest_come_together(tmp_path: Path) -> None:
    """Either alone is refused with the name of the other."""
    with refuses(InputError, "incomplete-input", match=r"^--corpus needs --splits beside it$"):
        input_for(SUITE, Options(corpus=tmp_path / "a"))
    with refuses(InputError, "incomplete-input", match=r"^--splits needs --corpus beside it$"):
        input_for(SUITE, Options(splits=tmp_path / "a"))


@pytest.mark.parametrize(
    ("texts", "changes", "message"),
    [
        (("ab", "cd", "ef"), {}, "Invariant: 8 merges were requested, 1 could be learned"),
        (("At " * 40 + FOX[:99], "b", "c"), {}, "Invariant: the prompt 'At' has 1 ids under these merges, the "),
        ((FOX, "b", " \u00a0\n"), {}, "Corpus: document 3: text is empty"),
        ((FOX, "b", "c"), {"test": []}, "Corpus: the test partition is empty"),
    ],
)
def test_what_the_suite_cannot_be_run_on_is_refused_before_any_backend_is_asked(
    tmp_path: Path, texts: tuple[str, ...], changes: dict[str, object], message: str
) -> None:
    """The user's files are at fault, and the sentence says how."""
    files = input_of(tmp_path, texts, changes=changes)
    with pytest.raises(FixtureError) as caught:
        input_for(SUITE, Options(corpus=files.corpus, splits=files.splits))
    assert str(caught.value).startswith(message)


def test_a_file_at_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    """The limit is stated in the message."""
    path = tmp_path / "big"
    path.write_bytes(b" " * MAXIMUM_INPUT_BYTES)
    assert MAXIMUM_INPUT_BYTES == len(read_limited(path))
    path.write_bytes(b" " * (MAXIMUM_INPUT_BYTES + 1))
    with refuses(InputError, "input-too-large", match=r"big' holds 1048577 bytes; the limit is 1048576$"):
        read_limited(path)


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    """A missing file and a folder."""
    with refuses(InputError, "input-unreadable", match=r"a' cannot be read: No such file or directory$"):
        read_limited(tmp_path / "a")
    with refuses(InputError, "input-unreadable", match=r"cannot be read: Is a directory$"):
        read_limited(tmp_path)


def test_a_golden_of_another_grammar_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that was accepted under other rules is told as a golden that disagrees."""
    accepted = STORE.read(SUITE.identifier)
    old = replace(accepted, files={**accepted.files, "trace.txt": accepted.trace.replace(b"merges=8|", b"")})
    with refuses(
        GoldenError, "golden-disagrees", match=r"course\.ngram/trace\.txt: line 3, CONFIG, field merges: .* missing"
    ):
        questions.accepted_trace(old)


class TestViews:
    """Parts and renderings of an answer."""

    def test_the_body_is_what_the_published_format_holds(self) -> None:
        """Neither envelope nor conventions nor bits."""
        kinds = [line.partition(b"|")[0].decode() for line in body_of(golden_bytes()).splitlines()]
        expected = ["CONFIG", "SPLIT", *["STAGE"] * 5, *["LOSS"] * 3, "RESULT", "GENERATE", "PROOF"]
        assert expected == kinds
        assert body_of(golden_bytes()) in golden_bytes()

    def test_the_report_agrees_with_the_trace(self) -> None:
        """The same run, told to learners."""
        report = report_of(SUITE, ReferenceBackend(), question().request).decode()
        lines = dict(line.split("=", 1) for line in report.splitlines())
        assert 21 == len(lines)
        trace = golden_bytes().decode()
        for step in (0, 8, 15):
            train, validation = (part.partition(":")[2] for part in lines[f"checkpoint[{step}]"].split(" "))
            assert f"LOSS|step={step}|train={train}|validation={validation}\n" in trace
        assert f"|improvement={lines['validation_improvement']}\n" in trace

    def test_only_the_reference_has_a_report(self) -> None:
        """Whatever a backend calls itself, it has no experiment to tell about."""

        class Named(ReferenceBackend):
            name = "other"

        with pytest.raises(NotOffered, match=r"^other does not offer a report of course\.ngram"):
            report_of(SUITE, Named(), question().request)
        other = replace(SUITE, identifier="cai.other")
        with pytest.raises(NotOffered, match=r"^reference does not offer a report of cai\.other"):
            report_of(other, ReferenceBackend(), question_of("golden").request)
