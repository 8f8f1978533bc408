"""The graph that a forward pass leaves behind: variables, parameters, and the tape that records them.

A `Variable` is a float64 array with the operation that made it. A `Parameter` is a named leaf that stores a gradient
and outlives every graph. The `Tape` carries the arithmetic, so that operations and layers need not know which one
they run on; a tape that does not record evaluates the same formulas and keeps nothing (course, chapters 14 and 15).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.errors import AutogradError, Shape

Pullback = Callable[[Array], Sequence[Array]]
"""Takes the adjoint of a result, returns one contribution an operand, each of that operand's shape."""


class Variable:
    """One value of a graph.

    Attributes:
        value: float64, read-only.
        operation: the name of what made it, for messages.
        parents: the operands, in operand order; empty for leaves, and after a backward pass.
        pullback: how an adjoint flows to the operands; None for leaves and for what is not tracked.
        revisions: the revision of each operand's value when it was read.
        released: whether a backward pass has used the graph up.
    """

    __slots__ = ("operation", "parents", "pullback", "released", "revision", "revisions", "value")

    def __init__(
        self, value: Array, operation: str, parents: tuple[Variable, ...] = (), pullback: Pullback | None = None
    ) -> None:
        self.value = _frozen(value)
        self.operation = operation
        self.parents = parents
        self.pullback = pullback
        # counts assignments: a graph that read an older value is stale
        self.revision = 0
        self.revisions = tuple(parent.revision for parent in parents)
        self.released = False

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return self.value.shape

    @property
    def tracked(self) -> bool:
        """Whether gradients flow through this value."""
        return self.pullback is not None

    @property
    def gradient(self) -> Array:
        """The stored gradient.

        Raises:
            AutogradError (not-a-parameter): only parameters store one.
        """
        raise AutogradError("not-a-parameter", operation=self.operation)


class Parameter(Variable):
    """A named leaf that is trained: its value is replaced by an optimiser, its gradient adds up until it is zeroed.

    Raises:
        AutogradError (non-finite-leaf): a value is not finite.
    """

    __slots__ = ("_gradient", "name")

    def __init__(self, name: str, value: Array) -> None:
        # A copy: whoever made the values may go on writing to them.
        super().__init__(_finite_leaf(name, value).copy(), name)
        self.name = name
        self._gradient = _frozen(np.zeros(self.shape))

    @property
    def tracked(self) -> bool:
        """Gradients always reach a parameter."""
        return True

    @property
    def gradient(self) -> Array:
        """The sum of the adjoints since it was last zeroed, of the value's shape."""
        return self._gradient

    @gradient.setter
    def gradient(self, gradient: Array) -> None:
        self._gradient = _frozen(gradient)

    def zero_gradient(self) -> None:
        """Set the stored gradient to +0.0 everywhere."""
        self.gradient = np.zeros(self.shape)

    def assign(self, value: Array) -> None:
        """Replace the value, which makes graphs that have read the old one stale.

        Raises:
            AutogradError (assigned-shape-mismatch): the new value has another shape.
            AutogradError (non-finite-leaf): a value is not finite.
        """
        if value.shape != self.shape:
            raise AutogradError("assigned-shape-mismatch", name=self.name, expected=self.shape, actual=value.shape)
        self.value = _frozen(_finite_leaf(self.name, value).copy())
        self.revision += 1


@dataclass(frozen=True)
class Tape:
    """Runs operations in one arithmetic, and records them unless told not to."""

    arithmetic: Arithmetic
    recording: bool = True

    def constant(self, values: Array) -> Variable:
        """Make a leaf through which no gradient flows.

        Raises:
            AutogradError (non-finite-leaf): a value is not finite.
        """
        return Variable(_finite_leaf("constant", values), "constant")

    def record(self, operation: str, value: Array, parents: tuple[Variable, ...], pullback: Pullback) -> Variable:
        """Enter the result of an operation.

        Raises:
            AutogradError (released-operand): an operand's graph has been swept.
            AutogradError (non-finite-forward): a value of the result is not finite.
        """
        for place, parent in enumerate(parents):
            if parent.released:
                raise AutogradError("released-operand", operation=operation, operand=place)
        index = first_non_finite(value)
        if index is not None:
            raise AutogradError("non-finite-forward", operation=operation, index=index, value=float(value.flat[index]))
        # what depends on no parameter is not kept
        if self.recording and any(parent.tracked for parent in parents):
            return Variable(value, operation, parents, pullback)
        return Variable(value, operation)


def first_non_finite(values: Array) -> int | None:
    """Return the flat index of the first NaN or infinity, or None."""
    finite = np.isfinite(values)
    return None if finite.all() else int(np.argmin(finite))


def _finite_leaf(operation: str, values: Array) -> Array:
    index = first_non_finite(values)
    if index is not None:
        raise AutogradError("non-finite-leaf", operation=operation, index=index, value=float(values.flat[index]))
    return values


def _frozen(values: Array) -> Array:
    # A view, so that the caller's own array stays writable where it still holds one.
    view = np.asarray(values, dtype=np.float64).view()
    view.flags.writeable = False
    return view
