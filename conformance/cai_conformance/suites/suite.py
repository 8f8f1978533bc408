"""What a suite is: an id, a version, inputs, and checks with levels and prerequisites.

Names are for good: a suite id, a check name or a case is never reused for something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness
from cai_conformance.trace.schema import Grammar
from cai_conformance.vectors import VectorCase
from cai_conformance.verdicts import Level


@dataclass(frozen=True)
class Check:
    """One thing that is judged.

    Attributes:
        name: such as `tok.fit`; with the suite it makes the id `course.ngram::tok.fit`.
        level: where it stands in its track.
        summary: what passing means, in one line.
        explanation: what it compares, and what a failure usually means.
        judge: looks at the evidence; one finding a case.
        cases: the names of the cases, known before anything runs; empty where the check has none.
        requires: names of checks that must not have failed.
        needs_replay: whether it looks at a second run.
        of_edges: whether a trace that only answers vector cases can be judged by it.
        witnesses: what it must have met; a pass that did not is none. Its judge counts them by their names.
    """

    name: str
    level: Level
    summary: str
    explanation: str
    judge: Callable[[Evidence], tuple[Finding, ...]]
    cases: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    needs_replay: bool = False
    of_edges: bool = False
    witnesses: tuple[Witness, ...] = ()


@dataclass(frozen=True)
class SuiteInput:
    """What a suite is run on: the bytes of a corpus and of its split manifest, and the profile that they make."""

    corpus: bytes
    splits: bytes
    profile: str


@dataclass(frozen=True)
class GoldenFiles:
    """What a golden is made of, besides the trace: vectors, given weights, and what stands beside these, by name."""

    vectors: bytes
    weights: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """One suite.

    Attributes:
        identifier: such as `course.ngram`.
        version: changed with any change of what the suite asks or expects.
        title: what it is about, in a few words.
        description: a short paragraph for `explain`.
        arithmetic: the one in which its golden is recorded.
        grammar: the records of its traces.
        checks: in the order of judging; a prerequisite stands before what requires it.
        default_input: the suite's own input.
        input_of: makes an input of foreign bytes, and finds its profile.
        cases: the vector cases, without answers.
        record_files: makes vectors and weights anew, by running the reference.
        takes_stories: whether foreign input is a file of stories, and not a corpus with its split.
        weights_file: the file of its golden that holds the given weights.
    """

    identifier: str
    version: str
    title: str
    description: str
    arithmetic: str
    grammar: Grammar
    checks: tuple[Check, ...]
    default_input: Callable[[], SuiteInput]
    input_of: Callable[[bytes, bytes], SuiteInput]
    cases: Callable[[], tuple[VectorCase, ...]]
    record_files: Callable[[], GoldenFiles]
    takes_stories: bool = False
    weights_file: str = "weights.safetensors"

    def default_arithmetic(self, profile: str) -> str:
        """Return the arithmetic of a profile where the user names none: `fast` at published decoder sizes."""
        return "fast" if self.takes_stories and profile == "published" else self.arithmetic

    def check(self, name: str) -> Check:
        """Return the check of this name; KeyError if there is none."""
        return next(check for check in self.checks if check.name == name)

    def check_ids(self) -> tuple[str, ...]:
        """Return every full id, `suite::check` or `suite::check[case]`, in the order of judging."""
        return tuple(
            f"{self.identifier}::{check.name}{suffix}"
            for check in self.checks
            for suffix in ([f"[{case}]" for case in check.cases] or [""])
        )
