"""The reference as an engine: the batch path for whole sequences in empty slots, sessions for everything else.

So the judges that drive engines judge the reference as well, and a program can be held against it call by call. Every
piece of a call is evaluated by itself, so that neither shape nor neighbours matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as Folder
from typing import Final

import numpy as np
from safetensors import SafetensorError

from cai_conformance.backends.engine.files import FolderModel, read_folder
from cai_conformance.backends.errors import one_line
from cai_conformance.backends.reference.training import (
    ReferenceTraining,
    loss_and_gradients,
    read_training,
    write_training,
)
from cai_conformance.engine import (
    Description,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Loaded,
    LossAndGradients,
    OptimizerState,
    Piece,
    Precision,
    Refused,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)
from cai_conformance.errors import ConformanceError
from cai_reference import __version__
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.decoding.generation import Limits, Path, ReencodingPath, StreamingPath, generate
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.errors import CaiReferenceError

SLOTS = 64
LATENT_ARMS: Final = frozenset({LatentCache.LATENT.value, LatentCache.ABSORBED.value})
USUAL_ARMS: Final = frozenset({"full", "cached"})
SLACK = 4
"""How far windowed and recurrent layers can be cut back: a block of speculation."""


@dataclass
class _Slot:
    """A sequence: its session, which is opened where its first token stands."""

    session: Session
    start: int


class ReferenceEngine:
    """The reference in an arithmetic.

    Args:
        arithmetic: in which it computes.
        slack: how many tokens windowed and recurrent layers can always be cut back.
        arms: which decode arms it lists; the two arms of latent attention are run as well where they are among them.
    """

    def __init__(self, arithmetic: Arithmetic, slack: int = SLACK, arms: frozenset[str] = USUAL_ARMS) -> None:
        self._arithmetic, self._slack = arithmetic, slack
        self._folder: FolderModel | None = None
        self._slots: dict[int, _Slot] = {}
        self._training: ReferenceTraining | None = None
        self.description = Description(
            "reference",
            __version__,
            arithmetic.identifier if arithmetic.bitwise else "float64",
            Precision.uniform("float64"),
            features=frozenset(Feature) - {Feature.POISON, Feature.FAIL_AFTER},
            arms=arms,
            slots=SLOTS,
        )

    def load(self, folder: Folder, precision: str | None = None) -> Loaded:
        """Read a model folder.

        Raises:
            Refused: another format is wanted, or the folder holds no model of the reference.
        """
        if precision not in (None, "float64"):
            raise self._refused(f"the format {precision}", "it computes in float64")
        try:
            self._folder = read_folder(folder)
        except (OSError, ValueError, TypeError, KeyError, SafetensorError, CaiReferenceError) as error:
            # Settings and names of tensors are foreign; a missing one says no more than its name.
            raise self._refused("the folder", one_line(error)) from error
        self._slots, self._training = {}, None
        return Loaded(self._folder.conventions, self._folder.model.configuration.context)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces one after the other.

        Raises:
            Refused: a piece does not fit, or a number left the range of binary64; nothing was remembered.
        """
        before = {piece.slot: self._slots.get(piece.slot) for piece in pieces}
        marks = {slot: held.session.snapshot() for slot, held in before.items() if held is not None}
        try:
            return tuple(self._evaluated(piece, observe=observe) for piece in pieces)
        except (CaiReferenceError, Refused) as error:
            for slot, held in before.items():
                if held is None:
                    self._slots.pop(slot, None)
                else:
                    held.session.restore(marks[slot])
            if isinstance(error, Refused):
                raise
            raise self._refused("a call", str(error)) from error

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self._slots.pop(slot, None)

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Cut a slot back.

        Raises:
            Refused: the range is not at the end, or what would be needed afterwards is gone.
        """
        held = self._slots.get(slot)
        if held is None:
            raise self._refused("a cut", f"slot {slot} is empty")
        length = held.session.length
        if last is not None and last < held.start + length:
            raise self._refused("a cut", "it cuts at the end only")
        try:
            held.session.truncate(first - held.start)
        except CaiReferenceError as error:
            raise self._refused("a cut", str(error)) from error

    def copy(self, source: int, target: int) -> None:
        """Make a slot hold what another one holds."""
        held = self._slots.get(source)
        if held is None:
            self._slots.pop(target, None)
            return
        session = self._session(held.start)
        session.restore(held.session.snapshot())
        self._slots[target] = _Slot(session, held.start)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate greedily by one of its arms.

        Raises:
            Refused: log-probabilities are wanted, the arm is another one, or the prompt does not fit.
        """
        if order.top or order.arm not in self.description.arms:
            raise self._refused("a generation", "it gives no log-probabilities, and runs the arms full and cached")
        model = self._loaded().model
        if order.arm == "full":
            path: Path = ReencodingPath(model, self._arithmetic)
        else:
            latent = LatentCache(order.arm) if order.arm in LATENT_ARMS else LatentCache.HEADS
            path = StreamingPath(self._session(0, latent))
        limits = Limits(order.stop, order.new_tokens, model.configuration.context)
        try:
            return Generated(generate(path, order.prompt, limits).ids)
        except CaiReferenceError as error:
            raise self._refused("a generation", str(error)) from error

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients on the present weights.

        Raises:
            Refused: nothing is loaded, the batch is none, or a number left the range of binary64.
        """
        held = self._loaded()
        self._check_rows(batch)
        try:
            loss, gradients = loss_and_gradients(held.model, batch.inputs, batch.targets, self._arithmetic)
        except CaiReferenceError as error:
            raise self._refused("gradients", str(error)) from error
        return LossAndGradients(loss, held.file_tensors(gradients))

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin with fresh moments.

        Raises:
            Refused: nothing is loaded, or the settings are out of range.
        """
        held = self._loaded()
        try:
            named = replace(settings, decayed=held.native_names(settings.decayed))
            self._training = ReferenceTraining(held.model, named, self._arithmetic)
        except (CaiReferenceError, KeyError) as error:
            raise self._refused("these settings", str(error)) from error

    def train_step(self, batch: TrainingBatch) -> float:
        """Take one step.

        Raises:
            Refused: no training was started, the batch is none, or a number left the range of binary64.
        """
        if self._training is None:
            raise self._refused("a step", "no training was started")
        self._check_rows(batch)
        self._slots = {}
        try:
            return self._training.step(batch.inputs, batch.targets).loss
        except CaiReferenceError as error:
            raise self._refused("a step", str(error)) from error

    def training_state(self) -> OptimizerState:
        """Return weights and moments.

        Raises:
            Refused: no training was started.
        """
        if self._training is None:
            raise self._refused("a state", "no training was started")
        held = self._loaded()
        first, second, weights = map(held.file_tensors, self._training.state())
        return OptimizerState(weights, first, second)

    def save_training(self, directory: Folder) -> SavedTraining:
        """Write the checkpoint of the reference.

        Raises:
            Refused: no training was started, or the file cannot be written.
        """
        if self._training is None:
            raise self._refused("to save", "no training was started")
        try:
            write_training(directory, self._training.checkpoint())
        except (ConformanceError, CaiReferenceError) as error:
            raise self._refused("to save", str(error)) from error
        return SavedTraining(checksums=True)

    def resume_training(self, directory: Folder) -> None:
        """Go on from a checkpoint of the reference; all slots are empty then.

        Raises:
            Refused: nothing is loaded, or it is no whole checkpoint of this model and this arithmetic.
        """
        model = self._loaded().model
        try:
            state = read_training(directory)
            self._training = ReferenceTraining.resumed(model, state, self._arithmetic)
        except (ConformanceError, CaiReferenceError) as error:
            raise self._refused("to resume", str(error)) from error
        self._slots = {}

    def close(self) -> None:
        """Forget everything."""
        self._folder, self._slots, self._training = None, {}, None

    def _evaluated(self, piece: Piece, *, observe: bool) -> Evaluated:
        if any(not 0 <= place < len(piece.tokens) for place in piece.wanted):
            raise self._refused("a piece", f"rows {list(piece.wanted)} of {len(piece.tokens)} tokens are wanted")
        held = self._slots.get(piece.slot)
        if held is None:
            held = self._slots[piece.slot] = _Slot(self._session(piece.position), piece.position)
        elif piece.position != held.start + held.session.length:
            raise self._refused("a piece", f"slot {piece.slot} goes on at {held.start + held.session.length}")
        whole = held.session.length == 0
        fed = held.session.feed(piece.tokens)
        stages: dict[str, Array] = {}
        heads = fed
        if whole and (piece.wanted or observe):
            # Of a whole sequence the batch path is the answer, so that the two paths can be compared.
            heads, stages = self._batch(piece, observe=observe)
        wanted = list(piece.wanted)
        return Evaluated(np.stack([head[wanted] for head in heads]), stages)

    def _batch(self, piece: Piece, *, observe: bool) -> tuple[list[Array], dict[str, Array]]:
        stages: dict[str, Array] = {}

        def keep(name: str, value: Variable) -> None:
            if observe:
                stages[name] = value.value[0]

        tape = Tape(self._arithmetic, recording=False)
        heads = self._loaded().model.forward(tape, piece.tokens, batch=1, start=piece.position, observe=keep)
        return [logits.value[0] for logits in heads], stages

    def _session(self, start: int, latent: LatentCache = LatentCache.HEADS) -> Session:
        options = SessionOptions(start=start, slack=self._slack, latent=latent)
        return Session(self._loaded().model, self._arithmetic, options)

    def _check_rows(self, batch: TrainingBatch) -> None:
        lengths = [tuple(map(len, rows)) for rows in (batch.inputs, *batch.targets)]
        if len(set(lengths)) != 1 or len(set(lengths[0])) != 1 or not batch.targets:
            raise self._refused("a batch", "inputs and targets are no rows of one length")

    def _loaded(self) -> FolderModel:
        if self._folder is None:
            raise self._refused("a call", "no model is loaded")
        return self._folder

    def _refused(self, what: str, reason: str) -> Refused:
        return Refused("reference", what, reason)
