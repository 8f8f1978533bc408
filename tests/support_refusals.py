"""Expecting a refusal by its kind, its code and its fields, not by the words of its message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from cai_reference.errors import CodedError

Refusal = TypeVar("Refusal", bound=CodedError)


def values_of(error: CodedError) -> dict[str, object]:
    """Return the fields of an error by name; NaN by its text, so that it equals itself."""
    return {name: "nan" if value != value else value for name, value in error.fields.items()}


@contextmanager
def refuses(
    kind: type[Refusal], code: str, /, match: str | None = None, **fields: object
) -> Iterator[pytest.ExceptionInfo[Refusal]]:
    """Require an error of this kind and code; of its fields, those that are given are compared."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    assert (code, fields) == (caught.value.code, {name: caught.value.fields.get(name) for name in fields})


@contextmanager
def raises(expected: CodedError) -> Iterator[None]:
    """Require exactly this kind and code, with exactly these values."""
    with pytest.raises(CodedError) as caught:
        yield
    assert (type(expected), expected.code, values_of(expected)) == (
        type(caught.value),
        caught.value.code,
        values_of(caught.value),
    )
