"""transformers as an engine for the Llama suites. Pieces of a call are evaluated one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import torch

from cai_conformance.backends.torch.computing import FORMATS, as_array
from cai_conformance.backends.transformers.model import PRECISIONS, CausalModel, HeldSequence, quiet, version
from cai_conformance.engine import (
    Description,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Loaded,
    Nondeterminism,
    Piece,
    Refused,
)

SLOTS: Final = 16
ARMS: Final = frozenset({"full", "cached"})


class TransformersEngine:
    """An engine around `AutoModelForCausalLM`.

    Args:
        precision: the format of models that are loaded without saying which.
        device: a device of PyTorch, such as `cuda`.
        attention: `sdpa` or `eager`.
    """

    def __init__(self, precision: str = "float32", device: str = "cpu", attention: str = "sdpa") -> None:
        self._device, self._attention = device, attention
        self._own = self._format = precision
        self._model: CausalModel | None = None
        self._slots: dict[int, HeldSequence] = {}
        if precision not in PRECISIONS:
            raise self._refused(f"the format {precision}", f"it has {', '.join(PRECISIONS)}")
        if attention not in ("sdpa", "eager"):
            raise self._refused(f"the attention {attention}", "it has sdpa and eager")
        if device != "cpu" and not torch.cuda.is_available():
            raise self._refused(f"the device {device}", "PyTorch finds none")

    @property
    def description(self) -> Description:
        """Who it is; after a model was loaded, in the format of that model."""
        precision = PRECISIONS[self._format]
        return Description(
            self._name,
            f"{version()}, PyTorch {torch.__version__}",
            precision.coarsest,
            precision,
            tuple(PRECISIONS),
            Nondeterminism.SHAPE if self._device == "cpu" else Nondeterminism.RUN,
            frozenset({Feature.DROP, Feature.COPY, Feature.GENERATE}),
            ARMS,
            SLOTS,
        )

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load a model folder of a Llama suite; all slots are empty then.

        Raises:
            Refused: the format or the model is none that there is here; what was loaded before stays.
        """
        wanted = self._own if precision is None else precision
        if wanted not in PRECISIONS:
            raise self._refused(f"the format {wanted}", f"it has {', '.join(PRECISIONS)}")
        with self._refusing("the folder"):
            model = CausalModel.load(folder, FORMATS[wanted], self._device, self._attention)
        self._model, self._format, self._slots = model, wanted, {}
        return Loaded({"argmax": "lowest id"}, model.context, {"weight_bytes": model.weight_bytes})

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces one after the other, and remember their tokens; `observe` shows nothing.

        Raises:
            Refused: a piece does not fit; nothing was remembered.
        """
        model, found, after = self._loaded("a call"), [], dict(self._slots)
        with self._refusing("a call"):
            if len({piece.slot for piece in pieces}) < len(pieces):
                raise ValueError("two pieces are for one slot")
            for piece in pieces:
                self._check(model, piece)
            for piece in pieces:
                logits, after[piece.slot] = model.after(after.get(piece.slot), piece.position, piece.tokens)
                found.append(Evaluated(as_array(logits[list(piece.wanted)])[None]))
        self._slots = after
        return tuple(found)

    def clear(self, slot: int) -> None:
        """Empty a slot.

        Raises:
            Refused: there is no such slot.
        """
        with self._refusing("to empty a slot"):
            self._check_slot(slot)
        self._slots.pop(slot, None)

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Forget the positions of a slot from `first` on.

        Raises:
            Refused: the range is not at the end of the slot, or a window has let go of what is needed before it.
        """
        model = self._loaded("a cut")
        with self._refusing("a cut"):
            self._check_slot(slot)
            held = self._slots.get(slot)
            if held is None:
                raise ValueError(f"slot {slot} is empty")
            if not held.start <= first <= held.end:
                raise ValueError(f"slot {slot} holds the positions {held.start} … {held.end - 1}, not {first}")
            if last not in (None, held.end):
                raise ValueError(f"slot {slot} can be cut at its end, position {held.end - 1}, only")
            if first == held.start:
                del self._slots[slot]
            else:
                self._slots[slot] = model.cut(held, first - held.start)

    def copy(self, source: int, target: int) -> None:
        """Make a slot hold what another one holds.

        Raises:
            Refused: there is no such slot.
        """
        model = self._loaded("a copy")
        with self._refusing("a copy"):
            self._check_slot(source)
            self._check_slot(target)
        held = self._slots.get(source)
        if held is None:
            self._slots.pop(target, None)
        else:
            self._slots[target] = model.copy(held)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate greedily: `cached` by transformers' own loop, `full` by one that encodes everything each time.

        Raises:
            Refused: the arm is another one, the prompt does not fit, or no such number of likeliest ids is there.
        """
        model = self._loaded("a generation")
        if order.arm not in ARMS:
            raise self._refused("a generation", f"it has no arm {order.arm}")
        with self._refusing("a generation"):
            self._check_ids(model, order.prompt)
            return model.generate(order) if order.arm == "cached" else model.generate_in_full(order)

    def close(self) -> None:
        """Let go of model and caches."""
        self._model, self._slots = None, {}

    @property
    def _name(self) -> str:
        return f"transformers on {self._device}, {self._attention} attention"

    def _check(self, model: CausalModel, piece: Piece) -> None:
        self._check_slot(piece.slot)
        self._check_ids(model, piece.tokens)
        held, tokens = self._slots.get(piece.slot), len(piece.tokens)
        if not tokens:
            raise ValueError(f"there are no tokens for slot {piece.slot}")
        if list(piece.wanted) != sorted({place for place in piece.wanted if 0 <= place < tokens}):
            raise ValueError(f"{list(piece.wanted)} are not ascending places of {tokens} tokens")
        if piece.position < 0:
            raise ValueError(f"there is no position {piece.position}")
        if held is not None and piece.position != held.end:
            raise ValueError(f"slot {piece.slot} goes on at position {held.end}, not {piece.position}")
        length = tokens + (0 if held is None else held.length)
        if length > model.context:
            raise ValueError(f"{length} tokens are more than the context of {model.context}")

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < SLOTS:
            raise ValueError(f"there are the slots 0 … {SLOTS - 1}, not {slot}")

    def _check_ids(self, model: CausalModel, ids: Sequence[int]) -> None:
        for token in ids:
            if not 0 <= token < model.vocabulary:
                raise ValueError(f"{token} is none of the ids 0 … {model.vocabulary - 1}")

    def _loaded(self, what: str) -> CausalModel:
        if self._model is None:
            raise self._refused(what, "no model is loaded")
        return self._model

    def _refused(self, what: str, reason: str) -> Refused:
        return Refused(self._name, what, reason)

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            with quiet():
                yield
        except (OSError, ValueError) as error:
            raise self._refused(what, " ".join(str(error).split())) from error
