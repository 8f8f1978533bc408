"""Expecting an error with all of its values, not only its class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import pytest

from cai_reference.errors import CaiReferenceError


def values_of(error: CaiReferenceError) -> dict[str, object]:
    """Return the fields of an error by name; NaN by its text, so that it equals itself."""
    values = {field.name: getattr(error, field.name) for field in fields(error)}
    return {name: "nan" if value != value else value for name, value in values.items()}


@contextmanager
def raises(expected: CaiReferenceError) -> Iterator[None]:
    """Require that exactly this class is raised, with exactly these values."""
    with pytest.raises(CaiReferenceError) as caught:
        yield
    assert (type(expected), values_of(expected)) == (type(caught.value), values_of(caught.value))
