"""Speculative greedy decoding: guess a block, verify it in one call, keep what is right, undo the rest.

A pass feeds the last committed token and n guesses; row i of the answer predicts the token at offset i. Guesses are
accepted while they equal the prediction; the first prediction that differs, or the one behind the last guess, is
committed as well. Then the path is cut to what was committed, less one (Leviathan, Kalman and Matias, 2023; Chen and
others, 2023; greedy case).

EOS ends the block in which it is committed, wherever it stands, and no block exceeds the budget or the context.
"""

from __future__ import annotations

from collections.abc import Sequence

from cai_reference.arithmetic import Array
from cai_reference.decoding.drafts import Draft
from cai_reference.decoding.generation import (
    DecoderStop,
    DraftPass,
    Generation,
    Limits,
    Path,
    check_prompt,
    stop_after,
)
from cai_reference.decoding.greedy import greedy_token


def speculate(path: Path, draft: Draft, prompt: Sequence[int], limits: Limits, block: int) -> Generation:
    """Generate with guesses of a draft, at most `block` a pass; the tokens are those of `generate`.

    Raises:
        EmptyPrompt, PromptTooLong: before any model call.
        SessionError, AutogradError, NonFiniteLogit: path, draft or choice failed.
    """
    check_prompt(prompt, limits)
    path.prefill(prompt[:-1])
    ids = list(prompt)
    rows: list[Array] = []
    passes: list[DraftPass] = []
    stop: DecoderStop | None = None if limits.new_tokens > 0 else DecoderStop.LIMIT
    while stop is None:
        room = min(limits.new_tokens - len(rows), limits.context - len(ids))
        guesses = draft.propose(ids, min(block, room - 1))
        heads = path.after([*ids, *guesses], len(guesses) + 1)
        before = len(ids)
        accepted = 0
        for offset in range(len(guesses) + 1):
            rows.append(heads[0][offset])
            ids.append(greedy_token(rows[-1]))
            right = offset < len(guesses) and guesses[offset] == ids[-1]
            accepted += right
            stop = stop_after(ids[-1], len(rows), len(ids), limits)
            if stop is not None or not right:
                break
        committed = len(ids) - before
        passes.append(DraftPass(len(guesses), accepted, committed, len(guesses) + 1 - committed))
        path.keep(len(ids) - 1)
        draft.committed([logits[committed - 1] for logits in heads])
    return Generation(tuple(ids[len(prompt) :]), tuple(rows), stop, path.forwards, draft.forwards, tuple(passes))
