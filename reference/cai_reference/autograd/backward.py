"""The backward pass: reverse-mode differentiation of one graph.

Nodes are visited depth first, operands in order, and swept in the reverse of that post-order. This fixes the order in
which contributions to a value add up, and with it every bit (course, chapters 14 and 15). Nothing is stored until the
whole sweep has succeeded.
"""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd.errors import (
    GraphReleased,
    NonFiniteAccumulatedGradient,
    NonFinitePassAdjoint,
    NonFiniteSeed,
    NonFiniteVjp,
    ReleasedOperand,
    SeedShapeMismatch,
    StaleOperandValue,
    UntrackedOutput,
)
from cai_reference.autograd.graph import Parameter, Variable, first_non_finite


def backward(output: Variable, seed: Array | None = None) -> None:
    """Add the gradient of `output` to every parameter that it depends on, and release the graph.

    Args:
        output: what is differentiated.
        seed: the adjoint of the output, of its shape; ones where it is left out.

    Raises:
        GraphReleased, UntrackedOutput: there is no graph.
        ReleasedOperand: the graph shares values with one that was swept before.
        SeedShapeMismatch, NonFiniteSeed: the seed does not fit.
        StaleOperandValue: a parameter changed since the forward pass.
        NonFiniteVjp, NonFinitePassAdjoint, NonFiniteAccumulatedGradient: a number left the range of binary64.
    """
    if output.released:
        raise GraphReleased(output.operation)
    if not output.tracked:
        raise UntrackedOutput(output.operation)
    nodes = _post_order(output)
    for node in nodes:
        _refuse_unusable_operands(node)
    adjoints = _sweep(nodes, output, _checked_seed(output, seed))
    parameters = [node for node in nodes if isinstance(node, Parameter)]
    gradients = [_accumulated(parameter, adjoints[id(parameter)]) for parameter in parameters]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.gradient = gradient
    for node in nodes:
        if not isinstance(node, Parameter):
            node.parents, node.pullback, node.released = (), None, True


def _checked_seed(output: Variable, seed: Array | None) -> Array:
    if seed is None:
        return np.ones(output.shape)
    if seed.shape != output.shape:
        raise SeedShapeMismatch(output.shape, seed.shape)
    index = first_non_finite(seed)
    if index is not None:
        raise NonFiniteSeed(index, float(seed.flat[index]))
    return seed


def _post_order(output: Variable) -> list[Variable]:
    """Return the tracked nodes below `output`, operands before results, operands in order."""
    order: list[Variable] = []
    visited: set[int] = set()
    pending: list[tuple[Variable, bool]] = [(output, False)]
    while pending:
        node, operands_done = pending.pop()
        if operands_done:
            order.append(node)
        elif id(node) not in visited:
            visited.add(id(node))
            pending.append((node, True))
            pending.extend((parent, False) for parent in reversed(node.parents) if parent.tracked)
    return order


def _refuse_unusable_operands(node: Variable) -> None:
    for place, (parent, recorded) in enumerate(zip(node.parents, node.revisions, strict=True)):
        if parent.released:
            raise ReleasedOperand(node.operation, place)
        if parent.revision != recorded:
            raise StaleOperandValue(node.operation, parent.operation, place, recorded, parent.revision)


def _sweep(nodes: list[Variable], output: Variable, seed: Array) -> dict[int, Array]:
    # Every adjoint starts as +0.0 plus its first contribution, so that no negative zero survives.
    adjoints = {id(output): np.zeros(output.shape) + seed}
    for node in reversed(nodes):
        if node.pullback is None:
            continue
        # Overflow is an error with a place, raised below, not a warning without one.
        with np.errstate(over="ignore", invalid="ignore"):
            contributions = node.pullback(adjoints[id(node)])
        for place, (parent, contribution) in enumerate(zip(node.parents, contributions, strict=True)):
            if not parent.tracked:
                continue
            index = first_non_finite(contribution)
            if index is not None:
                value = float(contribution.flat[index])
                raise NonFiniteVjp(node.operation, parent.operation, place, index, value)
            previous = adjoints.get(id(parent))
            if previous is None:
                previous = np.zeros(parent.shape)
            with np.errstate(over="ignore"):
                total = previous + contribution
            index = first_non_finite(total)
            if index is not None:
                pair = float(previous.flat[index]), float(contribution.flat[index])
                raise NonFinitePassAdjoint(parent.operation, index, *pair)
            adjoints[id(parent)] = total
    return adjoints


def _accumulated(parameter: Parameter, adjoint: Array) -> Array:
    with np.errstate(over="ignore"):
        gradient = parameter.gradient + adjoint
    index = first_non_finite(gradient)
    if index is not None:
        pair = float(parameter.gradient.flat[index]), float(adjoint.flat[index])
        raise NonFiniteAccumulatedGradient(parameter.name, index, *pair)
    return gradient
