"""What the caches of a suite really hold, and whether a session can be rolled back exactly.

Floats are counted on sessions that were fed, and held against the sizes of the arrays that they allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cai_conformance.backends.decoder.arms import Bench
from cai_reference.arithmetic import Array
from cai_reference.decoding.errors import TruncationRefused
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.layer_states import Accounting
from cai_reference.decoding.session import Session


@dataclass(frozen=True)
class CacheCount:
    """The cache of one layer after so many tokens, in one arm."""

    layer: int
    arm: str
    prefix: int
    accounting: Accounting


class Rollback(StrEnum):
    """How a session that was cut back and fed again compares with one that was not."""

    EXACT = "exact"
    CLOSE = "close"
    WRONG = "wrong"


def count_caches(bench: Bench, ids: Sequence[int], prefixes: Sequence[int]) -> tuple[CacheCount, ...]:
    """Feed a sequence and count every layer's cache at each prefix length, in each arm that keeps another cache."""
    arms = {"cached": LatentCache.HEADS}
    if bench.phase.has_latent:
        arms["latent"] = LatentCache.LATENT
    counts: list[CacheCount] = []
    for arm, latent in arms.items():
        session = bench.session(latent)
        for prefix in prefixes:
            session.feed(ids[session.length : prefix])
            counts += [CacheCount(layer, arm, prefix, found) for layer, found in enumerate(session.accounting())]
    return tuple(counts)


def check_rollback(bench: Bench, ids: Sequence[int]) -> Rollback:
    """Feed, cut back by 1 … slack tokens and feed again, all along a sequence; compare with a session never cut.

    A cut beyond what a ring or a recurrence can honour has to be refused.
    """
    straight = np.concatenate([row for (row,) in _rows(bench.session(), ids)])
    session = bench.session()
    rows: list[Array] = []
    for place in range(len(ids)):
        rows.append(session.feed(ids[place : place + 1])[0])
        back = place % (bench.sizes.slack + 1)
        if 0 < back <= session.length:
            session.truncate(session.length - back)
            again = session.feed(ids[place + 1 - back : place + 1])[0]
            rows[len(rows) - back :] = list(again[:, None, :])
    found = np.concatenate(rows)
    if not _refuses_too_deep_cut(session):
        return Rollback.WRONG
    if found.tobytes() == straight.tobytes():
        return Rollback.EXACT
    return Rollback.CLOSE if np.allclose(found, straight, rtol=0.0, atol=1e-9) else Rollback.WRONG


def _rows(session: Session, ids: Sequence[int]) -> Iterator[list[Array]]:
    for token in ids:
        yield session.feed([token])[:1]


def _refuses_too_deep_cut(session: Session) -> bool:
    """Ask for one token less than the session can honour, where that is above 0."""
    earliest = session.earliest()
    if earliest == 0:
        return True
    try:
        session.truncate(earliest - 1)
    except TruncationRefused:
        return True
    return False
