"""From a suite and the user's options to the question that a backend is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cai_conformance.arithmetics import arithmetic_identifier
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.errors import InputTooLarge, InputUnreadable
from cai_conformance.goldens import Golden, GoldenStore
from cai_conformance.goldens.errors import GoldenDisagrees
from cai_conformance.judges.evidence import Question
from cai_conformance.measuring.policy import AUTO, Policy
from cai_conformance.stories import MAXIMUM_STORY_BYTES
from cai_conformance.suites.errors import IncompleteInput, UnknownProfile, UnusedInput
from cai_conformance.suites.suite import Suite, SuiteInput
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parser import parse
from cai_conformance.trace.records import Trace

MAXIMUM_INPUT_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Options:
    """What a user may choose about the question.

    Attributes:
        arithmetic: an identifier or its beginning; None for the suite's own.
        corpus: a corpus file instead of the embedded one.
        splits: the split manifest of that corpus.
        stories: a file of stories for the decode suites instead of the generated ones.
        examples: how many training examples a decode suite sees; 0 for the profile's own number.
        profile: another profile than the one that the input makes; `edges` asks for the vector cases only.
        policy: what may differ on given weights.
    """

    arithmetic: str | None = None
    corpus: Path | None = None
    splits: Path | None = None
    profile: str | None = None
    stories: Path | None = None
    examples: int = 0
    policy: Policy = AUTO


def question_for(suite: Suite, store: GoldenStore, options: Options) -> Question:
    """Return what is asked of a backend about `suite`.

    Raises:
        IncompleteInput, InputUnreadable, InputTooLarge: the files given cannot be used.
        FixtureError: the suite cannot be run on what they hold.
        UnknownProfile: the suite has no such profile.
        UnknownArithmetic: the arithmetic has another name.
        GoldenError: the suite's own files are missing or damaged.
    """
    given = input_for(suite, options)
    profile = given.profile if options.profile is None else options.profile
    if profile not in suite.grammar.profiles:
        raise UnknownProfile(profile, suite.identifier, ", ".join(suite.grammar.profiles))
    wanted = suite.default_arithmetic(profile) if options.arithmetic is None else options.arithmetic
    arithmetic = arithmetic_identifier(wanted)
    accepted = store.read(suite.identifier)
    request = TraceRequest(
        suite.identifier,
        suite.version,
        profile,
        arithmetic,
        given.corpus,
        given.splits,
        accepted.files["vectors.json"],
        accepted.files[suite.weights_file],
        options.examples,
    )
    golden = accepted_trace(accepted)
    own = profile == "golden" and not options.examples
    return Question(request, suite.grammar, golden.all("CONVENTION")[0], golden if own else None, policy=options.policy)


def check_used(suites: Sequence[Suite], options: Options) -> None:
    """Refuse a file that none of the chosen suites can use, rather than ignore it.

    Raises:
        UnusedInput: a corpus or split for decode suites only, or stories for none of them.
    """
    names = ", ".join(suite.identifier for suite in suites)
    given = {"--corpus": options.corpus, "--splits": options.splits, "--stories": options.stories}
    for option, path in given.items():
        if path is not None and not any(suite.takes_stories == (option == "--stories") for suite in suites):
            raise UnusedInput(option, names)


def accepted_trace(golden: Golden) -> Trace:
    """Return the records of an accepted golden.

    Raises:
        GoldenDisagrees: it does not keep the grammar of this version.
    """
    try:
        return parse(golden.trace, grammar_of)
    except TraceFault as error:
        raise GoldenDisagrees(f"{golden.suite}/trace.txt", str(error)) from None


def input_for(suite: Suite, options: Options) -> SuiteInput:
    """Return the suite's own input, or the one made of the files given.

    Raises:
        IncompleteInput, InputUnreadable, InputTooLarge: the files given cannot be used.
        FixtureError: the suite cannot be run on what they hold.
    """
    if suite.takes_stories:
        if options.stories is None:
            return suite.default_input()
        return suite.input_of(read_limited(options.stories, MAXIMUM_STORY_BYTES), b"")
    if options.corpus is None and options.splits is None:
        return suite.default_input()
    if options.corpus is None:
        raise IncompleteInput("--splits", "--corpus")
    if options.splits is None:
        raise IncompleteInput("--corpus", "--splits")
    return suite.input_of(read_limited(options.corpus), read_limited(options.splits))


def read_limited(path: Path, limit: int = MAXIMUM_INPUT_BYTES) -> bytes:
    """Read a file of at most `limit` bytes.

    Raises:
        InputUnreadable: it is not there, or the operating system refuses.
        InputTooLarge: it holds more.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
            if len(data) > limit:
                raise InputTooLarge(str(path), max(path.stat().st_size, len(data)), limit)
    except OSError as error:
        raise InputUnreadable(str(path), error.strerror or str(error)) from None
    return data
