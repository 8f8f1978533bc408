"""The portability table: which records stay as they are under which settings, as data and as a file.

It names each golden by its SHA-256, so that a table of other goldens is noticed.

The portability table in a few lines, for `cai-conform doctor` and for whoever has just recorded it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from cai_conformance import strict_json
from cai_conformance.checks.finding import counted
from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.records import PORTABILITY, TRACE
from cai_conformance.fixtures.goldens.store import GoldenStore
from cai_conformance.run.portability.classes import BitClass, RecordClass, class_of, worst_of
from cai_conformance.run.portability.processes import PortabilityRun, TableDamaged
from cai_conformance.run.portability.settings import Facts
from cai_reference.arithmetic.instances import STRICT

FORMAT: Final = 1
"""Changed whenever readers of the file have to be."""


@dataclass(frozen=True)
class ArithmeticTable:
    """One suite in one arithmetic.

    Attributes:
        invariant: how many records of each kind never move.
        moved: the class of every other record, by its label.
    """

    invariant: Mapping[str, int]
    moved: Mapping[str, RecordClass]

    @classmethod
    def of(cls, classes: Mapping[str, RecordClass]) -> ArithmeticTable:
        """Gather the classes of all records."""
        still = sorted(label.partition(" ")[0] for label, each in classes.items() if not each.rank[0])
        return cls(
            {kind: len(list(several)) for kind, several in groupby(still)},
            {label: each for label, each in classes.items() if each.rank[0]},
        )

    @property
    def counts(self) -> dict[BitClass, int]:
        """How many records have each class, in the order of the classes."""
        found = dict.fromkeys(BitClass, 0)
        found[BitClass.INVARIANT] = sum(self.invariant.values())
        for each in self.moved.values():
            found[each.standing] += 1
        return found


@dataclass(frozen=True)
class SuiteTable:
    """One suite: the SHA-256 of its golden trace, and its records by arithmetic."""

    golden: str
    arithmetics: Mapping[str, ArithmeticTable]


@dataclass(frozen=True)
class PortabilityTable:
    """Runs, the baseline first, and suites by their ids."""

    runs: tuple[PortabilityRun, ...]
    suites: Mapping[str, SuiteTable]

    @property
    def recorded(self) -> tuple[PortabilityRun, ...]:
        """The runs that count."""
        return tuple(run for run in self.runs if run.counts)

    @property
    def strict_is_invariant(self) -> bool:
        """Whether no record moves in strict arithmetic, as is promised."""
        return not any(each.arithmetics[STRICT.identifier].moved for each in self.suites.values())

    def joined(self, other: PortabilityTable, path: str) -> PortabilityTable:
        """Return this table with the suites of another one added or replaced; `path` is for the error.

        Raises:
            GoldenError (other-circumstances): it was recorded under other settings, libraries or versions.
        """
        if self.runs != other.runs:
            raise GoldenError("other-circumstances", path=path)
        return PortabilityTable(self.runs, {**self.suites, **other.suites})

    def stale(self, store: GoldenStore) -> tuple[str, ...]:
        """Return the suites that were recorded with another golden than a store has now, or have none there.

        Raises:
            GoldenError (manifest-damaged): the manifest cannot be used.
        """
        return tuple(suite for suite, each in self.suites.items() if each.golden != golden_digest(store, suite))

    def unrecorded(self, store: GoldenStore) -> tuple[str, ...]:
        """Return the suites of a store that this table says nothing about.

        Raises:
            GoldenError (manifest-damaged): the manifest cannot be used.
        """
        return tuple(suite for suite in store.suites() if suite not in self.suites)


def golden_digest(store: GoldenStore, suite: str) -> str:
    """Return the SHA-256 of a golden trace, as the manifest has it; empty where there is none.

    Raises:
        GoldenError (manifest-damaged): the manifest cannot be used.
    """
    entry = store.entry(suite)
    listed = entry.file(TRACE) if entry is not None else None
    return listed.sha256 if listed is not None else ""


def write(table: PortabilityTable) -> bytes:
    """Return the file: JSON with sorted keys, the records that move most under one setting beside each other."""
    suites = {
        suite: {
            "golden": each.golden,
            "arithmetics": {name: _arithmetic_page(part) for name, part in each.arithmetics.items()},
        }
        for suite, each in table.suites.items()
    }
    runs = [
        {
            "numpy": run.numpy,
            "setting": run.setting,
            "standing": run.standing,
            "arithmetics": list(run.arithmetics),
            "facts": run.facts.texts if run.facts is not None else {},
        }
        for run in table.runs
    ]
    return strict_json.write_page({"format": FORMAT, "runs": runs, "suites": suites})


def read(data: bytes, path: str) -> PortabilityTable:
    """Read what `write` gave; `path` is for the error.

    Raises:
        TableDamaged: it is something else.
    """
    try:
        page = strict_json.obj(strict_json.parse(data), ("format", "runs", "suites"), "the table")
        if page["format"] != FORMAT:
            raise ValueError(
                f"its format is {strict_json.shown(page['format'])}, and this program knows format {FORMAT}"
            )
        runs = tuple(_run(value, f"run {place}") for place, value in enumerate(strict_json.array(page["runs"], "runs")))
        suites = {name: _suite(value, name) for name, value in _mapping(page["suites"], "suites").items()}
        table = PortabilityTable(runs, suites)
        if write(table) != data:
            raise ValueError("it is not written as this program writes it")
    except ValueError as error:
        raise TableDamaged(path, str(error)) from None
    return table


def shipped(store: GoldenStore) -> PortabilityTable | None:
    """Return the table beside the goldens of a store; None where there is none.

    Raises:
        TableDamaged: it cannot be used.
    """
    return of_file(store.root / PORTABILITY)


def of_file(path: Path) -> PortabilityTable | None:
    """Return the table of a file; None where there is none.

    Raises:
        TableDamaged: it cannot be used.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TableDamaged(str(path), error.strerror or str(error)) from None
    return read(data, str(path))


