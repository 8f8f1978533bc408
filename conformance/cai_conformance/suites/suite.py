"""What a suite is: an id, a version, inputs, and checks with levels and prerequisites.

Names are for good: a suite id, a check name or a case is never reused for something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cai_conformance.checks.check import Check
from cai_conformance.fixtures.inputs import GoldenFiles, SuiteInput
from cai_conformance.fixtures.vectors import VectorCase
from cai_conformance.trace.grammar import Grammar


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
