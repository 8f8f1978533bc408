"""Files that no chosen suite can use are refused, not ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from cai_conformance.errors import InputError
from cai_conformance.run.questions import Options, check_used
from cai_conformance.suites import find_suites
from support_cli import invoke
from support_refusals import refuses


@pytest.mark.parametrize(
    ("suite", "options", "option"),
    [
        ("kv-cache", Options(corpus=Path("c.json"), splits=Path("s.json")), "--corpus"),
        ("kv-cache", Options(splits=Path("s.json")), "--splits"),
        ("ngram", Options(stories=Path("s.txt")), "--stories"),
    ],
)
def test_a_file_for_other_suites_is_refused(suite: str, options: Options, option: str) -> None:
    """The option and the suites are named."""
    chosen = find_suites([suite])
    with refuses(InputError, "unused-input") as caught:
        check_used(chosen, options)
    assert (option, chosen[0].identifier) == (caught.value.fields["option"], caught.value.fields["suites"])


def test_one_suite_that_takes_it_is_enough() -> None:
    """A corpus among all suites is for the n-gram, and stories are for the decoders."""
    check_used(find_suites([]), Options(corpus=Path("c.json"), splits=Path("s.json"), stories=Path("s.txt")))


def test_the_command_line_says_so() -> None:
    """One sentence and exit code 2."""
    done = invoke("trace", "cai.hybrid", "--corpus", "c.json", "--splits", "s.json")
    assert (2, ["cai-conform: --corpus is of no use to cai.hybrid"]) == (done.code, done.sentences)
