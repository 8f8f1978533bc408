"""JSON as a typed, strict reader takes it: what Python's own parser lets through is refused here.

Refused besides malformed text: a byte order mark, duplicate keys, NaN and Infinity, lone surrogates, integers spelled
`-0`, nesting beyond the interpreter's depth. This is the only reader of strict JSON here; the shape of the value is the
caller's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | Object | None"


class Object(dict[str, "Json"]):
    """A JSON object; its keys are unique and keep the order of the text."""


class JsonProblem(ValueError):
    """The text is not strict JSON; the message says what and where."""


def parse(
    data: bytes, *, integer: Callable[[str], int | float] | None = None, real: Callable[[str], float] | None = None
) -> Json:
    """Parse the bytes of one JSON value, with white space around it at most.

    `integer` and `real` read the numbers, or refuse some by a JsonProblem; `real` is also given `NaN`, `Infinity` and
    `-Infinity`, which are refused without it.

    Raises:
        JsonProblem: anything else.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonProblem(f"it is not UTF-8 at byte {error.start}") from None
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=real or _no_constant,
            parse_float=real,
            parse_int=integer or _plain_integer,
        )
    except json.JSONDecodeError as error:
        raise JsonProblem(f"it is not JSON at line {error.lineno} column {error.colno} ({error.msg})") from None
    except RecursionError:
        raise JsonProblem("it is nested too deeply") from None
    except ValueError as error:
        raise JsonProblem(str(error)) from None
    if b"\\u" in data:  # only an escape can spell one
        _refuse_lone_surrogates(value)
    return value


def _unique_keys(pairs: list[tuple[str, Json]]) -> Object:
    result = Object()
    for key, value in pairs:
        if key in result:
            raise JsonProblem(f"duplicate key {key[:60]!r}")
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
