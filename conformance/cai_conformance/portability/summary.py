"""The portability table in a few lines, for `cai-conform doctor` and for whoever has just recorded it."""

from __future__ import annotations

from collections.abc import Iterator

from cai_conformance.goldens import GoldenStore
from cai_conformance.portability.classes import Standing, worst_of
from cai_conformance.portability.table import ArithmeticTable, Table


def overview(table: Table, store: GoldenStore) -> Iterator[tuple[str, str]]:
    """Yield names and values for a fingerprint: what was recorded, then each arithmetic with its worst record.

    Raises:
        ManifestDamaged: the manifest of the goldens cannot be used.
    """
    versions = " and ".join(sorted({run.numpy for run in table.runs}))
    told = [f"{_counted(len(table.suites), 'suite')}, {_counted(len(table.recorded), 'setting')}, NumPy {versions}"]
    for text, suites in (("OTHER GOLDENS than now", table.stale(store)), ("not recorded", table.unrecorded(store))):
        told += [f"{text}: {', '.join(suites)}"] if suites else []
    yield "portability", "; ".join(told)
    for name in sorted({name for suite in table.suites.values() for name in suite.arithmetics}, key=_place):
        parts = {key: each.arithmetics[name] for key, each in table.suites.items() if name in each.arithmetics}
        settings = sum(name in run.arithmetics for run in table.runs)
        yield f"portable {name}", _sentence(parts, f" under {_counted(settings, 'setting')}")


def suite_lines(table: Table) -> Iterator[str]:
    """Yield one line a suite and arithmetic."""
    for suite, each in sorted(table.suites.items()):
        for name, part in sorted(each.arithmetics.items(), key=lambda item: _place(item[0])):
            yield f"{suite}: {name}: {_sentence({suite: part})}"


def _sentence(parts: dict[str, ArithmeticTable], where: str = "") -> str:
    """Return the counts of the classes that occur, where that was seen, and the record that moves most."""
    records = [(f"{suite} {label}", each) for suite, part in parts.items() for label, each in part.moved.items()]
    most = max((each.ulp for _, each in records if each.standing is Standing.ULP), default=0)
    words = {standing: standing.value for standing in Standing} | {
        Standing.ULP: f"within {most} ULP",
        Standing.UNSTABLE: "UNSTABLE",
    }
    numbers = {standing: sum(part.counts[standing] for part in parts.values()) for standing in Standing}
    counts = ", ".join(f"{number} {words[standing]}" for standing, number in numbers.items() if number) + where
    worst = worst_of(records)
    if worst is None:
        return counts
    label, found = worst
    return f"{counts}; most: {label}, {found} ({found.setting})"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _place(name: str) -> tuple[int, str]:
    order = ("strict/1", "libm/1", "fast")
    return (order.index(name) if name in order else len(order), name)
