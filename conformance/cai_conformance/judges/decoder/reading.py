"""Reading a decode trace: its configuration, and its records by arm and prompt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
    def decodes(self) -> dict[tuple[str, int], Record]:
        """The DECODE records by arm and prompt."""
        return {(record.get("arm"), record.integer("prompt")): record for record in self.trace.all("DECODE")}

    @cached_property
    def drafts(self) -> dict[tuple[str, int], list[Record]]:
        """The DRAFT records by arm and prompt, in order of the passes."""
        found: dict[tuple[str, int], list[Record]] = {}
        for record in self.trace.all("DRAFT"):
            found.setdefault((record.get("arm"), record.integer("prompt")), []).append(record)
        return found

    def of_arm(self, arm: str) -> list[Record]:
        """Return the DECODE records of one arm, by prompt."""
        return [record for (name, _), record in sorted(self.decodes.items()) if name == arm]
