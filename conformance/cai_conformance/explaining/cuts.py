"""At which cuts a sequence that is fed in two calls comes out wrong."""

from __future__ import annotations

import numpy as np

from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.path import EngineSession
from cai_reference.arithmetic import FAST
from cai_reference.autograd import Tape
from cai_reference.models.stack import DecoderStack


def cuts_line(opened: OpenedModel, model: DecoderStack, ids: tuple[int, ...], tolerance: float) -> str:
    """Return a sentence about all cuts of a sequence in two; empty where none of them fails.

    Raises:
        EngineError: the engine failed.
    """
    opened.load()
    heads = model.forward(Tape(FAST, recording=False), ids, batch=1)
    right = np.stack([head.value[0] for head in heads])
    wrong: list[tuple[int, float]] = []
    for first in range(1, len(ids)):
        session = EngineSession(opened.engine)
        logits = [
            np.concatenate(pair) for pair in zip(session.feed(ids[:first]), session.feed(ids[first:]), strict=True)
        ]
        off = float(np.max(np.abs(np.nan_to_num(np.stack(logits), nan=np.inf) - right)))
        if not off <= tolerance:
            wrong.append((first, off))
    if not wrong:
        return ""
    smallest, worst = wrong[0], max(wrong, key=lambda cut: cut[1])
    return (
        f"fed in two calls, {len(wrong)} of {len(ids) - 1} cuts fail: the first is {_cut(smallest, ids)}, "
        f"the worst {_cut(worst, ids)}"
    )


def _cut(cut: tuple[int, float], ids: tuple[int, ...]) -> str:
    return f"{cut[0]} + {len(ids) - cut[0]} (off by {cut[1]:.3g})"
