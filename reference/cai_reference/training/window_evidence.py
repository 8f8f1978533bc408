"""What a set of windows is: a fingerprint of all of it, and how much of it is seen more than once (course, chapter 34).

Windows of T tokens at stride 1 overlap: a transition in the middle of a document is a target in T windows. A mean over
window slots therefore weighs transitions unevenly; the multiplicities say how much.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass

from cai_reference.text.checksum import fnv1a64
from cai_reference.training.final_errors import EvaluatedTokenOutOfRange
from cai_reference.training.planned_epoch import PlannedEpoch


@dataclass(frozen=True)
class WindowEvidence:
    """What was read.

    Attributes:
        documents: in order of appearance.
        pairs: input and target of every slot, in the order of the plan.
        fingerprint: `fnv1a64:` and sixteen hex digits over, for each window in the order of the plan, the document's
            id, a byte 0xff, its start (8 bytes), and input and target of each slot (4 bytes each, little-endian).
        multiplicities: at place m − 1, how many transitions of documents appear in m slots.
    """

    documents: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    fingerprint: str
    multiplicities: tuple[int, ...]

    @property
    def slots(self) -> int:
        """How many targets the windows have."""
        return len(self.pairs)

    @property
    def transitions(self) -> int:
        """How many transitions of documents these are."""
        return sum(self.multiplicities)


def inspect_windows(planned: PlannedEpoch, vocabulary: int) -> WindowEvidence:
    """Read every window once.

    Raises:
        EvaluatedTokenOutOfRange: at the first id beyond the vocabulary, the input of a slot before its target.
    """
    epoch = planned.epoch
    documents: dict[str, None] = {}
    pairs: list[tuple[int, int]] = []
    seen: Counter[tuple[str, int]] = Counter()
    hashed: list[bytes] = []
    for number, batch in enumerate(planned.plan):
        position = 0
        for slot in batch:
            name, window = epoch.documents[slot.document].identifier, epoch.window(slot)
            documents[name] = None
            hashed.append(name.encode() + b"\xff" + struct.pack("<Q", slot.start))
            for offset, pair in enumerate(zip(window.inputs, window.targets, strict=True)):
                for side, token in zip(("input", "target"), pair, strict=True):
                    if not 0 <= token < vocabulary:
                        raise EvaluatedTokenOutOfRange(side, number, position, token, vocabulary)
                pairs.append(pair)
                hashed.append(struct.pack("<II", *pair))
                seen[name, slot.start + offset + 1] += 1
                position += 1
    counted = Counter(seen.values())
    multiplicities = tuple(counted[times] for times in range(1, max(counted, default=0) + 1))
    fingerprint = f"fnv1a64:{fnv1a64(b''.join(hashed)):016x}"
    return WindowEvidence(tuple(documents), tuple(pairs), fingerprint, multiplicities)
