"""The backward pass: reverse-mode differentiation of one graph.

Nodes are visited depth first, operands in order, and swept in the reverse of that post-order. This fixes the order in
which contributions to a value add up, and with it every bit (course, chapters 14 and 15). Nothing is stored until the
whole sweep has succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, Variable, first_non_finite
from cai_reference.errors import AutogradError


class SweepError(AutogradError):
    """A backward sweep cannot be made, or left the range of binary64."""

    templates: ClassVar[Mapping[str, str]] = {
        # A sweep was asked for on a value that depends on no parameter.
        "untracked-output": "{operation}: the output depends on no parameter, so it has no gradients",
        # A sweep was asked for on a graph that has been swept.
        "graph-released": "{operation}: the graph was released by an earlier backward pass",
        # The seed of a sweep has another shape than its output.
        "seed-shape-mismatch": "expected a seed of shape {expected}, found {actual}",
        # The seed of a sweep is not finite.
        "non-finite-seed": "the seed at flat index {index} is {value}",
        # A parameter changed between the forward pass and the sweep.
        "stale-operand-value": (
            "{child}: operand {operand} ({parent}) was recorded at revision {recorded_revision}, its value is now at "
            "revision {current_revision}"
        ),
        # A pullback made a contribution that is not finite.
        "non-finite-vjp": "{child}: the contribution to operand {operand} ({parent}) at flat index {index} is {value}",
        # The sum of finite contributions left the range of binary64.
        "non-finite-pass-adjoint": (
            "{node}: adjoint {previous} plus contribution {contribution} at flat index {index} is not finite"
        ),
        # A stored gradient plus the adjoint of this pass left the range of binary64.
        "non-finite-accumulated-gradient": (
            "{node}: stored gradient {stored} plus adjoint {pass_adjoint} at flat index {index} is not finite"
        ),
    }


def backward(output: Variable, seed: Array | None = None) -> None:
    """Add the gradient of `output` to every parameter that it depends on, and release the graph.

    Args:
        output: what is differentiated.
        seed: the adjoint of the output, of its shape; ones where it is left out.

    Raises:
        SweepError (graph-released, untracked-output): there is no graph.
        AutogradError (released-operand): the graph shares values with one that was swept before.
        SweepError (seed-shape-mismatch, non-finite-seed): the seed does not fit.
        SweepError (stale-operand-value): a parameter changed since the forward pass.
        SweepError (non-finite-vjp, non-finite-pass-adjoint, non-finite-accumulated-gradient): a number left the
            range of binary64.
    """
    if output.released:
        raise SweepError("graph-released", operation=output.operation)
    if not output.tracked:
        raise SweepError("untracked-output", operation=output.operation)
    nodes = _post_order(output)
    for node in nodes:
        _refuse_unusable_operands(node)
    adjoints = _sweep(nodes, output, _checked_seed(output, seed))
    parameters = [node for node in nodes if isinstance(node, Parameter)]
    # all are computed before any is stored, so that a failure leaves every gradient as it was
    gradients = [_accumulated(parameter, adjoints[id(parameter)]) for parameter in parameters]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.gradient = gradient
    for node in nodes:
        if not isinstance(node, Parameter):
            # the graph is used up: its arrays can be freed, and a second sweep is refused
            node.parents, node.pullback, node.released = (), None, True


def _checked_seed(output: Variable, seed: Array | None) -> Array:
    if seed is None:
        return np.ones(output.shape)
    if seed.shape != output.shape:
        raise SweepError("seed-shape-mismatch", expected=output.shape, actual=seed.shape)
    index = first_non_finite(seed)
    if index is not None:
        raise SweepError("non-finite-seed", index=index, value=float(seed.flat[index]))
    return seed


def _post_order(output: Variable) -> list[Variable]:
    """Return the tracked nodes below `output`, operands before results, operands in order."""
    order: list[Variable] = []
    visited: set[int] = set()
    pending: list[tuple[Variable, bool]] = [(output, False)]
    while pending:
        node, operands_done = pending.pop()
        if operands_done:
            # operands are done by now: post-order
            order.append(node)
        elif id(node) not in visited:
            visited.add(id(node))
            pending.append((node, True))
            # reversed, because the last one pushed is visited first
            pending.extend((parent, False) for parent in reversed(node.parents) if parent.tracked)
    return order


def _refuse_unusable_operands(node: Variable) -> None:
    for place, (parent, recorded) in enumerate(zip(node.parents, node.revisions, strict=True)):
        if parent.released:
            raise AutogradError("released-operand", operation=node.operation, operand=place)
        if parent.revision != recorded:
            raise SweepError(
                "stale-operand-value",
                child=node.operation,
                parent=parent.operation,
                operand=place,
                recorded_revision=recorded,
                current_revision=parent.revision,
            )


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
                raise SweepError(
                    "non-finite-vjp",
                    child=node.operation,
                    parent=parent.operation,
                    operand=place,
                    index=index,
                    value=value,
                )
            previous = adjoints.get(id(parent))
            if previous is None:
                previous = np.zeros(parent.shape)
            with np.errstate(over="ignore"):
                # contributions add up in the order of the sweep, which fixes every bit
                total = previous + contribution
            index = first_non_finite(total)
            if index is not None:
                pair = float(previous.flat[index]), float(contribution.flat[index])
                raise SweepError(
                    "non-finite-pass-adjoint",
                    node=parent.operation,
                    index=index,
                    **dict(zip(("previous", "contribution"), pair, strict=True)),
                )
            adjoints[id(parent)] = total
    return adjoints


def _accumulated(parameter: Parameter, adjoint: Array) -> Array:
    with np.errstate(over="ignore"):
        gradient = parameter.gradient + adjoint
    index = first_non_finite(gradient)
    if index is not None:
        pair = float(parameter.gradient.flat[index]), float(adjoint.flat[index])
        raise SweepError(
            "non-finite-accumulated-gradient",
            node=parameter.name,
            index=index,
            **dict(zip(("stored", "pass_adjoint"), pair, strict=True)),
        )
    return gradient
