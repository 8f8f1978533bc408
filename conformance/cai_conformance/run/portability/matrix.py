"""Recording suites under every setting: the portability table, and whether goldens keep their bytes on this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.fixtures.goldens.store import GoldenStore
from cai_conformance.run.portability.classes import classify
from cai_conformance.run.portability.processes import (
    ARITHMETICS,
    NOT_HERE,
    Interpreter,
    PortabilityRun,
    examine,
    examine_all,
    record,
)
from cai_conformance.run.portability.table import ArithmeticTable, PortabilityTable, SuiteTable, golden_digest
from cai_conformance.run.questions import Options, question_for
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.grammar import Grammar
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_reference.arithmetic.instances import FAST, STRICT

SAME_BYTES, OTHER_BYTES = "same bytes", "OTHER BYTES"

Told: TypeAlias = Callable[[str], None]
"""Hears of each recording that is done."""


@dataclass(frozen=True)
class PortabilityResult:
    """What one setting made of one suite on this machine: a word, and whether it speaks against the golden."""

    suite: str
    setting: str
    found: str
    same: bool


def record_tables(
    suites: Sequence[Suite], store: GoldenStore, pythons: Sequence[str], jobs: int, told: Told
) -> Iterator[PortabilityTable]:
    """Yield a table of one suite after the other, recorded in every arithmetic under every setting.

    Args:
        suites: which.
        store: where their goldens are.
        pythons: interpreters besides this one, each with a NumPy of its own.
        jobs: how many processes record beside each other.
        told: hears of each recording.

    Raises:
        InputError (interpreter-unusable): one of the interpreters cannot record.
        BackendError (recording-failed): a recording ended without a trace.
        GoldenError: a golden is missing or damaged.
    """
    interpreters = sorted(examine_all(pythons), key=_version, reverse=True)
    runs = [(found.path, run) for found in interpreters for run in found.runs]
    counted = [(path, run) for path, run in runs if run.counts]
    with ThreadPoolExecutor(max_workers=jobs) as executor:
        for suite in suites:
            asked = {name: request_of(suite, store, name) for name in ARITHMETICS}
            record_one = partial(_told_record, asked=asked, told=told)
            found = list(executor.map(record_one, *zip(*counted, strict=True)))
            golden = {STRICT.identifier: store.read(suite.identifier).trace}
            table = {
                name: _arithmetic_table(
                    golden.get(name, found[0][name]),
                    {run.name: traces[name] for (_, run), traces in zip(counted, found, strict=True) if name in traces},
                    suite.grammar,
                )
                for name in ARITHMETICS
            }
            one = SuiteTable(golden_digest(store, suite.identifier), table)
            yield PortabilityTable(tuple(run for _, run in runs), {suite.identifier: one})


def check_portability(suites: Sequence[Suite], store: GoldenStore, jobs: int) -> Iterator[PortabilityResult]:
    """Record every suite in its own arithmetic under every setting of this interpreter, and compare all bytes.

    Raises:
        InputError (interpreter-unusable), BackendError (recording-failed): a process failed.
        GoldenError: a golden is missing or damaged.
    """
    interpreter = examine(sys.executable)
    with ThreadPoolExecutor(max_workers=jobs) as executor:
        for suite in suites:
            request, golden = request_of(suite, store, suite.arithmetic), store.read(suite.identifier).trace
            compared = partial(_compared, request=request, golden=golden)
            for run, found in zip(interpreter.runs, executor.map(compared, interpreter.runs), strict=True):
                yield PortabilityResult(suite.identifier, run.setting, found, found != OTHER_BYTES)


def request_of(suite: Suite, store: GoldenStore, arithmetic: str) -> TraceRequest:
    """Return the request that a suite's golden answers, in an arithmetic.

    Raises:
        GoldenError: the golden is missing or damaged.
    """
    return question_for(suite, store, Options(arithmetic=arithmetic)).request


def _compared(run: PortabilityRun, request: TraceRequest, golden: bytes) -> str:
    if not run.counts:
        return "does not run here" if run.standing == NOT_HERE else run.standing
    return SAME_BYTES if record(sys.executable, run, [request])[0] == golden else OTHER_BYTES


def _told_record(path: str, run: PortabilityRun, asked: Mapping[str, TraceRequest], told: Told) -> dict[str, bytes]:
    traces = record(path, run, [asked[name] for name in run.arithmetics])
    told(f"{asked[FAST.identifier].suite}, {run.name}")
    return dict(zip(run.arithmetics, traces, strict=True))


def _arithmetic_table(baseline: bytes, others: dict[str, bytes], grammar: Grammar) -> ArithmeticTable:
    expected = parse(baseline, grammar_of)
    found = {name: parse(data, grammar_of) for name, data in others.items() if data != baseline}
    return ArithmeticTable.of(classify(expected, found, grammar))


def _version(interpreter: Interpreter) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", interpreter.numpy)))
