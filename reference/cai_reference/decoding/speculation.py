"""Speculative greedy decoding: guess a block, verify it in one call, keep what is right, undo the rest.

A pass feeds the last committed token and n guesses; row i of the answer predicts the token at offset i. Guesses are
accepted while they equal the prediction; the first prediction that differs, or the one behind the last guess, is
committed as well. Then the path is cut to what was committed, less one (Leviathan, Kalman and Matias, 2023; Chen and
others, 2023; greedy case).

EOS ends the block in which it is committed, wherever it stands, and no block exceeds the budget or the context.

Drafts guess ahead: a second model, the model's own later heads, the model itself, or a script. A draft proposes the
next few tokens of a sequence and is told what was committed. Its guesses decide how much work is saved, never what is
generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.decoding.generation import (
    DecoderStop,
    DraftPass,
    FedTokens,
    Generation,
    Limits,
    Path,
    check_prompt,
    stop_after,
)
from cai_reference.decoding.greedy import greedy_token
from cai_reference.models.token_shift_draft import TokenShiftDraft


class Draft(Protocol):
    """A source of guesses. `forwards` counts the calls of a draft model."""

    forwards: int

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Return at most `count` guesses for what follows `ids`."""
        ...

    def committed(self, heads: Sequence[Array]) -> None:
        """Learn, for each head, the logits [vocabulary] from which the last committed token was chosen."""
        ...


class LaterHeads:
    """Multi-token prediction drafts for itself: head k guesses the token k places behind the one that head 0 chose.

    The guesses come from the row that produced the last committed token; before the first pass there is none
    (Gloeckle and others, "Better and faster large language models via multi-token prediction", 2024).
    """

    def __init__(self) -> None:
        self.forwards = 0
        self._guesses: list[int] = []

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Return the guesses of the later heads."""
        return self._guesses[:count]

    def committed(self, heads: Sequence[Array]) -> None:
        """Guess anew."""
        self._guesses = [greedy_token(logits) for logits in heads[1:]]


class SelfDraft:
    """The model drafts for itself through a session of its own, so that every guess is right."""

    def __init__(self, session: FedTokens) -> None:
        self.forwards = 0
        self._session = session

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Feed what is new, then choose greedily; the guesses are forgotten again."""
        guesses: list[int] = []
        for _ in range(count):
            sequence = [*ids, *guesses]
            logits = self._session.feed(sequence[self._session.length :])
            self.forwards += 1
            guesses.append(greedy_token(logits[0][-1]))
        if count:
            self._session.truncate(len(ids))
        return guesses

    def committed(self, heads: Sequence[Array]) -> None:
        """Nothing to learn: the next proposal feeds what was committed."""


class TokenShiftSession:
    """The token-shift draft, streaming: it remembers one embedding, the previous token's."""

    def __init__(self, model: TokenShiftDraft, arithmetic: Arithmetic) -> None:
        self.forwards = 0
        self._model = model
        self._tape = Tape(arithmetic, recording=False)

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Choose greedily, each guess from the two newest tokens."""
        guesses: list[int] = []
        for _ in range(count):
            guesses.append(greedy_token(self.logits([*ids, *guesses])))
            self.forwards += 1
        return guesses

    def logits(self, ids: Sequence[int]) -> Array:
        """Return the logits [vocabulary] after `ids`: blend the two newest embeddings, then hidden, ReLU, output."""
        model, tape = self._model, self._tape
        table, mix = model.table.value, model.shift.mix.value
        newest, before = (table[token] if token else np.zeros(mix.size) for token in (ids[-1], [0, *ids][-2]))
        blended = (mix * newest) + ((1.0 - mix) * before)
        hidden = model.hidden(tape, tape.constant(blended[None, :])).value
        raised = np.where(hidden > 0.0, hidden, 0.0)
        row: Array = model.output(tape, tape.constant(raised)).value[0]
        return row

    def committed(self, heads: Sequence[Array]) -> None:
        """Nothing to learn: two tokens are all it sees."""


class ScriptedDraft:
    """Guesses that are right up to a planned place: what makes every length of acceptance occur.

    It knows the true continuation. In pass p the guess at offset p mod (K + 1) is wrong; where that offset is K, none
    is. Without mistakes every guess is right.
    """

    def __init__(
        self, continuation: Sequence[int], prompt_length: int, block: int, vocabulary: int, *, mistakes: bool = True
    ) -> None:
        self.forwards = 0
        self._truth = list(continuation)
        self._prompt_length = prompt_length
        self._block = block
        self._vocabulary = vocabulary
        self._mistakes = mistakes
        self._pass = 0

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Return the truth with one planned mistake: the id after the right one."""
        done = len(ids) - self._prompt_length
        guesses = self._truth[done : done + count]
        wrong = self._pass % (self._block + 1)
        self._pass += 1
        if self._mistakes and wrong < len(guesses):
            guesses[wrong] = (guesses[wrong] + 1) % self._vocabulary
        return guesses

    def committed(self, heads: Sequence[Array]) -> None:
        """Nothing to learn."""


def speculate(path: Path, draft: Draft, prompt: Sequence[int], limits: Limits, block: int) -> Generation:
    """Generate with guesses of a draft, at most `block` a pass; the tokens are those of `generate`.

    Raises:
        DecodingError (empty-prompt, prompt-too-long): before any model call.
        SessionError, AutogradError, `non-finite-logit`: path, draft or choice failed.
    """
    check_prompt(prompt, limits)
    path.prefill(prompt[:-1])
    ids = list(prompt)
    rows: list[Array] = []
    passes: list[DraftPass] = []
    stop: DecoderStop | None = None if limits.new_tokens > 0 else DecoderStop.LIMIT
    while stop is None:
        room = min(limits.new_tokens - len(rows), limits.context - len(ids))
        # one place is kept for the token that the target adds itself
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
        # fed: the last token and all guesses; kept: one row a committed token
        passes.append(DraftPass(len(guesses), accepted, committed, len(guesses) + 1 - committed))
        # the last committed token has not been fed: the next pass begins with it
        path.keep(len(ids) - 1)
        draft.committed([logits[committed - 1] for logits in heads])
    return Generation(tuple(ids[len(prompt) :]), tuple(rows), stop, path.forwards, draft.forwards, tuple(passes))
