"""The reference's answers to the vector cases of the decode suites, on given weights.

The weights are those that the suite ships (`given`). With `tied`, output columns come in equal pairs, so that every
choice is an exact tie of two ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from cai_conformance.backends.decoder.given import read_given
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.vectors import Answer, VectorCase
from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape
from cai_reference.decoding.drafts import LaterHeads, ScriptedDraft, SelfDraft
from cai_reference.decoding.generation import Generation, Limits, ReencodingPath, StreamingPath, generate
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.decoding.speculation import speculate
from cai_reference.models.stack import DecoderStack

Input = Mapping[str, Any]  # JSON: what each operation expects is what its cases hold


@dataclass(frozen=True)
class DecoderSetting:
    """What an operation may use besides its input."""

    phase: DecodePhase
    sizes: Sizes
    arithmetic: Arithmetic
    weights: bytes


def answer(case: VectorCase, setting: DecoderSetting) -> Answer:
    """Return the reference's answer to one case."""
    return OPERATIONS[case.operation](case.input, setting)


def given_model(setting: DecoderSetting, *, tied: bool = False) -> DecoderStack:
    """Build the suite's model with the given weights."""
    return _given_model(setting.phase, setting.sizes, setting.weights, tied)


@lru_cache(maxsize=4)
def _given_model(phase: DecodePhase, sizes: Sizes, weights: bytes, tied: bool) -> DecoderStack:
    return read_given(phase, sizes, weights, tied=tied)


def _logits(given: Input, setting: DecoderSetting) -> Answer:
    model = given_model(setting)
    tape = Tape(setting.arithmetic, recording=False)
    heads = model.forward(tape, given["ids"], batch=1, start=given["start"])
    row = heads[given["head"]].value[0, given["row"]]
    return Answer(values=tuple(row.tolist()))


def _session_logits(given: Input, setting: DecoderSetting) -> Answer:
    options = SessionOptions(start=given["start"], slack=setting.sizes.slack)
    session = Session(given_model(setting), setting.arithmetic, options)
    logits = session.feed(given["ids"][: given["first_chunk"]])
    if len(given["ids"]) > given["first_chunk"]:
        logits = session.feed(given["ids"][given["first_chunk"] :])
    return Answer(values=tuple(logits[given["head"]][-1].tolist()))


def _generate(given: Input, setting: DecoderSetting) -> Answer:
    model = given_model(setting, tied=given["tied"])
    limits = Limits(None, given["new_tokens"], setting.sizes.context)
    return Answer(ids=_arm(given["arm"], model, given["prompt"], limits, setting).ids)


def _arm(arm: str, model: DecoderStack, prompt: list[int], limits: Limits, setting: DecoderSetting) -> Generation:
    def streaming(latent: LatentCache = LatentCache.HEADS) -> StreamingPath:
        options = SessionOptions(slack=setting.sizes.slack, latent=latent)
        return StreamingPath(Session(model, setting.arithmetic, options))

    block, full = setting.sizes.block, ReencodingPath(model, setting.arithmetic)
    if arm == "full":
        return generate(full, prompt, limits)
    if arm in ("latent", "absorbed"):
        return generate(streaming(LatentCache(arm)), prompt, limits)
    if arm == "scripted":
        truth = generate(full, prompt, replace(limits, eos=None)).ids
        script = ScriptedDraft(truth, len(prompt), block, model.configuration.vocabulary)
        return speculate(streaming(), script, prompt, limits, block)
    if arm == "self-draft":
        return speculate(streaming(), SelfDraft(streaming().session), prompt, limits, block)
    if arm == "mtp-cached":
        return speculate(streaming(), LaterHeads(), prompt, limits, setting.sizes.futures - 1)
    return generate(streaming(), prompt, limits)


OPERATIONS: Final[Mapping[str, Callable[[Input, DecoderSetting], Answer]]] = {
    "decoder.logits": _logits,
    "decoder.session-logits": _session_logits,
    "decoder.generate": _generate,
}
