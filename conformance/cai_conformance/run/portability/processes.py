"""Recordings in processes of their own: an interpreter, a setting, and what it really was.

What can go wrong with recording under settings, and with the table of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cai_conformance
import cai_reference
from cai_conformance import strict_json
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.errors import BackendError, GoldenError, InputError
from cai_conformance.run.portability.settings import NO_SETTING, VARIABLES, Facts, MachineSetting, settings_table
from cai_reference import __version__
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT

SECONDS: Final = 3600
"""How long one process may take before it counts as hung."""

NEW, NOT_HERE = "recorded", "does not run on the recording machine"


ARITHMETICS: Final = (STRICT.identifier, LIBM.identifier, FAST.identifier)


@dataclass(frozen=True)
class PortabilityRun:
    """One setting under one interpreter.

    Attributes:
        numpy: the version of NumPy.
        setting: the name of the setting.
        standing: `recorded`; `same as …` with the setting of an earlier run that has the same facts, so that this one
            proves nothing; or that the machine cannot run it.
        facts: what the process computes with; None where it does not run.
        arithmetics: in which suites are recorded under it; none where it proves nothing.
    """

    numpy: str
    setting: str
    standing: str
    facts: Facts | None
    arithmetics: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """NumPy and setting."""
        return f"NumPy {self.numpy}, {self.setting}"

    @property
    def counts(self) -> bool:
        """Whether suites are recorded under it."""
        return bool(self.arithmetics)


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter with its NumPy, and its runs in the order of the settings."""

    path: str
    runs: tuple[PortabilityRun, ...]

    @property
    def numpy(self) -> str:
        """The version of its NumPy."""
        return self.runs[0].numpy


def examine(path: str, arithmetics: tuple[str, ...] = ARITHMETICS) -> Interpreter:
    """Find out what each setting makes of an interpreter; as it is, it records in every arithmetic.

    Args:
        path: the program.
        arithmetics: in which suites are recorded under every other setting; only those that use BLAS under one of BLAS.

    Raises:
        InputError (interpreter-unusable): it cannot record as it is, or has another version of this project.
        BackendError (recording-failed): it can, but a setting makes it fail without killing it.
    """
    try:
        plain, _ = _answer(path, NO_SETTING, ())
    except BackendError as error:
        if error.code != "recording-failed":
            raise
        raise InputError("interpreter-unusable", path=path, problem=str(error.fields["problem"])) from None
    except OSError as error:
        raise InputError("interpreter-unusable", path=path, problem=error.strerror or str(error)) from None
    if plain is None:
        raise InputError("interpreter-unusable", path=path, problem="it is killed by a signal")
    if plain.project != __version__:
        raise InputError(
            "interpreter-unusable",
            path=path,
            problem=f"it has version {plain.project} of this project, and not {__version__}",
        )
    runs = [PortabilityRun(plain.numpy, NO_SETTING.name, NEW, plain, ARITHMETICS)]
    for setting in settings_table():
        facts, _ = _answer(path, setting, ())
        same = next((run for run in runs if facts is not None and run.facts == facts), None)
        standing = NOT_HERE if facts is None else NEW if same is None else f"same as {same.setting}"
        used = FAST.identifier, *(() if setting.of_blas else (STRICT.identifier, LIBM.identifier))
        recorded = tuple(name for name in arithmetics if name in used and standing == NEW)
        runs.append(PortabilityRun(plain.numpy, setting.name, standing, facts, recorded))
    return Interpreter(path, tuple(runs))


def examine_all(paths: Sequence[str]) -> Iterator[Interpreter]:
    """Find out about this interpreter and about others, each with a NumPy of its own.

    What uses no BLAS takes most of the time: it is recorded under the other settings here, and elsewhere as it is.

    Raises:
        InputError (interpreter-unusable): one of them cannot record, or has the NumPy of an earlier one.
        BackendError (recording-failed): as `examine`.
    """
    seen: dict[str, str] = {}
    for path in (sys.executable, *paths):
        found = examine(path, ARITHMETICS if path == sys.executable else (FAST.identifier,))
        if found.numpy in seen:
            raise InputError(
                "interpreter-unusable", path=path, problem=f"it has NumPy {found.numpy}, as {seen[found.numpy]} has"
            )
        seen[found.numpy] = path
        yield found


def record(path: str, run: PortabilityRun, requests: Sequence[TraceRequest]) -> tuple[bytes, ...]:
    """Return the traces of some requests under a run.

    Raises:
        BackendError (recording-failed): the process failed, or was not what it was when it was examined.
    """
    setting = next(each for each in (NO_SETTING, *settings_table()) if each.name == run.setting)
    facts, traces = _answer(path, setting, requests)
    if facts != run.facts:
        raise BackendError(
            "recording-failed",
            setting=run.name,
            problem="the process computes with something else than when it was examined",
        )
    return traces


def _answer(
    path: str, setting: MachineSetting, requests: Sequence[TraceRequest]
) -> tuple[Facts | None, tuple[bytes, ...]]:
    """Return facts and traces; no facts where the process was killed, as by an instruction that it does not know."""
    question = json.dumps({"threads": setting.threads, "requests": [request.to_json() for request in requests]})
    try:
        done = subprocess.run(
            [path, "-m", "cai_conformance.run.portability.worker"],
            input=question.encode("utf-8"),
            capture_output=True,
            env=_environment(setting),
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BackendError(
            "recording-failed", setting=setting.name, problem=f"it took longer than {SECONDS} s"
        ) from None
    if done.returncode < 0 and not requests:
        return None, ()
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise BackendError("recording-failed", setting=setting.name, problem=f"exit code {done.returncode}: {last[0]}")
    try:
        answer = strict_json.obj(strict_json.parse(done.stdout), ("facts", "traces"), "the answer")
        traces = [strict_json.text(trace, "a trace") for trace in strict_json.array(answer["traces"], "traces")]
        facts = Facts.of(answer["facts"], "facts")
    except ValueError as error:
        raise BackendError("recording-failed", setting=setting.name, problem=str(error)) from None
    if len(traces) != len(requests):
        raise BackendError(
            "recording-failed", setting=setting.name, problem=f"{len(traces)} traces answer {len(requests)} requests"
        )
    return facts, tuple(trace.encode("utf-8") for trace in traces)


def _environment(setting: MachineSetting) -> dict[str, str]:
    """Return this process's environment with a setting, in which the same sources are found first."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    sources = {Path(package.__file__ or "").resolve().parents[1] for package in (cai_reference, cai_conformance)}
    # Where this project is installed beside NumPy, another interpreter must not find that NumPy.
    roots = [str(source) for source in sorted(sources) if not (source / "numpy").is_dir()]
    before = os.environ.get("PYTHONPATH", "")
    return {**kept, **setting.variables, "PYTHONPATH": os.pathsep.join([*roots, *([before] if before else [])])}


PORTABILITY_TEMPLATES: Final[Mapping[str, str]] = {
    # The portability table is not what this program writes.
    "table-damaged": "The portability table {path} is damaged: {problem}."
}

PORTABILITY_HINTS: Final[Mapping[str, str]] = {
    "table-damaged": "Restore {path} from version control, or record it anew: cai-conform golden portability."
}
"""The command or step to try next, by code, filled from the fields as the templates are."""


class TableDamaged(GoldenError):
    """The portability table is not what this program writes."""

    templates = PORTABILITY_TEMPLATES
    hints = PORTABILITY_HINTS

    def __init__(self, path: str, problem: str) -> None:
        super().__init__("table-damaged", path=path, problem=problem)
        self.path = path
        self.problem = problem
