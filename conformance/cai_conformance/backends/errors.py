"""Errors of the backend room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.errors import BackendError

BACKENDS_TEMPLATES: Final[Mapping[str, str]] = {
    # A backend does not answer this request; its checks are skipped with the reason.
    "not-offered": "{backend} does not offer {what}: {reason}"
}


class NotOffered(BackendError):
    """A backend does not answer this request; its checks are skipped with the reason."""

    templates = BACKENDS_TEMPLATES

    def __init__(self, backend: str, what: str, reason: str) -> None:
        super().__init__("not-offered", backend=backend, what=what, reason=reason)
        self.backend = backend
        self.what = what
        self.reason = reason


def one_line(error: BaseException) -> str:
    """Return the class and text of a foreign error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
