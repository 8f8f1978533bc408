"""Readers of traces: short and long, as a body, as a backend, and held against another one."""

from __future__ import annotations

import hashlib

from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.verify import differences_between, verification_of
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse, parse_body
from cai_conformance.trace.records import Trace
from fuzzing.target import Target

LONGEST_VALUE = 160
"""Of seeds: what stands in a field is read in one go, however long it is."""


def golden(suite: str) -> bytes:
    """Return an accepted trace with short values, so that reading it takes little time."""
    data = GoldenStore(locate()).read(suite).trace
    lines = [b"|".join(map(_short, line.split(b"|"))) for line in data.split(b"\n")]
    return sealed(b"\n".join(_few(lines)))


def _short(field: bytes) -> bytes:
    name, equals, value = field.partition(b"=")
    if len(value) <= LONGEST_VALUE or b"," not in value:
        return field
    kept = value[: value.rindex(b",", 0, LONGEST_VALUE)]
    return name + equals + kept + (b"]" if value.endswith(b"]") else b"")


def _few(lines: list[bytes]) -> list[bytes]:
    """Return at most six lines of a kind in a row."""
    kept: list[bytes] = []
    for line in lines:
        kind = line.partition(b"|")[0]
        if len(kept) < 6 or any(one.partition(b"|")[0] != kind for one in kept[-6:]):
            kept.append(line)
    return kept


def sealed(data: bytes) -> bytes:
    """Return a trace with the count and digest that its other lines really have."""
    start = data.rfind(b"\nEND|")
    if start < 0:
        return data
    head = data[: start + 1]
    digest = hashlib.sha256(head).hexdigest()
    return head + f"END|records={head.count(10) - 1}|digest=sha256:{digest}\n".encode()


def traces() -> list[bytes]:
    """Return traces of four grammars."""
    return [golden(suite) for suite in ("course.ngram", "cai.speculative", "llama.gqa-window", "course.decoder")]


def bodies() -> list[bytes]:
    """Return traces without envelope."""
    outside = (b"TRACE|", b"END|", b"CONVENTION|", b"BITS|")
    return [
        b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(outside))
        for data in traces()[:2]
    ]


def read_trace(data: bytes) -> None:
    """Read a trace, and look at it from all sides."""
    look_at(parse(data, grammar_of))


def look_at(trace: Trace) -> None:
    """Ask a trace for everything that it has."""
    assert trace.envelope.suite
    for record in trace.records:
        assert record.key
        assert trace.find(record.kind, **dict(record.fields[:1])) is not None


def read_body(data: bytes) -> None:
    """Read a trace without envelope."""
    grammar = grammar_of("course.ngram" if b"CONTEXT" in data or b"context_ids" in data else "cai.speculative")
    assert grammar is not None
    parse_body(data, grammar, "golden")


def read_long(data: bytes) -> None:
    """Read a trace as a long one, which must say the same as reading it as a short one."""
    short, long = (_told(lambda size=size: parse(data, grammar_of, short=size)) for size in (len(data), -1))
    assert short == long, f"{short!r} read as a short trace, {long!r} as a long one"


def _told(read: object) -> str:
    assert callable(read)
    try:
        return hashlib.sha256("\n".join(str(record) for record in read().records).encode()).hexdigest()
    except TraceFault as fault:
        return f"{type(fault).__name__}: {fault}"


def read_backend(data: bytes) -> None:
    """Find out what a trace file answers, and the question."""
    verification_of(TraceFileBackend("file", data), GoldenStore(locate()))


def read_pair(data: bytes) -> None:
    """Compare a trace with the golden of the n-gram suite."""
    comparison = differences_between(golden_ngram(), data, ("golden", "file"))
    for difference in comparison.differences:
        assert str(difference)


def golden_ngram() -> bytes:
    """Return the first of the seeds."""
    return TARGETS[0].seeds[0]


TARGETS = (
    Target("trace.whole", traces, read_trace, sealed),
    Target("trace.body", bodies, read_body),
    Target("trace.long", traces, read_long, sealed),
    Target("trace.verification", traces, read_backend, sealed, share=20),
    Target("trace.differences", lambda: [golden_ngram(), bodies()[0]], read_pair, sealed, share=60),
)
