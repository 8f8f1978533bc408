"""What a backend showed of inference on given weights, as evidence for a diagnosis.

An engine is asked for whole passes, for cuts and for a second sequence in a used slot. Of other backends there are the
answers to the suite's vector cases: single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.engine.session import EngineSession, full_logits
from cai_conformance.backends.engine.stages import staged_ids
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import ask
from cai_conformance.checks.evidence import Evidence
from cai_conformance.diagnosis.evidence import BatchRows, Begin, Call, Cut, SessionRows, ShownFeed
from cai_conformance.engine import Feature, Refused
from cai_conformance.fixtures.vectors import VectorCase
from cai_conformance.trace.parse import parse
from cai_reference.arithmetic import Array

FAR: Final = 3000
OTHER: Final = 300
"""An id for a sequence that is forgotten."""


@dataclass(frozen=True)
class Shown:
    """Evidence of one kind: what was done, in words, and what it gave."""

    words: str
    rows: BatchRows | SessionRows


def shown_rows(evidence: Evidence) -> list[Shown]:
    """Return everything that can be had, whole passes first.

    Raises:
        EngineError: the engine failed.
    """
    ids = staged_ids(evidence.question.vectors.cases)
    if evidence.opened is not None:
        return list(_of_engine(evidence.opened, ids))
    given = evidence.question.given
    assert given is not None
    if given.phase.futures:
        # A single head's row says nothing about the others.
        return []
    rows = (_of_answer(case, evidence) for case in evidence.question.vectors.cases)
    return sorted((row for row in rows if row is not None), key=lambda row: isinstance(row.rows, SessionRows))


def shown_stages(evidence: Evidence) -> dict[str, Array]:
    """Return every stage that the backend shows of a whole pass, by its name; nothing where it shows none.

    Raises:
        BackendError, TraceError: it failed, or its answer is no trace.
    """
    if (opened := evidence.opened) is not None:
        if Feature.OBSERVE not in opened.description.features:
            return {}
        opened.load()
        return dict(EngineSession(opened.engine).observed(staged_ids(evidence.question.vectors.cases)).stages)
    request = replace(evidence.question.request, profile="stages")
    grammar = evidence.question.grammar
    try:
        trace = parse(ask(evidence.backend, request), lambda suite: grammar if suite == grammar.suite else None)
    except NotOffered:
        return {}
    stages: dict[str, Array] = {}
    for record in trace.all("STAGE"):
        shape, values = record.integers("shape"), record.bits("bits") if record.has("bits") else record.reals("values")
        whole = list(record.integers("at")) == list(range(len(values)))
        if whole and int(np.prod(shape)) == len(values):
            stages[record.get("name")] = np.array(values).reshape(shape)
    return stages


def cached_stages(opened: OpenedModel, rows: SessionRows) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the stages of a whole pass over what a session holds in the end, and of its last call.

    Raises:
        EngineError: the engine refuses, or failed.
    """
    opened.load()
    *before, last = rows.calls
    assert isinstance(last, ShownFeed)
    whole = EngineSession(opened.engine, start=rows.start).observed(held_ids(rows)).stages
    session = EngineSession(opened.engine, start=rows.start)
    for call in before:
        session = _made(opened, session, call, rows.start)
    return dict(whole), dict(session.observed(last.ids).stages)


def held_ids(rows: SessionRows) -> tuple[int, ...]:
    """Return what a session holds after all of its calls."""
    held: tuple[int, ...] = ()
    for call in rows.calls:
        match call:
            case ShownFeed(ids):
                held += ids
            case Cut(length):
                held = held[:length]
            case Begin():
                held = ()
    return held


def _made(opened: OpenedModel, session: EngineSession, call: Call, start: int) -> EngineSession:
    match call:
        case ShownFeed(ids):
            session.feed(ids)
        case Cut(length):
            session.truncate(length)
        case Begin():
            return EngineSession(opened.engine, start=start)
    return session


def _of_engine(opened: OpenedModel, ids: tuple[int, ...]) -> Iterator[Shown]:
    opened.load()
    wanted, half = tuple(range(len(ids))), len(ids) // 2
    for start in (0, FAR):
        words = "a whole pass" if start == 0 else f"a whole pass from position {start}"
        try:
            rows = full_logits(opened.engine, ids, start)
        except Refused:
            # An engine may not start late, and still show the rest.
            continue
        yield Shown(words, BatchRows(ids, start, wanted, rows))
    scripts: tuple[tuple[str, tuple[Call, ...], int], ...] = (
        ("a call behind the first token", (ShownFeed(ids[:1]), ShownFeed(ids[1:])), 0),
        ("a second call", (ShownFeed(ids[:half]), ShownFeed(ids[half:])), 0),
        ("calls from a far position", (ShownFeed(ids[:2]), ShownFeed(ids[2:])), FAR),
        ("calls of one token", tuple(ShownFeed((token,)) for token in ids), 0),
        ("a cut", (ShownFeed(ids[:half]), ShownFeed((OTHER,) * 3), Cut(half), ShownFeed(ids[half:])), 0),
        (
            "a partial cut",
            (ShownFeed(ids[: half + 2]), ShownFeed((OTHER,) * 2), Cut(half + 1), ShownFeed(ids[half + 1 :])),
            0,
        ),
        (
            "a slot that was emptied",
            (ShownFeed((OTHER,) * half), Begin(), ShownFeed(ids[:half]), ShownFeed(ids[half:])),
            0,
        ),
    )
    for words, calls, start in scripts:
        played = _played(opened, calls, start)
        if played is not None:
            slack = opened.given.sizes.slack
            yield Shown(words, SessionRows(calls, played, start, slack))


def _played(opened: OpenedModel, calls: tuple[Call, ...], start: int) -> Array | None:
    *before, last = calls
    assert isinstance(last, ShownFeed)
    session = EngineSession(opened.engine, start=start)
    try:
        for call in before:
            session = _made(opened, session, call, start)
        return np.stack(session.feed(last.ids))
    except Refused:
        return None


def _of_answer(case: VectorCase, evidence: Evidence) -> Shown | None:
    make = _ROWS.get(case.operation)
    answer = evidence.answers.of(case)
    if make is None or answer is None or answer.values is None:
        return None
    row = np.array(answer.values).reshape(1, 1, -1)
    return Shown(f"the case {case.identifier}", make(case, row, evidence))


def _batch_rows(case: VectorCase, row: Array, evidence: Evidence) -> BatchRows:
    ids, start, place = _ids(case), int(str(case.input["start"])), int(str(case.input["row"]))
    return BatchRows(ids, start, (place,), row)


def _session_rows(case: VectorCase, row: Array, evidence: Evidence) -> SessionRows:
    ids, start, first = _ids(case), int(str(case.input["start"])), int(str(case.input["first_chunk"]))
    given = evidence.question.given
    assert given is not None
    return SessionRows((ShownFeed(ids[:first]), ShownFeed(ids[first:])), row, start, given.sizes.slack)


def _ids(case: VectorCase) -> tuple[int, ...]:
    ids = case.input["ids"]
    assert isinstance(ids, list)
    return tuple(int(str(token)) for token in ids)


_ROWS: Final[dict[str, Callable[[VectorCase, Array, Evidence], BatchRows | SessionRows]]] = {
    "decoder.logits": _batch_rows,
    "decoder.session-logits": _session_rows,
}
