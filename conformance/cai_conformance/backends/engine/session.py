"""An engine seen as the reference's decoding loops see a model: a sequence that is fed, and one that is encoded anew.

So the same loops drive both, and what differs is the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cai_conformance.backends.engine.features import dropping
from cai_conformance.engine import Engine, EngineError, Evaluated, Piece, Refused
from cai_reference.arithmetic import Array

FULL_SLOT: Final = 0
"""The slot that is emptied before each whole sequence."""


def evaluate_one(engine: Engine, piece: Piece, *, observe: bool = False) -> Evaluated:
    """Evaluate one piece, and look at the shape of the answer.

    Raises:
        EngineError (answer-out-of-shape): there is not one answer, or not one row for each wanted place.
        EngineError: the engine failed.
    """
    return evaluate_checked(engine, [piece], observe=observe)[0]


def evaluate_checked(engine: Engine, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
    """Evaluate pieces in one call, and look at the shapes of the answers.

    Raises:
        `answer-out-of-shape`, EngineError: as `evaluate_one`.
    """
    name, answers = engine.description.name, engine.evaluate(pieces, observe=observe)
    if len(answers) != len(pieces):
        raise EngineError("answer-out-of-shape", engine=name, found=f"{len(answers)} pieces", wanted=f"{len(pieces)}")
    for piece, answer in zip(pieces, answers, strict=True):
        shape = answer.logits.shape
        if len(shape) != 3 or shape[0] < 1 or shape[1] != len(piece.wanted):
            raise EngineError(
                "answer-out-of-shape",
                engine=name,
                found=f"logits of shape {list(shape)}",
                wanted=f"[heads, {len(piece.wanted)}, vocabulary]",
            )
    return answers


class EngineSession:
    """One slot of an engine, fed and cut back like a session of the reference."""

    def __init__(self, engine: Engine, slot: int = 0, start: int = 0) -> None:
        self._engine, self._slot, self._start = engine, slot, start
        self._length = 0
        engine.clear(slot)

    @property
    def length(self) -> int:
        """How many tokens the slot holds."""
        return self._length

    def feed(self, ids: Sequence[int]) -> list[Array]:
        """Feed tokens and return, for each head, the logits [tokens, vocabulary] after each of them.

        Raises:
            `answer-out-of-shape`, EngineError: as `evaluate_one`.
        """
        return list(self.observed(ids, observe=False).logits)

    def observed(self, ids: Sequence[int], *, observe: bool = True) -> Evaluated:
        """Feed tokens, and return logits and stages.

        Raises:
            `answer-out-of-shape`, EngineError: as `evaluate_one`.
        """
        piece = Piece(self._slot, self._start + self._length, tuple(ids), tuple(range(len(ids))))
        answer = evaluate_one(self._engine, piece, observe=observe)
        self._length += len(ids)
        return answer

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens.

        Raises:
            Refused: the engine cannot drop what was fed, or refuses this cut.
            EngineError: it failed.
        """
        if length == self._length:
            return
        dropper = dropping(self._engine)
        if dropper is None:
            raise Refused(self._engine.description.name, "a cut", "it has no feature drop")
        dropper.drop(self._slot, self._start + length)
        self._length = length


class EngineReencoding:
    """The path that evaluates the whole sequence every time, in an empty slot."""

    def __init__(self, engine: Engine, slot: int = FULL_SLOT, start: int = 0) -> None:
        self.forwards = 0
        self._engine, self._slot, self._start = engine, slot, start

    def prefill(self, ids: Sequence[int]) -> None:
        """Nothing is remembered, so there is nothing to do."""

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Evaluate all of `ids` and return the last rows.

        Raises:
            `answer-out-of-shape`, EngineError: as `evaluate_one`.
        """
        self.forwards += 1
        self._engine.clear(self._slot)
        wanted = tuple(range(len(ids) - newest, len(ids)))
        return list(evaluate_one(self._engine, Piece(self._slot, self._start, tuple(ids), wanted)).logits)

    def keep(self, length: int) -> None:
        """Nothing is remembered, so there is nothing to forget."""


def full_logits(engine: Engine, ids: Sequence[int], start: int = 0) -> Array:
    """Return the logits [heads, tokens, vocabulary] behind every token of a sequence, evaluated in one call.

    Raises:
        `answer-out-of-shape`, EngineError: as `evaluate_one`.
    """
    return np.stack(EngineReencoding(engine, start=start).after(ids, len(ids)))
