"""Traces of the neural n-gram for the tests of judges, runner and command line, and ways to damage them.

The traces are the accepted golden and the reference's answers to the vector cases; nothing is trained here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest, ask
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.checks.evidence import Evidence, Question
from cai_conformance.fixtures.goldens.records import Candidate
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.questions import Options, question_for
from cai_conformance.run.runner import SuiteRun, run_suites
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Outcome, Verdict

SUITE: Final = find_suite("course.ngram")


@cache
def golden_bytes() -> bytes:
    """Return the accepted trace."""
    return GoldenStore(locate()).read(SUITE.identifier).trace


def candidate_of(trace: bytes) -> Candidate:
    """Return the accepted golden with another trace, as a candidate."""
    golden = GoldenStore(locate()).read(SUITE.identifier)
    entry, files = golden.entry, {**golden.files, "trace.txt": trace}
    return Candidate(SUITE.identifier, files, entry.suite_version, entry.arithmetic, entry.command, entry.records)


@cache
def question() -> Question:
    """Return what is asked of a backend if no option is given."""
    return question_for(SUITE, GoldenStore(locate()), Options())


def question_of(profile: str, arithmetic: str = "strict/1") -> Question:
    """Return the question of another profile or arithmetic; only the own profile has a golden."""
    own = question()
    request = replace(own.request, profile=profile, arithmetic=arithmetic)
    return replace(own, request=request, golden=own.golden if profile == "golden" else None)


@cache
def edges_bytes() -> bytes:
    """Return the reference's answers to the vector cases."""
    return ask(ReferenceBackend(), replace(question().request, profile="edges"))


def sealed(data: bytes) -> bytes:
    """Return a trace with the count and digest that its other lines really have."""
    head = data[: data.rindex(b"\nEND|") + 1]
    digest = hashlib.sha256(head).hexdigest()
    return head + f"END|records={head.count(10) - 1}|digest=sha256:{digest}\n".encode()


def changed(before: str, after: str, data: bytes | None = None) -> bytes:
    """Return a trace, the golden if none is given, with the first occurrence of a text replaced, and sealed."""
    source = golden_bytes() if data is None else data
    assert before.encode() in source, before
    return sealed(source.replace(before.encode(), after.encode(), 1))


def with_field(record: str, name: str, value: str, data: bytes | None = None) -> bytes:
    """Return a trace with one field of the first line that starts with `record` replaced, and sealed."""
    lines = (golden_bytes() if data is None else data).decode().split("\n")
    place = next(place for place, line in enumerate(lines) if line.startswith(record))
    pieces = lines[place].split("|")
    at = next(at for at, piece in enumerate(pieces) if piece.startswith(f"{name}="))
    pieces[at] = f"{name}={value}"
    lines[place] = "|".join(pieces)
    return sealed("\n".join(lines).encode())


def field_of(record: str, name: str, data: bytes | None = None) -> str:
    """Return the text of a field of the first line that starts with `record`."""
    lines = (golden_bytes() if data is None else data).decode().split("\n")
    line = next(line for line in lines if line.startswith(record))
    return next(piece.partition("=")[2] for piece in line.split("|") if piece.startswith(f"{name}="))


def without_bits(data: bytes | None = None) -> bytes:
    """Return a trace without BITS records, as a program without exact doubles writes it, sealed."""
    source = golden_bytes() if data is None else data
    return sealed(b"".join(line for line in source.splitlines(keepends=True) if not line.startswith(b"BITS|")))


@dataclass
class StoredBackend:
    """A backend that answers from stored bytes, and counts how often it is asked.

    `answers` and `second` map a profile to the bytes of the first and of the second run, or to what is raised instead.
    """

    answers: Mapping[str, bytes | BaseException]
    second: Mapping[str, bytes | BaseException] = field(default_factory=dict)
    name: str = "stored"
    asked: list[str] = field(default_factory=list)

    def trace(self, request: TraceRequest) -> bytes:
        """Answer from `answers`."""
        self.asked.append(request.profile)
        return self._from(self.answers, request)

    def replay(self, request: TraceRequest) -> bytes:
        """Answer from `second`."""
        self.asked.append("replay")
        return self._from(self.second, request)

    def _from(self, answers: Mapping[str, bytes | BaseException], request: TraceRequest) -> bytes:
        if request.profile not in answers:
            raise NotOffered(self.name, f"profile {request.profile}", "it is not stored")
        answer = answers[request.profile]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def conforming(**answers: bytes | BaseException) -> StoredBackend:
    """Return a backend that conforms, except in the answers given by profile; `second` is its second run."""
    second = answers.pop("second", answers.get("golden", golden_bytes()))
    right: dict[str, bytes | BaseException] = {"golden": golden_bytes(), "edges": edges_bytes()}
    return StoredBackend(right | answers, {"golden": second, "foreign": second, "published": second})


def evidence_of(data: bytes, asked: Question | None = None, edges: bytes | None = None) -> Evidence:
    """Return the evidence of a backend whose main trace is `data`."""
    given = question() if asked is None else asked
    answers: dict[str, bytes] = {"edges": edges_bytes() if edges is None else edges, given.request.profile: data}
    return Evidence(StoredBackend(answers, {given.request.profile: data}), given)


def judged(backend: StoredBackend, asked: Question | None = None, jobs: int = 1) -> dict[str, Verdict]:
    """Return all verdicts on a backend by the id of their check, without the suite."""
    runs = [SuiteRun(SUITE, question() if asked is None else asked)]
    verdicts = run_suites(runs, backend, lambda _: True, jobs)
    return {verdict.check.partition("::")[2]: verdict for verdict in verdicts}


def with_outcome(verdicts: Mapping[str, Verdict], outcome: Outcome) -> list[str]:
    """Return the checks that have this outcome."""
    return [check for check, verdict in verdicts.items() if verdict.outcome is outcome]
