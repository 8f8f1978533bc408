"""The answers of an engine to the vector cases of a decode suite.

A case whose operation is not a matter of the model (a sampler, an optimiser on given numbers), or that asks for what
the engine does not offer, has no answer. Loops are those of the reference, unless the engine runs the arm itself; where
the loop is ours, the choice among equal maxima is ours as well, and cases about it have no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from cai_conformance.backends.engine.features import generating
from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.engine.session import EngineReencoding, EngineSession, evaluate_one, full_logits
from cai_conformance.engine import GenerationOrder, Piece, Refused
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_reference.decoding.generation import Limits, Path, StreamingPath, generate
from cai_reference.decoding.speculation import LaterHeads, ScriptedDraft, SelfDraft, speculate

Input: TypeAlias = Mapping[str, Any]  # JSON: what each operation expects is what its cases hold
DRAFT_SLOT: Final = 1
"""Where a model that drafts for itself keeps its guesses."""


def answer_case(case: VectorCase, opened: OpenedModel) -> Answer | None:
    """Return the engine's answer to one case; None where it has none.

    Raises:
        EngineError: the engine failed.
    """
    operation = OPERATIONS.get(case.operation)
    try:
        return None if operation is None else operation(case.input, opened)
    except Refused:
        # A refusal is not an answer; the engine is as it was.
        return None


def generated(opened: OpenedModel, arm: str, prompt: tuple[int, ...], new_tokens: int) -> tuple[int, ...] | None:
    """Generate greedily by an arm on what the engine holds, by its own loop where it has one; None if it has neither.

    Raises:
        EngineError: the engine refuses, or failed.
    """
    engine = opened.engine
    generator = generating(engine)
    if arm in opened.description.arms and generator is not None:
        return generator.generate(GenerationOrder(prompt, new_tokens, arm)).ids
    limits = Limits(None, new_tokens, opened.given.sizes.context)
    block = opened.given.sizes.block
    if arm == "full":
        return generate(EngineReencoding(engine), prompt, limits).ids
    if arm == "cached":
        return generate(_streaming(opened), prompt, limits).ids
    if arm == "chunked":
        return generate(_streaming(opened, opened.given.sizes.chunk), prompt, limits).ids
    if arm == "scripted":
        truth = generate(EngineReencoding(engine), prompt, replace(limits, eos=None)).ids
        script = ScriptedDraft(truth, len(prompt), block, opened.given.model.configuration.vocabulary)
        return speculate(_streaming(opened), script, prompt, limits, block).ids
    if arm == "self-draft" and opened.description.slots > DRAFT_SLOT:
        draft = SelfDraft(EngineSession(engine, DRAFT_SLOT))
        return speculate(_streaming(opened), draft, prompt, limits, block).ids
    if arm == "mtp-cached":
        return speculate(_streaming(opened), LaterHeads(), prompt, limits, opened.given.sizes.futures - 1).ids
    return None


def rows_of(opened: OpenedModel, arm: str, ids: tuple[int, ...]) -> list[bytes]:
    """Return the bits of the first head's logits behind every token: evaluated at once, or fed one by one.

    Raises:
        EngineError: the engine failed.
    """
    if arm == "full":
        return [row.tobytes() for row in full_logits(opened.engine, ids)[0]]
    session = EngineSession(opened.engine)
    return [session.feed([token])[0][0].tobytes() for token in ids]


def _logits(given: Input, opened: OpenedModel) -> Answer:
    opened.load()
    opened.engine.clear(0)
    piece = Piece(0, given["start"], tuple(given["ids"]), (given["row"],))
    return Answer(values=tuple(evaluate_one(opened.engine, piece).logits[given["head"]][0].tolist()))


def _session_logits(given: Input, opened: OpenedModel) -> Answer:
    opened.load()
    session = EngineSession(opened.engine, start=given["start"])
    ids, first = given["ids"], given["first_chunk"]
    logits = session.feed(ids[:first])
    if len(ids) > first:
        logits = session.feed(ids[first:])
    return Answer(values=tuple(logits[given["head"]][-1].tolist()))


def _generate(given: Input, opened: OpenedModel) -> Answer | None:
    if given["tied"] and (given["arm"] not in opened.description.arms or generating(opened.engine) is None):
        return None
    return continued(given, opened)


def continued(given: Input, opened: OpenedModel) -> Answer | None:
    """Return a greedy continuation, where every choice is a tie if `tied`.

    Raises:
        EngineError: the engine refuses, or failed.
    """
    opened.load(tied=given["tied"])
    ids = generated(opened, given["arm"], tuple(given["prompt"]), given["new_tokens"])
    return None if ids is None else Answer(ids=ids)


def _moved(given: Input, opened: OpenedModel) -> Answer:
    opened.load()
    ids: list[int] = given["ids"]
    changed = [*ids[: given["place"]], given["other"], *ids[given["place"] + 1 :]]
    rows, others = (rows_of(opened, given["arm"], tuple(sequence)) for sequence in (ids, changed))
    return Answer(ids=tuple(place for place, row in enumerate(rows) if row != others[place]))


def _streaming(opened: OpenedModel, chunk: int = 1) -> Path:
    return StreamingPath(EngineSession(opened.engine), chunk)


OPERATIONS: Final[Mapping[str, Callable[[Input, OpenedModel], Answer | None]]] = {
    "decoder.logits": _logits,
    "decoder.session-logits": _session_logits,
    "decoder.generate": _generate,
    "decoder.moved": _moved,
}
