"""Errors of the autograd room: shapes, probabilities, and everything that a tape refuses.

Sources: course, chapters 8–16 (the error variants and what their texts carry). Shapes are tuples, axes count from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError

Shape = tuple[int, ...]


class AutogradError(CaiReferenceError):
    """An operation, a graph or a gradient is not valid."""


# ── tensors and their shapes ─────────────────────────────────────────────────────────────────────────────────────────


class TensorError(AutogradError):
    """Values do not fit a shape."""


@dataclass(eq=False)
class DataLengthMismatch(TensorError):
    """A shape holds another number of elements than there are values."""

    template = "the shape holds {expected} elements, the values are {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class IndexOutOfBounds(TensorError):
    """An index lies beyond its axis."""

    template = "index {index} is out of bounds for axis {axis} of length {dimension}"
    axis: int
    index: int
    dimension: int


class TensorOperationError(AutogradError):
    """An elementwise operation or a reduction does not fit its operands."""


@dataclass(eq=False)
class IncompatibleBroadcast(TensorOperationError):
    """Two shapes cannot be aligned from the right. `axis` counts in the aligned output."""

    template = "lengths {left} and {right} cannot be broadcast at output axis {axis}"
    axis: int
    left: int
    right: int


@dataclass(eq=False)
class ReductionAxisOutOfBounds(TensorOperationError):
    """A reduction names an axis that is not there."""

    template = "axis {axis} is out of bounds for a reduction over {rank} axes"
    axis: int
    rank: int


@dataclass(eq=False)
class EmptyMeanAxis(TensorOperationError):
    """The mean of nothing does not exist."""

    template = "the mean over axis {axis} has no elements"
    axis: int


@dataclass(eq=False)
class EmptyMaxAxis(TensorOperationError):
    """The maximum of nothing does not exist."""

    template = "the maximum over axis {axis} has no elements"
    axis: int


class MatmulError(AutogradError):
    """Two tensors cannot be multiplied as matrices."""


@dataclass(eq=False)
class LeftRankTooSmall(MatmulError):
    """The left operand has fewer than two axes."""

    template = "the left operand has {rank} axes; a matrix product needs at least 2"
    rank: int


@dataclass(eq=False)
class RightRankTooSmall(MatmulError):
    """The right operand has fewer than two axes."""

    template = "the right operand has {rank} axes; a matrix product needs at least 2"
    rank: int


@dataclass(eq=False)
class InnerDimensionMismatch(MatmulError):
    """The columns of the left operand are not as many as the rows of the right one."""

    template = "the inner lengths differ: {left} columns on the left, {right} rows on the right"
    left: int
    right: int


@dataclass(eq=False)
class IncompatibleBatch(MatmulError):
    """The leading axes cannot be broadcast. `axis` counts in the aligned output."""

    template = "batch lengths {left} and {right} cannot be broadcast at axis {axis}"
    axis: int
    left: int
    right: int


class ProbabilityError(AutogradError):
    """Logits or targets do not make a distribution. A group is one row along the class axis, in row-major order."""


@dataclass(eq=False)
class AxisOutOfBounds(ProbabilityError):
    """The class axis is not there."""

    template = "class axis {axis} is out of bounds for {rank} axes"
    axis: int
    rank: int


@dataclass(eq=False)
class EmptyNormalizationAxis(ProbabilityError):
    """There are no classes."""

    template = "class axis {axis} has no classes"
    axis: int


@dataclass(eq=False)
class NaNLogit(ProbabilityError):
    """A logit is not a number."""

    template = "the logit of class {class_index} in group {group} is NaN"
    group: int
    class_index: int


@dataclass(eq=False)
class PositiveInfinityLogit(ProbabilityError):
    """A logit is +inf."""

    template = "the logit of class {class_index} in group {group} is +inf"
    group: int
    class_index: int


@dataclass(eq=False)
class NegativeInfinityLogit(ProbabilityError):
    """A logit is -inf."""

    template = "the logit of class {class_index} in group {group} is -inf"
    group: int
    class_index: int


@dataclass(eq=False)
class TargetCountMismatch(ProbabilityError):
    """There are not as many targets as groups."""

    template = "expected {expected} targets, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class EmptyTargets(ProbabilityError):
    """The mean over no groups does not exist."""

    template = "there are no targets, so there is no mean loss"


@dataclass(eq=False)
class TargetOutOfBounds(ProbabilityError):
    """A target is not a class."""

    template = "target {target} of group {group} is not one of {classes} classes"
    group: int
    target: int
    classes: int


class ModelOperationError(AutogradError):
    """An indexed or masked operation does not fit its operands."""


@dataclass(eq=False)
class GatherTableRank(ModelOperationError):
    """Rows are gathered from a table of two axes."""

    template = "rows are gathered from a table of 2 axes, found {rank}"
    rank: int


@dataclass(eq=False)
class GatherIndexCountMismatch(ModelOperationError):
    """There are not as many indices as the index shape holds."""

    template = "expected {expected} indices, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class GatherIndexOutOfBounds(ModelOperationError):
    """An index is not a row of the table."""

    template = "index {index} at position {position} is not one of {rows} rows"
    position: int
    index: int
    rows: int


@dataclass(eq=False)
class CausalSoftmaxRank(ModelOperationError):
    """Scores need a query and a key axis."""

    template = "causal scores need at least 2 axes, found {rank}"
    rank: int


@dataclass(eq=False)
class CausalSoftmaxNonSquare(ModelOperationError):
    """A causal mask over all positions needs as many queries as keys."""

    template = "causal scores are square, found {queries} queries and {keys} keys"
    queries: int
    keys: int


@dataclass(eq=False)
class CausalSoftmaxEmptyTokens(ModelOperationError):
    """There are no positions."""

    template = "causal scores over no positions have no rows"


# ── the tape ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class TapeError(AutogradError):
    """A graph cannot be recorded or swept."""


@dataclass(eq=False)
class NonFiniteLeaf(TapeError):
    """A leaf was made from a value that is not finite."""

    template = "{operation}: the value at flat index {index} is {value}"
    operation: str
    index: int
    value: float


@dataclass(eq=False)
class NonFiniteForward(TapeError):
    """An operation made a value that is not finite."""

    template = "{operation}: the result at flat index {index} is {value}"
    operation: str
    index: int
    value: float


@dataclass(eq=False)
class UntrackedOutput(TapeError):
    """A sweep was asked for on a value that depends on no parameter."""

    template = "{operation}: the output depends on no parameter, so it has no gradients"
    operation: str


@dataclass(eq=False)
class GraphReleased(TapeError):
    """A sweep was asked for on a graph that has been swept."""

    template = "{operation}: the graph was released by an earlier backward pass"
    operation: str


@dataclass(eq=False)
class ReleasedOperand(TapeError):
    """An operation was given a value whose graph has been swept."""

    template = "{operation}: operand {operand} belongs to a released graph"
    operation: str
    operand: int


@dataclass(eq=False)
class SeedShapeMismatch(TapeError):
    """The seed of a sweep has another shape than its output."""

    template = "expected a seed of shape {expected}, found {actual}"
    expected: Shape
    actual: Shape


@dataclass(eq=False)
class NonFiniteSeed(TapeError):
    """The seed of a sweep is not finite."""

    template = "the seed at flat index {index} is {value}"
    index: int
    value: float


@dataclass(eq=False)
class StaleOperandValue(TapeError):
    """A parameter changed between the forward pass and the sweep."""

    template = (
        "{child}: operand {operand} ({parent}) was recorded at revision {recorded_revision}, "
        "its value is now at revision {current_revision}"
    )
    child: str
    parent: str
    operand: int
    recorded_revision: int
    current_revision: int


@dataclass(eq=False)
class NonFiniteVjp(TapeError):
    """A pullback made a contribution that is not finite."""

    template = "{child}: the contribution to operand {operand} ({parent}) at flat index {index} is {value}"
    child: str
    parent: str
    operand: int
    index: int
    value: float


@dataclass(eq=False)
class NonFinitePassAdjoint(TapeError):
    """The sum of finite contributions left the range of binary64."""

    template = "{node}: adjoint {previous} plus contribution {contribution} at flat index {index} is not finite"
    node: str
    index: int
    previous: float
    contribution: float


@dataclass(eq=False)
class NonFiniteAccumulatedGradient(TapeError):
    """A stored gradient plus the adjoint of this pass left the range of binary64."""

    template = "{node}: stored gradient {stored} plus adjoint {pass_adjoint} at flat index {index} is not finite"
    node: str
    index: int
    stored: float
    pass_adjoint: float


@dataclass(eq=False)
class AssignedShapeMismatch(TapeError):
    """A parameter was to be given a value of another shape."""

    template = "parameter {name!r} has shape {expected}, the new value {actual}"
    name: str
    expected: Shape
    actual: Shape


@dataclass(eq=False)
class NotAParameter(TapeError):
    """A gradient was asked of a value that stores none."""

    template = "{operation}: only parameters store gradients"
    operation: str


@dataclass(eq=False)
class BroadcastTargetMismatch(TapeError):
    """Broadcasting a value against a shape gives another shape."""

    template = "broadcasting {input} against {requested} gives {inferred}"
    input: Shape
    requested: Shape
    inferred: Shape
