"""Errors of the training room: AdamW and the training loop.

Sources: course, chapters 21–23 (the error variants and what their texts carry).
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError

Shape = tuple[int, ...]


class TrainingError(CaiReferenceError):
    """A model cannot be trained."""


class AdamWError(TrainingError):
    """An optimiser is misconfigured, or a step cannot be taken. A failed step changes nothing."""


@dataclass(eq=False)
class InvalidLearningRate(AdamWError):
    """The learning rate is not finite and positive."""

    template = "the learning rate must be finite and positive, found {value}"
    value: float


@dataclass(eq=False)
class InvalidBeta1(AdamWError):
    """The decay of the first moment is not in [0, 1)."""

    template = "beta1 must be in [0, 1), found {value}"
    value: float


@dataclass(eq=False)
class InvalidBeta2(AdamWError):
    """The decay of the second moment is not in [0, 1)."""

    template = "beta2 must be in [0, 1), found {value}"
    value: float


@dataclass(eq=False)
class InvalidEpsilon(AdamWError):
    """Epsilon is not finite and positive."""

    template = "epsilon must be finite and positive, found {value}"
    value: float


@dataclass(eq=False)
class InvalidWeightDecay(AdamWError):
    """The weight decay is not finite and at least 0."""

    template = "the weight decay must be finite and not negative, found {value}"
    value: float


@dataclass(eq=False)
class InvalidDecayProduct(AdamWError):
    """Learning rate times weight decay would flip or lose the weights."""

    template = "learning rate {learning_rate} times weight decay {weight_decay} is {product}, which is not in (0, 1)"
    learning_rate: float
    weight_decay: float
    product: float


@dataclass(eq=False)
class InvalidGradientScale(AdamWError):
    """A factor for all gradients is not finite and positive."""

    template = "the gradient scale must be finite and positive, found {value}"
    value: float


@dataclass(eq=False)
class InvalidGradientNormalization(AdamWError):
    """A divisor or multiplier for all gradients is not finite and positive."""

    template = "gradient divisor {divisor} and multiplier {multiplier} must be finite and positive"
    divisor: float
    multiplier: float


@dataclass(eq=False)
class EmptyParameterGroups(AdamWError):
    """Both groups are empty."""

    template = "the parameter groups hold no names"


@dataclass(eq=False)
class EmptyGroupedParameterName(AdamWError):
    """A group holds an empty name."""

    template = "the {group} group holds an empty name"
    group: str


@dataclass(eq=False)
class DuplicateGroupedParameter(AdamWError):
    """A group holds a name twice."""

    template = "the {group} group holds {name!r} twice"
    group: str
    name: str


@dataclass(eq=False)
class ParameterInMultipleGroups(AdamWError):
    """A name stands in both groups."""

    template = "parameter {name!r} stands in both groups"
    name: str


@dataclass(eq=False)
class EmptyParameterSet(AdamWError):
    """A step was asked for without parameters."""

    template = "there are no parameters to update"


@dataclass(eq=False)
class DuplicateParameterName(AdamWError):
    """Two parameters of a step share a name."""

    template = "parameter {name!r} stands at positions {first} and {repeated}"
    name: str
    first: int
    repeated: int


@dataclass(eq=False)
class ParameterSetChanged(AdamWError):
    """A step was asked for with other names than the groups, or than the first step. Names are sorted."""

    template = "expected parameters {expected}, found {actual}"
    expected: tuple[str, ...]
    actual: tuple[str, ...]


@dataclass(eq=False)
class ParameterShapeChanged(AdamWError):
    """A parameter has another shape than its moments."""

    template = "parameter {name!r}: expected shape {expected}, found {actual}"
    name: str
    expected: Shape
    actual: Shape


@dataclass(eq=False)
class MissingGradient(AdamWError):
    """A parameter was given without a gradient."""

    template = "parameter {name!r} has no gradient"
    name: str


@dataclass(eq=False)
class GradientShapeMismatch(AdamWError):
    """A gradient has another shape than its parameter."""

    template = "parameter {name!r} has shape {parameter}, its gradient {gradient}"
    name: str
    parameter: Shape
    gradient: Shape


@dataclass(eq=False)
class NonFiniteArithmetic(AdamWError):
    """A stage of the update left the range of binary64; stages are looked at in the order of the formulas."""

    template = "parameter {name!r}, flat index {index}: the {stage} is {value}"
    name: str
    index: int
    stage: str
    value: float


class ClipError(TrainingError):
    """Gradients cannot be clipped."""


@dataclass(eq=False)
class InvalidMaximumNorm(ClipError):
    """The largest norm is not finite and positive."""

    template = "the largest norm of all gradients must be finite and positive, found {value}"
    value: float


@dataclass(eq=False)
class NonFiniteStoredGradient(ClipError):
    """A stored gradient is not finite."""

    template = "parameter {name!r}: the gradient at flat index {index} is {value}"
    name: str
    index: int
    value: float


@dataclass(eq=False)
class UnrepresentableGradientClip(ClipError):
    """The largest norm, divided by the root of the scaled squares, is 0 in binary64."""

    template = "gradients cannot be clipped to a norm of {maximum}: divided by {root} it is 0"
    maximum: float
    root: float


class ScheduleError(TrainingError):
    """A learning-rate schedule cannot be made, or has no rate for a step. Steps count from 1."""


@dataclass(eq=False)
class EmptySchedule(ScheduleError):
    """A schedule of stages has none."""

    template = "the learning-rate schedule has no stages"


@dataclass(eq=False)
class InvalidScheduledRate(ScheduleError):
    """A rate is not finite and positive."""

    template = "the learning rate of step {step} must be finite and positive, found {value}"
    step: int
    value: float


@dataclass(eq=False)
class InvalidScheduleFloor(ScheduleError):
    """A rate cannot fall to a floor of 0, or rise to one."""

    template = (
        "a schedule that peaks at {peak} cannot end at {value}: the floor must be positive and not above the peak"
    )
    value: float
    peak: float


@dataclass(eq=False)
class InvalidScheduleLength(ScheduleError):
    """A part of a schedule has too few steps."""

    template = "{what} has {steps} steps, but needs at least {least}"
    what: str
    steps: int
    least: int


@dataclass(eq=False)
class StepBeforeFirst(ScheduleError):
    """The first step is 1."""

    template = "there is no step {step}: the steps of a schedule count from 1"
    step: int


@dataclass(eq=False)
class StepBehindSchedule(ScheduleError):
    """The schedule has ended."""

    template = "there is no rate for step {step}: the schedule ends with step {last}"
    step: int
    last: int


class TrainerError(TrainingError):
    """A training run cannot start or go on."""


@dataclass(eq=False)
class NothingToAccumulate(TrainerError):
    """Gradients of no micro-batches."""

    template = "there are no micro-batches to accumulate gradients of"


@dataclass(eq=False)
class NoTrainingBatches(TrainerError):
    """The plan holds no batches."""

    template = "there are no training batches: every document is too short for a window"


@dataclass(eq=False)
class NoEvaluationRows(TrainerError):
    """An evaluation was asked for over nothing."""

    template = "the {partition} partition has no windows to evaluate"
    partition: str
