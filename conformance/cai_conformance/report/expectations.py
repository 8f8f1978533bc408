"""The strict expected-failure file: which checks a backend is known to fail, and why.

::

    [[expected-failure]]
    check = "course.ngram::fwd.oracle[hidden]"
    reason = "the backend rounds the hidden layer to bfloat16"
    link = "https://example.org/backend/issues/7"

`check` is a full id, or a pattern over full ids in which `*` stands for any characters and `?` for any one. Brackets
are always literal, because ids end in `[case]`: `course.ngram::fwd.oracle[*]` names all cases of one check. Upper and
lower case differ. Where several entries name a check, an exact id comes before a pattern, then the earlier before the
later.

Strict in three ways: an expected failure that passes is `xpass`, which fails the run; an entry that names no known
check is an error; every entry says why. Checks that could not be judged are left as they are.

Errors, all of them `InputError`::

    ExpectationError
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from cai_conformance.errors import InputError
from cai_conformance.verdicts import Outcome, Verdict

LONGEST_LINE: Final = 4000
"""How many characters a line may have: a dotted key of n parts costs the reader of TOML n² of time and memory."""

LARGEST_FILE: Final = 1 << 20
"""How many bytes a file may have."""

LONGEST_CHECK: Final = 1000
"""How many characters an id or a pattern may have."""

_TABLE = "expected-failure"
_REQUIRED_KEYS = ("check", "reason")
_KEYS = (*_REQUIRED_KEYS, "link")
_NOW = {Outcome.FAIL: Outcome.XFAIL, Outcome.PASS: Outcome.XPASS, Outcome.NEAR_TIE: Outcome.XPASS}


EXPECTATIONS_TEMPLATES: Final[Mapping[str, str]] = {
    # There is no such file.
    "expectation-file-missing": "{path}: no such expected-failure file",
    # The file is there but cannot be read.
    "expectation-file-unreadable": "{path}: the expected-failure file cannot be read: {problem}",
    # The bytes of the file are not UTF-8; `offset` is the first wrong byte, from 0.
    "expectation-file-not-utf8": "{path}: not UTF-8 at byte {offset}",
    # The text of the file is not TOML, or too long for what it has to say.
    "expectation-file-not-toml": "{path}: not TOML: {problem}",
    # The file has a key at its top that means nothing.
    "unknown-expectation-table": "{path}: unknown key {key!r}; entries are written under [[expected-failure]]",
    # `expected-failure` is something else than an array of tables.
    "expectation-not-table": "{path}: {key} must be an array of tables; write [[expected-failure]] above each entry",
    # An entry has a key that means nothing.
    "unknown-expectation-key": "{path}: entry {entry}: unknown key {key!r}; the keys are check, reason and link",
    # An entry lacks a key that every entry needs.
    "expectation-key-missing": "{path}: entry {entry}: {key} is missing",
    # A value is empty or white space.
    "expectation-value-blank": "{path}: entry {entry}: {key} is blank",
    # A value is not a string; `found` names its Python type.
    "expectation-value-not-string": "{path}: entry {entry}: {key} must be a string, not {found}",
    # A `check` is longer than any id; looking for the closest one would take for ever.
    "expectation-check-too-long": "{path}: entry {entry}: {key} has {length} characters; the limit is {limit}",
    # Two entries have the same `check`; `first` is the number of the earlier one.
    "duplicate-expectation": "{path}: entry {entry}: {key} {check!r} is already in entry {first}",
    # An entry names no known check; `closest` is the known id that looks most like it, or empty if none is known.
    "unknown-expectation": "{path}: entry {entry}: {key} {check!r} matches no known check; the closest is {closest!r}",
}

EXPECTATIONS_HINTS: Final[Mapping[str, str]] = {"unknown-expectation": "cai-conform list"}
"""The command or step to try next, by code, filled from the fields as the templates are."""


class ExpectationError(InputError):
    """The expected-failure file cannot be used; `path` is the file as it was given."""

    templates = EXPECTATIONS_TEMPLATES
    hints = EXPECTATIONS_HINTS


@dataclass(frozen=True)
class Expectation:
    """One entry: its number in the file, from 1, the id or pattern, the reason, and a link or an empty string."""

    entry: int
    check: str
    reason: str
    link: str = ""

    @property
    def is_pattern(self) -> bool:
        """Whether `check` holds a wildcard."""
        return "*" in self.check or "?" in self.check

    def matches(self, check: str) -> bool:
        """Whether the entry names this full id."""
        return fnmatchcase(check, self.check.replace("[", "[[]"))


@dataclass(frozen=True)
class Expectations:
    """All entries of one file, in their order; `path` is the file as it was given."""

    path: str
    entries: tuple[Expectation, ...]

    def find(self, check: str) -> Expectation | None:
        """The entry that speaks for a full id: an exact one if there is one, else the first pattern that matches."""
        matching = [entry for entry in self.entries if entry.matches(check)]
        return min(matching, key=lambda entry: (entry.is_pattern, entry.entry), default=None)


def load_expectations(path: Path) -> Expectations:
    """Read an expected-failure file; one without entries is valid.

    Raises a subclass of `ExpectationError` that names the file and, where there is one, entry and key.
    """
    name = str(path)
    tables = _tables(name, _parsed(name, path))
    entries: list[Expectation] = []
    numbers: dict[str, int] = {}
    for number, table in enumerate(tables, start=1):
        entry = _entry(name, number, table)
        if entry.check in numbers:
            raise ExpectationError(
                "duplicate-expectation",
                path=name,
                entry=number,
                key="check",
                check=entry.check,
                first=numbers[entry.check],
            )
        numbers[entry.check] = number
        entries.append(entry)
    return Expectations(name, tuple(entries))


def apply_expectations(
    verdicts: Iterable[Verdict], expectations: Expectations, known_checks: Iterable[str]
) -> tuple[Verdict, ...]:
    """Turn expected failures into `xfail` and unexpected passes into `xpass`, with the reason and link of the entry.

    `known_checks` are the full ids of every check there is, selected or not. Skipped, blocked and errored verdicts stay
    as they are: they say nothing about whether the check would pass. Raises `unknown-expectation` for the first entry
    that matches no known check.
    """
    known = sorted(known_checks)
    for entry in expectations.entries:
        if not any(entry.matches(check) for check in known):
            closest = difflib.get_close_matches(entry.check, known, n=1, cutoff=0.0)
            raise ExpectationError(
                "unknown-expectation",
                path=expectations.path,
                entry=entry.entry,
                key="check",
                check=entry.check,
                closest="".join(closest),
            )
    return tuple(_judged(verdict, expectations) for verdict in verdicts)


def _judged(verdict: Verdict, expectations: Expectations) -> Verdict:
    outcome = _NOW.get(verdict.outcome)
    entry = expectations.find(verdict.check) if outcome else None
    if outcome is None or entry is None:
        return verdict
    return replace(verdict, outcome=outcome, reason=entry.reason, link=entry.link)


def _parsed(name: str, path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ExpectationError(
                "expectation-file-not-toml", path=name, problem=f"it has more than {LARGEST_FILE} bytes"
            )
        # Editors on Windows put a byte-order mark in front, which is not TOML but harmless.
        text = data.decode("utf-8-sig")
        for number, line in enumerate(text.split("\n"), start=1):
            if len(line) > LONGEST_LINE:
                raise ExpectationError(
                    "expectation-file-not-toml",
                    path=name,
                    problem=f"line {number} has more than {LONGEST_LINE} characters",
                )
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ExpectationError("expectation-file-missing", path=name) from None
    except OSError as error:
        raise ExpectationError(
            "expectation-file-unreadable", path=name, problem=error.strerror or str(error)
        ) from error
    except UnicodeDecodeError as error:
        raise ExpectationError("expectation-file-not-utf8", path=name, offset=error.start) from error
    except (ValueError, RecursionError) as error:
        # tomllib lets the errors of int() and of deep nesting through as they are.
        raise ExpectationError("expectation-file-not-toml", path=name, problem=str(error)) from error


def _tables(name: str, document: dict[str, object]) -> list[dict[str, object]]:
    for key in document:
        if key != _TABLE:
            raise ExpectationError("unknown-expectation-table", path=name, key=key)
    tables = document.get(_TABLE, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ExpectationError("expectation-not-table", path=name, key=_TABLE)
    return tables


def _entry(name: str, number: int, table: dict[str, object]) -> Expectation:
    for key in table:
        if key not in _KEYS:
            raise ExpectationError("unknown-expectation-key", path=name, entry=number, key=key)
    for key in _REQUIRED_KEYS:
        if key not in table:
            raise ExpectationError("expectation-key-missing", path=name, entry=number, key=key)
    values: dict[str, str] = {}
    for key, value in table.items():
        if not isinstance(value, str):
            raise ExpectationError(
                "expectation-value-not-string", path=name, entry=number, key=key, found=type(value).__name__
            )
        if not value.strip():
            raise ExpectationError("expectation-value-blank", path=name, entry=number, key=key)
        values[key] = value.strip()
        if key == "check" and len(values[key]) > LONGEST_CHECK:
            raise ExpectationError(
                "expectation-check-too-long",
                path=name,
                entry=number,
                key=key,
                length=len(values[key]),
                limit=LONGEST_CHECK,
            )
    return Expectation(number, values["check"], values["reason"], values.get("link", ""))
