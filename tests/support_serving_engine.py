"""An engine with every feature whose answers are arithmetic on what it was asked, so that nothing can be mistaken."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cai_conformance.engine import (
    Description,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Loaded,
    LossAndGradients,
    Nondeterminism,
    OptimizerState,
    Piece,
    Precision,
    Refused,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)

DESCRIPTION = Description(
    name="arithmetic",
    version="1.2",
    arithmetic="bfloat16",
    precision=Precision("bfloat16", "float32", "float32", "float64", "float32"),
    precisions=("float64", "float16", "bfloat16"),
    nondeterminism=Nondeterminism.BATCH,
    features=frozenset(Feature),
    arms=frozenset({"cached", "scripted"}),
    slots=3,
)

VOCABULARY = 5

BATCH = TrainingBatch(((1, 2, 3), (4, 0, 0)), (((2, 3, 4), (5, -1, -1)), ((3, 4, 5), (-1, -1, -1))))

SETTINGS = TrainingSettings(1e-3, 0.9, 0.99, 1e-8, 0.01, None, ("w", "model.norm.weight"))


class ArithmeticEngine:
    """Remembers what was asked, in `asked`, and returns numbers made of it."""

    description = DESCRIPTION

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.closed = False
        self.busy = threading.Event()
        self.go_on = threading.Event()

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Return conventions that hold the arguments."""
        self.asked.append(("load", folder, precision))
        if folder.name == "noisy":
            print("a library greets the world")
        return Loaded({"folder": folder.name, "precision": str(precision)}, None, {"cache_bytes": 1 << 63, "rows": 7})

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Return logits slot + position + token / 8, NaN for the token 8, and two stages if asked."""
        self.asked.append(("evaluate", tuple(pieces), observe))
        if pieces[0].tokens[0] == 666:
            raise RuntimeError("out of\nmemory")
        if pieces[0].tokens[0] == 777:
            self.busy.set()
            self.go_on.wait(10)
        return tuple(_evaluated(piece, observe) for piece in pieces)

    def clear(self, slot: int) -> None:
        """Remember it."""
        self.asked.append(("clear", slot))

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Refuse a range in the middle."""
        self.asked.append(("drop", slot, first, last))
        if last is not None:
            raise Refused("arithmetic", "drop", "only the end of a slot can be dropped")

    def copy(self, source: int, target: int) -> None:
        """Remember it."""
        self.asked.append(("copy", source, target))

    def generate(self, order: GenerationOrder) -> Generated:
        """Return the prompt backwards, and the order's number of likely ids."""
        self.asked.append(("generate", order))
        ids = order.prompt[::-1][: order.new_tokens]
        return Generated(ids, tuple(tuple((i, -float(i) / 3) for i in range(order.top)) for _ in ids))

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return the batch as a loss and a tensor."""
        self.asked.append(("gradients", batch))
        return LossAndGradients(0.1, {"w": np.asarray(batch.inputs, dtype=np.float64), "b": np.array(2.0)})

    def start_training(self, settings: TrainingSettings) -> None:
        """Remember it."""
        self.asked.append(("start_training", settings))

    def train_step(self, batch: TrainingBatch) -> float:
        """Return NaN, which is a number."""
        self.asked.append(("train_step", batch))
        return float("nan")

    def training_state(self) -> OptimizerState:
        """Return a tensor that is too large for a line, a small one, and an empty one."""
        self.asked.append("training_state")
        large = np.arange(20_000, dtype=np.float64).reshape(100, 200) / 7
        return OptimizerState({"w": large}, {"w": large[:1]}, {"w": large[:0]})

    def save_training(self, directory: Path) -> SavedTraining:
        """Write nothing, and say that it would be noticed."""
        self.asked.append(("save_training", directory))
        return SavedTraining(checksums=True)

    def resume_training(self, directory: Path) -> None:
        """Refuse a directory that is called so."""
        self.asked.append(("resume_training", directory))
        if directory.name == "damaged":
            raise Refused("arithmetic", "to resume", "a file is cut")

    def poison(self, value: float) -> None:
        """Remember its bits."""
        self.asked.append(("poison", np.float64(value).tobytes()))

    def fail_after(self, layers: int) -> None:
        """Remember it."""
        self.asked.append(("fail_after", layers))

    def close(self) -> None:
        """Remember it."""
        self.closed = True


class SmallEngine:
    """Says that it can do everything, and has the methods of no feature."""

    description = DESCRIPTION

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load nothing."""
        return Loaded()

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Return logits as the other engine."""
        return tuple(_evaluated(piece, observe) for piece in pieces)

    def clear(self, slot: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _evaluated(piece: Piece, observe: bool) -> Evaluated:
    rows = [
        [np.nan if piece.tokens[row] == 8 else piece.slot + piece.position + piece.tokens[row] / 8] * VOCABULARY
        for row in piece.wanted
    ]
    logits = np.array(rows, dtype=np.float64).reshape(1, len(piece.wanted), VOCABULARY)
    stages = {"embedding": logits[0] * 2, "blocks.0/out": np.zeros((2, 0, 3))} if observe else {}
    return Evaluated(logits, stages)
