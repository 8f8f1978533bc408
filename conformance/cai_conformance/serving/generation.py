"""`generate`: a prompt on the way there, ids and the likeliest ones of each step on the way back."""

from __future__ import annotations

from cai_conformance.engines.errors import AnswerOutOfShape
from cai_conformance.engines.protocol import Generated, GenerationOrder
from cai_conformance.serving.errors import ProtocolViolation
from cai_conformance.serving.fields import Fields, integer, items, real
from cai_conformance.serving.lines import Json, Object
from cai_reference.arithmetic import hex_bits


def write_order(order: GenerationOrder) -> dict[str, Json]:
    """Return what `generate` asks."""
    return {
        "prompt": list(order.prompt),
        "new_tokens": order.new_tokens,
        "arm": order.arm,
        "stop": order.stop,
        "top": order.top,
    }


def read_order(message: Object) -> GenerationOrder:
    """Read what `generate` asks."""
    fields = Fields(dict(message), "the message", "id do seconds prompt new_tokens arm stop top")
    return GenerationOrder(
        prompt=fields.integers("prompt", least=1),
        new_tokens=fields.integer("new_tokens"),
        arm=fields.text("arm"),
        stop=None if fields["stop"] is None else fields.integer("stop"),
        top=fields.integer("top"),
    )


def write_generated(generated: Generated) -> dict[str, Json]:
    """Return the answer to `generate`."""
    return {
        "ids": list(generated.ids),
        "top": [[[token, hex_bits(value)] for token, value in step] for step in generated.top],
    }


def read_generated(answer: Json) -> Generated:
    """Read the answer to `generate`."""
    fields = Fields(answer, "the answer to generate", "ids top")
    steps = tuple(_step(step, f"step {place} of 'top'") for place, step in enumerate(fields.items("top")))
    return Generated(fields.integers("ids"), steps)


def check_generated(engine: str, generated: Generated, order: GenerationOrder) -> None:
    """Compare an answer with what was asked.

    Raises:
        AnswerOutOfShape: it has more ids than were asked for, goes on behind the stop, or has other numbers of likely
            ids. A vocabulary may be smaller than the number that was asked for.
    """
    ids, top = generated.ids, generated.top
    if len(ids) > order.new_tokens:
        raise AnswerOutOfShape(engine, f"{len(ids)} ids", f"at most {order.new_tokens}")
    if order.stop in ids[:-1]:
        raise AnswerOutOfShape(engine, f"ids behind the stop {order.stop}", "an end there")
    if order.top == 0 and not any(top):
        return
    sizes = {len(step) for step in top}
    if len(top) != len(ids) or max(sizes, default=0) > order.top or len(sizes) > 1 or 0 in sizes:
        found = f"{len(top)} steps of {', '.join(map(str, sorted(sizes))) or 0} likely ids"
        raise AnswerOutOfShape(engine, found, f"{len(ids)} of {order.top}")


def _step(value: Json, what: str) -> tuple[tuple[int, float], ...]:
    step = []
    for pair in items(value, what):
        token, bits = items(pair, f"an entry of {what}", 2, 2)
        step.append((integer(token, f"an id of {what}"), real(bits, f"a log-probability of {what}")))
    if len({token for token, _ in step}) != len(step):
        raise ProtocolViolation(what, "has an id twice")
    return tuple(step)
