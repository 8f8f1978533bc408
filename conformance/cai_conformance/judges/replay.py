"""The judge of replays: a second run that shares nothing with the first gives the same bytes."""

from __future__ import annotations

from typing import Final

from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness

LINES: Final = Witness("line of a second run", "lines of a second run")


def judge_replay(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the main trace with that of a fresh process, another hash seed and another thread count."""
    if isinstance(evidence.backend, TraceFileBackend):
        _ = evidence.replay  # It refuses; its bytes, of which there may be very many, are not needed for that.
    first, second = evidence.main_bytes, evidence.replay
    if first == second:
        text = f"a second run in a fresh process gave the same {len(first)} bytes"
        return (Finding.passed(text, met=[LINES.met(second.count(b"\n"))]),)
    lines = zip(first.split(b"\n"), second.split(b"\n"), strict=False)
    for number, (one, other) in enumerate(lines, start=1):
        if one != other:
            shown = one.decode("utf-8", "replace"), other.decode("utf-8", "replace")
            return (Finding.failed(f"line {number} changed from {_short(shown[0])} to {_short(shown[1])}"),)
    return (Finding.failed(f"the second run gave {len(second)} bytes, the first {len(first)}"),)


def _short(line: str, limit: int = 60) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"
