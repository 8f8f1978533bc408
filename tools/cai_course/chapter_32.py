"""Chapter 32: the whole decoder, stage by stage, with one table in two roles.

The two roles are taken apart by an untied twin: the same model with the transposed table as a matrix of its own. Its
two gradients add up to the tied one. Gradients are checked on the model itself, by central differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cai_course.checkpoint.content import course_configuration, course_registry
from cai_course.records import CourseRecord, Separator, bracketed, fixed, fixed_list, record, trace_bytes
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.errors import CaiReferenceError
from cai_reference.layers.matrices import BiasFree, TiedOutput
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch

SEED: Final = 32
STORY: Final = (0, 1, 2, 3)
"""Three tokens and the target of the last: every token but the first is one."""

CHANGED: Final = 4
"""What the last token becomes, to see that the ones before do not notice."""

DIFFERENCE: Final = 1e-6
"""How far a weight is moved to either side in a check of its gradient."""

TOLERANCE: Final = 2e-5


def configuration(layers: int = 2) -> LlamaConfiguration:
    """Return the sizes."""
    return course_configuration(
        vocabulary=5, width=4, heads=2, feed_forward=4, layers=layers, positions=4, rope_base=10000.0, epsilon=1e-6
    )


@dataclass(frozen=True)
class Forward:
    """Logits [1, tokens, vocabulary], and every stage by name."""

    logits: Array
    stages: dict[str, Array]


def trace(arithmetic: Arithmetic) -> bytes:
    """Return the trace."""
    return trace_bytes(Separator.SPACE, _records(arithmetic))


def _records(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    model = Llama.initialize(configuration(), SplitMix64(SEED))
    sizes, ids, targets = model.configuration, STORY[:-1], STORY[1:]
    forward = _forward(model, ids, arithmetic)
    loss = model.loss(Tape(arithmetic, recording=False), _batch(STORY))
    yield record("DECODER_MODEL_TRACE_V1")
    yield record(
        "config",
        batch=1,
        tokens=len(ids),
        vocabulary=sizes.vocabulary,
        model_width=sizes.width,
        layers=sizes.layers,
        heads=sizes.heads,
        feed_forward_width=sizes.feed_forward,
        context=sizes.context,
    )
    yield record("tokens", shape=bracketed((1, len(ids))), values=bracketed(ids))
    yield record("targets", values=bracketed(targets))
    yield from _stages(forward, sizes.layers)
    for token, row in enumerate(forward.logits[0].tolist()):
        yield record("logits", token=token, values=fixed_list(row, 6))
    yield record("predictions", values=bracketed(_last_maximum(row) for row in forward.logits[0].tolist()))
    yield record("loss", mean=fixed(float(loss.value), 6))
    yield from _parameters(model, arithmetic)
    yield _depths(arithmetic)
    yield _causality(model, forward, arithmetic)
    yield _gradients(model, arithmetic)
    again = _forward(Llama.initialize(configuration(), SplitMix64(SEED)), ids, arithmetic)
    yield record("replay", bitwise=again.logits.tobytes() == forward.logits.tobytes())
    yield record("END_DECODER_MODEL_TRACE")


def _forward(model: Llama, ids: Sequence[int], arithmetic: Arithmetic) -> Forward:
    stages: dict[str, Array] = {}

    def observe(name: str, value: Variable) -> None:
        stages[name] = value.value

    (logits,) = model.forward(Tape(arithmetic, recording=False), ids, 1, observe=observe)
    return Forward(logits.value, stages)


def _batch(story: Sequence[int]) -> StoryBatch:
    return StoryBatch((tuple(story),), len(story) - 1)


def _stages(forward: Forward, layers: int) -> Iterator[CourseRecord]:
    names = {"embedding": "embedding"}
    names |= {f"block-{layer}": f"blocks.{layer}.output" for layer in range(layers)}
    names["final-norm"] = "final_norm"
    for shown, name in names.items():
        values = forward.stages[name]
        for token, row in enumerate(values[0].tolist()):
            yield record("stage", name=shown, shape=bracketed(values.shape), token=token, values=fixed_list(row, 6))


def _last_maximum(row: Sequence[float]) -> int:
    """Return the last of the largest logits, with −0.0 below +0.0: this report alone takes the last."""
    return max(range(len(row)), key=lambda token: (row[token], math.copysign(1.0, row[token]), token))


def _parameters(model: Llama, arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    tied, lookup, head = _roles(model, arithmetic)
    roles = {"lookup": lookup, "output": head}
    output, twin = model.head.output, _untied(model)
    scalars, untied = (sum(one.value.size for one in made.parameters) for made in (model, twin))
    yield record(
        "tying",
        name=model.table.name,
        lookup_and_head=isinstance(output, TiedOutput) and output.table is model.table,
        gradient_roles="+".join(role for role, gradient in roles.items() if gradient.any()),
        decomposition_error=fixed(float(np.abs((tied - lookup) - head).max()), 12),
    )
    names = [parameter.name for parameter in model.parameters]
    yield record(
        "parameters",
        tensors=len(names),
        scalars=scalars,
        untied_scalars=untied,
        saved=untied - scalars,
        bias_free=all(len(one.shape) == 2 or one.name.endswith(".gain") for one in model.parameters),
        stable_order=names == [name for name, _ in course_registry(model.configuration)],
    )


def _untied(model: Llama) -> Llama:
    """Return the twin whose output matrix is the transposed table, as a parameter of its own."""
    twin = Llama.initialize(replace(model.configuration, tied=False), SplitMix64(SEED))
    *shared, output = twin.parameters
    for parameter, given in zip(shared, model.parameters, strict=True):
        parameter.assign(given.value)
    output.assign(model.table.value.T)
    return twin


def _roles(model: Llama, arithmetic: Arithmetic) -> tuple[Array, Array, Array]:
    """Return the gradient of the tied table, and those of its two roles [vocabulary, width]."""
    twin = _untied(model)
    output = twin.head.output
    if not isinstance(output, BiasFree):
        raise TypeError(type(output).__name__)
    gradients = [_gradients_of(one, arithmetic) for one in (model, twin)]
    name = model.table.name
    return gradients[0][name], gradients[1][name], gradients[1][output.weight.name].T


def _gradients_of(model: Llama, arithmetic: Arithmetic) -> dict[str, Array]:
    """Return all gradients of the loss by name; the model is left without any."""
    backward(model.loss(Tape(arithmetic), _batch(STORY)))
    gradients = {parameter.name: parameter.gradient for parameter in model.parameters}
    for parameter in model.parameters:
        parameter.zero_gradient()
    return gradients


def _depths(arithmetic: Arithmetic) -> CourseRecord:
    def shaped(layers: int) -> bool:
        forward = _forward(Llama.initialize(configuration(layers), SplitMix64(SEED)), STORY[:-1], arithmetic)
        blocks = sum(name.startswith("blocks.") and name.endswith(".output") for name in forward.stages)
        return (blocks, forward.logits.shape) == (layers, (1, len(STORY) - 1, configuration().vocabulary))

    model, tape = Llama.initialize(configuration(0), SplitMix64(SEED)), Tape(arithmetic, recording=False)
    sizes = model.configuration
    return record(
        "depths",
        zero_one_two=all(shaped(layers) for layers in range(3)),
        configuration_errors=_refuses("size-too-small", lambda: replace(sizes, vocabulary=0)),
        context_limit=_refuses("sequence-too-long", lambda: model.forward(tape, [0] * (sizes.context + 1), 1)),
        vocabulary_errors=_refuses("token-id-out-of-bounds", lambda: model.forward(tape, [0, sizes.vocabulary], 1)),
        target_errors=_refuses("target-out-of-bounds", lambda: model.loss(tape, _batch((0, 1, sizes.vocabulary)))),
    )


def _refuses(expected: str, call: Callable[[], object]) -> bool:
    try:
        call()
    except CaiReferenceError as error:
        return error.code == expected
    return False


def _causality(model: Llama, forward: Forward, arithmetic: Arithmetic) -> CourseRecord:
    changed = _forward(model, (*STORY[:-2], CHANGED), arithmetic)
    first, second, last = (
        before.tobytes() == after.tobytes() for before, after in zip(forward.logits[0], changed.logits[0], strict=True)
    )
    return record("causality", prefix_0_bitwise=first, prefix_1_bitwise=second, suffix_changed=not last)


def _gradients(model: Llama, arithmetic: Arithmetic) -> CourseRecord:
    gradients = _gradients_of(model, arithmetic)
    gain = model.parameters[-1]
    checks = {
        one.name: [
            _agrees(gradient, _slope(model, one, place, arithmetic))
            for place, gradient in enumerate(gradients[one.name].ravel().tolist())
        ]
        for one in (model.table, gain)
    }
    reached = sum(bool(np.isfinite(gradient).all() and gradient.any()) for gradient in gradients.values())
    everything = [agrees for agreements in checks.values() for agrees in agreements]
    return record(
        "gradcheck",
        tied_table=len(checks[model.table.name]),
        final_norm=len(checks[gain.name]),
        total=len(everything),
        tolerance=fixed(TOLERANCE, 6),
        passed=all(everything) and reached == len(gradients),
        stack_gradients=f"{reached}/{len(gradients)}",
    )


def _slope(model: Llama, parameter: Parameter, place: int, arithmetic: Arithmetic) -> float:
    """Return the central difference of the loss in one weight, which is then as it was."""
    kept, losses = parameter.value, []
    for step in (DIFFERENCE, -DIFFERENCE):
        moved = kept.copy()
        moved.flat[place] += step
        parameter.assign(moved)
        losses.append(float(model.loss(Tape(arithmetic, recording=False), _batch(STORY)).value))
    parameter.assign(kept)
    return (losses[0] - losses[1]) / (2.0 * DIFFERENCE)


def _agrees(gradient: float, slope: float) -> bool:
    return abs(gradient - slope) <= TOLERANCE * max(1.0, abs(gradient), abs(slope))
