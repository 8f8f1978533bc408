"""Every error that the conformance package raises on its own account.

::

    ConformanceError
    ├── TraceError               the text of a trace breaks the grammar or its envelope
    ├── GoldenError              the goldens cannot be read, or must not be written
    ├── BackendError             a backend is unknown, failed to import, crashed or hung
    ├── SelectionError           a suite, check or filter names nothing
    ├── InputError               a corpus, manifest or expectation file cannot be used
    └── FixtureError             an experiment stopped: an inner error with the stage that raised it

An error carries its values as fields, one sentence as text, and, where there is one, the next command to try.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from cai_reference.errors import CodedError

CONFORMANCE_TEMPLATES: Final[Mapping[str, str]] = {
    # An experiment stopped: the stage that raised, then the inner text.
    "fixture-error": "{stage}: {inner}",
    # A file cannot be read.
    "input-unreadable": "{path!r} cannot be read: {problem}",
    # A file is beyond the size that anything here can use.
    "input-too-large": "{path!r} holds {size} bytes; the limit is {limit}",
    # A backend specification names nothing.
    "unknown-backend": "backend {spec!r} is unknown; known are {known}",
    # A backend given as `module:attribute` or by an entry point cannot be loaded.
    "backend-not-importable": "backend {spec!r} cannot be loaded: {problem}",
    # A backend raised, exited or printed something that is not an answer.
    "backend-crashed": "{backend} crashed: {problem}",
    # A trace file cannot be read.
    "trace-file-unreadable": "trace file {path!r} cannot be read: {problem}",
    # A policy is none of the four, or its number is no number.
    "unknown-policy": "policy {text!r} is unknown; it is exact, ulp:N, measured or auto",
    # There is no folder of goldens where one was looked for; `source` says who named the place.
    "golden-folder-missing": "No golden folder at {path} (named by {source}).",
    # The manifest lists no golden for the suite.
    "golden-missing": "There is no golden for suite {suite} in {root}.",
    # A golden file, the manifest and the ledger do not tell the same story.
    "golden-disagrees": "Golden {path}: {problem}.",
    # The operating system refused to read a golden file.
    "golden-unreadable": "Golden {path} cannot be read: {cause}.",
    # The manifest is not what this program writes, or is missing.
    "manifest-damaged": "The manifest {path} is damaged: {problem}.",
    # The ledger is not what this program writes.
    "ledger-damaged": "The ledger {path} is damaged: {problem}.",
    # A golden changes only with a reason.
    "reason-missing": "A golden changes only with a reason, and none was given.",
    # Continuous integration compares goldens and never writes them; `value` is that of the variable CI.
    "refused-in-ci": "CI never writes a golden (the environment variable CI is {value!r}).",
    # The folder of goldens, or a file in it, must not be written.
    "golden-read-only": "Golden {path} cannot be replaced: {problem}.",
    # A suite or file name that would not be the same name on every file system; `kind` is suite or file.
    "name-unusable": "The {kind} name {name!r} is not made of [a-z0-9_.-], or starts or ends with a dot.",
    # A proposed golden is not complete.
    "candidate-unusable": "The proposed golden of suite {suite} cannot be accepted: {problem}.",
    # The operating system refused a write before the first file was replaced.
    "golden-write-failed": "Nothing in {root} was changed, because it could not be written: {cause}.",
    # The operating system refused to replace a file after another was replaced; each file is whole, old or new.
    "golden-not-placed": "Accepting was interrupted, and not every file in {root} is replaced: {cause}.",
    # A Python interpreter cannot record.
    "interpreter-unusable": "interpreter {path!r} cannot record: {problem}",
    # A recording under a setting ended without a trace.
    "recording-failed": "a recording under '{setting}' failed: {problem}",
    # Suites cannot be added to a table that was recorded under other settings, libraries or versions.
    "other-circumstances": "The suites cannot join {path}, which was recorded under other settings or libraries.",
    # A model folder, or its settings, cannot be read.
    "folder-unreadable": "the model folder {folder!r} cannot be read: {problem}",
    # A prompt, or the calls that feed it, cannot be read.
    "calls-unreadable": "the calls {text!r} cannot be made: {problem}",
    # Rows to train on cannot be read.
    "batch-unreadable": "the batch {text!r} cannot be trained on: {problem}",
    # A backend prints traces, and cannot be driven call by call.
    "not-driven": "{backend} cannot be driven call by call, so that there is nothing to probe",
    # A newly recorded trace fails a check against itself.
    "candidate-refused": "the new trace of {suite} cannot become a golden: {check} {outcome}: {problem}",
    # A specification names no engine that can be served.
    "engine-not-importable": "engine {spec!r} cannot be loaded: {problem}",
    # Messages cannot be held against their schemas, because the library is not installed.
    "validator-missing": "messages are validated by the library {library}, which is not installed",
    # A suite gives no model that could be made smaller.
    "no-model-given": "{suite} gives no model that an engine could load, so that there is nothing to shrink",
    # The folder for the result holds something else, which is not overwritten.
    "folder-taken": "{folder!r} holds something else than a shrunk case; name another folder with --output",
    # No suite id ends like this.
    "unknown-suite": "suite {name!r} is unknown; known are {known}",
    # Several suite ids end like this.
    "ambiguous-suite": "suite {name!r} could be any of {candidates}",
    # A filter matches no check.
    "nothing-selected": "no check matches -k {expression!r}",
    # A filter cannot be read.
    "invalid-expression": "-k {expression!r} cannot be read: {problem}",
    # A suite has no such profile.
    "unknown-profile": "profile {profile!r} is unknown; {suite} has {known}",
    # No level has this name.
    "unknown-level": "level {name!r} is unknown; known are {known}",
    # An id names neither a suite nor a check.
    "unknown-check": "{name!r} names no suite and no check",
    # A file was given that none of the chosen suites can use.
    "unused-input": "{option} is of no use to {suites}",
    # A corpus was given without its manifest, or the other way round.
    "incomplete-input": "{given} needs {missing} beside it",
    # A file is not a trace: the first fault, and which record a wrong digest is about, where a golden can tell.
    "envelope-fault": "{path}: {problem}",
    # Two traces answer different suites, so that nothing in them is comparable.
    "different-suites": "the traces are of different suites: {left} and {right}",
}

CONFORMANCE_HINTS: Final[Mapping[str, str]] = {
    "unknown-backend": "cai-conform backends list",
    "backend-not-importable": "cai-conform backends list",
    "unknown-policy": "cai-conform run --help",
    "golden-folder-missing": "Pass the folder explicitly or set CAI_CONFORM_GOLDEN to one that exists.",
    "golden-missing": 'Record one: cai-conform golden accept {suite} --reason "first recording"',
    "golden-disagrees": (
        "If accepting was interrupted, run it again. Otherwise see cai-conform golden status and restore the "
        "folder from version control."
    ),
    "golden-unreadable": "Check the permissions of {path}.",
    "manifest-damaged": (
        "If accepting was interrupted, run it again. Otherwise restore {path} from version control; it is never "
        "overwritten while damaged."
    ),
    "ledger-damaged": "Restore {path} from version control; it is never overwritten while damaged.",
    "reason-missing": 'Say why: --reason "…" (pytest: --snapshot-reason "…").',
    "refused-in-ci": "Accept the change on a workstation and commit it.",
    "golden-read-only": "Work on a writable checkout, or point CAI_CONFORM_GOLDEN at a writable copy.",
    "name-unusable": "cai-conform list names the suites.",
    "golden-write-failed": "Free some space or repair the permissions, then repeat the command.",
    "golden-not-placed": "Remove the obstacle, then accept the same goldens again.",
    "interpreter-unusable": "Install this project and another NumPy into a virtual environment, and name its python.",
    "other-circumstances": "Record all suites anew into another file, with the same interpreters.",
    "not-driven": "cai-conform backends list",
    "validator-missing": "pip install 'cai-conform[validate]'",
    "no-model-given": "cai-conform list",
    "unknown-suite": "cai-conform list",
    "ambiguous-suite": "cai-conform list",
    "nothing-selected": "cai-conform list",
    "invalid-expression": "cai-conform run -k 'golden and not bits'",
    "unknown-check": "cai-conform list",
    "unused-input": "cai-conform list",
    "incomplete-input": "cai-conform run --corpus CORPUS.json --splits SPLITS.json",
}
"""The command or step to try next, by code, filled from the fields as the templates are."""


class ConformanceError(CodedError):
    """Base of the tree; besides the text, an error may know a command to try next.

    The exit code is what the command line returns: 2 for usage and harness trouble, 1 where a value is wrong.
    """

    templates = CONFORMANCE_TEMPLATES
    hints: ClassVar[Mapping[str, str]] = CONFORMANCE_HINTS
    exit_codes: ClassVar[Mapping[str, int]] = MappingProxyType({})

    @property
    def next_command(self) -> str:
        """The command to try next, or an empty string."""
        return self.filled(self.hints.get(self.code, ""))

    @property
    def exit_code(self) -> int:
        """What the command line returns."""
        return self.exit_codes.get(self.code, 2)


class TraceError(ConformanceError):
    """The text of a trace breaks the grammar or its envelope."""


class GoldenError(ConformanceError):
    """The goldens cannot be read, or must not be written."""


class BackendError(ConformanceError):
    """A backend is unknown, failed to import, crashed or hung."""


class SelectionError(ConformanceError):
    """A suite, check or filter names nothing."""


class InputError(ConformanceError):
    """A corpus, manifest or expectation file cannot be used."""


class FixtureError(ConformanceError):
    """An experiment stopped: the stage that raised, then the inner text."""

    def __init__(self, stage: str, inner: str) -> None:
        super().__init__("fixture-error", stage=stage, inner=inner)
        self.stage = stage
        self.inner = inner
