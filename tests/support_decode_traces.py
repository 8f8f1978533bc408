"""Traces of the decode suites for the tests of their judges: the accepted goldens, and ways to damage them.

Nothing is trained here. A change edits lines of a golden and seals the result, so that only the judge in question can
see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from cai_conformance.checks.evidence import Question
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.questions import Options, question_for
from cai_conformance.run.runner import SuiteRun, run_suites
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Verdict
from support_traces import StoredBackend, sealed, with_field

Change = Callable[[bytes], bytes]

DRIVEN: Final = frozenset(
    {
        "kv.batch",
        "rope.shift",
        "kv.steps",
        "kv.cuts",
        "kv.rollback",
        "kv.reuse",
        "kv.edge",
        "kv.window",
        "kv.poison",
        "kv.fail",
        "spec.twin",
        "spec.rows",
        "eval.pure",
        "eval.batch",
        "grad.accum",
        "grad.fd",
        "loss.shift",
        "loss.given",
        "grad.given",
        "opt.given",
        "ckpt.roundtrip",
        "ckpt.resume",
        "ckpt.strict",
    }
)
"""The checks of every suite that drive a backend call by call, which no trace can answer."""
DRIVEN_TOO: Final = {
    **dict.fromkeys(
        ("cai.diagonal-ssm", "cai.hybrid", "cai.grouped-hybrid"), frozenset({"ssm.split", "ssm.boundary", "ssm.snap"})
    ),
    "cai.multi-token": frozenset({"mtp.self"}),
}
"""Those of some suites."""


def driven(suite: str) -> frozenset[str]:
    """Return the checks of a suite that drive a backend."""
    return DRIVEN | DRIVEN_TOO.get(suite, frozenset())


@cache
def golden_of(suite: str) -> bytes:
    """Return the accepted trace of a suite."""
    return GoldenStore(locate()).read(suite).trace


@cache
def question_about(suite: str, profile: str = "golden") -> Question:
    """Return what is asked of a backend about a suite; only the own profile has a golden."""
    asked = question_for(find_suite(suite), GoldenStore(locate()), Options())
    if profile == "golden":
        return asked
    return replace(asked, request=replace(asked.request, profile=profile), golden=None)


def verdicts_on(
    suite: str,
    data: bytes,
    *checks: str,
    asked: Question | None = None,
    more: Mapping[str, bytes | BaseException] | None = None,
) -> dict[str, Verdict]:
    """Judge a trace by some checks, with what they require, or by all; by check id without the suite."""
    question = question_about(suite) if asked is None else asked
    answers = {question.request.profile: data, **(more or {})}
    backend = StoredBackend(answers, {question.request.profile: data})
    wanted = {f"{suite}::{check}" for check in checks}
    runs = [SuiteRun(find_suite(suite), question)]
    verdicts = run_suites(runs, backend, lambda check: not wanted or check in wanted)
    return {verdict.check.partition("::")[2]: verdict for verdict in verdicts}


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def field(record: str, name: str, value: str) -> Change:
    """Replace a field of the first line that starts with `record`."""
    return lambda data: with_field(record, name, value, data)


def items(record: str, name: str, change: Callable[[list[str]], list[str]]) -> Change:
    """Replace the items of a list field of the first line that starts with `record`."""

    def changed(data: bytes) -> bytes:
        line = next(line for line in data.decode().split("\n") if line.startswith(record))
        text = next(piece for piece in line.split("|") if piece.startswith(f"{name}=["))
        found = text[len(name) + 2 : -1].split(", ")
        return with_field(record, name, f"[{', '.join(change(found))}]", data)

    return changed


def item(record: str, name: str, place: int, value: str) -> Change:
    """Replace one item of a list field of the first line that starts with `record`."""
    return items(record, name, lambda found: [*found[:place], value, *found[place + 1 :]])


def without(*records: str) -> Change:
    """Leave out all lines that start with one of `records`."""

    def changed(data: bytes) -> bytes:
        kept = [line for line in data.decode().split("\n") if not line.startswith(records)]
        return sealed("\n".join(kept).encode())

    return changed


def everywhere(record: str, name: str, value: str) -> Change:
    """Replace a field of every line that starts with `record`."""

    def changed(data: bytes) -> bytes:
        lines = data.decode().split("\n")
        for place, line in enumerate(lines):
            if line.startswith(record):
                pieces = line.split("|")
                lines[place] = "|".join(
                    f"{name}={value}" if piece.startswith(f"{name}=") else piece for piece in pieces
                )
        return sealed("\n".join(lines).encode())

    return changed


def both(*changes: Change) -> Change:
    """Make several changes, one after the other."""

    def changed(data: bytes) -> bytes:
        for change in changes:
            data = change(data)
        return data

    return changed
