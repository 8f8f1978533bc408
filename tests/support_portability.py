"""Hand-made traces, runs and tables for the tests of portability."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from cai_conformance.fixtures.goldens.store import GoldenStore
from cai_conformance.run.portability.classes import RecordClass
from cai_conformance.run.portability.processes import ARITHMETICS, NEW, PortabilityRun
from cai_conformance.run.portability.settings import Facts
from cai_conformance.run.portability.table import ArithmeticTable, PortabilityTable, SuiteTable
from cai_conformance.trace.records import Envelope, Record, Trace

FACTS: Final = Facts("0.1.0", "Test x1", "2.9.0", "openblas 9", "Oak", "1", "SSE", "glibc 9", "0123456789abcdef")
RUN: Final = PortabilityRun("2.9.0", "no setting", NEW, FACTS, ARITHMETICS)
OTHER: Final = PortabilityRun("2.9.0", "kernel Elm", NEW, FACTS, ("strict/1", "fast"))
IDLE: Final = PortabilityRun("2.9.0", "kernel Ash", "same as no setting", FACTS)

LINES: Final = (
    "STAGE|index=0|name=embedding|shape=[2]|at=[0, 1]|values=[1.000000, 2.000000]"
    "|bits=[3ff0000000000000, 4000000000000000]|norm=2.236068",
    "LOSS|step=0|train=0.500000|validation=0.250000",
    "DECODE|arm=full|prompt=0|prompt_ids=[0, 5]|ids=[7, 8]|margins=[0.100000, 0.200000]"
    f"|logits=sha256:{'a' * 64}|forwards=2|draft_forwards=0|stop=limit",
    "GENERATE|arm=full|prompt=0|ids=[7, 8]|text=ab|stop=limit",
    "PROOF|replay=equal|arms=equal|logits=close|cache=exact|rollback=exact|witnesses=met",
    f"BITS|step=0|parameters=sha256:{'b' * 64}|moments=sha256:{'c' * 64}"
    "|train=3fe0000000000000|validation=3fd0000000000000",
)
"""One record a kind, as a decode suite has them."""


def trace_of(*changes: tuple[str, str]) -> Trace:
    """Return the trace of `LINES` with some texts replaced; a line that becomes empty is left out."""
    text = "\n".join(LINES)
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    records = []
    for line in filter(None, text.split("\n")):
        kind, *fields = line.split("|")
        records.append(
            Record(kind, tuple((name, value) for name, _, value in (part.partition("=") for part in fields)))
        )
    envelope = Envelope("cai.hybrid", "1.0.0", "golden", "fast", "sha256:0")
    return Trace((envelope.record, *records))


def table_of(store: GoldenStore, *suites: str, golden: str = "") -> PortabilityTable:
    """Return a table of suites, recorded with the goldens of a store, or with one of another digest."""
    still = ArithmeticTable.of({"LOSS step=0": RecordClass(), "LOSS step=1": RecordClass(), "PROOF": RecordClass()})
    moved = {
        "LOSS step=0": RecordClass(ulp=3, setting=OTHER.name),
        "LOSS step=1": RecordClass(ulp=2, setting=OTHER.name),
        "DECODE arm=full prompt=0": RecordClass(units=4, digests=True, setting=OTHER.name),
        "PROOF": RecordClass(),
    }
    arithmetics = {"strict/1": still, "libm/1": still, "fast": ArithmeticTable.of(moved)}
    digests = {suite: golden or sha256(store.read(suite).trace).hexdigest() for suite in suites}
    return PortabilityTable(
        (RUN, OTHER, IDLE), {suite: SuiteTable(digest, arithmetics) for suite, digest in digests.items()}
    )
