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
    ├── ExpectationFileMissing       there is no such file
    ├── ExpectationFileUnreadable    it is a folder, or not for us to read
    ├── ExpectationFileNotUtf8       its bytes are not UTF-8
    ├── ExpectationFileNotToml       its text is not TOML
    ├── UnknownExpectationTable      it has a key at the top that is not `expected-failure`
    ├── ExpectationNotTable          `expected-failure` is not an array of tables
    ├── UnknownExpectationKey        an entry has a key of another name
    ├── ExpectationKeyMissing        an entry lacks `check` or `reason`
    ├── ExpectationValueBlank        an entry has a value that is empty or white space
    ├── ExpectationValueNotString    an entry has a value that is not a string
    ├── ExpectationCheckTooLong      an entry has a check that is longer than any id
    ├── DuplicateExpectation         two entries have the same `check`
    └── UnknownExpectation           an entry names no known check
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar, Final

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


@dataclass(eq=False)
class ExpectationError(InputError):
    """The expected-failure file cannot be used; `path` is the file as it was given."""

    path: str


@dataclass(eq=False)
class ExpectationFileMissing(ExpectationError):
    """There is no such file."""

    template: ClassVar[str] = "{path}: no such expected-failure file"


@dataclass(eq=False)
class ExpectationFileUnreadable(ExpectationError):
    """The file is there but cannot be read."""

    template: ClassVar[str] = "{path}: the expected-failure file cannot be read: {problem}"
    problem: str


@dataclass(eq=False)
class ExpectationFileNotUtf8(ExpectationError):
    """The bytes of the file are not UTF-8; `offset` is the first wrong byte, from 0."""

    template: ClassVar[str] = "{path}: not UTF-8 at byte {offset}"
    offset: int


@dataclass(eq=False)
class ExpectationFileNotToml(ExpectationError):
    """The text of the file is not TOML, or too long for what it has to say."""

    template: ClassVar[str] = "{path}: not TOML: {problem}"
    problem: str


@dataclass(eq=False)
class UnknownExpectationTable(ExpectationError):
    """The file has a key at its top that means nothing."""

    template: ClassVar[str] = "{path}: unknown key {key!r}; entries are written under [[expected-failure]]"
    key: str


@dataclass(eq=False)
class ExpectationNotTable(ExpectationError):
    """`expected-failure` is something else than an array of tables."""

    template: ClassVar[str] = "{path}: {key} must be an array of tables; write [[expected-failure]] above each entry"
    key: str


@dataclass(eq=False)
class ExpectationEntryError(ExpectationError):
    """One entry is wrong: its number, from 1, and the key at fault."""

    entry: int
    key: str


@dataclass(eq=False)
class UnknownExpectationKey(ExpectationEntryError):
    """An entry has a key that means nothing."""

    template: ClassVar[str] = "{path}: entry {entry}: unknown key {key!r}; the keys are check, reason and link"


@dataclass(eq=False)
class ExpectationKeyMissing(ExpectationEntryError):
    """An entry lacks a key that every entry needs."""

    template: ClassVar[str] = "{path}: entry {entry}: {key} is missing"


@dataclass(eq=False)
class ExpectationValueBlank(ExpectationEntryError):
    """A value is empty or white space."""

    template: ClassVar[str] = "{path}: entry {entry}: {key} is blank"


@dataclass(eq=False)
class ExpectationValueNotString(ExpectationEntryError):
    """A value is not a string; `found` names its Python type."""

    template: ClassVar[str] = "{path}: entry {entry}: {key} must be a string, not {found}"
    found: str


@dataclass(eq=False)
class ExpectationCheckTooLong(ExpectationEntryError):
    """A `check` is longer than any id; looking for the closest one would take for ever."""

    template: ClassVar[str] = "{path}: entry {entry}: {key} has {length} characters; the limit is {limit}"
    length: int
    limit: int


@dataclass(eq=False)
class DuplicateExpectation(ExpectationEntryError):
    """Two entries have the same `check`; `first` is the number of the earlier one."""

    template: ClassVar[str] = "{path}: entry {entry}: {key} {check!r} is already in entry {first}"
    check: str
    first: int


@dataclass(eq=False)
class UnknownExpectation(ExpectationEntryError):
    """An entry names no known check; `closest` is the known id that looks most like it, or empty if none is known."""

    template: ClassVar[str] = (
        "{path}: entry {entry}: {key} {check!r} matches no known check; the closest is {closest!r}"
    )
    hint: ClassVar[str] = "cai-conform list"
    check: str
    closest: str


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
            raise DuplicateExpectation(name, number, "check", entry.check, numbers[entry.check])
        numbers[entry.check] = number
        entries.append(entry)
    return Expectations(name, tuple(entries))


def apply_expectations(
    verdicts: Iterable[Verdict], expectations: Expectations, known_checks: Iterable[str]
) -> tuple[Verdict, ...]:
    """Turn expected failures into `xfail` and unexpected passes into `xpass`, with the reason and link of the entry.

    `known_checks` are the full ids of every check there is, selected or not. Skipped, blocked and errored verdicts stay
    as they are: they say nothing about whether the check would pass. Raises `UnknownExpectation` for the first entry
    that matches no known check.
    """
    known = sorted(known_checks)
    for entry in expectations.entries:
        if not any(entry.matches(check) for check in known):
            closest = difflib.get_close_matches(entry.check, known, n=1, cutoff=0.0)
            raise UnknownExpectation(expectations.path, entry.entry, "check", entry.check, "".join(closest))
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
            raise ExpectationFileNotToml(name, f"it has more than {LARGEST_FILE} bytes")
        # Editors on Windows put a byte-order mark in front, which is not TOML but harmless.
        text = data.decode("utf-8-sig")
        for number, line in enumerate(text.split("\n"), start=1):
            if len(line) > LONGEST_LINE:
                raise ExpectationFileNotToml(name, f"line {number} has more than {LONGEST_LINE} characters")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ExpectationFileMissing(name) from None
    except OSError as error:
        raise ExpectationFileUnreadable(name, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ExpectationFileNotUtf8(name, error.start) from error
    except (ValueError, RecursionError) as error:
        # tomllib lets the errors of int() and of deep nesting through as they are.
        raise ExpectationFileNotToml(name, str(error)) from error


def _tables(name: str, document: dict[str, object]) -> list[dict[str, object]]:
    for key in document:
        if key != _TABLE:
            raise UnknownExpectationTable(name, key)
    tables = document.get(_TABLE, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ExpectationNotTable(name, _TABLE)
    return tables


def _entry(name: str, number: int, table: dict[str, object]) -> Expectation:
    for key in table:
        if key not in _KEYS:
            raise UnknownExpectationKey(name, number, key)
    for key in _REQUIRED_KEYS:
        if key not in table:
            raise ExpectationKeyMissing(name, number, key)
    values: dict[str, str] = {}
    for key, value in table.items():
        if not isinstance(value, str):
            raise ExpectationValueNotString(name, number, key, type(value).__name__)
        if not value.strip():
            raise ExpectationValueBlank(name, number, key)
        values[key] = value.strip()
        if key == "check" and len(values[key]) > LONGEST_CHECK:
            raise ExpectationCheckTooLong(name, number, key, len(values[key]), LONGEST_CHECK)
    return Expectation(number, values["check"], values["reason"], values.get("link", ""))