def _arithmetic_page(table: ArithmeticTable) -> strict_json.Object:
    moved: dict[str, dict[str, str]] = {}
    for label, each in table.moved.items():
        moved.setdefault(each.setting, {})[label] = str(each)
    return {"invariant": dict(table.invariant), "moved": moved}


def _run(value: object, where: str) -> PortabilityRun:
    page = strict_json.obj(value, ("numpy", "setting", "standing", "arithmetics", "facts"), where)
    facts = Facts.of(page["facts"], f"facts of {where}") if page["facts"] else None
    numpy, setting, standing = (
        strict_json.text(page[name], f"{name} of {where}") for name in ("numpy", "setting", "standing")
    )
    named = strict_json.array(page["arithmetics"], f"arithmetics of {where}")
    return PortabilityRun(
        numpy, setting, standing, facts, tuple(strict_json.text(name, f"an arithmetic of {where}") for name in named)
    )


def _suite(value: object, where: str) -> SuiteTable:
    page = strict_json.obj(value, ("golden", "arithmetics"), where)
    parts = _mapping(page["arithmetics"], f"arithmetics of {where}").items()
    return SuiteTable(
        strict_json.sha256(page["golden"], f"golden of {where}"),
        {name: _arithmetic(part, f"{name} of {where}") for name, part in parts},
    )


def _arithmetic(value: object, where: str) -> ArithmeticTable:
    page = strict_json.obj(value, ("invariant", "moved"), where)
    invariant = _mapping(page["invariant"], f"invariant of {where}").items()
    return ArithmeticTable(
        {kind: strict_json.count(number, f"{kind} of {where}") for kind, number in invariant},
        dict(_moved(_mapping(page["moved"], f"moved of {where}"), where)),
    )


def _moved(page: Mapping[str, object], where: str) -> Iterable[tuple[str, RecordClass]]:
    for setting, records in page.items():
        for label, text in _mapping(records, f"moved under {setting} of {where}").items():
            yield label, class_of(strict_json.text(text, f"{label} of {where}"), setting)


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is not an object")
    return value


def overview(table: PortabilityTable, store: GoldenStore) -> Iterator[tuple[str, str]]:
    """Yield names and values for a fingerprint: what was recorded, then each arithmetic with its worst record.

    Raises:
        GoldenError (manifest-damaged): the manifest of the goldens cannot be used.
    """
    versions = " and ".join(sorted({run.numpy for run in table.runs}))
    told = [f"{counted(len(table.suites), 'suite')}, {counted(len(table.recorded), 'setting')}, NumPy {versions}"]
    for text, suites in (("OTHER GOLDENS than now", table.stale(store)), ("not recorded", table.unrecorded(store))):
        told += [f"{text}: {', '.join(suites)}"] if suites else []
    yield "portability", "; ".join(told)
    for name in sorted({name for suite in table.suites.values() for name in suite.arithmetics}, key=_place):
        parts = {key: each.arithmetics[name] for key, each in table.suites.items() if name in each.arithmetics}
        settings = sum(name in run.arithmetics for run in table.runs)
        yield f"portable {name}", _sentence(parts, f" under {counted(settings, 'setting')}")


def suite_lines(table: PortabilityTable) -> Iterator[str]:
    """Yield one line a suite and arithmetic."""
    for suite, each in sorted(table.suites.items()):
        for name, part in sorted(each.arithmetics.items(), key=lambda item: _place(item[0])):
            yield f"{suite}: {name}: {_sentence({suite: part})}"


def _sentence(parts: dict[str, ArithmeticTable], where: str = "") -> str:
    """Return the counts of the classes that occur, where that was seen, and the record that moves most."""
    records = [(f"{suite} {label}", each) for suite, part in parts.items() for label, each in part.moved.items()]
    most = max((each.ulp for _, each in records if each.standing is BitClass.ULP), default=0)
    words = {standing: standing.value for standing in BitClass} | {
        BitClass.ULP: f"within {most} ULP",
        BitClass.UNSTABLE: "UNSTABLE",
    }
    numbers = {standing: sum(part.counts[standing] for part in parts.values()) for standing in BitClass}
    counts = ", ".join(f"{number} {words[standing]}" for standing, number in numbers.items() if number) + where
    worst = worst_of(records)
    if worst is None:
        return counts
    label, found = worst
    return f"{counts}; most: {label}, {found} ({found.setting})"


def _place(name: str) -> tuple[int, str]:
    order = ("strict/1", "libm/1", "fast")
    return (order.index(name) if name in order else len(order), name)
