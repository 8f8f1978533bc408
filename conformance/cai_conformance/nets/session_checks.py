"""The edges of a streaming session, beside what the library measured: eviction, 8 bits, snapshots, cuts, overflow.

What is done to a session stands in the name of a sequence of steps; a name that is not known here is reported as not
verified. A sequence that goes on from another one needs that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cai_conformance.nets.comparing import Comparison, Measure, Tally
from cai_conformance.nets.samples import EdgeStep, SessionEdgeSample
from cai_reference.arithmetic import Arithmetic
from cai_reference.errors import CaiReferenceError
from cai_reference.nets.graph.cache import Eviction
from cai_reference.nets.graph.net import Net
from cai_reference.nets.graph.session import NetSession

EVICTION: Final = re.compile(r"evict_sink([0-9]{1,6})_window([0-9]{1,6})")
CUT: Final = re.compile(r"after_truncate_to_([0-9]{1,6})")
OVERFLOW: Final = re.compile(r"overflow_maxcache([0-9]{1,6})")


@dataclass(frozen=True)
class EdgeChecks:
    """What came of the edges, and which sequences were not looked at."""

    comparisons: tuple[Comparison, ...]
    unknown: tuple[str, ...]


def edge_checks(
    net: Net, sample: SessionEdgeSample, source: str, arithmetic: Arithmetic, tolerance: float
) -> EdgeChecks:
    """Repeat every known sequence of steps, and compare rows and lengths of the caches."""
    replay = _Replay(net, sample, source, arithmetic, tolerance)
    comparisons: list[Comparison] = []
    known: set[str] = set()
    for name in sample.sequences:
        found = replay.sequence(name)
        if found:
            comparisons.extend(found)
            known.add(name)
    unknown = [name for name in sample.sequences if name not in known and name not in replay.used]
    return EdgeChecks(tuple(comparisons), tuple(unknown))


class _Replay:
    """Sessions of one net, and the sequences that are fed to them."""

    def __init__(
        self, net: Net, sample: SessionEdgeSample, source: str, arithmetic: Arithmetic, tolerance: float
    ) -> None:
        self.used: set[str] = set()
        self._net = net
        self._sequences = sample.sequences
        self._source = source
        self._arithmetic = arithmetic
        self._tolerance = tolerance
        self._steps = max((step.position + 1 for steps in sample.sequences.values() for step in steps), default=1)

    def sequence(self, name: str) -> tuple[Comparison, ...]:
        """Repeat what a name stands for; nothing where it is not known, or is a part of another sequence."""
        if name == "plain":
            return self._judged([name], self._session)
        if name == "int8_kv":
            return self._judged([name], self._quantised)
        if found := EVICTION.fullmatch(name):
            sinks, recent = map(int, found.groups())
            return self._judged([name], lambda: self._evicting(Eviction(sinks, recent)))
        if found := OVERFLOW.fullmatch(name):
            capacity = int(found[1])
            return self._judged([name], lambda: self._session(capacity, stale_overflow=True))
        parts = ["pre_snapshot", "after_snapshot_first", "after_restore"]
        if name == "pre_snapshot" and self._sequences.keys() >= set(parts):
            return self._judged(parts, self._session, self._snapshot_between)
        if (found := CUT.fullmatch(name)) and "pre_truncate" in self._sequences:
            length = int(found[1])
            return self._judged(["pre_truncate", name], self._session, lambda session, part: session.truncate(length))
        return ()

    def _judged(
        self,
        names: Sequence[str],
        make: Callable[[], NetSession],
        between: Callable[[NetSession, int], None] = lambda session, part: None,
    ) -> tuple[Comparison, ...]:
        """Feed sequences to one session, one after the other; `between` is done before each but the first."""
        self.used |= set(names)
        title = names[-1] if len(names) == 2 else names[0].removeprefix("pre_")
        rows = Tally(f"session rows, {title}", self._source, self._tolerance, Measure.ABSOLUTE)
        lengths = Tally(f"cache lengths, {title}", self._source)
        try:
            session = make()
            for part, name in enumerate(names):
                if part:
                    between(session, part)
                for number, step in enumerate(self._sequences[name]):
                    self._step(session, step, f"{name}, step {number}", rows, lengths)
        except CaiReferenceError as error:
            rows.missing(f"{title}: {error}")
        return rows.result(), lengths.result()

    def _step(self, session: NetSession, step: EdgeStep, place: str, rows: Tally, lengths: Tally) -> None:
        found = session.step([step.token], step.position)[-1][0]
        rows.numbers(step.row, found, lambda index: f"{place}, channel {index[0]}" if index else place)
        for cache, length in enumerate(session.lengths):
            lengths.equal(step.cache_length, length, f"{place}, cache {cache}")

    def _session(self, capacity: int | None = None, *, stale_overflow: bool = False) -> NetSession:
        room = max(self._net.context + 1, self._steps) if capacity is None else capacity
        return NetSession(self._net, self._arithmetic, room, stale_overflow=stale_overflow)

    def _quantised(self) -> NetSession:
        session = self._session()
        session.quantise()
        return session

    def _evicting(self, eviction: Eviction) -> NetSession:
        session = self._session()
        session.evict(eviction)
        return session

    def _snapshot_between(self, session: NetSession, part: int) -> None:
        """Take a snapshot before the second sequence, and return to it before the third."""
        if part == 1:
            self._snapshot = session.snapshot()
        else:
            session.restore(self._snapshot)
