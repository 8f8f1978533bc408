"""Reading a decode trace: its configuration, its generations and its passes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cai_conformance.judges.decoder.generations import Generations
from cai_conformance.judges.decoder.passes import Passes
from cai_conformance.judges.evidence import Evidence
from cai_conformance.trace.records import Record, Trace


@dataclass(frozen=True)
class DecodeTrace:
    """A decode trace with the look-ups that judges share."""

    trace: Trace

    @cached_property
    def config(self) -> Record:
        """The CONFIG record."""
        return self.trace.all("CONFIG")[0]

    def size(self, name: str, absent: int | None = None) -> int:
        """Return an integer of CONFIG, or, where it has none of this name, what stands for that."""
        if absent is not None and not self.config.has(name):
            return absent
        return self.config.integer(name)

    @cached_property
    def mixers(self) -> list[str]:
        """The name of each block's mixer."""
        return self.config.get("mixers").split(", ")

    @cached_property
    def generations(self) -> Generations:
        """The DECODE records as columns."""
        return Generations.of(self.trace, self.size("vocabulary"))

    @cached_property
    def passes(self) -> Passes:
        """The DRAFT records as columns."""
        return Passes.of(self.trace)


def decode_trace(evidence: Evidence) -> DecodeTrace:
    """Return the main trace of a decode suite; the judges of one run share what it computes."""
    return evidence.remembered("decode trace", lambda: DecodeTrace(evidence.main))
