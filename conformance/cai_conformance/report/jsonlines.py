"""The report for programs: one JSON object a line, first the run, then every verdict, last the summary.

`cai_conformance.report.schema` describes these lines. They are plain ASCII, so that no pipe's encoding can spoil them,
and strict JSON: a time that is not finite becomes null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from cai_conformance.report.words import exit_meaning
from cai_conformance.verdicts import Explanation, Report, Verdict

FORMAT_VERSION = 1
"""The version of these lines; it changes when a reader of the old ones could misread the new ones."""


def render_jsonlines(report: Report) -> Iterator[str]:
    """The lines of a report, without line ends."""
    yield _line(_run(report))
    for verdict in report.verdicts:
        yield _line(_verdict(verdict))
    yield _line(_summary(report))


def _run(report: Report) -> dict[str, object]:
    versions = report.versions
    return {
        "type": "run",
        "format": FORMAT_VERSION,
        "backend": report.backend,
        "versions": vars(versions) | {"suites": dict(versions.suites), "vectors": dict(versions.vectors)},
        "required": report.required.value if report.required else None,
        "notes": list(report.notes),
    }


def _explanation(explanation: Explanation) -> dict[str, object]:
    """Return an explanation; numbers that JSON has not become null."""
    return vars(explanation) | {"expected": _finite(explanation.expected), "found": _finite(explanation.found)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _verdict(verdict: Verdict) -> dict[str, object]:
    return {
        "type": "verdict",
        "check": verdict.check,
        "suite": verdict.suite,
        "level": verdict.level.value,
        "track": verdict.level.track,
        "outcome": verdict.outcome.value,
        "message": verdict.message,
        "met": dict(verdict.met),
        "differences": [vars(difference) for difference in verdict.differences],
        "explanation": None if verdict.explanation is None else _explanation(verdict.explanation),
        "reason": verdict.reason,
        "link": verdict.link,
        "seconds": verdict.seconds if math.isfinite(verdict.seconds) else None,
    }


def _summary(report: Report) -> dict[str, object]:
    return {
        "type": "summary",
        "counts": {outcome.value: count for outcome, count in report.counts().items()},
        "exit_code": report.exit_code(),
        "meaning": exit_meaning(report),
    }


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=True)
