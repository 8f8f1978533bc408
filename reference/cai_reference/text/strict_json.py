"""JSON as a typed, strict reader takes it: what Python's own parser lets through is refused here.

Refused besides malformed text: a byte order mark, duplicate keys, NaN and Infinity, lone surrogates, integers spelled
`-0`, nesting beyond the interpreter's depth. This file knows nothing about corpora; the shape of the value is the
caller's.
"""

from __future__ import annotations

import json
from typing import NoReturn, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | Object | None"


class Object(dict[str, "Json"]):
    """A JSON object; its keys are unique and keep the order of the text."""


class JsonProblem(ValueError):
    """The text is not strict JSON; the message says what and where."""


def parse(data: bytes) -> Json:
    """Parse the bytes of one JSON value, with white space around it at most.

    Raises:
        JsonProblem: anything else.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonProblem(f"the file is not UTF-8 at byte {error.start}") from None
    try:
        value: Json = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_int=_plain_integer
        )
    except json.JSONDecodeError as error:
        raise JsonProblem(f"{error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise JsonProblem("the value is nested too deeply") from None
    except ValueError as error:
        raise JsonProblem(str(error)) from None
    _refuse_lone_surrogates(value)
    return value


def _unique_keys(pairs: list[tuple[str, Json]]) -> Object:
    result = Object()
    for key, value in pairs:
        if key in result:
            raise JsonProblem(f"duplicate key {key!r}")
        result[key] = value
    return result


def _no_constant(name: str) -> NoReturn:
    raise JsonProblem(f"{name} is not a JSON number")


def _plain_integer(digits: str) -> int | float:
    # A typed reader sees -0 as the floating-point number it denotes.
    return -0.0 if digits == "-0" else int(digits)


def _refuse_lone_surrogates(value: Json) -> None:
    pending: list[Json] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if any("\ud800" <= character <= "\udfff" for character in item):
                raise JsonProblem("a string holds a lone surrogate")
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, Object):
            pending.extend(item.keys())
            pending.extend(item.values())
