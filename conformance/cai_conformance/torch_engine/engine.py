"""PyTorch as an engine: its own modules and kernels, ragged batches, preallocated caches, its own optimiser.

Nothing of the reference computes here. All pieces of a call go through the model as one batch, padded to the longest
one, as engines do, so that the last bits of a piece depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch

from cai_conformance.engines.description import Description, Feature, Nondeterminism
from cai_conformance.engines.errors import Refused
from cai_conformance.engines.protocol import Evaluated, Generated, GenerationOrder, Loaded, Piece
from cai_conformance.torch_engine.cache import LayerCache
from cai_conformance.torch_engine.calling import Call
from cai_conformance.torch_engine.computing import FORMATS, PRECISIONS, computing
from cai_conformance.torch_engine.generating import greedy
from cai_conformance.torch_engine.loading import OpenedModel, open_folder
from cai_conformance.torch_engine.observing import Observer, as_array, stages_of_row
from cai_conformance.torch_engine.stack import never

SLOTS: Final = 16
CONTEXT: Final = 512
"""The most tokens a slot holds, whatever a model can be told."""

FEATURES: Final = frozenset(
    {
        Feature.DROP,
        Feature.COPY,
        Feature.OBSERVE,
        Feature.GENERATE,
        Feature.POISON,
        Feature.FAIL_AFTER,
    }
)


@dataclass
class _Slot:
    """How much of a sequence is remembered, and where it starts."""

    start: int = 0
    length: int = 0

    @property
    def end(self) -> int:
        """The position of the next token."""
        return self.start + self.length


@dataclass
class _Held:
    """A loaded model, its caches, and the slots; the last one is for generation."""

    opened: OpenedModel
    caches: tuple[LayerCache, ...]
    context: int
    slots: list[_Slot] = field(default_factory=lambda: [_Slot() for _ in range(SLOTS + 1)])


class TorchEngine:
    """An engine that computes with PyTorch.

    Args:
        precision: the format of models that are loaded without saying which.
        device: a device of PyTorch, such as `cuda`.
    """

    def __init__(self, precision: str = "float64", device: str = "cpu") -> None:
        self._device = torch.device(device)
        self._own = self._format = precision
        self._model: _Held | None = None
        self._fail_after: int | None = None
        if precision not in FORMATS:
            raise self._refused(f"the format {precision}", f"it has {', '.join(FORMATS)}")
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise self._refused(f"the device {device}", "PyTorch finds none")

    @property
    def description(self) -> Description:
        """Who it is; after a model was loaded, in the format of that model."""
        precision = PRECISIONS[self._format]
        return Description(
            self._name,
            torch.__version__,
            precision.coarsest,
            precision,
            tuple(FORMATS),
            Nondeterminism.BATCH if self._device.type == "cpu" else Nondeterminism.RUN,
            FEATURES,
            frozenset({"full", "cached"}),
            SLOTS,
        )

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load a model folder; all slots are empty then.

        Raises:
            Refused: the format or the model is none that there is here; what was loaded before stays.
        """
        wanted = self._own if precision is None else precision
        if wanted not in FORMATS:
            raise self._refused(f"the format {wanted}", f"it has {', '.join(FORMATS)}")
        with self._refusing("the folder"):
            opened = open_folder(folder, FORMATS[wanted], self._device)
        context = min(CONTEXT, opened.context)
        stack = opened.stack
        caches = tuple(
            LayerCache(remembered, SLOTS + 1, context, stack.dtype, stack.device) for remembered in stack.remembered
        )
        self._model, self._format, self._fail_after = _Held(opened, caches, context), wanted, None
        weights = sum(each.numel() * each.element_size() for each in stack.parameters())
        claimed = {"cache_bytes": sum(cache.bytes_a_slot for cache in caches), "weight_bytes": weights}
        return Loaded(opened.conventions, context, claimed)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces of different slots as one batch, and remember their tokens.

        Raises:
            Refused: a piece does not fit, or `fail_after` says so; nothing was remembered.
        """
        held = self._loaded("a call")
        limit, self._fail_after = self._fail_after, None
        with self._refusing("a call"):
            if len({piece.slot for piece in pieces}) < len(pieces):
                raise ValueError("two pieces are for one slot")
            for piece in pieces:
                self._check(held, piece)
        if not pieces:
            return ()

        def behind(blocks: int) -> None:
            if blocks == limit:
                raise self._refused("a call", f"it was told to fail behind {blocks} blocks")

        observer = Observer({} if observe else None)
        with computing():
            logits = self._run(held, pieces, observer, behind)
            return tuple(
                Evaluated(
                    np.stack([as_array(head[row, list(piece.wanted)]) for head in logits]),
                    stages_of_row(observer.kept or {}, row, len(piece.tokens)),
                )
                for row, piece in enumerate(pieces)
            )

    def clear(self, slot: int) -> None:
        """Empty a slot.

        Raises:
            Refused: there is no such slot.
        """
        held = self._loaded("to empty a slot")
        with self._refusing("to empty a slot"):
            self._check_slot(slot)
        self._empty(held, slot)

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Forget the positions of a slot from `first` on.

        Raises:
            Refused: the range is not at the end of the slot, or what is needed before it is gone.
        """
        held = self._loaded("a cut")
        with self._refusing("a cut"):
            self._check_slot(slot)
            state = held.slots[slot]
            if not state.start <= first <= state.end:
                raise ValueError(f"slot {slot} holds the positions {state.start} … {state.end - 1}, not {first}")
            if last is not None and last != state.end:
                raise ValueError(f"it cuts at the end of a slot only, and position {state.end - 1} would stay")
            length = first - state.start
            for layer, cache in enumerate(held.caches):
                if not cache.can_be_cut(slot, length):
                    raise ValueError(f"layer {layer} no longer holds what position {first} looks back at")
        for cache in held.caches:
            cache.cut(slot, length)
        state.length = length

    def copy(self, source: int, target: int) -> None:
        """Make a slot hold what another one holds.

        Raises:
            Refused: there is no such slot.
        """
        held = self._loaded("a copy")
        with self._refusing("a copy"):
            self._check_slot(source)
            self._check_slot(target)
        for cache in held.caches:
            cache.copy(source, target)
        state = held.slots[source]
        held.slots[target] = _Slot(state.start, state.length)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate greedily: `full` encodes the whole sequence for each token, `cached` the newest token.

        Raises:
            Refused: the arm is another one, the prompt does not fit, or no such number of likeliest ids is there.
        """
        held = self._loaded("a generation")
        if order.arm not in ("full", "cached"):
            raise self._refused("a generation", f"it has no arm {order.arm}")
        slot = SLOTS
        self._empty(held, slot)

        def logits_after(sequence: Sequence[int]) -> torch.Tensor:
            if order.arm == "full":
                self._empty(held, slot)
            known = held.slots[slot].length
            piece = Piece(slot, known, tuple(sequence[known:]), ())
            return self._run(held, [piece], Observer())[0][0, -1]

        with self._refusing("a generation"), computing():
            outside = [token for token in order.prompt if not 0 <= token < held.opened.stack.vocabulary]
            if outside:
                raise ValueError(f"{outside[0]} is no id")
            return greedy(order, held.context, logits_after)

    def poison(self, value: float) -> None:
        """Fill every cached row that no position owns."""
        for cache in self._loaded("to poison").caches:
            cache.poison(value)

    def fail_after(self, layers: int) -> None:
        """Raise `Refused` in the next call of `evaluate`, behind so many blocks.

        Raises:
            Refused: there are not so many blocks.
        """
        blocks = len(self._loaded("to fail").caches)
        if not 0 <= layers <= blocks:
            raise self._refused("to fail", f"the model has {blocks} blocks, not {layers}")
        self._fail_after = layers

    def close(self) -> None:
        """Let go of model and caches."""
        self._model = None

    @property
    def _name(self) -> str:
        if self._device.type == "cuda":
            return f"PyTorch on {torch.cuda.get_device_name(self._device)}"
        return f"PyTorch on {self._device}"

    def _run(
        self, held: _Held, pieces: Sequence[Piece], observer: Observer, behind: Callable[[int], None] = never
    ) -> list[torch.Tensor]:
        """Compute a batch, then remember it: what raises in between leaves everything as it was."""
        stack, slots = held.opened.stack, [held.slots[piece.slot] for piece in pieces]
        lengths = [slot.length for slot in slots]
        call = Call.of([piece.tokens for piece in pieces], lengths, [piece.position for piece in pieces], stack.device)
        places = torch.tensor([piece.slot for piece in pieces], device=stack.device)
        pasts = [cache.past(places, max(lengths)) for cache in held.caches]
        logits, rows = stack(call, pasts, observer, behind)
        for row, (piece, slot) in enumerate(zip(pieces, slots, strict=True)):
            tokens = len(piece.tokens)
            for cache, new in zip(held.caches, rows, strict=True):
                cache.store(piece.slot, slot.length, {name: value[row, :tokens] for name, value in new.items()})
            slot.start = piece.position if slot.length == 0 else slot.start
            slot.length += tokens
        return list(logits)

    def _check(self, held: _Held, piece: Piece) -> None:
        self._check_slot(piece.slot)
        slot, tokens = held.slots[piece.slot], len(piece.tokens)
        if not tokens:
            raise ValueError("a piece has no tokens")
        outside = [token for token in piece.tokens if not 0 <= token < held.opened.stack.vocabulary]
        if outside:
            raise ValueError(f"{outside[0]} is no id")
        if list(piece.wanted) != sorted({place for place in piece.wanted if 0 <= place < tokens}):
            raise ValueError(f"the places {list(piece.wanted)} are not ascending places of {tokens} tokens")
        if piece.position < 0 or (slot.length and piece.position != slot.end):
            raise ValueError(f"slot {piece.slot} goes on at position {slot.end}, not {piece.position}")
        if slot.length + tokens > held.context:
            raise ValueError(f"{slot.length} and {tokens} tokens are more than the context of {held.context}")

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < SLOTS:
            raise ValueError(f"there are the slots 0 … {SLOTS - 1}, not {slot}")

    def _empty(self, held: _Held, slot: int) -> None:
        for cache in held.caches:
            cache.cut(slot, 0)
        held.slots[slot] = _Slot()

    def _loaded(self, what: str) -> _Held:
        if self._model is None:
            raise self._refused(what, "no model is loaded")
        return self._model

    def _refused(self, what: str, reason: str) -> Refused:
        return Refused(self._name, what, reason)

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise self._refused(what, str(error)) from error
