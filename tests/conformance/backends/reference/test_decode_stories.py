"""A user's own stories in the decode suites: which question they make, how a run on them is judged, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cai_conformance.backends.reference import decoder_run as experiment
from cai_conformance.errors import ConformanceError, FixtureError, InputError
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.stories.errors import StoryError
from cai_conformance.fixtures.stories.generator import generate_stories
from cai_conformance.run.questions import Options, question_for
from cai_conformance.suites import decoder as decoder_inputs
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Outcome
from support_cli import invoke
from support_decode_tiny import tiny_sizes
from support_decode_traces import verdicts_on
from support_refusals import refuses

SUITE = "cai.parallel-block"
STORE = GoldenStore(locate())
GOOD = "\n\n".join(generate_stories(40, 99)).encode()


def written(folder: Path, data: bytes) -> Path:
    """Write a story file."""
    path = folder / "stories.txt"
    path.write_bytes(data)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every experiment have the tiny size."""
    for module in (experiment, decoder_inputs):
        monkeypatch.setattr(module, "sizes_for", tiny_sizes)


def test_own_stories_are_a_foreign_question(tmp_path: Path) -> None:
    """Their bytes travel as they are, and there is no golden for them."""
    asked = question_for(find_suite(SUITE), STORE, Options(stories=written(tmp_path, GOOD)))
    assert ("foreign", GOOD, "strict/1", None) == (
        asked.request.profile,
        asked.request.corpus,
        asked.request.arithmetic,
        asked.golden,
    )


@pytest.mark.usefixtures("small")
def test_a_run_on_own_stories_is_judged_without_a_golden(tmp_path: Path) -> None:
    """Arms, caches and counters are; comparisons with the golden and witnesses are skipped."""
    path = written(tmp_path, GOOD)
    result = invoke("trace", SUITE, "--stories", path)
    assert (0, "") == (result.code, result.err)
    asked = question_for(find_suite(SUITE), STORE, Options(stories=path))
    verdicts = verdicts_on(SUITE, result.out.encode(), asked=asked)
    assert [] == [name for name, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL]
    passed = {name.partition("[")[0] for name, verdict in verdicts.items() if verdict.outcome is Outcome.PASS}
    expected = {"trace.format", "trace.convention", "run.learning", "cache.formula", "spec.budget"}
    assert expected | {"spec.eos", "spec.trace", "trace.recount", "run.replay"} == passed
    # So little is learned that each generation repeats one token, which would be equal in any arm.
    for check in ("kv.inc[cached]", "spec.eq[scripted]"):
        assert Outcome.SKIPPED is verdicts[check].outcome
        assert verdicts[check].message.startswith("this shows nothing, for it met ")


BAD: list[tuple[str, bytes, type[ConformanceError], str]] = [
    ("empty", b"", StoryError, "the story file has no stories"),
    ("white", b" \n\n\t\n", StoryError, "the story file has no stories"),
    ("not-utf-8", b"a.\n\n\xff", StoryError, "the story file is not UTF-8: invalid start byte at byte 4"),
    ("mark", b"\xef\xbb\xbfa.", StoryError, "the story file opens with a byte order mark"),
    ("few", b"one.\n\ntwo.", StoryError, "a validation step of 10 leaves none of 2 stories for validation"),
    ("same", b"one.\n\n" * 40, StoryError, "a validation step of 10 leaves none of 40 stories for training: all rep"),
    (
        "few-prompts",
        "\n\n".join(generate_stories(29, 3)).encode(),
        FixtureError,
        "Prompts: the first 3 validation stories must hold 16 tokens each; 2 do",
    ),
    (
        "short",
        b"".join(b"s %d.\n\n" % number for number in range(40)),
        FixtureError,
        "Prompts: the first 3 validation stories must hold 16 tokens each; 0 do",
    ),
]


@pytest.mark.parametrize(("data", "error", "sentence"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_stories_that_cannot_be_used_are_refused(
    tmp_path: Path, data: bytes, error: type[ConformanceError], sentence: str
) -> None:
    """Before any backend is asked, by a typed error; on the command line by its one sentence and exit code 2."""
    path = written(tmp_path, data)
    with pytest.raises(error) as caught:
        question_for(find_suite(SUITE), STORE, Options(stories=path))
    assert type(caught.value) is error
    for command in (["trace", SUITE], ["run", SUITE, "--jobs", "1"]):
        result = invoke(*command, "--stories", path)
        assert (2, "", 1) == (result.code, result.out, len(result.sentences))
        assert result.sentences[0].startswith(f"cai-conform: {sentence}")


def test_a_story_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The sentence names the file."""
    with refuses(InputError, "input-unreadable", match=r"nothing' cannot be read: No such file or directory$"):
        question_for(find_suite(SUITE), STORE, Options(stories=tmp_path / "nothing"))


Asked = Callable[[Options], tuple[str, str, int, bool]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(), ("golden", "strict/1", 0, True)),
        (Options(arithmetic="fast"), ("golden", "fast", 0, True)),
        (Options(examples=6), ("golden", "strict/1", 6, False)),
        (Options(profile="published"), ("published", "fast", 0, False)),
        (Options(profile="published", arithmetic="strict"), ("published", "strict/1", 0, False)),
        (Options(profile="published", examples=640), ("published", "fast", 640, False)),
        (Options(profile="edges"), ("edges", "strict/1", 0, False)),
    ],
)
@pytest.mark.parametrize("suite", ["cai.kv-cache", "cai.hybrid"])
def test_what_options_ask_of_a_decode_suite(suite: str, options: Options, expected: tuple[object, ...]) -> None:
    """Profile, arithmetic, examples, and whether there is a golden to compare with."""
    asked = question_for(find_suite(suite), STORE, options)
    request = asked.request
    assert expected == (request.profile, request.arithmetic, request.examples, asked.golden is not None)


def test_examples_reach_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of the command line is the one that decides the updates."""
    seen: list[tuple[str, int]] = []

    def sizes(phase: object, profile: str, examples: int) -> object:
        seen.append((profile, examples))
        return tiny_sizes(phase, profile, examples)  # type: ignore[arg-type]  # whatever it is

    monkeypatch.setattr(experiment, "sizes_for", sizes)
    result = invoke("trace", SUITE, "--profile", "published", "--examples", "6", "--view", "body")
    assert (0, [("published", 6)]) == (result.code, seen)
    assert result.out.startswith("CONFIG|vocabulary=")


@pytest.mark.parametrize("suite", ["cai.diagonal-ssm", "cai.kv-cache"])
def test_a_decode_suite_has_no_report(suite: str) -> None:
    """One sentence, before anything is trained."""
    result = invoke("trace", suite, "--view", "report")
    assert (2, "", 1) == (result.code, result.out, len(result.sentences))
    assert result.sentences[0].startswith(f"cai-conform: reference does not offer a report of {suite}")
