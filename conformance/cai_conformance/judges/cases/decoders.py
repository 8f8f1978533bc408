"""Counters of the cases that ask a model: rows, sessions, generations, and rows that move."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from cai_conformance.engines.given_model import GivenModel
from cai_conformance.judges.cases.answers import DISTINCT, Counter, Input, ids_of
from cai_conformance.judges.witness import Met, Witness
from cai_conformance.vectors import Answer

SEEN: Final = Witness("token in front of the row", "tokens in front of the row", least=3)
FAR: Final = Witness("position beyond 1000", "positions beyond 1000")
LATER_HEADS: Final = Witness("later head", "later heads")
BEFORE: Final = Witness("token in front of the cut", "tokens in front of the cut")
BEHIND: Final = Witness("token behind the cut", "tokens behind the cut")
TOKENS: Final = Witness("generated token", "generated tokens")
TIED_CHOICES: Final = Witness("choice between equal logits", "choices between equal logits")
MOVED: Final = Witness("row that moves", "rows that move")
IN_FRONT: Final = Witness("row in front that stays", "rows in front that stay")
OUT_OF_REACH: Final = Witness("row behind that stays", "rows behind that stay")

FAR_START: Final = 1000
"""From here on angles in few digits differ."""


def _row(given: Input, _: Answer) -> Iterator[Met]:
    yield SEEN.met(given["row"])
    yield FAR.met(given["row"] + 1 if given["start"] >= FAR_START else 0)
    yield LATER_HEADS.met(given["head"])


def _session(given: Input, _: Answer) -> Iterator[Met]:
    count, first = len(given["ids"]), given["first_chunk"]
    yield BEFORE.met(min(first, count))
    yield BEHIND.met(max(0, count - first))
    yield FAR.met(count if given["start"] >= FAR_START else 0)


def _generated(_: Input, answer: Answer) -> Iterator[Met]:
    ids = ids_of(answer)
    yield TOKENS.met(len(ids))
    yield DISTINCT.met(len(set(ids)))


def _moved(given: Input, answer: Answer) -> Iterator[Met]:
    moved = ids_of(answer)
    yield MOVED.met(len(moved))
    yield IN_FRONT.met(min(moved, default=0))
    yield OUT_OF_REACH.met(len(given["ids"]) - 1 - max(moved, default=len(given["ids"]) - 1))


COUNTERS: Final[Mapping[str, Counter]] = {
    "decoder.logits": _row,
    "decoder.session-logits": _session,
    "decoder.generate": _generated,
    "decoder.moved": _moved,
}


def tied_ids(given: GivenModel) -> frozenset[int]:
    """Return the ids of which another one has exactly the same logit, whatever the sequence: equal output columns."""
    columns: dict[int, list[bytes]] = {}
    for parameter in given.paired_model.parameters:
        axis = given.phase.output_axis(parameter)
        if axis is not None:
            for token, column in enumerate(np.moveaxis(np.asarray(parameter.value), axis, 0)):
                columns.setdefault(token, []).append(column.tobytes())
    joined = {token: b"".join(parts) for token, parts in columns.items()}
    counts = Tally(joined.values())
    return frozenset(token for token, column in joined.items() if counts[column] > 1)
