"""The `-k` filter: which check ids an expression selects.

Words are matched without regard to case anywhere in the full id; `and`, `or`, `not` and parentheses combine them, as in
pytest. `*` and `?` in a word are wild.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import Final

from cai_conformance.suites.errors import InvalidExpression

Predicate = Callable[[str], bool]

LONGEST: Final = 10_000
"""How many characters an expression may have, so that reading it never takes long."""

DEEPEST: Final = 100
"""How many parentheses and negations an expression may have, so that reading it never exhausts the stack."""

_TOKEN = re.compile(r"[()]|[^\s()]+")


def compile_expression(expression: str) -> Predicate:
    """Return whether a full check id is selected, as a function.

    Raises:
        InvalidExpression: the expression cannot be read.
    """
    if len(expression) > LONGEST:
        raise InvalidExpression(f"{expression[:60]}…", f"it has more than {LONGEST} characters")
    tokens = _TOKEN.findall(expression)
    if not tokens:
        raise InvalidExpression(expression, "it is empty")
    if tokens.count("(") + tokens.count("not") > DEEPEST:
        raise InvalidExpression(expression, f"it has more than {DEEPEST} parentheses and negations")
    predicate, rest = _disjunction(tokens, expression)
    if rest:
        raise InvalidExpression(expression, f"{rest[0]!r} is not expected there")
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
        raise InvalidExpression(expression, "it ends too early")
    first, rest = tokens[0], tokens[1:]
    if first == "not":
        predicate, rest = _factor(rest, expression)
        return _negated(predicate), rest
    if first == "(":
        predicate, rest = _disjunction(rest, expression)
        if not rest or rest[0] != ")":
            raise InvalidExpression(expression, "a parenthesis is not closed")
        return predicate, rest[1:]
    if first in ("and", "or", ")"):
        raise InvalidExpression(expression, f"{first!r} is not expected there")
    return _word(first), rest


def _word(word: str) -> Predicate:
    # Brackets are part of the ids, so they are never a wild card.
    literal = word.replace("[", "[[]")
    pattern = re.compile(translate(f"*{literal}*"), re.IGNORECASE)
    return lambda identifier: pattern.match(identifier) is not None


def _negated(predicate: Predicate) -> Predicate:
    return lambda identifier: not predicate(identifier)
