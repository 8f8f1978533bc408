"""From a suite and the user's options to the question that a backend is asked.

The `-k` filter: which check ids an expression selects.

Words are matched without regard to case anywhere in the full id; `and`, `or`, `not` and parentheses combine them, as in
pytest. `*` and `?` in a word are wild.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Final

from cai_conformance.backends.arithmetics import arithmetic_identifier
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.checks.evidence import Question
from cai_conformance.checks.tolerance.policy import AUTO, Policy
from cai_conformance.errors import GoldenError, InputError, SelectionError
from cai_conformance.fixtures.goldens.records import Golden
from cai_conformance.fixtures.goldens.store import GoldenStore
from cai_conformance.fixtures.inputs import SuiteInput
from cai_conformance.fixtures.stories.reading import MAXIMUM_STORY_BYTES
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Trace
from cai_conformance.verdicts import Level

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


def required_level(name: str | None) -> Level | None:
    """Return the level of this name; None where none is named.

    Raises:
        SelectionError (unknown-level): there is none.
    """
    if name is None:
        return None
    try:
        return Level(name.upper())
    except ValueError:
        raise SelectionError("unknown-level", name=name, known=", ".join(Level)) from None


def question_for(suite: Suite, store: GoldenStore, options: Options) -> Question:
    """Return what is asked of a backend about `suite`.

    Raises:
        InputError (incomplete-input, input-unreadable, input-too-large): the files given cannot be used.
        FixtureError: the suite cannot be run on what they hold.
        SelectionError (unknown-profile): the suite has no such profile.
        ArithmeticFault (unknown-arithmetic): the arithmetic has another name.
        GoldenError: the suite's own files are missing or damaged.
    """
    given = input_for(suite, options)
    profile = given.profile if options.profile is None else options.profile
    if profile not in suite.grammar.profiles:
        raise SelectionError(
            "unknown-profile", profile=profile, suite=suite.identifier, known=", ".join(suite.grammar.profiles)
        )
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
        InputError (unused-input): a corpus or split for decode suites only, or stories for none of them.
    """
    names = ", ".join(suite.identifier for suite in suites)
    given = {"--corpus": options.corpus, "--splits": options.splits, "--stories": options.stories}
    for option, path in given.items():
        if path is not None and not any(suite.takes_stories == (option == "--stories") for suite in suites):
            raise InputError("unused-input", option=option, suites=names)


def accepted_trace(golden: Golden) -> Trace:
    """Return the records of an accepted golden.

    Raises:
        GoldenError (golden-disagrees): it does not keep the grammar of this version.
    """
    try:
        return parse(golden.trace, grammar_of)
    except TraceFault as error:
        raise GoldenError("golden-disagrees", path=f"{golden.suite}/trace.txt", problem=str(error)) from None


def input_for(suite: Suite, options: Options) -> SuiteInput:
    """Return the suite's own input, or the one made of the files given.

    Raises:
        InputError (incomplete-input, input-unreadable, input-too-large): the files given cannot be used.
        FixtureError: the suite cannot be run on what they hold.
    """
    if suite.takes_stories:
        if options.stories is None:
            return suite.default_input()
        return suite.input_of(read_limited(options.stories, MAXIMUM_STORY_BYTES), b"")
    if options.corpus is None and options.splits is None:
        return suite.default_input()
    if options.corpus is None:
        raise InputError("incomplete-input", given="--splits", missing="--corpus")
    if options.splits is None:
        raise InputError("incomplete-input", given="--corpus", missing="--splits")
    return suite.input_of(read_limited(options.corpus), read_limited(options.splits))


def read_limited(path: Path, limit: int = MAXIMUM_INPUT_BYTES) -> bytes:
    """Read a file of at most `limit` bytes.

    Raises:
        InputError (input-unreadable): it is not there, or the operating system refuses.
        InputError (input-too-large): it holds more.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
            if len(data) > limit:
                raise InputError(
                    "input-too-large", path=str(path), size=max(path.stat().st_size, len(data)), limit=limit
                )
    except OSError as error:
        raise InputError("input-unreadable", path=str(path), problem=error.strerror or str(error)) from None
    return data


Predicate = Callable[[str], bool]

LONGEST: Final = 10_000
"""How many characters an expression may have, so that reading it never takes long."""

DEEPEST: Final = 100
"""How many parentheses and negations an expression may have, so that reading it never exhausts the stack."""

_TOKEN = re.compile(r"[()]|[^\s()]+")


def compile_expression(expression: str) -> Predicate:
    """Return whether a full check id is selected, as a function.

    Raises:
        SelectionError (invalid-expression): the expression cannot be read.
    """
    if len(expression) > LONGEST:
        raise SelectionError(
            "invalid-expression", expression=f"{expression[:60]}…", problem=f"it has more than {LONGEST} characters"
        )
    tokens = _TOKEN.findall(expression)
    if not tokens:
        raise SelectionError("invalid-expression", expression=expression, problem="it is empty")
    if tokens.count("(") + tokens.count("not") > DEEPEST:
        raise SelectionError(
            "invalid-expression", expression=expression, problem=f"it has more than {DEEPEST} parentheses and negations"
        )
    predicate, rest = _disjunction(tokens, expression)
    if rest:
        raise SelectionError("invalid-expression", expression=expression, problem=f"{rest[0]!r} is not expected there")
    return predicate


def _disjunction(tokens: Sequence[str], expression: str) -> tuple[Predicate, Sequence[str]]:
    first, tokens = _conjunction(tokens, expression)
    parts = [first]
    while tokens and tokens[0] == "or":
        other, tokens = _conjunction(tokens[1:], expression)
        parts.append(other)
    return lambda identifier: any(part(identifier) for part in parts), tokens


def _conjunction(tokens: Sequence[str], expression: str) -> tuple[Predicate, Sequence[str]]:
    first, tokens = _factor(tokens, expression)
    parts = [first]
    while tokens and tokens[0] == "and":
        other, tokens = _factor(tokens[1:], expression)
        parts.append(other)
    return lambda identifier: all(part(identifier) for part in parts), tokens


def _factor(tokens: Sequence[str], expression: str) -> tuple[Predicate, Sequence[str]]:
    if not tokens:
        raise SelectionError("invalid-expression", expression=expression, problem="it ends too early")
    first, rest = tokens[0], tokens[1:]
    if first == "not":
        predicate, rest = _factor(rest, expression)
        return _negated(predicate), rest
    if first == "(":
        predicate, rest = _disjunction(rest, expression)
        if not rest or rest[0] != ")":
            raise SelectionError("invalid-expression", expression=expression, problem="a parenthesis is not closed")
        return predicate, rest[1:]
    if first in ("and", "or", ")"):
        raise SelectionError("invalid-expression", expression=expression, problem=f"{first!r} is not expected there")
    return _word(first), rest


def _word(word: str) -> Predicate:
    # Brackets are part of the ids, so they are never a wild card.
    literal = word.replace("[", "[[]")
    pattern = re.compile(translate(f"*{literal}*"), re.IGNORECASE)
    return lambda identifier: pattern.match(identifier) is not None


def _negated(predicate: Predicate) -> Predicate:
    return lambda identifier: not predicate(identifier)
