"""Which mistake of training explains the losses of a whole run: the reference is trained again with each.

A trace states losses at a few steps only. The run is repeated up to the first one that differs, in `fast` arithmetic,
with one mistake at a time; step 0, whose losses are those of the initial weights, tells mistakes of the loss itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cai_conformance.backends.reference.story_training import StoryData, course_epochs, optimizer_for, train_course
from cai_conformance.diagnosis.fits import Fit
from cai_conformance.faults.catalogue import fault_named
from cai_conformance.faults.fault import Fault, planted_together
from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.fixtures.sizes import Sizes
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST
from cai_reference.errors import CaiReferenceError
from cai_reference.splitmix import SplitMix64
from cai_reference.training.decoder_training import DecoderTraining, evaluate_stories

OF_THE_LOSS: Final = ("loss.pads-counted", "loss.mean-of-means", "loss.pads-scored", "loss.sum", "loss.heads-summed")
"""What shows at step 0; these cost two evaluations each."""

OF_TRAINING: Final = (
    "adamw.no-bias-correction",
    "adamw.coupled-decay",
    "adamw.decay-after-update",
    "adamw.no-decay",
    "adamw.decays-everything",
    "adamw.eps-inside-root",
    "adamw.betas-exchanged",
    "clip.none",
    "clip.per-tensor",
    "clip.squared-norm",
    "gradient.tied-once",
    "gradient.norm-without-mean",
    "gradient.last-occurrence",
    *OF_THE_LOSS,
)
"""What shows later, the likeliest first; losses are then evaluated rightly, as step 0 was right."""

DECISIVE: Final = 1e-3
"""A mistake that leaves less than this part of the tolerance ends the search: each costs a training."""


@dataclass(frozen=True)
class Losses:
    """The two losses of a step, in nats."""

    train: float
    validation: float

    def apart(self, other: Losses) -> float:
        """Return the larger difference."""
        return max(abs(self.train - other.train), abs(self.validation - other.validation))


@dataclass(frozen=True)
class RunFinding:
    """The first reported step whose losses differ.

    Attributes:
        step: its number.
        expected, found: its losses.
        fits: the mistakes that give them, best first.
    """

    step: int
    expected: Losses
    found: Losses
    fits: tuple[Fit, ...]

    def __str__(self) -> str:
        return (
            f"step {self.step}: expected losses {self.expected.train:.6f} and {self.expected.validation:.6f}, "
            f"found {self.found.train:.6f} and {self.found.validation:.6f}"
        )


@dataclass(frozen=True, eq=False)
class ShownRun:
    """How a suite trains: what is repeated."""

    phase: DecodePhase
    sizes: Sizes
    data: StoryData
    arithmetic: Arithmetic = FAST

    def losses(self, step: int, faults: Sequence[Fault] = (), *, evaluated_rightly: bool = True) -> Losses:
        """Train up to a step with some mistakes, and evaluate.

        Raises:
            CaiReferenceError: a number left the range of binary64.
        """
        if self.phase.selection is not None:
            return self._of_course(step, faults)
        model = self.phase.initialized(self.sizes, self.data.vocabulary(self.sizes), SplitMix64(self.sizes.init_seed))
        with planted_together(faults):
            if step:
                optimizer = optimizer_for(model, self.sizes)
                batches = self.data.batches[:step]
                for _ in DecoderTraining(batches, (), (), frozenset(), self.sizes.clip).run(
                    model, optimizer, self.arithmetic
                ):
                    pass
        with planted_together(() if evaluated_rightly else faults):
            return Losses(
                evaluate_stories(model, self.data.train_evaluation, self.arithmetic, "train"),
                evaluate_stories(model, self.data.validation_evaluation, self.arithmetic, "validation"),
            )

    def _of_course(self, step: int, faults: Sequence[Fault]) -> Losses:
        """Train with a schedule that spans the whole run; its evaluation is part of it."""
        assert self.phase.selection is not None
        epochs = course_epochs(self.phase.selection, self.sizes, self.data.train, self.data.validation)
        vocabulary = self.data.vocabulary(self.sizes)
        with planted_together(faults):
            run = train_course(self.phase, self.phase.selection, self.sizes, epochs, vocabulary, self.arithmetic)
        return next(Losses(each.train, each.validation) for each in run.steps if each.step == step)


def run_findings(
    run: ShownRun, expected: Mapping[int, Losses], found: Mapping[int, Losses], tolerance: float
) -> RunFinding | None:
    """Find the first reported step whose losses differ, and the mistakes that give them; None where none differs.

    Args:
        run: how the suite trains.
        expected: the losses of the golden or of the reference, by step.
        found: those of the trace, by step.
        tolerance: up to which difference, in nats, losses count as equal and a mistake fits. Training amplifies
            rounding, so that losses of late steps need a larger one.
    """
    for step in sorted(set(expected) & set(found)):
        apart = expected[step].apart(found[step])
        if apart <= tolerance:
            continue
        fits: list[Fit] = []
        for fault in map(fault_named, OF_TRAINING if step else OF_THE_LOSS):
            try:
                losses = run.losses(step, (fault,), evaluated_rightly=step > 0)
            except CaiReferenceError:
                continue
            residual = losses.apart(found[step])
            if residual <= tolerance:
                fits.append(Fit((fault,), residual, apart))
            if residual <= DECISIVE * tolerance:
                break
        fits.sort(key=lambda fit: fit.residual)
        return RunFinding(step, expected[step], found[step], tuple(fits))
    return None
