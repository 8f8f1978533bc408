"""The backend that a command judges, and the checks that it is judged by, found as somebody at a prompt expects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cai_conformance.backends import Backend


@contextmanager
def closing_backend(backend: Backend) -> Iterator[None]:
    """Let go of a backend afterwards, whatever happens: a program that it started must not outlive the run."""
    try:
        yield
    finally:
        close = getattr(backend, "close", None)
        if callable(close):
            close()


def find_backend(spec: str, *, isolated: bool = False, seconds: float | None = None, validate: bool = False) -> Backend:
    """Return the backend of a specification; modules in the working directory count, after the installed ones.

    With `isolated`, the reference runs its experiments in processes of their own. What a module prints while it is
    imported goes to standard error.

    Raises:
        BackendError: there is no such backend, or it cannot be loaded.
    """
    from cai_conformance.backends.registry import Programs, resolve

    look_in_working_directory()
    with redirect_stdout(sys.stderr):
        return resolve(spec, isolated=isolated, programs=Programs(seconds, validate))


def look_in_working_directory() -> None:
    """Let modules in the working directory be found, after the installed ones."""
    # An empty entry means the working directory.
    if "" not in sys.path:
        sys.path.append("")


def selection(expression: str | None, identifiers: Iterable[str]) -> Callable[[str], bool]:
    """Return which of some full ids a filter selects: all of them where it is None.

    Raises:
        SelectionError (invalid-expression, nothing-selected): the filter cannot be read, or selects nothing.
    """
    from cai_conformance.errors import SelectionError
    from cai_conformance.run.questions import compile_expression

    selected = compile_expression(expression) if expression is not None else (lambda _: True)
    if not any(map(selected, identifiers)):
        raise SelectionError("nothing-selected", expression=expression or "")
    return selected
