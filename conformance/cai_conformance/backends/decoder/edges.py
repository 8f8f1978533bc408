"""The reference's answers to the vector cases of the decode suites, on given weights.

The weights are those that the suite ships (`given`). With `tied`, output columns come in equal pairs, so that every
choice is an exact tie of two ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from cai_conformance.backends.decoder.course_edges import COURSE_OPERATIONS
from cai_conformance.backends.decoder.sampling_edges import SAMPLING_OPERATIONS
from cai_conformance.backends.decoder.setting import DecoderSetting, Input, Operation
from cai_conformance.vectors import Answer, VectorCase
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape
from cai_reference.decoding.drafts import LaterHeads, ScriptedDraft, SelfDraft
from cai_reference.decoding.generation import Generation, Limits, ReencodingPath, generate
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.speculation import speculate
from cai_reference.models.stack import DecoderStack


def answer(case: VectorCase, setting: DecoderSetting) -> Answer:
    """Return the reference's answer to one case."""
    return OPERATIONS[case.operation](case.input, setting)


def _logits(given: Input, setting: DecoderSetting) -> Answer:
    tape = Tape(setting.arithmetic, recording=False)
    heads = setting.model().forward(tape, given["ids"], batch=1, start=given["start"])
    row = heads[given["head"]].value[0, given["row"]]
    return Answer(values=tuple(row.tolist()))


def _session_logits(given: Input, setting: DecoderSetting) -> Answer:
    session = setting.session(setting.model(), given["start"])
    logits = session.feed(given["ids"][: given["first_chunk"]])
    if len(given["ids"]) > given["first_chunk"]:
        logits = session.feed(given["ids"][given["first_chunk"] :])
    return Answer(values=tuple(logits[given["head"]][-1].tolist()))


def _generate(given: Input, setting: DecoderSetting) -> Answer:
    model = setting.model(tied=given["tied"])
    limits = Limits(None, given["new_tokens"], setting.sizes.context)
    return Answer(ids=_arm(given["arm"], model, given["prompt"], limits, setting).ids)


def _arm(arm: str, model: DecoderStack, prompt: list[int], limits: Limits, setting: DecoderSetting) -> Generation:
    block, full, cached = setting.sizes.block, ReencodingPath(model, setting.arithmetic), setting.streaming(model)
    if arm == "full":
        return generate(full, prompt, limits)
    if arm in ("latent", "absorbed"):
        return generate(setting.streaming(model, LatentCache(arm)), prompt, limits)
    if arm == "scripted":
        truth = generate(full, prompt, replace(limits, eos=None)).ids
        script = ScriptedDraft(truth, len(prompt), block, model.configuration.vocabulary)
        return speculate(cached, script, prompt, limits, block)
    if arm == "self-draft":
        return speculate(cached, SelfDraft(setting.session(model)), prompt, limits, block)
    if arm == "mtp-cached":
        return speculate(cached, LaterHeads(), prompt, limits, setting.sizes.futures - 1)
    return generate(cached, prompt, limits)


def _moved(given: Input, setting: DecoderSetting) -> Answer:
    """Return the places whose logits change when one token does."""
    ids: list[int] = given["ids"]
    changed = [*ids[: given["place"]], given["other"], *ids[given["place"] + 1 :]]
    rows, others = (_rows(given["arm"], sequence, setting) for sequence in (ids, changed))
    return Answer(ids=tuple(place for place, row in enumerate(rows) if row.tobytes() != others[place].tobytes()))


def _rows(arm: str, ids: list[int], setting: DecoderSetting) -> list[Array]:
    """Return the logits behind every token: of the batch path, or of a session that is fed token by token."""
    model = setting.model()
    if arm == "full":
        tape = Tape(setting.arithmetic, recording=False)
        return list(model.forward(tape, ids, batch=1)[0].value[0])
    session = setting.session(model)
    return [session.feed([token])[0][0] for token in ids]


OPERATIONS: Final[Mapping[str, Operation]] = {
    "decoder.logits": _logits,
    "decoder.session-logits": _session_logits,
    "decoder.generate": _generate,
    "decoder.moved": _moved,
    **SAMPLING_OPERATIONS,
    **COURSE_OPERATIONS,
}
