"""The reference's answers to the vector cases of the decode suites, on given weights.

The weights are the suite's `weights.safetensors`: trained, then rounded to values that bfloat16, float16 and float32
hold exactly. With `tied`, output columns come in equal pairs, so that every choice is an exact tie of two ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from safetensors.numpy import load

from cai_conformance.backends.decoder.plan import Phase, Sizes
from cai_conformance.vectors import Answer, VectorCase
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.decoding.drafts import LaterHeads, ScriptedDraft, SelfDraft
from cai_reference.decoding.generation import Generation, Limits, ReencodingPath, StreamingPath, generate
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.decoding.speculation import speculate
from cai_reference.models.decoder import Decoder
from cai_reference.splitmix import SplitMix64

Input = Mapping[str, Any]  # JSON: what each operation expects is what its cases hold


@dataclass(frozen=True)
class DecoderSetting:
    """What an operation may use besides its input."""

    phase: Phase
    sizes: Sizes
    arithmetic: Arithmetic
    weights: bytes


def answer(case: VectorCase, setting: DecoderSetting) -> Answer:
    """Return the reference's answer to one case."""
    return OPERATIONS[case.operation](case.input, setting)


def given_model(setting: DecoderSetting, *, tied: bool = False) -> Decoder:
    """Build the suite's model with the given weights."""
    return _given_model(setting.phase, setting.sizes, setting.weights, tied)


@lru_cache(maxsize=4)
def _given_model(phase: Phase, sizes: Sizes, weights: bytes, tied: bool) -> Decoder:
    tensors = load(weights)
    vocabulary = tensors["embedding.weight"].shape[0]
    model = Decoder.initialize(phase.decoder(sizes, vocabulary), SplitMix64(0))
    for parameter in model.parameters:
        values = np.asarray(tensors[parameter.name], dtype=np.float64).reshape(parameter.shape)
        if tied and parameter.name.startswith("head.outputs."):
            values = _in_pairs(values)
        parameter.assign(values)
    return model


def _in_pairs(values: Array) -> Array:
    """Make the last axis come in equal pairs: feature 2i + 1 is feature 2i."""
    paired = values.copy()
    even = values[..., 0::2]
    paired[..., 1::2] = even[..., : paired[..., 1::2].shape[-1]]
    return paired


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


def _arm(arm: str, model: Decoder, prompt: list[int], limits: Limits, setting: DecoderSetting) -> Generation:
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
        return speculate(streaming(), LaterHeads(), prompt, limits, len(model.outputs) - 1)
    return generate(streaming(), prompt, limits)


OPERATIONS: Final[Mapping[str, Callable[[Input, DecoderSetting], Answer]]] = {
    "decoder.logits": _logits,
    "decoder.session-logits": _session_logits,
    "decoder.generate": _generate,
}
